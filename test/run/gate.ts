// A gate that forces an order: two nodes come with the commits that race, and the one that is told to goes first. It holds
// commits back; what is decided meanwhile is decided on what each of them knew.
import type { RunCommit } from "../../src/store/commit-rows.js";
import type { Half } from "./rig.js";

/** Which commit of that node is the one that races. */
export type Side = (commit: RunCommit) => boolean;

/** Lets both sides come, then `first` go first, and the other once that is answered. Each side waits once. */
export class Gate {
  private readonly came = new Set<Half>();
  private open = () => {};
  private over = () => {};
  private readonly bothCame = new Promise<void>((resolve) => {
    this.open = resolve;
  });
  private readonly firstAnswered = new Promise<void>((resolve) => {
    this.over = resolve;
  });

  constructor(
    private readonly first: Half,
    /** Absent: the first commit of each. */
    private readonly sides?: ReadonlyMap<Half, Side>,
  ) {}

  async pass(half: Half, commit: RunCommit, submit: () => Promise<boolean>): Promise<boolean> {
    // Once through, it replays as it likes.
    if (this.came.has(half) || this.sides?.get(half)?.(commit) === false) return submit();
    this.came.add(half);
    if (this.came.size === 2) this.open();
    await this.bothCame;
    if (half !== this.first) await this.firstAnswered;
    return submit().finally(() => {
      if (half === this.first) this.over();
    });
  }
}

/** The half's commits of the runs that have a gate wait there. */
export function holdBack(half: Half, gates: ReadonlyMap<string, Gate>): void {
  const { committer } = half;
  const submit = committer.submit.bind(committer);
  committer.submit = (commit) => gates.get(commit.runId)?.pass(half, commit, () => submit(commit)) ?? submit(commit);
}
