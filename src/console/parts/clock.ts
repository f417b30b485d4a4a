// Times as the pages say them: all in the zone of the browser, which the frame of every page names. It reads no clock.

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** Events may be milliseconds apart. */
const FINE = new Intl.DateTimeFormat(undefined, {
  ...{ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  ...{ fractionalSecondDigits: 3, hourCycle: "h23" },
});
const FULL = new Intl.DateTimeFormat(undefined, {
  ...{ year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  ...{ fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "longOffset" },
});
const OFFSET = new Intl.DateTimeFormat(undefined, { timeZoneName: "longOffset" });

/** The half of the day stays beside its time at the end of a line. */
export const timeText = (at: string): string => CLOCK.format(new Date(at)).replace(/ (?=[AP]M$)/, "\u00a0");

/** The time with its date, as an event of the evening before may be above it. */
export const fineTime = (at: string): string => FINE.format(new Date(at));

/** The time in a tip: to the millisecond, with the distance from UTC. */
export const fullTime = (at: string): string => FULL.format(new Date(at));

/** `Asia/Tokyo, GMT+09:00`. */
export function zoneName(now: Date): string {
  const offset = OFFSET.formatToParts(now).find(({ type }) => type === "timeZoneName")?.value ?? "";
  return offset === "" || ZONE === "UTC" ? ZONE : `${ZONE}, ${offset}`;
}

/** A moment as the service writes it in a sentence. */
const MOMENT = /\b(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC\b/g;

/** A sentence of the service, with its moments in the zone of the page. */
export const inZone = (sentence: string): string =>
  sentence.replace(MOMENT, (_, date: string, time: string) => timeText(`${date}T${time}Z`));
