// The group commit: collects what all runs of this node have ready while earlier commits are in flight, and writes it in one
// statement. It reports for each run whether its commit won. The reaction to a loss is the resident's matter.

import type { Sql } from "postgres";
import type { RunCommit } from "../../machines/index.js";
import { clearTimeout, delay, nextTurn, performance, setImmediate, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { backoff } from "../sdk/backoff.js";
import { type EncodedRun, encodeRun, encodeSlices, isLarge } from "../store/engine/commit/encoding.js";
import { PlainStatements } from "../store/engine/commit/plain.js";
import { commitRuns } from "../store/engine/commit/statement.js";
import { sqlStateOf } from "../store/engine/failure.js";
import { type Sealing, sealingOf } from "../store/sealed/sealing.js";
import { FairScheduler } from "../work/fair-scheduler.js";

/** The commit may or may not be in the database: discard the actor, and reload (law 2). */
export class OutcomeUnknown extends Error {
  override readonly name = "OutcomeUnknown";
}

/** Postgres rejected the rows of this run when they came alone: its data is at fault, not its batch mates. */
export class DataRejected extends Error {
  override readonly name = "DataRejected";
  constructor(readonly sqlState: string) {
    super(`the store rejected the run's data (SQLSTATE ${sqlState})`);
  }
}

export interface CommitterOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Large commits are encoded in turns with everything else. Absent: nothing else in the process takes any. */
  readonly scheduler?: Pick<FairScheduler, "computeSlices">;
  /** Called after a commit that owes events to RabbitMQ. Never throws and never waits. */
  readonly onOutgoing?: () => void;
  /** Called with the key of a commit whose statement is made alone. Of many together, each is named by its decision only. */
  readonly onAlone?: (key: string) => void;
  /**
   * Statements in flight at once. Two keep Postgres busy while the next group is built; more only split the groups. The second is sent
   * for OVERLAPPING_RUNS or more, or if the first one takes long.
   */
  readonly concurrency?: number;
  /** Runs in one statement: 200 reach the throughput of 400 (measured by the bench). */
  readonly groupSize?: number;
  /** Bytes in one statement, or one run: a megabyte takes the event loop 10 ms (law 14). */
  readonly groupBytes?: number;
  /** Commits waiting; beyond it load is shed. */
  readonly queueLimit?: number;
}

interface Pending {
  readonly encoded: EncodedRun;
  readonly key: string;
  /** It owes events to RabbitMQ. */
  readonly outgoing: boolean;
  /** By `performance.now()`. */
  readonly readyAt: number;
  readonly resolve: (won: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Deadlock victim, serialisation failure: the statement left nothing behind, and can be repeated. */
const TRANSIENT: ReadonlySet<string> = new Set(["40P01", "40001"]);
const TRANSIENT_TRIES = 5;
const UNIQUE_VIOLATION = "23505";
/**
 * Fewer runs wait for the statement that is in flight: a statement costs Postgres and this process a fixed share, and together they are ready
 * sooner. With 64 clients on two cores this saves 7 to 9 % of all processor time.
 */
const OVERLAPPING_RUNS = 16;
/** They wait no longer than this: a statement may be held up. */
const OVERLAP_AFTER_MS = 20;

export class Committer {
  private readonly pending: Pending[] = [];
  /** Of its own sessions: they keep the plans. */
  private readonly statements = new PlainStatements();
  private inFlight = 0;
  /** Large commits that are encoded piece by piece. */
  private encoding = 0;
  private stopped = false;
  private overlap: NodeJS.Timeout | undefined;
  private readonly scheduler: Pick<FairScheduler, "computeSlices">;
  private readonly concurrency: number;
  private readonly groupSize: number;
  private readonly groupBytes: number;
  private readonly queueLimit: number;
  /** Absent: encryption is off. */
  private readonly sealing: Sealing | undefined;

  constructor(private readonly options: CommitterOptions) {
    this.sealing = sealingOf(options.sql);
    this.scheduler = options.scheduler ?? new FairScheduler();
    this.concurrency = options.concurrency ?? 2;
    this.groupSize = options.groupSize ?? 200;
    this.groupBytes = options.groupBytes ?? 1_048_576;
    this.queueLimit = options.queueLimit ?? 20_000;
  }

  /**
   * Whether the run won. Rejects with OutcomeUnknown, with DataRejected, or with 503 `overloaded` if nothing was sent. `key`: what is
   * suspected if the process dies while it makes the statement.
   */
  submit(commit: RunCommit, key: string = commit.runId): Promise<boolean> {
    if (this.stopped) return Promise.reject(overloaded("the node is stopping"));
    if (this.pending.length >= this.queueLimit) return Promise.reject(overloaded("the commit queue is full"));
    const outgoing = (commit.rows.outgoing_event?.length ?? 0) > 0;
    const sealer = this.sealing?.sealerOf(commit.tenantId);
    const isAtHand = this.sealing === undefined || sealer !== undefined;
    if (isAtHand && !isLarge(commit)) return this.enqueue(encodeRun(commit, sealer), key, outgoing);
    this.encoding++;
    return this.encodeLater(commit)
      .finally(() => this.encoding--)
      .then((encoded) => this.enqueue(encoded, key, outgoing));
  }

  /** A large commit, or one whose tenant has no key at hand. */
  private async encodeLater(commit: RunCommit): Promise<EncodedRun> {
    const sealer = await this.sealing?.sealer(commit.tenantId);
    return this.scheduler.computeSlices(commit.runId, encodeSlices(commit, sealer));
  }

  private enqueue(encoded: EncodedRun, key: string, outgoing: boolean): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.pending.push({ encoded, key, outgoing, readyAt: performance.now(), resolve, reject });
      // Commits that become ready in the same turn of the event loop share the statement.
      const { length } = this.pending;
      if (length === 1 || length === OVERLAPPING_RUNS) setImmediate(() => this.flush());
    });
  }

  /** Finishes the submitted commits, and accepts no more. */
  async stop(): Promise<void> {
    this.stopped = true;
    while (this.encoding > 0 || this.pending.length > 0 || this.inFlight > 0) await nextTurn();
  }

  /** `late`: the statement in flight is waited for no longer. */
  private flush(late = false): void {
    clearTimeout(this.overlap);
    while (this.pending.length > 0 && this.maySend(late)) {
      const group = this.nextGroup();
      this.inFlight++;
      void this.write(group).finally(() => {
        this.inFlight--;
        this.flush();
      });
    }
    if (this.pending.length > 0 && this.inFlight < this.concurrency)
      this.overlap = setTimeout(() => this.flush(true), OVERLAP_AFTER_MS);
  }

  private maySend(late: boolean): boolean {
    if (this.inFlight === 0) return true;
    return this.inFlight < this.concurrency && (late || this.pending.length >= OVERLAPPING_RUNS);
  }

  /**
   * A run is in a statement once, because the parts of the statement tell runs apart by their ids. A second commit that writes
   * the run (a start repeated with its run id, or a stale parent that creates it again, beside a step of that run) waits.
   */
  private nextGroup(): Pending[] {
    const group: Pending[] = [];
    const taken = new Set<string>();
    const later: Pending[] = [];
    let [seen, bytes] = [0, 0];
    for (const pending of this.pending) {
      if (group.length === this.groupSize || (group.length > 0 && bytes + pending.encoded.weight > this.groupBytes))
        break;
      seen++;
      const { writes, weight } = pending.encoded;
      if (writes.some((runId) => taken.has(runId))) later.push(pending);
      else {
        group.push(pending);
        bytes += weight;
      }
      // Also the runs of a commit that waits: commits of one run keep their order.
      for (const runId of writes) taken.add(runId);
    }
    this.pending.splice(0, seen, ...later);
    return group;
  }

  private async write(group: readonly Pending[]): Promise<void> {
    const { sql, metrics } = this.options;
    const runs = group.map(({ encoded }) => encoded);
    const [only] = group;
    if (only && group.length === 1) this.options.onAlone?.(only.key);
    if (only) metrics.commitWaitSeconds.observe((performance.now() - only.readyAt) / 1_000);
    const stopTimer = metrics.commitSeconds.startTimer();
    try {
      const won = await retryTransient(() => commitRuns(sql, runs, this.statements));
      metrics.commits.inc();
      metrics.commitRows.observe(group.length);
      for (const { encoded, resolve } of group) resolve(won.has(encoded.runId));
      if (group.some(({ outgoing }) => outgoing)) this.options.onOutgoing?.();
    } catch (error) {
      await this.handleFailure(group, error);
    } finally {
      stopTimer();
    }
  }

  /** A group that fails on its data is split until the faulty run is alone (law 12). */
  private async handleFailure(group: readonly Pending[], error: unknown): Promise<void> {
    const state = sqlStateOf(error);
    if (state === undefined || !isAboutData(state)) return this.outcomeUnknown(group, error);
    const [only] = group;
    if (group.length === 1 && only) return this.rejectAlone(only, state);
    const half = Math.ceil(group.length / 2);
    await this.write(group.slice(0, half));
    await this.write(group.slice(half));
  }

  private outcomeUnknown(group: readonly Pending[], cause: unknown): void {
    this.options.log.warn({ sqlState: sqlStateOf(cause), runs: group.length }, "commit outcome unknown");
    for (const { reject } of group) reject(new OutcomeUnknown("the commit was not answered", { cause }));
  }

  private rejectAlone({ encoded: { runId }, resolve, reject }: Pending, state: string): void {
    // The row exists already: another node was faster, and this run has lost.
    if (state === UNIQUE_VIOLATION) return resolve(false);
    this.options.log.error({ sqlState: state, runId }, "run data rejected by the store");
    reject(new DataRejected(state));
  }
}

async function retryTransient<T>(write: () => Promise<T>): Promise<T> {
  for (let nth = 1; ; nth++) {
    try {
      return await write();
    } catch (error) {
      if (nth >= TRANSIENT_TRIES || !TRANSIENT.has(sqlStateOf(error) ?? "")) throw error;
    }
  }
}

/** Postgres answered, and its answer is about the rows: data exceptions, constraints, program limits. */
function isAboutData(state: string): boolean {
  return state.startsWith("22") || state.startsWith("23") || state.startsWith("54");
}

/** Long enough for a competing commit to finish, or for the store to come back. */
const PAUSE_MS = { base: 5, cap: 500 };

/** The pause before a lost commit is tried again for the `nth` time. */
export const pauseBeforeReplay = (nth: number): Promise<void> => delay(backoff(nth, PAUSE_MS));
