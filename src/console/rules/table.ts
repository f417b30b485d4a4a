// A decision table as columns and sentences. It is pure: what the service said of a trial comes in, and nothing is evaluated here.

export type Output = object;

/** A decision table as a rule has it. */
export interface Spec {
  readonly rows: readonly { readonly when: string; readonly then: Output }[];
  readonly default_output?: Output | null;
}

/** What the service answers to `POST /rules/{id}/evaluate`. */
export interface Evaluated {
  readonly output: Output;
  readonly audit: {
    readonly version: number;
    readonly matched_row: number | null;
    readonly used_default: boolean;
    readonly rows: readonly { readonly index: number; readonly matched: boolean }[];
    readonly duration_ms: number;
  };
}

/** The members of all outputs, in the order in which the rows name them. */
export function columnsOf({ rows, default_output: otherwise }: Spec): string[] {
  return [...new Set([...rows.map(({ then }) => then), otherwise ?? {}].flatMap(Object.keys))];
}

/** A member in a cell: text stands without its quotes, what is missing is empty. */
export function cell(output: Output, name: string): string {
  const value = (output as Readonly<Record<string, unknown>>)[name];
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

export type Verdict = "matched" | "did not match" | "not tried";

/** The verdict on each row, by its index. */
export function verdicts(count: number, { audit }: Evaluated): Verdict[] {
  const tried = new Map(audit.rows.map(({ index, matched }) => [index, matched]));
  return Array.from({ length: count }, (_, index) => {
    const matched = tried.get(index);
    return matched === undefined ? "not tried" : matched ? "matched" : "did not match";
  });
}

/** The trial in one sentence. People count rows from 1. */
export function sentence({ rows }: Spec, { audit }: Evaluated): string {
  const { matched_row: at, rows: tried } = audit;
  const when = at === null ? undefined : rows[at]?.when;
  if (at === null) return `None of the ${tried.length} rows matched, so the default is the output.`;
  return `Row ${at + 1} matched: ${when ?? ""}. ${before(at)}`;
}

const before = (at: number): string =>
  at === 0 ? "It is the first row." : at === 1 ? "Row 1 did not match." : `Rows 1 to ${at} did not match.`;

const KEYWORDS = new Set(["inputs", "in", "true", "false", "null", "has", "size", "all", "exists", "map", "filter"]);
const TEXT = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;
const NAME = /(?<![\w.])(?:inputs\.)?([A-Za-z_]\w*)\b(?!\s*\()/g;

/** The inputs that the conditions seem to name: a hint for the person who fills them in, no check. */
export function namesIn({ rows }: Spec): string[] {
  const conditions = rows.map(({ when }) => when.replace(TEXT, ""));
  const names = conditions.flatMap((text) => [...text.matchAll(NAME)].map(([, name = ""]) => name));
  return [...new Set(names)].filter((name) => !KEYWORDS.has(name));
}
