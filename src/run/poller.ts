// The poller: looks for due rows of this node's shards in the wake, inbox and outbox tables, and brings each to its run. Timers,
// messages and effects in memory are hints; this is the truth (law 7). With all hints dead every run still advances.

import type { Sql } from "postgres";
import { asDispatchId, type QuarantineProof, type RunCommand, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../access/index.js";
import { performance } from "../ambient.js";
import { SagaError, Unreadable } from "../errors.js";
import type { ShardId } from "../ids.js";
import type { Logger } from "../log.js";
import {
  type DueCommand,
  type DueEffect,
  type DueWake,
  endLeases,
  inbox,
  outbox,
  reclaim,
  wakes,
} from "../store/engine/poll.js";
import { WorkLoop } from "../work/loop.js";
import { canQuarantine, type Gate, type Judge, type SuspectRow, type SuspectRun } from "./judge.js";
import { Leases, type WorkEnd } from "./leases.js";
import type { Couriers, Dispatcher } from "./ports.js";
import type { Residents, Runtime } from "./runtime.js";

const INTERVAL_MS = 500;
/** A row that was taken in vain more often than this is suspected. The death of one node makes no suspects of all that it had. */
const UNSUSPECTED_TRIES = 1;

export interface PollerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly runtime: Pick<Runtime, "command" | "advanceFailed"> & {
    readonly residents: Pick<Residents, "movesLeasedWake">;
  };
  readonly dispatcher: Pick<Dispatcher, "holds" | "waitsWithoutTenant">;
  /** Suspects are tried there before they come to this node's runtime. */
  readonly trials: Judge;
  /** The gate of the runtime. Absent: it has none. */
  readonly gate?: Pick<Gate, "isSuspect">;
  /** The row of a kind that has no courier stays. */
  readonly couriers?: Couriers;
  /** The shards of this node. */
  readonly shards: () => readonly ShardId[];
  readonly intervalMs?: number;
}

export class Poller {
  private readonly loop: WorkLoop;
  /** Shards that came to this node and are not reclaimed yet. */
  private readonly gained = new Set<ShardId>();
  /** Shards of this node in which a node that is gone may have leased rows. */
  private readonly orphaned = new Set<ShardId>();
  /** Outbox first: a dispatch that was just taken over must reach the dispatcher before its silence is judged. */
  private readonly leases: readonly [Leases<DueEffect>, Leases<DueCommand>, Leases<DueWake>];
  /** Runs that this build cannot read. Their rows are left as they are: another node may be able to. */
  readonly unreadable = new RecentRuns();

  constructor(private readonly options: PollerOptions) {
    const { log, intervalMs: pauseMs = INTERVAL_MS } = options;
    this.loop = new WorkLoop({ what: "owed work", log, polls: { pauseMs, round: () => this.round() } });
    const onRoom = () => this.loop.pollSoon();
    this.leases = [
      new Leases(outbox, (row) => this.effect(row), onRoom),
      new Leases(inbox, (row) => this.command(row), onRoom),
      new Leases(wakes, (row) => this.wake(row), onRoom),
    ];
  }

  /** Leased rows of all three tables. */
  get leased(): number {
    return this.leases.reduce((sum, { size }) => sum + size, 0);
  }

  /** Takes over this node's shards, and polls: now, and every `intervalMs`. */
  start(): void {
    this.takeOver(this.options.shards());
    this.loop.start();
    this.loop.pollSoon();
  }

  /** The effects and commands that the former owner of the shards owed become due now; the next polls find them in bounded batches. */
  takeOver(shards: readonly ShardId[]): void {
    for (const shard of shards) this.gained.add(shard);
  }

  /** A node is gone. It may have leased rows of shards that this node had before, when it had not noticed yet that they had moved. */
  nodeLost(): void {
    for (const shard of this.options.shards()) this.orphaned.add(shard);
  }

  /** Takes no more rows. Work on leased rows continues in the runtime, which finishes it. */
  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** Polls until nothing more is due and all work has ended. For tests, which do not wait for the timer. */
  async tick(): Promise<void> {
    do {
      await this.loop.now();
      for (const leases of this.leases) await leases.drain(this.options.sql);
    } while (!this.loop.stopping && this.leases.some(({ hasMore }) => hasMore));
  }

  /** True: there is more and room for it. Without room, the end of some work polls again. */
  private async round(): Promise<boolean> {
    const { sql, shards } = this.options;
    await inEach(this.gained, (gained) => reclaim(sql, gained));
    await inEach(this.orphaned, (orphaned) => endLeases(sql, orphaned, this.ownLeases));
    for (const leases of this.leases) await leases.takeDue(sql, shards());
    return this.canContinue;
  }

  private get canContinue(): boolean {
    return this.gained.size + this.orphaned.size > 0 || this.leases.some(({ hasMore, hasRoom }) => hasMore && hasRoom);
  }

  private get ownLeases(): readonly string[] {
    return this.leases.flatMap(({ keys }) => keys);
  }

  private async wake({ run_id: runId, tries }: DueWake): Promise<WorkEnd> {
    // Another command of the run is in progress: its commit moves the row, or the run looks at once when it has no other command.
    if (this.options.runtime.residents.movesLeasedWake(runId)) return "spared";
    const command: RunCommand = { type: "advance" };
    return this.unlessGuilty({ runId, command }, tries, { table: wakes, key: runId }, (about) =>
      this.deliver(runId, command, { wakeLeased: true, ...about }),
    );
  }

  private async command({ id, run_id: runId, command, tries }: DueCommand): Promise<WorkEnd> {
    return this.unlessGuilty({ runId, command, id }, tries, { table: inbox, key: id }, (about) =>
      this.deliver(runId, command, { id, inboxId: id, ...about }),
    );
  }

  /** Many tries are a suspicion, never a verdict (law 7): the suspect's decision is taken in a trial first. */
  private async unlessGuilty(
    suspect: Omit<SuspectRun, "reach">,
    tries: number,
    row: SuspectRow,
    deliver: (about: { tried: boolean }) => Promise<WorkEnd>,
  ): Promise<WorkEnd> {
    // The take that brought the row here is one of the tries. What a node has died of is tried at the gate, which counts the deaths of its
    // trials once, whichever way its commands come.
    if (tries - 1 <= UNSUSPECTED_TRIES || this.options.gate?.isSuspect(suspect.runId)) return deliver({ tried: false });
    const verdict = await this.options.trials.verdictOn({ ...suspect, reach: EVERYTHING }, row);
    if (verdict.kind === "lived") return deliver({ tried: true });
    if (verdict.kind === "unreadable") this.leftToOthers(suspect.runId);
    return verdict.kind === "guilty" ? this.quarantine(suspect.runId, verdict.proof, row) : "spared";
  }

  private async quarantine(runId: RunId, proof: QuarantineProof, row: SuspectRow): Promise<WorkEnd> {
    const { trials, log } = this.options;
    if (!(await canQuarantine(trials, runId, proof, row))) {
      log.error({ runId }, "run cannot be quarantined, it is left alone");
      return "retry";
    }
    const about = { wakeLeased: row.table === wakes, tried: true };
    const end = await this.deliver(runId, { type: "quarantine", proof }, about);
    // A run in quarantine takes a command without acting on it, which is tried, too.
    return end === "done" && row.table === inbox ? "retry" : end;
  }

  private leftToOthers(runId: RunId, reason?: string): void {
    if (this.unreadable.note(runId))
      this.options.log.warn({ runId, reason }, "run not readable by this node, left to others");
  }

  /** A webhook goes to its courier. A dispatch that this node has needs nothing, unless it may have got a tenant; for any other, the run repeats its effects. */
  private async effect({ id, run_id: runId, kind }: DueEffect): Promise<WorkEnd> {
    const { dispatcher, couriers } = this.options;
    if (kind !== "action") {
      couriers?.[kind]?.carry(id);
      return "done";
    }
    const dispatchId = asDispatchId(id);
    const isHeld = dispatcher.holds(dispatchId);
    if (isHeld && !dispatcher.waitsWithoutTenant(dispatchId)) return "held";
    const end = await this.deliver(runId, { type: "carry", dispatchId });
    // The dispatcher did not take it: it was resolved and its row is gone, or there is no room for it now.
    if (end !== "done") return end;
    if (!dispatcher.holds(dispatchId)) return "retry";
    return isHeld ? "held" : "done";
  }

  private async deliver(
    runId: RunId,
    command: RunCommand,
    about: { id?: string; inboxId?: string; wakeLeased?: boolean; tried?: boolean } = {},
  ): Promise<WorkEnd> {
    const { runtime } = this.options;
    try {
      await runtime.command(runId, command, { ...about, reach: EVERYTHING });
      this.unreadable.forget(runId);
      return "done";
    } catch (error) {
      runtime.advanceFailed(runId, error);
      if (error instanceof Unreadable) this.leftToOthers(runId, error.message);
      const status = error instanceof SagaError ? error.status : 500;
      return status === 404 ? "run_gone" : status === 503 ? "spared" : "retry";
    }
  }
}

/** The shards that the statement has not finished remain for the next round. */
async function inEach(
  shards: Set<ShardId>,
  statement: (shards: readonly ShardId[]) => Promise<readonly ShardId[]>,
): Promise<void> {
  const some = [...shards];
  const unfinished = new Set(await statement(some));
  for (const shard of some) if (!unfinished.has(shard)) shards.delete(shard);
}

/** Runs that a poller remembers to have met and not been able to read. */
const MOST_UNREADABLE = 10_000;
/** Longer than the longest pause between two polls of a row. */
const KEPT_MS = 150_000;

/** A bounded set of runs that something was noticed about, for a gauge. A run that it is not noticed about again leaves after a while. */
class RecentRuns {
  private readonly noted = new Map<RunId, number>();

  /** Whether it is new. */
  note(runId: RunId): boolean {
    const known = this.noted.has(runId);
    if (known || this.noted.size < MOST_UNREADABLE) this.noted.set(runId, performance.now());
    return !known;
  }

  forget(runId: RunId): void {
    if (this.noted.size > 0) this.noted.delete(runId);
  }

  get count(): number {
    const oldest = performance.now() - KEPT_MS;
    for (const [runId, at] of this.noted) if (at < oldest) this.noted.delete(runId);
    return this.noted.size;
  }
}
