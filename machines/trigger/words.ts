// A cron config in plain English words, derived from the minutes, hours and days that its fields name: fields that name the same are described the
// same. Whether a schedule is allowed is not decided here, and when it ticks the calendar of `src/trigger` says.
import type { JsonObject } from "../values/json.js";
import { parseInstant } from "../values/time.js";

const MONTHS = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];
/** As ISO numbers them: 1 is Monday, 7 is Sunday. */
const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/** More times of a day than these are not named one by one. */
const MOST_TIMES = 8;
const LONGEST_SCHEDULE = 256;

/** `At 09:00 and 17:30 on Monday to Friday, Europe/Vienna, up to 60 s late`. Undefined: there is no schedule that can be read. */
export function scheduleInWords(config: JsonObject): string | undefined {
  const { schedule, time_zone: zone, jitter_ms: jitter } = config;
  if (typeof schedule !== "string" || schedule.length > LONGEST_SCHEDULE) return undefined;
  const fields = schedule.trim().split(/\s+/);
  const [minutes, hours, days, months, weekdays] = [
    valuesOf(fields[0], 0, 59),
    valuesOf(fields[1], 0, 23),
    valuesOf(fields[2], 1, 31),
    valuesOf(fields[3], 1, 12, MONTHS),
    valuesOf(fields[4], 0, 7, ["Sunday", ...WEEKDAYS.slice(0, -1)], 0),
  ];
  if (fields.length !== 5 || !minutes || !hours || !days || !months || !weekdays) return undefined;
  const isoWeekdays = distinct(weekdays.map((day) => (day === 0 ? 7 : day)));
  const which = { days, weekdays: isoWeekdays, isDayFree: fields[2] === "*", isWeekdayFree: fields[4] === "*" };
  const parts = [
    [timesIn(minutes, hours), daysIn(which) ?? (hours.length === 24 ? "" : "every day"), monthsIn(months)],
    [typeof zone === "string" ? zone : "UTC"],
    [boundsIn(config)],
    [typeof jitter === "number" && jitter > 0 ? `up to ${duration(jitter)} late` : ""],
  ];
  const phrases = parts.map((words) => words.filter((word) => word !== "").join(" "));
  return phrases.filter((phrase) => phrase !== "").join(", ");
}

/** The values that a field names, in order. Undefined: it cannot be read. */
function valuesOf(
  field: string | undefined,
  from: number,
  to: number,
  names: readonly string[] = [],
  firstName = 1,
): readonly number[] | undefined {
  const numberOf = (text: string) => {
    const named = names.findIndex((name) => name.slice(0, 3).toUpperCase() === text.toUpperCase());
    return named >= 0 ? named + firstName : /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  };
  const values: number[] = [];
  for (const part of field?.split(",") ?? []) {
    const [range = "", step, ...more] = part.split("/");
    const [low = "", high, ...others] = range.split("-");
    const lowest = numberOf(low);
    // The last day of a range is Sunday at the end of the week.
    const highest = high === undefined ? lowest : to === 7 && high.toUpperCase() === "SUN" ? 7 : numberOf(high);
    const [first, last] = range === "*" ? [from, to] : [lowest, highest];
    // A single value has no step: elsewhere it would begin a range, and it is not allowed here.
    const isRange = range === "*" || high !== undefined;
    const every = step === undefined ? 1 : isRange && /^\d{1,2}$/.test(step) ? Number(step) : 0;
    if (more.length > 0 || others.length > 0 || !(first >= from && first <= last && last <= to && every > 0))
      return undefined;
    for (let value = first; value <= last; value += every) values.push(value);
  }
  return values.length > 0 ? distinct(values.map((value) => (to === 7 ? value % 7 : value))) : undefined;
}

function timesIn(minutes: readonly number[], hours: readonly number[]): string {
  const every = minutes.length === 60 ? "Every minute" : everyIn(minutes);
  const at = `At minute${minutes.length === 1 ? "" : "s"} ${listed(minutes, String)}`;
  if (hours.length === 24)
    return every ?? (minutes.length === 1 && minutes[0] === 0 ? "Every hour" : `${at} of every hour`);
  if (minutes.length * hours.length <= MOST_TIMES)
    return `At ${joined(hours.flatMap((hour) => minutes.map((minute) => clock(hour, minute))))}`;
  const [first, last] = [hours[0] ?? 0, hours.at(-1) ?? 0];
  if (every !== undefined && hours.length === last - first + 1)
    return `${every} from ${clock(first, 0)} to ${clock(last, minutes.at(-1) ?? 0)}`;
  return `${every ?? at} in the hour${hours.length === 1 ? "" : "s"} ${listed(hours, String)}`;
}

/** Minutes that are equally far apart over the hour's end, too. */
function everyIn(minutes: readonly number[]): string | undefined {
  const step = 60 / minutes.length;
  const isEven = minutes.length > 1 && minutes.every((minute, nth) => minute === nth * step);
  return isEven ? `Every ${step} minutes` : undefined;
}

interface Days {
  readonly days: readonly number[];
  readonly weekdays: readonly number[];
  /** The field is `*`: the other one alone decides. If neither is, either matches. */
  readonly isDayFree: boolean;
  readonly isWeekdayFree: boolean;
}

/** Undefined: every day. */
function daysIn({ days, weekdays, isDayFree, isWeekdayFree }: Days): string | undefined {
  const ofMonth = `on the ${listed(days, ordinal)} of the month`;
  const ofWeek = `on ${listed(weekdays, (day) => WEEKDAYS[day - 1] ?? "")}`;
  const [isEveryDay, isEveryWeekday] = [days.length === 31, weekdays.length === 7];
  if (isDayFree) return isEveryWeekday ? undefined : ofWeek;
  if (isWeekdayFree) return isEveryDay ? undefined : ofMonth;
  return isEveryDay || isEveryWeekday ? undefined : `${ofMonth} or ${ofWeek}`;
}

const monthsIn = (months: readonly number[]) =>
  months.length === 12 ? "" : `in ${listed(months, (month) => MONTHS[month - 1] ?? "")}`;

/** As they were posted. */
function boundsIn({ start_at: start, end_at: end }: JsonObject): string {
  const [from, to] = [start, end].map((time) =>
    typeof time === "string" && parseInstant(time) !== undefined ? time : undefined,
  );
  if (from !== undefined && to !== undefined) return `between ${from} and ${to}`;
  return from !== undefined ? `from ${from}` : to !== undefined ? `until ${to}` : "";
}

/** Three or more in a row are named by the first and the last. */
function listed(values: readonly number[], name: (value: number) => string): string {
  const phrases: string[] = [];
  for (let nth = 0; nth < values.length; ) {
    let end = nth;
    while (values[end + 1] === (values[end] ?? 0) + 1) end++;
    const row = values.slice(nth, end + 1).map(name);
    phrases.push(...(row.length > 2 ? [`${row[0]} to ${row.at(-1)}`] : row));
    nth = end + 1;
  }
  return joined(phrases);
}

const joined = (words: readonly string[]) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

function ordinal(day: number): string {
  const ending = day > 10 && day < 14 ? "th" : (["th", "st", "nd", "rd"][day % 10] ?? "th");
  return `${day}${ending}`;
}

const clock = (hour: number, minute: number) => [hour, minute].map((part) => String(part).padStart(2, "0")).join(":");

const duration = (ms: number) => (ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`);

const distinct = (values: readonly number[]) => [...new Set(values)].sort((a, b) => a - b);
