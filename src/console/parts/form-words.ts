// What does not fit a JSON Schema, in the words of a person who fills in a form: no names of types, no words of the validator.

/** By the name of a type in JSON Schema. */
const TYPES: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  integer: "a whole number",
  boolean: "yes or no",
  array: "a list",
  object: "a group of values",
  null: "empty",
};

const FORMATS: Readonly<Record<string, string>> = {
  "date-time": "a date and a time, as 2026-11-24T08:00:00Z",
  date: "a date, as 2026-11-24",
  time: "a time, as 08:00:00Z",
  email: "an e-mail address",
  uuid: "a UUID",
  uri: "an address, as https://example.com",
};

const typeWord = (type: string) => TYPES[type] ?? type;
const orList = (words: readonly string[]) => words.join(" or ");

type Rule = readonly [pattern: RegExp, words: (...parts: string[]) => string];

/** In the order in which they are tried. */
const RULES: readonly Rule[] = [
  // An item that was added, and not filled in.
  [/^Instance type "null" is invalid/, () => "is required"],
  [
    /^Instance type ".*" is invalid\. Expected "(.*)"\.$/,
    (types = "") => `must be ${orList(types.split('", "').map(typeWord))}`,
  ],
  [/^Instance does not match any of (.*)\.$/s, (values = "[]") => `must be one of ${listed(values)}`],
  [/^Instance does not match (["\d[{tfn].*)\.$/s, (value = "") => `must be ${plain(value)}`],
  [
    /^String is too short \(\d+ < (\d+)\)/,
    (least = "") => (least === "1" ? "must not be empty" : `must have at least ${least} characters`),
  ],
  [/^String is too long \(\d+ > (\d+)\)/, (most = "") => `must have at most ${most} characters`],
  [/^String does not match format "(.*)"/, (format = "") => `must be ${FORMATS[format] ?? `of the format ${format}`}`],
  [/^String does not match pattern/, () => "does not have the form that is asked for"],
  [/ is less than or equal to +(\S+)\.$/, (bound = "") => `must be greater than ${bound}`],
  [/ is greater than or equal to +(\S+)\.$/, (bound = "") => `must be less than ${bound}`],
  [/ is less than +(\S+)\.$/, (bound = "") => `must be at least ${bound}`],
  [/ is greater than +(\S+)\.$/, (bound = "") => `must be at most ${bound}`],
  [/ is not a multiple of (\S+)\.$/, (step = "") => `must be a multiple of ${step}`],
  [/^Array has too many items \(\d+ > (\d+)\)/, (most = "") => `must have at most ${most} entries`],
  [/^Array has too few items \(\d+ < (\d+)\)/, (least = "") => `must have at least ${least} entries`],
  [/^Duplicate items/, () => "must not have the same entry twice"],
  [
    /^Property "(.*)" does not match (?:additional|unevaluated) properties schema/s,
    (name = "") => `must not have ${name}`,
  ],
  [
    /^Instance has "(.*)" but does not have "(.*)"\.$/s,
    (name = "", other = "") => `with ${name}, ${other} is required`,
  ],
  [/^Instance does not have at least (\d+) properties/, () => "has too few or too many values"],
];

/** The words of the validator stay where there are none of ours. */
export function misfitWords(error: string): string {
  for (const [pattern, words] of RULES) {
    const found = pattern.exec(error);
    if (found) return words(...found.slice(1));
  }
  return error.replace(/^Instance/, "The value");
}

function listed(values: string): string {
  try {
    return (JSON.parse(values) as readonly unknown[]).map(String).join(", ");
  } catch {
    return values;
  }
}

const plain = (json: string): string => (json.startsWith('"') ? json.slice(1, -1) : json);
