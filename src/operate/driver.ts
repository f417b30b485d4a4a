// Drives the bulk jobs of this node's shards: acts on their open targets at the node's pace, and settles what is known of them. Two nodes that
// both drive a job cost duplicate work: a command has one outcome, and a target is settled once.

import type { Sql } from "postgres";
import { delay } from "../ambient.js";
import { type ShardId, shardOf } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import {
  type Outcome,
  openTargets,
  type RunningJob,
  runningJobs,
  type Settled,
  settleTargets,
  type Target,
} from "../store/lists/bulk-jobs.js";
import type { Pace } from "./pace.js";

/** Jobs that a node drives at once; the others begin when one of these ends. */
const JOBS = 16;
/** After a batch with an act whose outcome is not known, and while the node sheds load. */
const PAUSE_MS = 1_000;

export interface DriverOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "bulkActs">;
  readonly pace: Pace;
  readonly shards: () => readonly ShardId[];
  /** Throws what may pass. */
  readonly act: (job: RunningJob, target: Target) => Promise<Outcome>;
  /** Whether the node sheds load: then a job waits. */
  readonly shedding: () => boolean;
}

export class Driver {
  private readonly driving = new Map<string, Promise<void>>();
  private readonly stopping = new AbortController();

  constructor(private readonly options: DriverOptions) {}

  /** Begins to drive the running jobs that nothing here drives yet. */
  async poll(): Promise<void> {
    const shards = this.options.shards();
    if (shards.length === 0 || this.stopped) return;
    for (const job of await runningJobs(this.options.sql, shards, JOBS)) this.begin(job);
  }

  /** Resolves when the acts on their way are settled. What is left, another node drives on. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.all(this.driving.values());
  }

  /** Resolves when the jobs that are driven now are ended, or left to the next poll. */
  async idle(): Promise<void> {
    await Promise.all(this.driving.values());
  }

  private get stopped(): boolean {
    return this.stopping.signal.aborted;
  }

  private begin(job: RunningJob): void {
    if (this.stopped || this.driving.has(job.id) || this.driving.size >= JOBS) return;
    const driven = this.drive(job)
      .catch((error: unknown) =>
        this.options.log.warn({ err: error, bulk: job.id }, "bulk job not driven on, retrying"),
      )
      .finally(() => this.driving.delete(job.id));
    this.driving.set(job.id, driven);
  }

  /** One pass over the open targets. Those whose outcome is not known stay open, for the pass after the next poll. */
  private async drive(job: RunningJob): Promise<void> {
    const { sql, pace } = this.options;
    for (let after = 0; this.mayDrive(job); ) {
      const targets = await openTargets(sql, job.id, after, pace.batch);
      const last = targets.at(-1);
      if (!last) return;
      const outcomes = (await Promise.all(targets.map((target) => this.act(job, target)))).filter(
        (known) => known !== undefined,
      );
      const state = await settleTargets(sql, job.id, outcomes);
      if (state !== "running") return this.ended(job, state);
      if (outcomes.length < targets.length) await this.pause();
      after = last.nth;
    }
  }

  private mayDrive({ id }: RunningJob): boolean {
    const { shards, shedding } = this.options;
    return !this.stopped && !shedding() && shards().includes(shardOf(id));
  }

  /** Undefined: the outcome is not known. */
  private act(job: RunningJob, target: Target): Promise<Settled | undefined> {
    const { pace, act, metrics, log } = this.options;
    return pace.run(async () => {
      try {
        const outcome = await act(job, target);
        metrics.bulkActs.inc({ outcome: outcome.message === undefined ? "done" : "refused" });
        return { nth: target.nth, ...outcome };
      } catch (error) {
        metrics.bulkActs.inc({ outcome: "postponed" });
        log.debug({ err: error, bulk: job.id, runId: target.runId }, "bulk act put off");
        return undefined;
      }
    });
  }

  private ended({ id, action }: RunningJob, state: string | undefined): void {
    this.options.log.info({ bulk: id, action, state }, "bulk job ended");
  }

  private pause(): Promise<unknown> {
    return delay(PAUSE_MS, undefined, { signal: this.stopping.signal }).catch(() => {});
  }
}
