// The pruner: makes the audit log's next partitions, and deletes what nobody will ask for again, in bounded bites. Nothing that
// a run needs to go on or to be undone is ever deleted while the run lives.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import { createEventPartitions, dropEventPartitionsBefore } from "./partitions.js";

const INTERVAL_MS = 10 * 60_000;
/** A replayed command asks for its answer within seconds; a day is generous. */
const COMMANDS_KEPT = "1 day";
const BITE = 5_000;
const DAY_MS = 86_400_000;

export interface Retention {
  /** Events are kept so long, whether a run may still look back at them or not. */
  readonly eventDays: number;
  /** Absent: ended runs and their audit rows are kept. */
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
      this.pruning = this.prune().catch((error) =>
        this.log.warn({ err: error }, "pruning failed; the next round makes good for it"),
      );
    }, INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    await this.pruning;
  }

  /** One round. */
  async prune(): Promise<void> {
    await createEventPartitions(this.sql, this.log);
    await this.bites(
      () => this.sql`
        delete from run_commands where ctid = any(array(
          select ctid from run_commands where at < now() - ${COMMANDS_KEPT}::interval and not keep limit ${BITE}))`,
    );
    await this.bites(() => this.oldEvents(this.keep.eventDays));
    const { runDays } = this.keep;
    if (runDays === undefined) return;
    await dropEventPartitionsBefore(this.sql, new Date(Date.now() - runDays * DAY_MS));
    await this.bites(() => this.endedRuns(runDays));
  }

  /** With who took them. One that is still to be announced stays until it is. */
  private oldEvents(days: number) {
    return this.sql`
      with old as (
        select id from events where published_at < now() - make_interval(days => ${days}) and due_at is null
        order by published_at limit ${BITE}
      ),
      takes as (delete from event_takes where event_id in (select id from old))
      delete from events where id in (select id from old)`;
  }

  /** A run goes whole, and not before the topmost run has ended: a parent reads its children's outputs. */
  private endedRuns(days: number) {
    return this.sql`
      with old as (
        select id from runs r where terminal_at < now() - make_interval(days => ${days})
          and not exists (select 1 from runs top where top.id = r.root_run_id and top.terminal_at is null)
        limit ${BITE}
      ),
      scopes as (delete from run_scopes where run_id in (select id from old)),
      variables as (delete from run_variables where run_id in (select id from old)),
      commands as (delete from run_commands where run_id in (select id from old)),
      received as (delete from signals where run_id in (select id from old)),
      owed as (delete from undo where owner_run_id in (select id from old)),
      keys as (delete from start_keys where run_id in (select id from old)),
      takes as (delete from event_takes where run_id in (select id from old)),
      tasks as (delete from user_tasks where run_id in (select id from old)),
      starts as (delete from run_starts where run_id in (select id from old))
      delete from runs where id in (select id from old)`;
  }

  private async bites(bite: () => PromiseLike<{ readonly count: number }>): Promise<void> {
    while (!this.stopped && (await bite()).count >= BITE);
  }
}
