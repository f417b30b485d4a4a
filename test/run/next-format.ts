// The record format after this release's, as a test pretends it: a member has another name. A format is read one release before it is
// written, so it belongs to two releases: one that reads it, and the one after, which writes it where all live nodes read it (law 13).
import { FIRST_FORMAT, type JsonObject, RECORD_FORMATS, type RecordFormats } from "../../machines/index.js";

/** The formats of now: next-build.ts puts those of the next release in their place. */
const NOW = { ...RECORD_FORMATS };
export const NEXT_FORMAT = NOW.writes + 1;

export const READS_NEXT: RecordFormats = {
  reads: NEXT_FORMAT,
  writes: FIRST_FORMAT,
  encode(context, format) {
    const record = NOW.encode(context, Math.min(format, NOW.writes));
    if (format < NEXT_FORMAT) return record;
    const { entries, ...rest } = record;
    return { ...rest, v: NEXT_FORMAT, entered: entries } as typeof record;
  },
  decode(record) {
    const { entered, ...rest } = record as JsonObject & { readonly entered: number };
    return NOW.decode(record.v === NEXT_FORMAT ? { ...rest, entries: entered } : record);
  },
};

export const WRITES_NEXT: RecordFormats = { ...READS_NEXT, writes: NEXT_FORMAT };
