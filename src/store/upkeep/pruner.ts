// The pruner: creates the next partitions of the audit log and lets retention delete what is past it, one node at a time. Rows that a run
// needs to continue or to be undone are never deleted before the run has ended.
import type { Sql } from "postgres";
import type { Logger } from "../../log.js";
import { WorkLoop } from "../../work/loop.js";
import { Erasure } from "./erasure.js";
import { createEventPartitions, dropEventPartitionsBefore } from "./partitions.js";
import { Retention } from "./retention.js";

const INTERVAL_MS = 10 * 60_000;
/** How long keys are listed after their end. */
const ENDED_KEYS_DAYS = 90;
/** The advisory lock of a round: "prun" in ASCII. Must never change: releases that run side by side have to agree on it. */
const PRUNING_LOCK = 0x7072756e;

export interface Kept {
  /** Published events, and bulk jobs that have ended, are kept for this many days, whether a run may still scan them or not. */
  readonly eventDays: number;
  /** Absent: ended runs and their audit rows are kept without a limit. */
  readonly runDays?: number;
}

export class Pruner {
  private readonly loop: WorkLoop;
  private readonly retention: Retention;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
    private readonly keep: Kept,
  ) {
    this.retention = new Retention(sql);
    const round = async () => void (await this.prune());
    this.loop = new WorkLoop({ what: "pruning", log, polls: { pauseMs: INTERVAL_MS, round } });
  }

  start(): void {
    this.loop.start();
  }

  stop(): Promise<void> {
    this.retention.stop();
    return this.loop.stop();
  }

  /** One round, on one node at a time: the others have nothing to do meanwhile. Resolves with whether it was this one's. */
  async prune(): Promise<boolean> {
    let round: Promise<void> | undefined;
    try {
      // A transaction that holds the lock and nothing else: between its statements it has no snapshot that vacuum would wait for.
      return await this.sql.begin("isolation level read committed", async (lock) => {
        const [row] = await lock<{ mine: boolean }[]>`select pg_try_advisory_xact_lock(${PRUNING_LOCK}) as mine`;
        if (!row?.mine) return false;
        await lock`set local idle_in_transaction_session_timeout = 0`;
        round = this.round();
        await round;
        return true;
      });
    } finally {
      // The session of the lock may have ended before the round.
      await Promise.allSettled([round]);
    }
  }

  private async round(): Promise<void> {
    const { sql, log, retention } = this;
    const { eventDays, runDays } = this.keep;
    await createEventPartitions(sql, log);
    await new Erasure(sql).finishAll();
    await retention.commands();
    await retention.events(eventDays);
    await retention.bulkJobs(eventDays);
    await retention.scopes();
    await retention.apiKeys(ENDED_KEYS_DAYS);
    if (runDays === undefined) return;
    const [row] = await sql<{ before: Date }[]>`select now() - make_interval(days => ${runDays}) as before`;
    if (row) await dropEventPartitionsBefore(sql, row.before);
    await retention.runs(runDays);
    await retention.fires(runDays);
  }
}
