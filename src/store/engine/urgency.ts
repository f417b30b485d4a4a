// How much a run needs somebody: the order of lists that are cut. It says nothing about what the run waits for; that is explained elsewhere.
import type { Sql } from "postgres";

/**
 * The rank of a paused run by the column of its reason: 0 it stands still until an operator decides, 1 until a person acts, 2 it waits for
 * something else, 3 it works, or its children say.
 */
export function urgency(sql: Sql, pausedReason: string) {
  const column = sql.unsafe(pausedReason);
  return sql`case when ${column} in ('incident', 'quarantine') then 0 when ${column} in ('operator', 'user_task') then 1
    when ${column} <> 'children' then 2 else 3 end`;
}
