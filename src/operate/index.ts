// What a node does for operators, composed: reruns, and bulk jobs with the poll that drives them.
import type { Sql } from "postgres";
import type { SecurityLog } from "../access/index.js";
import type { ShardId } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { RunStarter, Runs } from "../run/ports.js";
import { Erasure } from "../store/upkeep/erasure.js";
import { WorkLoop } from "../work/loop.js";
import { BulkJobs } from "./bulk.js";
import { Driver } from "./driver.js";
import { Pace } from "./pace.js";
import { Reruns } from "./rerun.js";
import { actOn } from "./target-act.js";

export {
  type ActBody,
  commandOf,
  isOperatorAct,
  notAwaited,
  refusalIn,
} from "./acts.js";
export { BulkJobs, MAX_LIMIT, STANDARD_LIMIT } from "./bulk.js";
export { type Look, Migrations } from "./migrations.js";
export { ProgressWaits } from "./progress.js";
export { type RerunChanges, Reruns } from "./rerun.js";
export { targetCommandId, targetRunId } from "./target-act.js";

const PAUSE_MS = 1_000;

export interface OperateOptions {
  readonly sql: Sql;
  /** The sessions of the node's own upkeep: the driver does not wait for work, nor work for it. */
  readonly upkeep: Sql;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "bulkActs">;
  /** Absent: there is no access control. */
  readonly security?: SecurityLog;
  readonly starter: RunStarter;
  readonly runs: Runs;
  readonly shards: () => readonly ShardId[];
  readonly shedding: () => boolean;
  /** Whether runs owe events to RabbitMQ. */
  readonly hasBroker: boolean;
  /** Acts of bulk jobs that this node carries out. */
  readonly perSecond: number;
}

export class Operate {
  readonly reruns: Reruns;
  readonly bulk: BulkJobs;
  readonly erasure: Erasure;
  readonly driver: Driver;
  private readonly loop: WorkLoop;

  constructor(options: OperateOptions) {
    const { sql, upkeep, log, metrics, starter, runs, shards, shedding, perSecond, security, hasBroker } = options;
    this.reruns = new Reruns(sql, starter);
    this.erasure = new Erasure(upkeep, { hasBroker });
    const { reruns, erasure } = this;
    this.bulk = new BulkJobs({ sql, onCreated: () => this.loop.pollSoon() });
    this.driver = new Driver({
      ...{ sql: upkeep, log, metrics, shards, shedding, pace: new Pace(perSecond) },
      act: (job, { runId }) => actOn({ sql, runs, reruns, erasure, ...(security && { security }) }, job, runId),
    });
    const polls = { pauseMs: PAUSE_MS, round: () => this.driver.poll() };
    this.loop = new WorkLoop({ what: "bulk jobs", log, polls });
  }

  start(): void {
    this.loop.start();
  }

  /** Settles the acts on their way. */
  async stop(): Promise<void> {
    await this.loop.stop();
    await this.driver.stop();
  }
}
