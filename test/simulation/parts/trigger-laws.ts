// The laws of triggers, when everything has ended: read from their fires and from the runs that these have started.
import type { Sql } from "postgres";
import type { JsonObject } from "../../../machines/index.js";
import { Schedule } from "../../../src/trigger/index.js";
import { fireRunId } from "../../../src/trigger/triggered-starts.js";

/** While it is enabled without a change: its first tick, epoch milliseconds. */
export interface Due {
  readonly from: number;
  /** It went on to the end, so that none of its ticks may be lost. */
  isWhole: boolean;
}

export interface CheckedTrigger {
  readonly id: string;
  readonly type: "cron" | "record_transition";
  /** All that it has had, the last one last. */
  readonly configs: JsonObject[];
  readonly dues: Due[];
  /** Ticks that an operator's session has moved ahead. */
  readonly moved: { readonly at: number; readonly due: Due | undefined }[];
  /** A request to change it was sent more than once: one of them may arrive at any time. */
  isUnsure: boolean;
  isDeleted: boolean;
  /** Epoch milliseconds: what was due by then was decided. */
  decidedUntil?: number;
}

interface Fire {
  readonly id: string;
  readonly trigger_id: string;
  readonly scheduled_at: Date;
  readonly fired_at: Date;
  readonly run: string | null;
  readonly error: string | null;
}

interface FiredRun {
  readonly id: string;
  readonly trigger_id: string;
  readonly started_at: Date;
}

/** Documented: a tick is on time for so long, whatever the policy says. */
const ON_TIME_MS = 30_000;
const DEFAULT_WINDOW_MS = 3_600_000;

export async function firesViolations(sql: Sql, triggers: readonly CheckedTrigger[]): Promise<string[]> {
  const ids = triggers.map(({ id }) => id);
  const fires = await sql<Fire[]>`
    select id, trigger_id, scheduled_at, fired_at, resulting_run_id as run, error from trigger_fires
    where trigger_id = any(${ids}::text[]::uuid[]) order by scheduled_at, id`;
  const runs = await sql<FiredRun[]>`
    select id, trigger_id, started_at from runs where trigger_id = any(${ids}::text[]::uuid[]) order by id`;
  return triggers.flatMap((trigger) => {
    const own = fires.filter(({ trigger_id: id }) => id === trigger.id);
    const started = runs.filter(({ trigger_id: id }) => id === trigger.id);
    return [
      ...runViolations(own, started),
      ...own.flatMap((fire) => fireViolations(trigger, fire)),
      ...lost(trigger, own),
    ].map((line) => `trigger ${trigger.id}: ${line}`);
  });
}

/** Each fire has one run at most, whose id follows from it, and each run is of a fire. */
function runViolations(fires: readonly Fire[], runs: readonly FiredRun[]): string[] {
  const byRun = new Map(fires.map((fire) => [fireRunId(fire.id) as string, fire]));
  const started = new Set(runs.map(({ id }) => id));
  const found: string[] = [];
  for (const { id, started_at: at } of runs) {
    const fire = byRun.get(id);
    if (!fire) found.push(`run ${id} is of no fire`);
    else if (fire.error !== null) found.push(`fire ${fire.id} has a run, and the error "${fire.error}"`);
    else if (at < fire.scheduled_at) found.push(`run ${id} began ${at.toISOString()}, before its tick`);
  }
  for (const { id, run, error } of fires) {
    if (run === null && error === null) found.push(`fire ${id} still owes its run`);
    if (run !== null && (run !== fireRunId(id) || !started.has(run)))
      found.push(`fire ${id} names run ${run}, which is not its own`);
  }
  return found;
}

/** What a fire says of itself fits the trigger. */
function fireViolations({ type, configs, isDeleted }: CheckedTrigger, fire: Fire): string[] {
  const { id, scheduled_at: scheduled, fired_at: fired, error } = fire;
  const late = fired.getTime() - scheduled.getTime();
  const said = `fire ${id} of ${scheduled.toISOString()}, ${late} ms late: ${error ?? "started"}`;
  if (late < 0) return [`${said}: it is early`];
  if (error === null) return type === "cron" && late > Math.max(...configs.map(mostLate)) ? [`${said}: too late`] : [];
  if (error === "the trigger was deleted") return isDeleted ? [] : [said];
  if (type !== "cron") return [said];
  if (error.startsWith("skipped: ")) return configs.some(skips) ? [] : [said];
  if (MISSED.test(error)) return [];
  return /^missed: \d+ s late$/.test(error) && late > Math.min(...configs.map(mostLate)) ? [] : [said];
}

const MISSED = /^ticks before (.+) were missed$/;

export const skips = ({ overlap_policy: policy }: JsonObject): boolean => policy === "skip";

function mostLate({ catchup, catchup_window_ms: window = DEFAULT_WINDOW_MS }: JsonObject): number {
  return catchup === "none" ? ON_TIME_MS : Math.max(Number(window), ON_TIME_MS);
}

/** Each tick has a fire of its own, or is within the time that one says was missed. */
function lost({ configs, dues, moved, isUnsure, decidedUntil = 0 }: CheckedTrigger, fires: readonly Fire[]): string[] {
  if (isUnsure) return [];
  const at = new Set(fires.map(({ scheduled_at: scheduled }) => scheduled.getTime()));
  const gaps = fires.flatMap(({ scheduled_at: from, error }) => {
    const [, to] = MISSED.exec(error ?? "") ?? [];
    return to === undefined ? [] : [{ from: from.getTime(), to: Date.parse(to) }];
  });
  const isCovered = (tick: number) => at.has(tick) || gaps.some(({ from, to }) => from <= tick && tick < to);
  const ticks = moved.flatMap(({ at, due }) => (due?.isWhole && at <= decidedUntil ? [at] : []));
  const schedule = Schedule.of({ schedule: String(configs.at(-1)?.schedule ?? "* * * * *") });
  for (const { from, isWhole } of dues)
    for (let tick: number | undefined = from; isWhole && tick !== undefined; tick = schedule.after(tick)) {
      if (tick > decidedUntil) break;
      ticks.push(tick);
    }
  return ticks.flatMap((tick) => (isCovered(tick) ? [] : [`the tick of ${new Date(tick).toISOString()} is lost`]));
}
