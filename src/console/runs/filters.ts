// The filters of runs: how an address says them, and how the list, its counts and a bulk job want them. It draws nothing and asks nothing.

/** What the API knows, by the kind of its value. */
export const FILTERS = {
  workflow_id: "text",
  version: "number",
  state: "list",
  paused_reason: "list",
  q: "text",
  business_key: "text",
  current_step: "text",
  incident: "flag",
  incident_in: "list",
  error_code: "text",
  requires_manual_review: "flag",
  awaited_signal: "text",
  started_after: "time",
  started_before: "time",
  bulk_id: "text",
  forked_from: "text",
  tenant_id: "text",
  trigger_id: "text",
  parent_run_id: "text",
  root_only: "flag",
} as const;

export type FilterName = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as FilterName[];
const LABEL = "label.";

export type RunQuery = Readonly<Record<string, string | readonly string[]>>;

/**
 * What a branch, an item or a sub-saga is or has by itself, while its root only waits for it. A filter by one of these means all runs:
 * among the roots alone, the list would say that there is none.
 */
const OF_ANY_RUN = [
  ...["incident", "incident_in", "error_code", "requires_manual_review", "awaited_signal", "current_step"],
  ...["paused_reason", "parent_run_id", "bulk_id", "q"],
] as const satisfies readonly FilterName[];

/** `false` asks for all others, which are no exception to look for. */
const isAsked = (search: URLSearchParams, name: FilterName) => !["", "false"].includes(search.get(name) ?? "");

/** Whether branches, items and sub-sagas are left out: as the address says, or as its other filters mean it. */
export function isRootOnly(search: URLSearchParams): boolean {
  const said = search.get("root_only");
  if (said) return said === "true";
  return !OF_ANY_RUN.some((name) => isAsked(search, name));
}

/** The address with or without children; where its other filters mean the same, it does not say it. */
export function withChildren(search: URLSearchParams, hasChildren: boolean): URLSearchParams {
  const next = withFilter(search, "root_only", "");
  return isRootOnly(next) === hasChildren ? withFilter(next, "root_only", String(!hasChildren)) : next;
}

/** The filters as query parameters. */
export function queryOf(search: URLSearchParams): RunQuery {
  const { root_only: _, ...filters } = Object.fromEntries(
    NAMES.flatMap((name) => (search.get(name) ? [[name, said(name, search)]] : [])),
  ) as Record<string, string | readonly string[]>;
  const labels = labelsOf(search).map(({ name, value }) => [LABEL + name, value]);
  return { ...filters, ...Object.fromEntries(labels), ...(isRootOnly(search) && { root_only: "true" }) };
}

/** Apart from children, which are left out where nothing asks for them. */
export const isFiltered = (search: URLSearchParams): boolean =>
  Object.keys(queryOf(search)).some((name) => name !== "root_only");

const said = (name: FilterName, search: URLSearchParams) =>
  FILTERS[name] === "list" ? listOf(search, name) : (search.get(name) ?? "");

export const listOf = (search: URLSearchParams, name: string): string[] =>
  search.getAll(name).flatMap((value) => value.split(",").filter((each) => each !== ""));

/** The counts of all states are shown, so that a person can go from one to another. */
export function withoutStates({ state: _, paused_reason: __, ...filters }: RunQuery): RunQuery {
  return filters;
}

/** The filters as the `filter` of a bulk job: numbers and booleans as in JSON. */
export function bulkFilterOf(search: URLSearchParams): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(queryOf(search)).map(([name, value]) => [name, jsonOf(FILTERS[name as FilterName], value)]),
  );
}

function jsonOf(kind: string | undefined, value: string | readonly string[]): unknown {
  if (kind === "number") return Number(value);
  return kind === "flag" ? value === "true" : value;
}

/** The address with another filter. It begins at the first page: a cursor belongs to the filter that it came with. */
export function withFilter(search: URLSearchParams, name: string, value: string): URLSearchParams {
  const next = new URLSearchParams(search);
  next.delete("cursor");
  if (value === "") next.delete(name);
  else next.set(name, value);
  return next;
}

/** A reason is one of the paused runs; without any state it finds a rollback at an incident as well. */
export function toggled(search: URLSearchParams, name: "state" | "paused_reason", value: string): URLSearchParams {
  const now = listOf(search, name);
  const next = now.includes(value) ? now.filter((each) => each !== value) : [...now, value];
  return withFilter(search, name, next.join(","));
}

export interface Label {
  readonly name: string;
  readonly value: string;
}

export function labelsOf(search: URLSearchParams): Label[] {
  const named = [...search].filter(([name]) => name.startsWith(LABEL) && name.length > LABEL.length);
  return named.map(([name, value]) => ({ name: name.slice(LABEL.length), value }));
}

/** `name=value` as a person writes it. Undefined: it is no label. */
export function parseLabel(text: string): Label | undefined {
  const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(text) ?? [];
  return name !== undefined && value !== undefined ? { name, value } : undefined;
}

export const withLabel = (search: URLSearchParams, { name, value }: Label) => withFilter(search, LABEL + name, value);
export const withoutLabel = (search: URLSearchParams, { name }: Label) => withFilter(search, LABEL + name, "");
