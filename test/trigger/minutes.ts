// The ticks of a schedule by an oracle of our own: it goes through the minutes of a zone, by the local times that Intl gives them, and knows neither offsets
// nor croner. What fires is not its matter.

const MINUTE = 60_000;

/** A minute of a zone's clocks. */
export interface Minute {
  readonly time: number;
  /** The local time, as the UTC time with the same digits. */
  readonly local: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** The local time of a moment, as the UTC time with the same digits. */
export function localOf(zone: string, time: number): number {
  const format =
    formats.get(zone) ?? new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  formats.set(zone, format);
  return Date.parse(`${format.format(time).replace(" ", "T")}Z`);
}

/** The minutes from a time on, before another one. */
export function minutesIn(zone: string, from: number, to: number): readonly Minute[] {
  return Array.from({ length: (to - from) / MINUTE }, (_, nth) => {
    const time = from + nth * MINUTE;
    return { time, local: localOf(zone, time) };
  });
}

export type Matches = (local: number) => boolean;

/** By the rules of docs/api.md, from minute to minute. */
export function ticksIn(minutes: readonly Minute[], matches: Matches, isOfEveryHour: boolean): readonly number[] {
  const seen = new Set<number>();
  const ticks: number[] = [];
  let before: Minute | undefined;
  for (const minute of minutes) {
    const isFirst = !seen.has(minute.local);
    seen.add(minute.local);
    let leftOut = false;
    if (!isOfEveryHour && before)
      for (let local = before.local + MINUTE; local < minute.local; local += MINUTE) leftOut ||= matches(local);
    if (leftOut || (matches(minute.local) && (isOfEveryHour || isFirst))) ticks.push(minute.time);
    before = minute;
  }
  return ticks;
}
