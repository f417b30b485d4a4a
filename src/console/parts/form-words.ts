// What does not fit a JSON Schema, in the words of a person who fills in a form: no names of types, no words of the validator.

/** Words by the name of a type in JSON Schema. */
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

/**
 * The sentences of the check (machines/schema), in the order in which they are tried. A test takes one of every keyword through them
 * (test/console/form.test.ts).
 */
const RULES: readonly Rule[] = [
  [
    /^must be ((?:string|number|integer|boolean|array|object|null)(?:,\w+)*)$/,
    (types = "") => `must be ${orList(types.split(",").map(typeWord))}`,
  ],
  [/^must be >= (\S+)$/, (bound = "") => `must be at least ${bound}`],
  [/^must be <= (\S+)$/, (bound = "") => `must be at most ${bound}`],
  [/^must be > (\S+)$/, (bound = "") => `must be greater than ${bound}`],
  [/^must be < (\S+)$/, (bound = "") => `must be less than ${bound}`],
  [/^must be multiple of (\S+)$/, (step = "") => `must be a multiple of ${step}`],
  [/^must NOT have fewer than 1 characters$/, () => "must not be empty"],
  [/^must NOT have fewer than (\d+) characters$/, (least = "") => `must have at least ${least} characters`],
  [/^must NOT have more than (\d+) characters$/, (most = "") => `must have at most ${most} characters`],
  [/^must NOT have fewer than (\d+) items$/, (least = "") => `must have at least ${least} entries`],
  [/^must NOT have more than (\d+) items$/, (most = "") => `must have at most ${most} entries`],
  [/^must NOT have unevaluated items: item \d+$/, () => "has more entries than are asked for"],
  [
    /^must contain at least (\d+) (?:and no more than (\d+) )?valid item\(s\)$/,
    (least = "", most) =>
      `must have at least ${least}${most ? ` and at most ${most}` : ""} of the entries that are asked for`,
  ],
  [/^must NOT have duplicate items$/, () => "must not have the same entry twice"],
  [/^must NOT have (?:fewer|more) than \d+ properties$/, () => "has too few or too many values"],
  [/^must NOT have (?:additional|unevaluated) properties: ["'](.*)["']$/s, (name = "") => `must not have ${name}`],
  [/^must match format "(.*)"$/, (format = "") => `must be ${FORMATS[format] ?? `of the format ${format}`}`],
  [/^must match pattern /, () => "does not have the form that is asked for"],
  [/^must be one of (.*)$/s, (values = "") => `must be one of ${unquoted(values)}`],
  [/^must be (.*)$/s, (value = "") => `must be ${unquoted(value)}`],
  [
    /^property name '(.*?)' (must .*)$/s,
    (name = "", error = "") => `has the name ${name}, which ${misfitWords(error)}`,
  ],
  [/^boolean schema is false$/, () => "must not be there"],
  [
    /^must (?:match (?:a schema in anyOf|exactly one schema in oneOf)|NOT be valid)$/,
    () => "is not one of the values that fit",
  ],
];

/** The words of the validator stay where there are none of ours. */
export function misfitWords(error: string): string {
  for (const [pattern, words] of RULES) {
    const found = pattern.exec(error);
    if (found) return words(...found.slice(1));
  }
  return error;
}

/** Texts of a list, as people write them. */
const unquoted = (values: string): string => values.replace(/"([^"]*)"/g, "$1");
