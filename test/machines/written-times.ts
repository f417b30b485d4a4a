// Times as text by the grammar of RFC 3339, section 5.6, and next to it, each with the point in time that it is: by the host's calendar,
// and by the prose of the grammar. It shares nothing with the code that it is compared with.
import fc from "fast-check";

const digits = (max: number, width = 2) =>
  fc.integer({ min: 0, max }).map((value) => String(value).padStart(width, "0"));
/** Mostly in its range. */
const field = (last: number) => fc.oneof({ weight: 9, arbitrary: digits(last) }, digits(99));

const fields = fc.record({
  year: fc.oneof({ weight: 4, arbitrary: digits(9999, 4) }, fc.constantFrom("0000", "0001", "2024", "9999")),
  month: field(12),
  day: fc.oneof({ weight: 4, arbitrary: field(31) }, fc.constantFrom("28", "29", "30", "31")),
  clock: fc.oneof({ weight: 4, arbitrary: fc.tuple(field(23), field(59)) }, fc.constant(["23", "59"] as const)),
  second: fc.oneof({ weight: 3, arbitrary: field(59) }, fc.constant("60")),
  fraction: fc.option(fc.stringMatching(/^\d{1,20}$/)),
  letter: fc.constantFrom("T", "t"),
  offset: fc.oneof(fc.constantFrom("Z", "z"), fc.tuple(fc.constantFrom("+", "-"), field(23), field(59))),
});
type Fields = typeof fields extends fc.Arbitrary<infer T> ? T : never;

export interface WrittenTime {
  readonly text: string;
  /** Epoch milliseconds, finer fractions cut. Undefined: the text is no time. */
  readonly ms: number | undefined;
}

export const writtenTimes: fc.Arbitrary<WrittenTime> = fields.map((all) => ({ text: textOf(all), ms: msOf(all) }));

function textOf({ year, month, day, clock: [hour, minute], second, fraction, letter, offset }: Fields): string {
  const zone = typeof offset === "string" ? offset : `${offset[0]}${offset[1]}:${offset[2]}`;
  return `${year}-${month}-${day}${letter}${hour}:${minute}:${second}${fraction === null ? "" : `.${fraction}`}${zone}`;
}

function msOf({ year, month, day, clock: [hour, minute], second, fraction, offset }: Fields): number | undefined {
  const [sign, hours, minutes] = typeof offset === "string" ? ["+", "00", "00"] : offset;
  const ofDay = new Date(`${year}-${month}-${day}T00:00:00Z`);
  // The host reads 31 February as a day in March.
  const exists = !Number.isNaN(ofDay.getTime()) && ofDay.toISOString().startsWith(`${year}-${month}-${day}`);
  if (!exists || hour > "23" || minute > "59" || second > "60" || hours > "23" || minutes > "59") return undefined;
  const shift = (Number(hours) * 60 + Number(minutes)) * 60_000;
  const minuteMs = ofDay.getTime() + (Number(hour) * 60 + Number(minute)) * 60_000 + (sign === "-" ? shift : -shift);
  if (second === "60" && !new Date(minuteMs).toISOString().includes("T23:59:00")) return undefined;
  return minuteMs + Number(second) * 1000 + Number(`${fraction ?? ""}000`.slice(0, 3));
}
