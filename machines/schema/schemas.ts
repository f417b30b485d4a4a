// JSON Schemas from outside (2020-12), read once, and the values that are checked against them. Whatever the pattern, schema or value, a check
// ends within its budget of time and memory: as an answer or as a problem.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { PatternError } from "../values/pattern.js";
import { inOnePiece, type Slices } from "../values/slices.js";
import { WeightedCache } from "../values/weighted-cache.js";
import { flat } from "./applicators.js";
import { Check, MAX_PROBLEMS, TOO_DEEP, Unfinished, type Violation, Violations } from "./check.js";
import { problemOf } from "./problem.js";
import { metaSchema, type Reading, readSlices } from "./read.js";
import { otherDraft, SchemaFault } from "./reader.js";

/** The memory of the schemas that a process keeps read. */
const MAX_CACHED_BYTES = 48 * 1_048_576;
const FAULT_BYTES = 2_000;
/** Slices of a reading that a check takes at once: each is a pattern, which takes 0.4 ms at least in a cold process. */
const FEW_SLICES = 8;

export interface CheckOptions {
  /** A member of the value that the caller asks for: `properties` and `required` see it, keywords that close the value do not. */
  readonly granted?: string;
}

export class Schemas {
  /** Keyed by identity: a schema arrives as the same object again and again. */
  private readonly readings = new WeightedCache<JsonObject, Reading | string>(MAX_CACHED_BYTES);

  constructor() {
    metaSchema();
  }

  /** Problems of the schema itself, empty if it is valid. A schema that declares another draft is a problem; one that was stored earlier is still checked as 2020-12. */
  problems(schema: JsonObject): readonly string[] {
    return inOnePiece(this.problemSlices(schema));
  }

  *problemSlices(schema: JsonObject): Slices<readonly string[]> {
    const reading = otherDraft(schema.$schema) ?? (yield* this.readingSlices(schema));
    return typeof reading === "string" ? [`is not a usable JSON Schema: ${reading}`] : [];
  }

  /** Problems of the value under the schema, each behind the JSON pointer of its place (`/` is the value itself); empty if it conforms. */
  conforms(schema: JsonObject, value: Json, options?: CheckOptions): readonly string[] {
    return flat(this.violations(schema, value, options))
      .slice(0, MAX_PROBLEMS)
      .map(problemOf);
  }

  /** The same, with the alternatives of a value apart. */
  violations(schema: JsonObject, value: Json, { granted }: CheckOptions = {}): readonly Violation[] {
    if (isObject(schema) && isEmpty(schema)) return [];
    const reading = this.readingOf(schema);
    // A stored schema is read when it is first used.
    if (typeof reading === "string") return [whole(`cannot be checked: its schema is not usable: ${reading}`)];
    const found = new Violations();
    try {
      new Check(granted).apply(reading.root, value, found);
    } catch (error) {
      if (error instanceof Unfinished) return [whole(error.message)];
      if (error instanceof RangeError) return [whole(TOO_DEEP)];
      throw error;
    }
    return found.list;
  }

  /** A check need not wait for it: it was read, or is read in a few slices now. */
  isAtHand(schema: JsonObject): boolean {
    if (isEmpty(schema) || this.readings.get(schema) !== undefined) return true;
    const slices = this.readingSlices(schema);
    for (let nth = 0; nth < FEW_SLICES; nth++) if (slices.next().done) return true;
    return false;
  }

  /** Reads it, so that checks need not wait. */
  *readSlices(schema: JsonObject | undefined): Slices<void> {
    if (schema && !isEmpty(schema)) yield* this.readingSlices(schema);
  }

  private readingOf(schema: JsonObject): Reading | string {
    return this.readings.get(schema) ?? inOnePiece(this.readingSlices(schema));
  }

  private *readingSlices(schema: JsonObject): Slices<Reading | string> {
    const known = this.readings.get(schema);
    if (known !== undefined) return known;
    const reading = yield* readingOrFault(schema);
    this.readings.set(schema, reading, typeof reading === "string" ? FAULT_BYTES : reading.bytes);
    return reading;
  }
}

const whole = (message: string): Violation => ({ pointer: "", message });

function isEmpty(schema: JsonObject): boolean {
  for (const _ in schema) return false;
  return true;
}

/** The reading, or why there is none. */
function* readingOrFault(schema: JsonObject): Slices<Reading | string> {
  try {
    return yield* readSlices(schema);
  } catch (error) {
    if (error instanceof SchemaFault || error instanceof PatternError) return error.message;
    if (error instanceof RangeError) return "it is nested too deeply";
    throw error;
  }
}
