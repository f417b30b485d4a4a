// What is true at the end of each day of a compressed week, when the runs of the day have ended and the clocks have gone on to the next one: nothing is
// owed or forgotten, and retention has deleted what is past it, and nothing else.
import { expect } from "vitest";
import { openDatabase } from "../../../src/store/engine/connection.js";
import { Pruner } from "../../../src/store/upkeep/pruner.js";
import { silentLog } from "../../harness/database.js";
import { until } from "../../harness/until.js";
import { nothingUnwatched } from "../../run/seen.js";
import { DAY_MS } from "./clocks.js";
import { KEPT_DAYS, type Stage } from "./stage.js";

const WITHIN_MS = 120_000;
const WEEK_MS = 7 * DAY_MS;

/** No run is open but those that rest; no row waits for a node; no unfinished run is unwatched. */
export async function nothingOwed({ sql }: Stage, resting: ReadonlySet<string>): Promise<void> {
  const ids = [...resting];
  const owed = () => sql<{ what: string; run: string }[]>`
    select 'open' as what, id::text as run from runs where terminal_at is null and id <> all(${ids}::text[]::uuid[])
    union all select 'inbox ' || command::text, run_id::text from inbox
    union all select 'outbox ' || kind, run_id::text from outbox
    union all select 'wake', run_id::text from wakes where run_id <> all(${ids}::text[]::uuid[])
    union all select 'ticket ' || key, run_id::text from concurrency_tickets
    union all select 'event', id::text from outgoing_events
    union all select 'fire', id::text from trigger_fires where due_at is not null`;
  const none = async () => (await owed()).length === 0;
  await until(none, { within: WITHIN_MS, pause: 200, what: "the end of what is owed" }).catch(async (error: Error) => {
    throw new Error(`${error.message}; owed: ${JSON.stringify((await owed()).slice(0, 5))}`);
  });
  await nothingUnwatched(sql);
}

/** Workers have done nothing for runs that the store does not know. Afterwards the ledgers have the entries of resting runs alone. */
export async function noForeignEffects({ sql, shops }: Stage, resting: ReadonlySet<string>): Promise<number> {
  const ids = [...new Set(shops.flatMap(({ ledger }) => ledger.map(({ runId }) => runId)))];
  const rows = await sql<{ id: string }[]>`select id from runs where id = any(${ids}::text[]::uuid[])`;
  const known = new Set(rows.map(({ id }) => id));
  expect(ids.filter((id) => !known.has(id))).toEqual([]);
  let executed = 0;
  for (const { ledger } of shops) {
    executed += ledger.length;
    ledger.splice(0, ledger.length, ...ledger.filter(({ runId }) => resting.has(runId)));
  }
  return executed;
}

/**
 * One round of retention, in a session of the service's role. The nodes have such rounds every ten minutes of real time, which may be more than a day
 * of the test: this one comes at the right moment of it.
 */
export async function prune({ postgres }: Stage): Promise<void> {
  const database = openDatabase(postgres.url, { max: 2, applicationName: "saga-week-prune", log: silentLog });
  const pruner = new Pruner(database.sql, silentLog, { eventDays: KEPT_DAYS, runDays: KEPT_DAYS });
  try {
    // False: a node has its own round.
    await until(() => pruner.prune(), { within: WITHIN_MS, pause: 500, what: "a round of retention" });
  } finally {
    await pruner.stop();
    await database.close();
  }
}

/**
 * The partitions of weeks that are past retention are gone, and so are the runs. All rows have a partition of their week. Two days ago by the clock of
 * Postgres is a time that the last nights have left out, so no run ended between the round and this.
 */
export async function expectPruned(stage: Stage, partitions: readonly string[]): Promise<void> {
  const past = (await stage.databaseNow()) - KEPT_DAYS * DAY_MS;
  const weekOf = (name: string) => Date.parse(name.replace(/^.*_(\d{4})(\d{2})(\d{2})$/, "$1-$2-$3T00:00:00Z"));
  expect(partitions.filter((name) => weekOf(name) + WEEK_MS <= past)).toEqual([]);
  const kept = await stage.sql`
    select id from runs r where terminal_at is not null and coalesce(
      (select top.terminal_at from runs top where top.id = coalesce(r.root_run_id, r.id)) < now() - make_interval(days => ${KEPT_DAYS}),
      r.parent_run_id is not null and not exists (select from runs top where top.id = r.root_run_id)) limit 5`;
  expect(kept, "runs past retention").toEqual([]);
  const [row] = await stage.sql<{ rows: number }[]>`select count(*)::int as rows from run_events_default`;
  expect(row?.rows, "audit rows without a partition").toBe(0);
}
