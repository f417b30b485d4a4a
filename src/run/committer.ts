// The group commit: collects what all runs of this node have ready while earlier commits are in flight, and writes it in one
// statement. It says of each run whether it won; what a loser does is the resident's business.
import type { Sql } from "postgres";
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import { commitRuns } from "../store/commit.js";
import type { RunCommit } from "../store/commit-rows.js";
import { sqlStateOf } from "../store/failure.js";

/** Nobody knows whether it is in the database: discard what is in memory and look (law 2). */
export class OutcomeUnknown extends Error {
  override readonly name = "OutcomeUnknown";
}

/** Postgres refused this run's rows by themselves: its data is at fault, not its batch mates. */
export class Poisoned extends Error {
  override readonly name = "Poisoned";
  constructor(readonly sqlState: string) {
    super(`the store refused the run's data (${sqlState})`);
  }
}

export interface CommitterOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Statements in flight at once. Two keep Postgres busy while the next group is built; more only split the groups. */
  readonly lanes?: number;
  /** Runs in one statement: 200 reach what 400 do (measured by the bench). */
  readonly groupSize?: number;
  /** Commits waiting; beyond it load is shed. */
  readonly queueLimit?: number;
}

interface Waiting {
  readonly commit: RunCommit;
  readonly resolve: (won: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Deadlock victim, serialisation failure: the statement left nothing, and may be said again. */
const TRANSIENT: ReadonlySet<string> = new Set(["40P01", "40001"]);
const TRANSIENT_TRIES = 5;

export class Committer {
  private waiting: Waiting[] = [];
  private inFlight = 0;
  private stopped = false;
  private readonly lanes: number;
  private readonly groupSize: number;
  private readonly queueLimit: number;

  constructor(private readonly options: CommitterOptions) {
    this.lanes = options.lanes ?? 2;
    this.groupSize = options.groupSize ?? 200;
    this.queueLimit = options.queueLimit ?? 20_000;
  }

  /** Whether the run won. Rejects with OutcomeUnknown, Poisoned, or 503 `overloaded` while nothing was sent. */
  submit(commit: RunCommit): Promise<boolean> {
    if (this.stopped) return Promise.reject(overloaded("the node is stopping"));
    if (this.waiting.length >= this.queueLimit) return Promise.reject(overloaded("the commit queue is full"));
    return new Promise((resolve, reject) => {
      this.waiting.push({ commit, resolve, reject });
      // What becomes ready in the same turn of the event loop shall share the statement.
      if (this.waiting.length === 1) setImmediate(() => this.flush());
    });
  }

  /** Finishes what was submitted; takes nothing more. */
  async stop(): Promise<void> {
    this.stopped = true;
    while (this.waiting.length > 0 || this.inFlight > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  private flush(): void {
    while (this.inFlight < this.lanes && this.waiting.length > 0) {
      const group = this.takeGroup();
      this.inFlight++;
      void this.write(group).finally(() => {
        this.inFlight--;
        this.flush();
      });
    }
  }

  /**
   * A run stands in a statement once, whose parts tell runs apart by their ids. A second commit that writes it (a start
   * repeated with its run id, or a stale parent that makes it again, beside a step of that run) waits for the next.
   */
  private takeGroup(): Waiting[] {
    const group: Waiting[] = [];
    const taken = new Set<string>();
    const later: Waiting[] = [];
    let looked = 0;
    for (const waiting of this.waiting) {
      if (group.length === this.groupSize) break;
      looked++;
      const written = runsOf(waiting.commit);
      if (written.some((runId) => taken.has(runId))) later.push(waiting);
      else group.push(waiting);
      // Also of one that waits: what was submitted after it stays after it.
      for (const runId of written) taken.add(runId);
    }
    this.waiting.splice(0, looked, ...later);
    return group;
  }

  private async write(group: readonly Waiting[]): Promise<void> {
    const { sql, metrics } = this.options;
    const end = metrics.commitSeconds.startTimer();
    try {
      const won = await this.attempt(() =>
        commitRuns(
          sql,
          group.map(({ commit }) => commit),
        ),
      );
      metrics.commits.inc();
      metrics.commitRows.observe(group.length);
      for (const { commit, resolve } of group) resolve(won.has(commit.runId));
    } catch (error) {
      await this.failed(group, error);
    } finally {
      end();
    }
  }

  private async attempt<T>(write: () => Promise<T>): Promise<T> {
    for (let nth = 1; ; nth++) {
      try {
        return await write();
      } catch (error) {
        if (nth >= TRANSIENT_TRIES || !TRANSIENT.has(sqlStateOf(error) ?? "")) throw error;
      }
    }
  }

  /** A group that fails on its data is split until the guilty run stands alone (law 12). */
  private async failed(group: readonly Waiting[], error: unknown): Promise<void> {
    const state = sqlStateOf(error);
    if (state === undefined || !isAboutData(state)) {
      this.options.log.warn({ sqlState: state, runs: group.length }, "a commit's outcome is unknown");
      for (const { reject } of group) reject(new OutcomeUnknown("the commit was not answered", { cause: error }));
      return;
    }
    const [first] = group;
    if (group.length === 1 && first) {
      // A row that is there already: another node was faster, and this run has lost.
      if (state === "23505") return first.resolve(false);
      this.options.log.error({ sqlState: state, runId: first.commit.runId }, "the store refused a run's data");
      return first.reject(new Poisoned(state));
    }
    const half = Math.ceil(group.length / 2);
    await this.write(group.slice(0, half));
    await this.write(group.slice(half));
  }
}

/** All runs that the commit writes rows of. */
const runsOf = ({ runId, children = [] }: RunCommit): string[] => [runId, ...children.map((child) => child.runId)];

/** Postgres answered, and its answer is about the rows: data exceptions, constraints, program limits. */
function isAboutData(state: string): boolean {
  return state.startsWith("22") || state.startsWith("23") || state.startsWith("54");
}
