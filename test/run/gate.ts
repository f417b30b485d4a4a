// A gate forces the order of two racing commits: it holds both back until both nodes have decided, and then lets the chosen one go
// first.
import type { RunCommit } from "../../machines/index.js";
import type { Half } from "./rig.js";

/** Selects the racing commit of a node. */
export type Side = (commit: RunCommit) => boolean;

/** Waits for both sides, then releases `first`, and the other one after that commit is answered. Each side waits once. */
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
    // After its first commit the side replays freely.
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

/** Commits of gated runs on this node wait at their gates. */
export function holdBack(half: Half, gates: ReadonlyMap<string, Gate>): void {
  const { committer } = half;
  const submit = committer.submit.bind(committer);
  committer.submit = (commit) => gates.get(commit.runId)?.pass(half, commit, () => submit(commit)) ?? submit(commit);
}
