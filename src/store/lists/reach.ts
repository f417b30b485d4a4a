// Whose things a read may see, as conditions of its statement: the first of two walls. The second one is row-level security in the database
// (reader.ts), which knows the tenants and not the workflows.
import { type SQL, sql } from "drizzle-orm";
import type { ISql, PendingQuery, Row } from "postgres";

/** That of `access`, which this layer does not know. */
export interface Reach {
  /** UUIDs; or all, with what belongs to no tenant. */
  readonly tenants: readonly string[] | "*";
  /** Absent: all. An id has to be one of `ids`, or begin with one of `prefixes`. */
  readonly workflows?: { readonly ids: readonly string[]; readonly prefixes: readonly string[] };
}

/** The columns of a row, with their tables. Absent: the row has none, and another condition finds what it belongs to. */
export interface ReachColumns {
  readonly tenant?: string;
  readonly workflow?: string;
  /** What belongs to no tenant is the platform's, and everyone's to use. */
  readonly shared?: boolean;
  /** Of what is shared: the only tenant that may use it, if there is a name in it. */
  readonly reserved?: string;
}

/** The columns of `runs`. */
export const OF_RUN: ReachColumns = { tenant: "runs.tenant_id", workflow: "runs.workflow_id" };

export const OF_JOB: ReachColumns = { tenant: "bulk_jobs.tenant_id" };

/** Whether everything is within it. */
export const isEverything = ({ tenants, workflows }: Reach): boolean => tenants === "*" && workflows === undefined;

interface Value {
  readonly name: string;
  readonly value: string | readonly string[];
}
/** Text, and the values in it. */
type Part = string | Value;

/** One of the tenants. An equality where it can be one: its rows are a range of an index, in the order of the list. */
function isOneOf(tenants: readonly string[], column: string, type: "uuid" | "text"): readonly Part[] {
  const [only, ...others] = tenants;
  return only !== undefined && others.length === 0
    ? [`${column} = `, { name: "tenant", value: only }, `::text::${type}`]
    : [`${column} = any(`, { name: "tenants", value: tenants }, `::text[]::${type}[])`];
}

/** Every condition of a read on tenants and workflows is made here. Empty: all rows are within the reach. */
function partsOf({ tenants, workflows }: Reach, { tenant, workflow, shared, reserved }: ReachColumns): readonly Part[] {
  const conditions: (readonly Part[])[] = [];
  if (tenants !== "*" && tenant !== undefined) {
    const forOne: readonly Part[] = reserved ? isOneOf(tenants, `lower(${reserved})`, "text") : ["false"];
    const isFree = reserved ? `${reserved} is null` : "true";
    const offered: readonly Part[] = shared ? [`${tenant} is null and (${isFree} or `, ...forOne, ") or "] : [];
    conditions.push(["(", ...offered, ...isOneOf(tenants, tenant, "uuid"), ")"]);
  }
  if (workflows && workflow !== undefined) {
    const isNamed = [`(${workflow} = any(`, { name: "workflows", value: workflows.ids }, "::text[])"];
    const begins = [` or ${workflow} ^@ any(`, { name: "prefixes", value: workflows.prefixes }, "::text[]))"];
    conditions.push([...isNamed, ...begins]);
  }
  return conditions.flatMap((condition, nth) => (nth === 0 ? condition : [" and ", ...condition]));
}

/** For the query builder. Undefined: all rows are within the reach. */
export function within(reach: Reach, columns: ReachColumns): SQL | undefined {
  return written(partsOf(reach, columns), ({ value }) => (typeof value === "string" ? value : sql.param([...value])));
}

/**
 * Whether the run with this id is within the reach. Where the id is a value it is asked once in a statement; where it is a column, for each row, and
 * never as a join, which could read all runs.
 */
export function ofRun(reach: Reach, runId: SQL): SQL | undefined {
  const isWithin = within(reach, OF_RUN);
  return isWithin && sql`(select true from runs where runs.id = ${runId} and ${isWithin})`;
}

/** The same of a bulk job. */
export function ofJob(reach: Reach, jobId: SQL): SQL | undefined {
  const isWithin = within(reach, OF_JOB);
  return isWithin && sql`(select true from bulk_jobs where bulk_jobs.id = ${jobId} and ${isWithin})`;
}

/** For a statement that is kept for all reaches with the same `shapeOf`; its values are those of `valuesOf`. */
export function withinKept(reach: Reach, columns: ReachColumns): SQL | undefined {
  return written(partsOf(reach, columns), ({ name }) => sql.placeholder(name));
}

function written(parts: readonly Part[], write: (value: Value) => unknown): SQL | undefined {
  if (parts.length === 0) return undefined;
  return sql.join(parts.map((part) => (typeof part === "string" ? sql.raw(part) : sql`${write(part)}`)));
}

/** The text of the conditions. */
export function shapeOf(reach: Reach, columns: ReachColumns): string {
  return partsOf(reach, columns)
    .map((part) => (typeof part === "string" ? part : part.name))
    .join("");
}

export function valuesOf(reach: Reach, columns: ReachColumns): Readonly<Record<string, unknown>> {
  const values = partsOf(reach, columns).filter((part) => typeof part !== "string");
  return Object.fromEntries(values.map(({ name, value }) => [name, value]));
}

/** For SQL in the open: `true` if all rows are within the reach. */
export function withinReach(database: ISql, reach: Reach, columns: ReachColumns): PendingQuery<Row[]> {
  const parts = partsOf(reach, columns);
  if (parts.length === 0) return database`true`;
  const texts = [""];
  const values: unknown[] = [];
  for (const part of parts) {
    if (typeof part === "string") texts[values.length] += part;
    else texts[values.push(part.value)] = "";
  }
  const strings: unknown = Object.assign([...texts], { raw: texts });
  return database(strings as TemplateStringsArray, ...(values as never[]));
}
