// THE commit statement. One round trip writes a whole group: it updates the run rows that win their compare-and-set and, for
// those runs only, everything that their transitions owe. There is no retry here: the group commit (src/run) handles failures.
import type { Sql } from "postgres";
import type { Relation } from "../../../../machines/index.js";
import { sqlStateOf } from "../failure.js";
import { type EncodedRun, GroupRows } from "./encoding.js";
import { generalStatement } from "./general.js";
import { isPlain, type PlainStatements, SOME_LOST } from "./plain.js";

/**
 * Writes the group; resolves with the ids of the runs that won. A run is in the group once at most, children and runs that are
 * promised a signal included. Most groups have no loser: they are written by the plain statement. If it fails because one may have lost, it
 * has left nothing behind, and the general statement finds out who has. `statements`: those that the sessions of `sql` know.
 */
export async function commitRuns(
  sql: Sql,
  group: readonly EncodedRun[],
  statements: PlainStatements,
): Promise<ReadonlySet<string>> {
  const rows = new GroupRows(group);
  const plain = isPlain(rows) ? statements.of(rows) : undefined;
  if (plain) {
    const { text, relations } = plain;
    try {
      await sql.unsafe(text, [...parametersOf(rows, relations), String(mayLose(rows))], { prepare: true });
      return new Set(group.map(({ runId }) => runId));
    } catch (error) {
      if (!SOME_LOST.has(sqlStateOf(error) ?? "")) throw error;
    }
  }
  const { text, relations } = generalStatement(rows);
  const found = await sql.unsafe<{ id: string }[]>(text, parametersOf(rows, relations), { prepare: true });
  const won = new Set(found.map(({ id }) => id));
  // It names the runs that are created by others, too.
  return new Set(group.map(({ runId }) => runId).filter((id) => won.has(id)));
}

/** How many rows can lose to another node. */
function mayLose(rows: GroupRows): number {
  return rows.count("run_update") + rows.count("confirm") + rows.count("new_run");
}

function parametersOf(rows: GroupRows, relations: readonly Relation[]): string[] {
  return relations.flatMap((relation) => rows.parameters(relation));
}
