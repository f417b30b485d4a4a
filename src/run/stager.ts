// The stager: looks for what is due in the three small tables of this node's shards and brings it to its run. Timers, messages
// and effects in memory are hints; this is the truth (law 7): with all of them dead every run still advances.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import { reclaim, takeInbox, takeOutbox, takeWakes } from "../store/poll.js";
import type { Dispatcher } from "./ports.js";
import type { Runtime } from "./runtime.js";

/** Rows taken at once: a million overdue ones are worked off, not stampeded. */
const BATCH = 500;
/** Lent this often without a commit, a run has brought its node down that often, or its data cannot be stored. */
const QUARANTINE_TRIES = 3;

export interface StagerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly runtime: Runtime;
  readonly dispatcher: Pick<Dispatcher, "holds">;
  readonly shards: () => readonly number[];
  readonly intervalMs?: number;
}

export class Stager {
  private timer: NodeJS.Timeout | undefined;
  private ticking: Promise<void> | undefined;
  private stopped = false;
  /** Shards that came to this node since the last look. */
  private readonly gained = new Set<number>();

  constructor(private readonly options: StagerOptions) {}

  /** Takes over the shards that are this node's now, and looks every `intervalMs`. */
  start(): void {
    this.takeOver(this.options.shards());
    this.arm(0);
  }

  /** What a former owner of the shards owed is due now: the next look finds it. */
  takeOver(shards: readonly number[]): void {
    for (const shard of shards) this.gained.add(shard);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.ticking;
  }

  /** One look at all three tables; resolves when what was found has been delivered, not when it is done. */
  tick(): Promise<void> {
    this.ticking ??= this.look().finally(() => {
      this.ticking = undefined;
    });
    return this.ticking;
  }

  private arm(ms: number): void {
    if (this.stopped) return;
    this.timer = setTimeout(async () => {
      await this.tick();
      this.arm(this.options.intervalMs ?? 500);
    }, ms);
  }

  private async look(): Promise<void> {
    const { sql, log, shards } = this.options;
    try {
      const gained = [...this.gained];
      if (gained.length > 0) await reclaim(sql, gained);
      for (const shard of gained) this.gained.delete(shard);
      const mine = shards();
      // A full batch means that there is more: look again at once, but let the runs that were found work first.
      while (!this.stopped) {
        const wakes = await takeWakes(sql, mine, BATCH);
        const inbox = await takeInbox(sql, mine, BATCH);
        const outbox = await takeOutbox(sql, mine, BATCH);
        // Effects first: a dispatch that was just taken over must be heard of before its silence is judged.
        const work = [
          ...outbox.map((row) => this.effect(row)),
          ...inbox.map((row) => this.command(row)),
          ...wakes.map((wake) => this.wake(wake)),
        ];
        await Promise.allSettled(work);
        if (wakes.length < BATCH && inbox.length < BATCH && outbox.length < BATCH) return;
      }
    } catch (error) {
      log.warn({ err: error }, "the poll failed; the next one makes good for it");
    }
  }

  private async wake({ run_id: runId, tries }: { run_id: string; tries: number }): Promise<void> {
    const { runtime } = this.options;
    if (runtime.isBusy(runId)) return;
    // It is not busy here and its lent wake row came back again and again: it does not come back alive.
    const type = tries > QUARANTINE_TRIES ? "quarantine" : "advance";
    await runtime.deliver(runId, { type }, {}).catch((error) => runtime.stuck(runId, error));
  }

  private async command({ id, run_id: runId, command }: Awaited<ReturnType<typeof takeInbox>>[number]): Promise<void> {
    const { runtime } = this.options;
    await runtime.deliver(runId, command, { id, inboxId: id }).catch((error) => runtime.stuck(runId, error));
  }

  /** An effect that this node has in hand needs nothing; of any other its run says again what it owes. */
  private async effect({ id, run_id: runId }: { id: string; run_id: string }): Promise<void> {
    const { runtime, dispatcher } = this.options;
    if (dispatcher.holds(id)) return;
    await runtime.deliver(runId, { type: "carry", dispatchId: id }, {}).catch((error) => runtime.stuck(runId, error));
  }
}
