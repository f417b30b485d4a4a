// Fires the ticks of a past range, as if they were due now. A tick has one fire, under one id, whether it is fired when it is due or later, so none is fired
// twice. Their runs are started by the poll of whichever node leases them.
import type { Sql } from "postgres";
import { cronInputs, type JsonObject, readTriggerConfig } from "../../machines/index.js";
import type { Clock } from "../clock.js";
import { badRequest, unprocessable } from "../errors.js";
import { backfillFires, firedAmong, type PastTick } from "../store/engine/trigger-fires.js";
import type { TriggerRow } from "../store/lists/triggers.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { delayOf, Schedule } from "./schedule.js";
import { tickFireId } from "./triggered-starts.js";

/** Ticks that one request fires. */
const MOST_TICKS = 1_000;
/** What the inputs of one request's fires may have together, in characters: each fire keeps its own. */
const MOST_INPUTS = 16 * 1_048_576;
/** More ticks of a range are not counted. */
const MOST_COUNTED = 5_000;

export interface BackfillOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly scheduler: Pick<FairScheduler, "computeSlices">;
}

/** Epoch milliseconds, both included: of the ticks, whatever the jitter adds to them. */
export interface PastRange {
  readonly from: number;
  /** Absent: now. */
  readonly to?: number;
}

export interface Backfilled {
  /** All ticks of the range whose time has come. */
  readonly ticks: number;
  /** Those that had not started a run, and owe one now: in the order of their ticks. */
  readonly fires: readonly Pick<PastTick, "id" | "scheduledAt">[];
}

/** Resolves once the fires are durable; `dryRun` decides none. Throws 400, 422. */
export async function backfill(
  { sql, clock, scheduler }: BackfillOptions,
  trigger: TriggerRow,
  { from, ...range }: PastRange,
  dryRun: boolean,
): Promise<Backfilled> {
  const { value } = readTriggerConfig("cron", trigger.triggerType === "cron" ? trigger.config : {});
  if (value?.type !== "cron") throw badRequest("only a cron trigger has ticks that can be fired later");
  const { config } = value;
  const now = clock.now();
  const { to = now } = range;
  if (to < from) throw wrongEnd("must not be before from");
  if (to > now) throw wrongEnd("must not be in the future: what is due later fires by itself");
  // A tick whose delay has not passed is not late.
  const last = Math.min(to, now - delayOf(trigger.id, config));
  const ticks = await scheduler.computeSlices(trigger.workflowId, ticksIn(Schedule.of(config), from, last));
  const inputsOf = (tick: number): JsonObject =>
    cronInputs(config, { id: trigger.id, scheduled_at: text(tick), fired_at: text(now) });
  refuseMany(ticks.length, JSON.stringify(inputsOf(now)).length);
  const past = ticks.map((tick) => ({
    id: tickFireId(trigger.id, tick),
    scheduledAt: new Date(tick),
    inputs: inputsOf(tick),
  }));
  if (dryRun) {
    const fired = await firedAmong(
      sql,
      past.map(({ id }) => id),
    );
    return { ticks: past.length, fires: past.filter(({ id }) => !fired.has(id)) };
  }
  const how = { firedAt: new Date(now), inTurn: config.overlap_policy === "skip" };
  const added = past.length > 0 ? await backfillFires(sql, trigger, past, how) : new Set<string>();
  return { ticks: past.length, fires: past.filter(({ id }) => added.has(id)) };
}

/** One more than are counted, if there are more. */
function* ticksIn(schedule: Schedule, from: number, to: number): Generator<void, readonly number[]> {
  const ticks: number[] = [];
  for (let tick = schedule.after(from - 1); tick !== undefined && tick <= to; tick = schedule.after(tick)) {
    if (ticks.push(tick) > MOST_COUNTED) break;
    yield;
  }
  return ticks;
}

function refuseMany(ticks: number, charsOfInputs: number): void {
  const most = Math.max(1, Math.min(MOST_TICKS, Math.floor(MOST_INPUTS / charsOfInputs)));
  if (ticks <= most) return;
  const count = ticks > MOST_COUNTED ? `more than ${MOST_COUNTED}` : String(ticks);
  const why = most < MOST_TICKS ? " with inputs of this size" : "";
  throw unprocessable(
    `the range has ${count} ticks, and one request fires at most ${most}${why}: send it in shorter ranges`,
    [{ path: "$.to", message: `must leave at most ${most} ticks in the range, which has ${count}` }],
  );
}

const wrongEnd = (message: string) => badRequest(`the body is not valid: $.to ${message}`, [{ path: "$.to", message }]);

const text = (time: number) => new Date(time).toISOString();
