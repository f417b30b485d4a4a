// Which tests belong to which form of the suite, said by tags: on a test, on a `describe`, or for a whole file in a comment `// @module-tag long`.
// Each form is a vitest project of its name (vitest.config.ts). This module knows no test: those ask `long.ts` for the form they run in.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Form = "short" | "long" | "alone";

/** A test without any tag is short. A tag of a test or `describe` in a file of both forms takes it out of the other one. */
export const TAGS = [
  { name: "short", description: "The short form only, in a file of both." },
  { name: "long", description: "The long form only." },
  { name: "both", description: "Both forms, with numbers of its own in each: `long(few, many)`." },
  { name: "alone", description: "Needs the whole machine: `npm run test:alone`." },
];

interface Rule {
  /** The filter, as vitest reads it. */
  readonly filter: string;
  /** The same, for a test's tags. */
  readonly has: (tags: readonly string[]) => boolean;
  /** The tags that a file of the form has, for the file as a whole or for a test. */
  readonly ofFiles: readonly string[];
}

export const FORMS: Readonly<Record<Form, Rule>> = {
  short: {
    filter: "!long && !alone",
    has: (tags) => !tags.includes("long") && !tags.includes("alone"),
    ofFiles: ["short", "both"],
  },
  long: {
    filter: "long || (both && !short)",
    has: (tags) => tags.includes("long") || (tags.includes("both") && !tags.includes("short")),
    ofFiles: ["long", "both"],
  },
  alone: { filter: "alone", has: (tags) => tags.includes("alone"), ofFiles: ["alone"] },
};

const TEST = /\.test\.ts$/;
const OF_FILE = /^\/\/ @module-tag (\w+)$/m;
const OF_TEST = /\btags: "(\w+)"/g;

/** Whatever vitest would take for a tag of a form: in a list, in another quote, in a comment of another kind. */
const ANY_TAG = /@module-tag\s+\w+|\btags: ?\[?["'`](?:short|both|long|alone)\b/g;

/** The files that have tests of the form. A file of none is not loaded: to load all of them takes longer than many a test. */
export function filesOf(form: Form): string[] {
  const paths = readdirSync("test", { recursive: true, encoding: "utf8" }).filter((path) => TEST.test(path));
  return paths.map((path) => join("test", path)).filter((path) => isOf(form, readFileSync(path, "utf8")));
}

/** The tags of a text that `filesOf` does not see, so that their tests would be in no project. */
export function unseenTags(text: string): string[] {
  const rest = text.replace(new RegExp(OF_FILE, "gm"), "").replace(OF_TEST, "");
  return [...rest.matchAll(ANY_TAG)].map(([tag]) => tag);
}

function isOf(form: Form, text: string): boolean {
  const [, ofFile = "short"] = OF_FILE.exec(text) ?? [];
  const ofTests = [...text.matchAll(OF_TEST)].map(([, tag = ""]) => tag);
  return [ofFile, ...ofTests].some((tag) => FORMS[form].ofFiles.includes(tag));
}
