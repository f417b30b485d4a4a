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

export class Pruner {
  private timer: NodeJS.Timeout | undefined;
  private pruning: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
    /** Absent: ended runs and their audit rows are kept. */
    private readonly retentionDays?: number,
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
    if (this.retentionDays === undefined) return;
    await dropEventPartitionsBefore(this.sql, new Date(Date.now() - this.retentionDays * DAY_MS));
    await this.bites(() => this.endedRuns(this.retentionDays ?? 0));
  }

  /** A run goes whole, its family's rows by their own age. */
  private endedRuns(days: number) {
    return this.sql`
      with old as (
        select id from runs where terminal_at < now() - make_interval(days => ${days}) limit ${BITE}
      ),
      variables as (delete from run_variables where run_id in (select id from old)),
      commands as (delete from run_commands where run_id in (select id from old)),
      received as (delete from signals where run_id in (select id from old)),
      owed as (delete from undo where owner_run_id in (select id from old)),
      keys as (delete from start_keys where run_id in (select id from old)),
      tasks as (delete from user_tasks where run_id in (select id from old)),
      starts as (delete from run_starts where run_id in (select id from old))
      delete from runs where id in (select id from old)`;
  }

  private async bites(bite: () => PromiseLike<{ readonly count: number }>): Promise<void> {
    while (!this.stopped && (await bite()).count >= BITE);
  }
}
