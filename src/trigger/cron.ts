// Decides the ticks that are due, of the triggers of this node's shards. Two nodes that both own a shard decide the same tick once.
import type { Sql } from "postgres";
import { type CronConfig, cronInputs, type JsonObject, readTriggerConfig } from "../../machines/index.js";
import type { Clock } from "../clock.js";
import type { ShardId } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { decideFires, type NewFire, unfinishedFire } from "../store/engine/trigger-fires.js";
import { dueTriggers, type TriggerRow } from "../store/lists/triggers.js";
import { delayOf, Schedule, ScheduleError } from "./schedule.js";
import { type TriggeredStarts, tickFireId } from "./triggered-starts.js";

/** Due triggers of one round. */
const BATCH = 100;
/** A tick is on time if it is fired within this time: a takeover may lie between. */
const ON_TIME_MS = 30_000;

export interface CronOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, "triggerFires">;
  readonly starts: Pick<TriggeredStarts, "carryOut">;
  readonly shards: () => readonly ShardId[];
}

/** What is to be done with a due trigger. Times are epoch milliseconds; a fire is later than its tick by the trigger's part of its jitter. */
interface Verdict {
  readonly fires: readonly NewFire[];
  /** The next fire. Undefined: the schedule has no tick left. */
  readonly next: number | undefined;
}

export class Cron {
  constructor(private readonly options: CronOptions) {}

  /** Decides ticks that are due now. True: there may be more. */
  async round(): Promise<boolean> {
    const { sql, clock, shards } = this.options;
    const due = await dueTriggers(sql, shards(), new Date(clock.now()), BATCH);
    const decided = await Promise.all(due.map((trigger) => this.decide(trigger)));
    // A trigger that could not be decided stays due: it must not make the poll endless.
    return due.length === BATCH && decided.some(Boolean);
  }

  /** Whether the trigger is no longer due. */
  private async decide(trigger: TriggerRow): Promise<boolean> {
    const { sql, log, starts } = this.options;
    try {
      const from = trigger.nextFireAt;
      if (!from) return true;
      const verdict = await this.verdictOn(trigger, from.getTime());
      const owing = verdict.fires.some(({ inputs }) => inputs);
      const to = verdict.next === undefined ? null : new Date(verdict.next);
      const owed = await decideFires(sql, trigger, verdict.fires, { from, to, fired: owing });
      this.count(verdict.fires);
      await starts.carryOut(owed);
      return true;
    } catch (error) {
      log.warn({ err: error, trigger: trigger.id }, "trigger not decided, it stays due");
      return false;
    }
  }

  private count(fires: readonly NewFire[]): void {
    const skipped = fires.filter(({ inputs }) => !inputs).length;
    if (skipped > 0) this.options.metrics.triggerFires.inc({ outcome: "skipped" }, skipped);
  }

  private async verdictOn(trigger: TriggerRow, since: number): Promise<Verdict> {
    const now = this.options.clock.now();
    const config = configOf(trigger);
    const schedule = config && scheduleOf(config);
    if (!schedule) return { fires: [ended(trigger, since, now, UNREADABLE)], next: undefined };
    const delay = delayOf(trigger.id, config);
    const first = since - delay;
    const tick = Math.max(schedule.latest(now - delay) ?? first, first);
    const missed = tick > first ? [ended(trigger, first, now, `ticks before ${text(tick)} were missed`)] : [];
    const next = schedule.after(now - delay);
    const fires = [...missed, await this.fireAt(trigger, config, tick, now)];
    return { fires, next: next === undefined ? undefined : next + delay };
  }

  private async fireAt(trigger: TriggerRow, config: CronConfig, tick: number, now: number): Promise<NewFire> {
    const late = now - tick - delayOf(trigger.id, config);
    const most = config.catchup === "none" ? ON_TIME_MS : Math.max(config.catchup_window_ms, ON_TIME_MS);
    if (late > most) return ended(trigger, tick, now, `missed: ${Math.round(late / 1_000)} s late`);
    const unfinished =
      config.overlap_policy === "skip" ? await unfinishedFire(this.options.sql, trigger.id) : undefined;
    if (unfinished !== undefined) return ended(trigger, tick, now, `skipped: the run ${unfinished} has not ended`);
    const times = { scheduled_at: text(tick), fired_at: text(now) };
    return { ...fire(trigger, tick, now), inputs: cronInputs(config, { id: trigger.id, ...times }) };
  }
}

const UNREADABLE = "the trigger's config cannot be read by this release";

/** Undefined: a release that allowed more has stored it. */
function configOf({ config }: { readonly config: JsonObject }): CronConfig | undefined {
  const { value } = readTriggerConfig("cron", config);
  return value?.type === "cron" ? value.config : undefined;
}

function scheduleOf(config: CronConfig): Schedule | undefined {
  try {
    return Schedule.of(config);
  } catch (error) {
    if (error instanceof ScheduleError) return undefined;
    throw error;
  }
}

const text = (time: number) => new Date(time).toISOString();

function fire({ id }: TriggerRow, tick: number, now: number): NewFire {
  return { id: tickFireId(id, tick), scheduledAt: new Date(tick), firedAt: new Date(now) };
}

/** A fire that starts no run. */
function ended(trigger: TriggerRow, tick: number, now: number, error: string): NewFire {
  return { ...fire(trigger, tick, now), error };
}
