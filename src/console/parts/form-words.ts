// What does not fit a JSON Schema, in the words of a person who fills in a form: no names of types, no words of the validator.

/** Words by the type in the sentences of the check. */
const TYPES: Readonly<Record<string, string>> = {
  "a string": "a text",
  "true or false": "yes or no",
  "an object": "a group of values",
  null: "empty",
};

const FORMATS: Readonly<Record<string, string>> = {
  date: "a date, as 2026-11-24",
  time: "a time, as 08:00:00Z",
  email: "an e-mail address",
  uri: "an address, as https://example.com",
};

const TYPE = "a string|a number|a whole number|true or false|a list|an object|null";

type Rule = readonly [pattern: RegExp, words: (...parts: string[]) => string];

/**
 * The sentences of the check (machines/values/misfit.ts) that are not yet those of a person, in the order in which they are tried. A test takes
 * one of every keyword through them (test/console/form.test.ts).
 */
const RULES: readonly Rule[] = [
  [
    new RegExp(`^must be ((?:${TYPE})(?: or (?:${TYPE}))*)$`),
    (types = "") => `must be ${types.replaceAll(new RegExp(TYPE, "g"), (type) => TYPES[type] ?? type)}`,
  ],
  [/^must be an RFC 3339 time$/, () => "must be a date and a time, as 2026-11-24T08:00:00Z"],
  [/^must have at (least|most) (\d+) items?$/, (bound = "", count = "") => `must have at ${bound} ${count} entries`],
  [/^must not have the item \d+$/, () => "has more entries than are asked for"],
  [
    /^must have (at least \d+(?: and at most \d+)?) of the items that its schema asks for$/,
    (count = "") => `must have ${count} of the entries that are asked for`,
  ],
  [/^must not have the same item twice$/, () => "must not have the same entry twice"],
  [/^must have at (?:least|most) \d+ members?$/, () => "has too few or too many values"],
  [/^must not have the member "(.*)"$/s, (name = "") => `must not have ${name}`],
  [/^must be of the format (.*)$/, (format = "") => `must be ${FORMATS[format] ?? `of the format ${format}`}`],
  [/^must match the pattern /, () => "does not have the form that is asked for"],
  [/^must be (.*)$/s, (value = "") => `must be ${unquoted(value)}`],
  [
    /^has the name "(.*?)", which (must .*)$/s,
    (name = "", error = "") => `has the name ${name}, which ${misfitWords(error)}`,
  ],
  [/^is not allowed$/, () => "must not be there"],
  [
    /^must (?:match (?:a schema in anyOf|exactly one schema in oneOf)|not match the schema in not)$/,
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
