// What does not fit, in words: one sentence for each mistake, whichever door a value came by (path, query, body, definition, schema, gRPC,
// RabbitMQ). It decides nothing, and says no place: that stands before the sentence.
import { beginningOf, type Json } from "./json.js";
import { UUID_PATTERN } from "./uuid.js";

/** Of ids and names: they stand in URLs. */
export const ID_PATTERN = "^[A-Za-z0-9_.:-]{1,128}$";
/** The pattern of new ids: "." and ".." are steps in a path, and no URL can name them. Ids that earlier releases took can still be read. */
export const NEW_ID_PATTERN = "^(?!\\.{1,2}$)[A-Za-z0-9_.:-]{1,128}$";
/** Workflows name an action `service.name`, and split it at the last dot. */
export const ACTION_PATTERN = "^[A-Za-z0-9_:-]{1,128}$";
export const TOPIC_PATTERN = "^[A-Za-z0-9_.:/-]{1,255}$";

export const ID_WORDS = "1 to 128 of A-Z a-z 0-9 _ . : -";

/** What a text of one of our own patterns is. */
const PATTERNS: ReadonlyMap<string, string> = new Map([
  [ID_PATTERN, ID_WORDS],
  [NEW_ID_PATTERN, `${ID_WORDS}, and not . or ..`],
  [ACTION_PATTERN, "1 to 128 of A-Z a-z 0-9 _ : -"],
  [TOPIC_PATTERN, "1 to 255 of A-Z a-z 0-9 _ . : / -"],
  [UUID_PATTERN, "a UUID"],
]);

const TYPES: ReadonlyMap<string, string> = new Map([
  ["string", "a string"],
  ["number", "a number"],
  ["integer", "a whole number"],
  ["boolean", "true or false"],
  ["array", "a list"],
  ["object", "an object"],
]);

const FORMATS: ReadonlyMap<string, string> = new Map([
  ["uuid", "a UUID"],
  ["date-time", "an RFC 3339 time"],
]);

const counted = (count: number, one: string, more = `${one}s`) => `${count} ${count === 1 ? one : more}`;

export const REQUIRED = "is required";
/** Of a value that nothing fits. */
export const NOT_ALLOWED = "is not allowed";
export const DUPLICATE_ITEMS = "must not have the same item twice";

export const wrongType = (...types: readonly string[]): string =>
  `must be ${types.map((type) => TYPES.get(type) ?? type).join(" or ")}`;

export const below = (least: number): string => `must be at least ${least}`;
export const above = (most: number): string => `must be at most ${most}`;
export const notAbove = (bound: number): string => `must be greater than ${bound}`;
export const notBelow = (bound: number): string => `must be less than ${bound}`;
export const noMultiple = (divisor: number): string => `must be a multiple of ${divisor}`;
export const unwanted = (value: Json): string => `must not be ${plain(value)}`;

export const tooLong = (most: number): string => `must have at most ${counted(most, "character")}`;
export const tooShort = (least: number): string =>
  least === 1 ? "must not be empty" : `must have at least ${counted(least, "character")}`;
export const tooManyItems = (most: number): string => `must have at most ${counted(most, "item")}`;
export const tooFewItems = (least: number): string => `must have at least ${counted(least, "item")}`;
export const tooManyMembers = (most: number): string => `must have at most ${counted(most, "member")}`;
export const tooFewMembers = (least: number): string => `must have at least ${counted(least, "member")}`;

export const unlike = (pattern: string): string => `must ${likeness(pattern, "be", "match the pattern")}`;
/** Of the name of a member, at the member's place. */
export const unlikeName = (pattern: string): string =>
  `must have a name ${likeness(pattern, "of", "that matches the pattern")}`;

function likeness(pattern: string, known: string, other: string): string {
  const words = PATTERNS.get(pattern);
  return words === undefined ? `${other} ${pattern}` : `${known} ${words}`;
}

export const notOfFormat = (format: string): string =>
  `must ${FORMATS.has(format) ? `be ${FORMATS.get(format)}` : `be of the format ${format}`}`;

const MOST_WRITTEN = 200;

/** Values, as many as fit. */
export function noneOf(values: readonly Json[]): string {
  let text = "";
  for (const value of values) {
    const more = `${text && ", "}${beginningOf(plain(value), MOST_WRITTEN)}`;
    if (text && text.length + more.length > MOST_WRITTEN) return `must be one of ${text} ...`;
    text += more;
  }
  return `must be ${values.length === 1 ? "" : "one of "}${text}`;
}

/** A text that no one takes for another JSON value, nor for several, stands as it is. */
function plain(value: Json): string {
  const isWord =
    typeof value === "string" && /^-?[A-Za-z_][\w.:/-]*$/.test(value) && !/^(true|false|null)$/.test(value);
  return isWord ? value : JSON.stringify(value);
}
