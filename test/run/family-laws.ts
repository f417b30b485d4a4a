// The laws of whole families, checked on stored rows: runs with all their branches, items and sub-sagas, their undo lists, and rows
// that are still owed. It reads the store and the worker's ledger, and drives nothing.
import type { Sql } from "postgres";
import { expect } from "vitest";
import { countUnwatched } from "../../src/store/engine/poll.js";
import { until } from "../harness/until.js";
import { allEnd, allSound, type Seen } from "./seen.js";

/** The actions of a worker, in the order of their first dispatch. */
export interface Deed {
  readonly runId: string;
  readonly phase: "forward" | "compensation";
  readonly key: string;
  readonly forwardKey?: string;
}

export interface Member extends Seen {
  readonly id: string;
  readonly parent?: string;
  readonly root: string;
}

interface UndoSeen {
  readonly ordinal: string;
  readonly owner: string;
  readonly key: string;
  readonly action: string | null;
  readonly state: string;
}

/** All members of the families have ended, and each has a sound history. Parents come before their children. */
export async function familiesEnd(sql: Sql, roots: readonly string[], within = 60_000): Promise<Map<string, Member[]>> {
  await allEnd(sql, roots, within);
  const rows = await sql<{ id: string; parent: string | null; root: string }[]>`
    select id, parent_run_id as parent, coalesce(root_run_id, id) as root from runs
    where id = any(${[...roots]}::text[]::uuid[]) or root_run_id = any(${[...roots]}::text[]::uuid[])
    order by parent_run_id is not null, started_at, id`;
  const seen = await allSound(
    sql,
    rows.map(({ id }) => id),
  );
  const families = new Map<string, Member[]>(roots.map((root) => [root, []]));
  rows.forEach(({ id, parent, root }, nth) => {
    families.get(root)?.push({ id, root, ...(parent !== null && { parent }), ...(seen[nth] as Seen) });
  });
  return families;
}

/** The families owe nothing any more, and no parent ended before its children. */
export async function expectSettled(
  sql: Sql,
  families: ReadonlyMap<string, readonly Member[]>,
  /** The clocks of the nodes differ by far, so times do not show the order. */
  skewed = false,
): Promise<void> {
  const ids = [...families.values()].flatMap((members) => members.map(({ id }) => id));
  const owed = () => sql<{ what: string; run_id: string }[]>`
    with ids as (select unnest(${ids}::text[]::uuid[]) as id)
    select 'inbox ' || command::text as what, run_id from inbox join ids on run_id = ids.id
    union all select 'outbox ' || kind, run_id from outbox join ids on run_id = ids.id
    union all select 'wake', run_id from wakes join ids on run_id = ids.id
    union all select 'open', runs.id from runs join ids on runs.id = ids.id where terminal_at is null`;
  // A command to a run that has ended may still be on its way.
  const settled = until(async () => (await owed()).length === 0, { what: "the end of what is owed" });
  await settled.catch(async (error) => {
    throw new Error(`${error.message}; owed: ${JSON.stringify((await owed()).slice(0, 5))}`);
  });
  for (const members of skewed ? [] : families.values()) {
    const ends = new Map(members.map(({ id, run }) => [id, run.terminal_at ?? ""]));
    for (const { id, parent } of members)
      if (parent !== undefined && (ends.get(id) ?? "") > (ends.get(parent) ?? ""))
        throw new Error(`${id} ended after its parent ${parent}`);
  }
  expect(await countUnwatched(sql)).toBe(0);
}

/**
 * The undo of one family: every deed is undone once, by the run whose list it is in, newest first; and nothing else is.
 * `happened`: keys of what was done, or may have been. `possible`: what the service may hold for done, because it has sent it to a worker.
 */
export function undoViolations(
  members: readonly Member[],
  list: readonly UndoSeen[],
  deeds: readonly Deed[],
  happened: ReadonlySet<string>,
  possible = happened,
): string[] {
  const found: string[] = [];
  const ids = new Set(members.map(({ id }) => id));
  const mine = list.filter(({ owner }) => ids.has(owner));
  const [root] = members.filter(({ parent }) => parent === undefined);
  for (const owner of ids) {
    const owed = mine.filter((entry) => entry.owner === owner && entry.action !== null).map(({ key }) => key);
    const undone = deeds.filter(({ runId, phase }) => runId === owner && phase === "compensation");
    const order = unique(undone.map(({ forwardKey = "" }) => forwardKey));
    const down = members.find(({ id }) => id === owner)?.run.state !== "succeeded";
    const wanted = down ? owed.toReversed() : [];
    if (order.join() !== wanted.join()) found.push(`${owner} undid ${order}, its list was ${owed}`);
    const rows = members.find(({ id }) => id === owner)?.events ?? [];
    const settled = rows.filter(({ event_type: type, metadata }) => {
      return type === "step.succeeded" && metadata?.phase === "compensation";
    });
    if (settled.length !== wanted.length) found.push(`${owner} has ${settled.length} rows of ${wanted.length} undos`);
  }
  const keys = mine.map(({ key }) => key);
  for (const key of keys) if (keys.indexOf(key) !== keys.lastIndexOf(key)) found.push(`${key} is listed twice`);
  if (root?.run.state !== "succeeded") {
    for (const { key, state, action } of mine)
      if (state !== (action === null ? "passed" : "done")) found.push(`${key} is ${state}`);
    for (const key of happened) if (!keys.includes(key)) found.push(`${key} happened and is in no list`);
  }
  for (const { key, action } of mine) if (action !== null && !possible.has(key)) found.push(`${key} did not happen`);
  return found;
}

export function undoOf(sql: Sql): Promise<readonly UndoSeen[]> {
  return sql<UndoSeen[]>`
    select ordinal::text, owner_run_id as owner, forward_idempotency_key as key, action, state from undo order by undo.ordinal`;
}

export const unique = <T>(values: readonly T[]): T[] => [...new Set(values)];

export function grouped<T>(values: readonly T[], by: (value: T) => string): ReadonlyMap<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const group = groups.get(by(value));
    if (group) group.push(value);
    else groups.set(by(value), [value]);
  }
  return groups;
}
