// Times as clients write them, in the form that Postgres reads. The grammar is that of machines/, here and everywhere.
import { formatInstant, readInstant, YEAR_1_S, YEAR_9999_END_S } from "../../../machines/index.js";

/**
 * In UTC, cut to the microsecond. Nothing here is older than the year 1 or later than 9999, so times outside are as good as the first or
 * the last second. Undefined: the text is no RFC 3339 time.
 */
export function postgresTime(text: string): string | undefined {
  const read = readInstant(text);
  if (read === undefined) return undefined;
  const second = Math.min(Math.max(read.seconds, YEAR_1_S), YEAR_9999_END_S);
  return formatInstant(second * 1000).replace("000Z", `${String(Math.floor(read.nanos / 1000)).padStart(6, "0")}Z`);
}
