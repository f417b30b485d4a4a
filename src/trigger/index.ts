// The triggers of a node, composed: what is posted, what is due, what events fire. One timer polls for ticks and for runs that are owed.
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { RunStarter } from "../run/ports.js";
import { countFailing } from "../store/lists/triggers.js";
import { WorkLoop } from "../work/loop.js";
import { Cron, type CronOptions } from "./cron.js";
import { Registrar, type RegistrarOptions } from "./registrar.js";
import { Transitions, type TransitionsOptions } from "./transitions.js";
import { TriggeredStarts, type TriggeredStartsOptions } from "./triggered-starts.js";

export { noSuchTrigger, type Registrar } from "./registrar.js";
export { delayOf, Schedule } from "./schedule.js";

const PAUSE_MS = 1_000;

export interface TriggersOptions
  extends Omit<TriggeredStartsOptions, "starter">,
    Pick<CronOptions, "clock" | "shards">,
    Pick<TransitionsOptions, "tenantsApart">,
    Pick<RegistrarOptions, "schemas" | "scheduler"> {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "triggerFires" | "triggersFailing">;
  readonly starter: RunStarter;
}

export class Triggers {
  readonly registrar: Registrar;
  readonly transitions: Transitions;
  private readonly starts: TriggeredStarts;
  private readonly cron: Cron;
  private readonly loop: WorkLoop;

  constructor(private readonly options: TriggersOptions) {
    const { sql, log, clock, catalog, licences, metrics, shards, schemas, scheduler, tenantsApart } = options;
    this.starts = new TriggeredStarts(options);
    const { starts } = this;
    this.cron = new Cron({ sql, log, clock, metrics, starts, shards });
    this.transitions = new Transitions({ sql, clock, metrics, starts, tenantsApart });
    this.registrar = new Registrar({ sql, clock, catalog, licences, starts, schemas, scheduler });
    const round = async () => {
      const moreTicks = await this.cron.round();
      return (await starts.round()) || moreTicks;
    };
    this.loop = new WorkLoop({ what: "triggers", log, polls: { pauseMs: PAUSE_MS, round } });
  }

  start(): void {
    this.loop.start();
  }

  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** What is due now, and what was left. */
  poll(): Promise<void> {
    return this.loop.now();
  }

  async gauge(): Promise<void> {
    this.options.metrics.triggersFailing.set(await countFailing(this.options.sql));
  }
}
