// The runs of a workflow that ended in a window of time, as far as the performance of a workflow reads them: bounds, and conditions in SQL. What
// is read of them is in ends-by-part.ts and step-durations.ts.
import type { Sql } from "postgres";
import type { Reach } from "../lists/reach.js";

/** What is asked for. Whole minutes, in epoch milliseconds: `to` is the end of the minute that is not over. */
export interface Window {
  readonly reach: Reach;
  readonly workflowId: string;
  readonly version?: number;
  readonly from: number;
  readonly to: number;
  readonly partMs: number;
  readonly parts: number;
}

export interface PerformanceBounds {
  /** Ended runs that are read one by one because their minute has no kept count. */
  readonly ends: number;
  /** Ended runs that are looked through for those of the sample. */
  readonly looked: number;
  /** Roots in the sample, and as many branches, items and sub-sagas. */
  readonly sample: number;
  readonly auditRows: number;
}

export function ofVersion(sql: Sql, { version }: Pick<Window, "version">) {
  return version === undefined ? sql`true` : sql`version = ${version}`;
}

export const time = (ms: number) => new Date(ms).toISOString();
