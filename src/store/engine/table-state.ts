// The state of a whole table of documents, in one short answer: few of a node's questions find a change. Another state says that some row is
// another one, not which.
import type { Sql } from "postgres";

export async function stateOf(database: Sql, table: "actions" | "rules" | "shared_actions"): Promise<string> {
  const [row] = await database<{ state: string }[]>`
    select count(*) || ' ' || coalesce(sum(hashtextextended(xmin || ' ' || ctid, 0)), 0) as state from ${database(table)}`;
  return row?.state ?? "";
}
