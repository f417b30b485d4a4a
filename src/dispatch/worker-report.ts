// What a worker reports, as a run can take it. A result that Postgres cannot store becomes a failure of unknown outcome (law 12), because
// the step did happen and has to be undone.
import { type EngineErrorCode, firstCharacters, isObject, type JsonObject, measure } from "../../machines/index.js";

const MESSAGE_CHARACTERS = 8_192;
const NAME_CHARACTERS = 128;

/** Why a result is refused. */
export interface Unfit {
  readonly code: EngineErrorCode;
  readonly message: string;
}

export type CheckedResult = { readonly result: JsonObject } | Unfit;

/** A result as bytes of JSON. None, or null, is `{}`. */
export function parsedResult(bytes: Buffer, limit: number): CheckedResult {
  if (bytes.length === 0) return { result: {} };
  if (bytes.length > limit) return overLimit(bytes.length, limit);
  const value = parsedJson(bytes);
  return "code" in value ? value : checkedResult(value.value ?? {});
}

/** A value that came as JSON. */
export function checkedResult(value: unknown): CheckedResult {
  if (!isObject(value)) return unfit("the step output is not a JSON object");
  const size = measure(value);
  if (typeof size !== "number") return unfit(`the step output cannot be stored: $${size.path} ${size.message}`);
  return { result: value };
}

export function parsedJson(bytes: Buffer): { readonly value: unknown } | Unfit {
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch (error) {
    // A RangeError comes from a value nested deeper than the stack. The parser's own message would quote the payload.
    return unfit(error instanceof RangeError ? "the step output is nested too deeply" : "the step output is not JSON");
  }
}

export function overLimit(bytes: number, limit: number): Unfit {
  return { code: "limit_exceeded", message: `the step output has ${bytes} bytes, more than ${limit}` };
}

export function unfit(message: string): Unfit {
  return { code: "schema_mismatch", message };
}

/** A name that a worker gives, as it can be stored. */
export function storableName(text: string): string {
  return storable(text, NAME_CHARACTERS);
}

export function storableMessage(text: string): string {
  return storable(text, MESSAGE_CHARACTERS);
}

/** Text that Postgres can store: U+0000 and lone surrogates are replaced, and it is cut after so many characters. */
function storable(text: string, characters: number): string {
  return firstCharacters(text, characters).replace(/\0|\p{Surrogate}/gu, "\uFFFD");
}
