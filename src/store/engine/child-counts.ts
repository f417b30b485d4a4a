// How many children of a run stand where: one row for each step, branch, state and place, so that a run with thousands of items can be
// shown folded. The children themselves are a list of runs (runs.ts).
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import { present } from "../lists/item.js";
import { OF_RUN, type Reach, withinReach } from "../lists/reach.js";

export interface ChildCounts {
  readonly items: readonly object[];
  /** There are more groups. */
  readonly truncated?: true;
}

const MAX_GROUPS = 1_000;

interface CountRow {
  readonly parent_step_id: string;
  readonly parent_branch_id: string | null;
  readonly state: string;
  readonly paused_reason: string | null;
  readonly current_step: string | null;
  readonly count: number;
}

/** An item is named by its number, which would make each a group of its own. */
export async function countChildren(sql: Sql, reach: Reach, runId: RunId, most = MAX_GROUPS): Promise<ChildCounts> {
  const rows = await sql<CountRow[]>`
    select coalesce(parent_step_id, '') as parent_step_id,
      case when parent_branch_id !~ '^[0-9]+$' then parent_branch_id end as parent_branch_id,
      state, paused_reason, current_step, count(*)::int as count
    from runs where parent_run_id = ${runId} and ${withinReach(sql, reach, OF_RUN)}
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5 limit ${most + 1}`;
  const items = rows.slice(0, most).map((row) => present(row));
  return { items, ...(rows.length > most && { truncated: true }) };
}
