// The pages of the site: which Markdown files they are, their titles and their subjects. It reads files, and knows nothing of how they are drawn.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix, resolve } from "node:path";
import manifest from "../package.json" with { type: "json" };

export const ROOT = resolve(import.meta.dirname, "../../..");

/** Where the repository's files are shown, with a slash at the end: links to what is no page lead there. The one setting of the site. */
export const SOURCE = manifest.config.source;

/** The subjects of the sidebar, each with its pages by their names in `docs/`, in the order in which they are read. */
const SUBJECTS: readonly (readonly [subject: string, names: readonly string[]])[] = [
  [
    "Begin",
    [
      "index",
      "getting-started",
      "tutorials/first-undo",
      "tutorials/first-test",
      "tutorials/approval",
      "tutorials/worker-elsewhere",
    ],
  ],
  ["Definitions", ["definitions", "workflows", "steps", "functions", "money", "testing", "check"]],
  ["Programs", ["workers", "protocol", "client", "api", "cli"]],
  ["Operation", ["operations", "security", "runbook", "scale", "load-testing"]],
  ["Coming from", ["from-temporal", "from-step-functions", "from-conductor", "from-camunda", "from-masstransit"]],
  ["Inside", ["architecture", "decisions"]],
];
/** What no subject lists. A new page is on the site before anybody has thought of its subject. */
const OTHERS = "More";

export interface Page {
  /** Its address on the site without an ending: `tutorials/first-undo`. */
  readonly name: string;
  /** Its file, from the root of the repository. */
  readonly file: string;
  readonly title: string;
  readonly subject: string;
}

/** All files below `docs/` but the site's own, as paths from there. */
export const FILES: readonly string[] = filesIn("");

function filesIn(folder: string): string[] {
  return readdirSync(join(ROOT, "docs", folder))
    .map((name) => posix.join(folder, name))
    .filter((path) => path !== "site")
    .flatMap((path) => (statSync(join(ROOT, "docs", path)).isDirectory() ? filesIn(path) : [path]));
}

/** The first page is the README of the repository. */
const INDEX: Page = { name: "index", file: "README.md", title: "Overview", subject: "Begin" };

export const PAGES: readonly Page[] = inOrder([
  INDEX,
  ...FILES.filter((path) => path.endsWith(".md")).map((path) => {
    const name = path.replace(/\.md$/, "");
    const file = `docs/${path}`;
    return { name, file, title: titleOf(textOf(file), file), subject: subjectOf(name) };
  }),
]);

export function textOf(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

function titleOf(markdown: string, file: string): string {
  const title = /^# (.+)$/m.exec(markdown)?.[1];
  if (title === undefined) throw new Error(`${file} has no title: begin it with a line "# Title"`);
  return title.replaceAll("`", "");
}

function subjectOf(name: string): string {
  return SUBJECTS.find(([, names]) => names.includes(name))?.[0] ?? OTHERS;
}

function inOrder(pages: readonly Page[]): Page[] {
  const order = SUBJECTS.flatMap(([, names]) => names);
  const place = ({ name }: Page) => (order.includes(name) ? order.indexOf(name) : order.length);
  return pages.toSorted((left, right) => place(left) - place(right) || left.name.localeCompare(right.name));
}

export function bySubject(): { readonly subject: string; readonly pages: readonly Page[] }[] {
  const subjects = [...SUBJECTS.map(([subject]) => subject), OTHERS];
  return subjects
    .map((subject) => ({ subject, pages: PAGES.filter((page) => page.subject === subject) }))
    .filter(({ pages }) => pages.length > 0);
}
