// The pruner: creates the next partitions of the audit log, and deletes rows that are past retention, in bounded batches. Rows that a run
// needs to continue or to be undone are never deleted before the run has ended. In SQL: each statement deletes from many tables at once.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import { createEventPartitions, dropEventPartitionsBefore } from "./partitions.js";

const INTERVAL_MS = 10 * 60_000;
/** A command is replayed within seconds; a day is generous. */
const COMMANDS_KEPT = "1 day";
const BATCH = 5_000;
/** The advisory lock of a round: "prun" in ASCII. Must never change: releases that run side by side have to agree on it. */
const PRUNING_LOCK = 0x7072756e;

export interface Retention {
  /** Published events are kept for this many days, whether a run may still scan them or not. */
  readonly eventDays: number;
  /** Absent: ended runs and their audit rows are kept without a limit. */
  readonly runDays?: number;
}

export class Pruner {
  private timer: NodeJS.Timeout | undefined;
  private pruning: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
    private readonly keep: Retention,
  ) {}

  start(): void {
    this.timer ??= setInterval(() => {
      this.pruning = this.prune().then(
        () => {},
        (error) => this.log.warn({ err: error }, "pruning failed, the next round retries it"),
      );
    }, INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    await this.pruning;
  }

  /** One round, on one node at a time: the others have nothing to do meanwhile. Resolves with whether it was this one's. */
  async prune(): Promise<boolean> {
    const session = await this.sql.reserve();
    try {
      const [row] = await session<{ mine: boolean }[]>`select pg_try_advisory_lock(${PRUNING_LOCK}) as mine`;
      if (!row?.mine) return false;
      await this.round().finally(() => session`select pg_advisory_unlock(${PRUNING_LOCK})`);
      return true;
    } finally {
      session.release();
    }
  }

  private async round(): Promise<void> {
    await createEventPartitions(this.sql, this.log);
    await this.inBatches(
      () => this.sql`
        delete from run_commands where ctid = any(array(
          select ctid from run_commands where at < now() - ${COMMANDS_KEPT}::interval and not keep limit ${BATCH}))`,
    );
    await this.inBatches(() => this.oldEvents(this.keep.eventDays));
    await this.inBatches(() => this.endedScopes());
    await this.inBatches(() => this.endedValues());
    const { runDays } = this.keep;
    if (runDays === undefined) return;
    const [row] = await this.sql<{ before: Date }[]>`select now() - make_interval(days => ${runDays}) as before`;
    if (row) await dropEventPartitionsBefore(this.sql, row.before);
    await this.inBatches(() => this.endedRuns(runDays));
  }

  /** Of families that have ended: nothing starts from their scopes any more. */
  private endedScopes() {
    return this.sql`
      delete from kept_scopes where ctid = any(array(
        select s.ctid from kept_scopes s join runs r on r.id = coalesce(s.holder, s.run_id)
        where r.terminal_at is not null limit ${BATCH}))`;
  }

  private endedValues() {
    return this.sql`
      delete from kept_values where ctid = any(array(
        select v.ctid from kept_values v join runs r on r.id = v.holder where r.terminal_at is not null limit ${BATCH}))`;
  }

  /** With the rows of the runs that took them. An event that is still to be announced stays. */
  private oldEvents(days: number) {
    return this.sql`
      with old as (
        select id from events where published_at < now() - make_interval(days => ${days}) and due_at is null
        order by published_at limit ${BATCH}
      ),
      takes as (delete from event_takes where event_id in (select id from old))
      delete from events where id in (select id from old)`;
  }

  /** A run is deleted whole, and not before the root of its family has ended: a parent reads its children's outputs. */
  private endedRuns(days: number) {
    return this.sql`
      with old as (
        select id from runs r where terminal_at < now() - make_interval(days => ${days})
          and not exists (select 1 from runs top where top.id = r.root_run_id and top.terminal_at is null)
        limit ${BATCH}
      ),
      scopes as (delete from kept_scopes where run_id in (select id from old)),
      variables as (delete from run_variables where run_id in (select id from old)),
      commands as (delete from run_commands where run_id in (select id from old)),
      received as (delete from signals where run_id in (select id from old)),
      owed as (delete from undo where owner_run_id in (select id from old)),
      keys as (delete from start_keys where run_id in (select id from old)),
      takes as (delete from event_takes where run_id in (select id from old)),
      tasks as (delete from user_tasks where run_id in (select id from old)),
      labels as (delete from run_labels where run_id in (select id from old)),
      starts as (delete from run_starts where run_id in (select id from old))
      delete from runs where id in (select id from old)`;
  }

  private async inBatches(batch: () => PromiseLike<{ readonly count: number }>): Promise<void> {
    while (!this.stopped && (await batch()).count >= BATCH);
  }
}
