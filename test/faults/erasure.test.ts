// A service that is killed (SIGKILL) in the middle of erasing a family of some thousand rows, beside another service: what is committed stays so, the
// other one, or a pruner, ends the erasure, and nothing of other runs is missing.
// @module-tag long
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { Client } from "./client.js";

/** More than three pieces of an erasure. */
const ITEMS = 700;
const SPARED_ITEMS = 20;
/** What names a run that was erased: its tombstone, the empty start, and the hash of its key. */
const LEFT = ["erased_runs", "run_starts", "start_keys"];
const UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

let database: TestDatabase;
let killed: ServiceProcess;
let other: ServiceProcess;
let client: Client;
let mark: string;
let family: string;
let spared: string;
let before: Readonly<Record<string, string>>;

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  const open = () => createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1", LOG_LEVEL: "warn" });
  [killed, other] = await Promise.all([open(), open()]);
  await Promise.all([killed.start(), other.start()]);
  client = new Client(other.url);
  await client.publish("family", [
    { id: "keep", type: "set_var", name: "kept", value: "${inputs.mark}", next: "each" },
    { id: "each", type: "foreach", items: "inputs.items", body: "note", max_concurrency: 50, next: "out" },
    { id: "note", type: "log", message: "${inputs.mark} ${item}", next: "child" },
    { id: "child", type: "set_var", name: "own", value: "${inputs.mark}" },
    { id: "out", type: "end", output: "${inputs.mark}" },
  ]);
}, 120_000);
afterAll(async () => {
  await Promise.all([killed?.stop(), other?.stop()]);
  await database?.drop();
});

beforeEach(async () => {
  mark = `canary-${randomUUID()}`;
  family = await startFamily(mark, ITEMS);
  spared = await startFamily(`spared-${randomUUID()}`, SPARED_ITEMS);
  await Promise.all([family, spared].map((id) => client.untilState(id, "succeeded", 120_000)));
  // A round deletes more of runs that have ended.
  expect(await prune()).toBe(true);
  before = await rowsOf(spared);
}, 180_000);

const prune = () => new Pruner(database.sql, silentLog, { eventDays: 30 }).prune();

const bodyOf = (text: string, items: number) => ({
  ...{ workflow_id: "family", idempotency_key: `key-${text}`, business_key: text, labels: { mark: text } },
  inputs: { mark: text, items: Array.from({ length: items }, (_, nth) => nth) },
});

async function startFamily(text: string, items: number): Promise<string> {
  const { workflow_id, ...more } = bodyOf(text, items);
  return client.start(workflow_id, more);
}

const tablesOf = async () =>
  (
    await database.sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by relname`
  ).map(({ name }) => name);

/** The tables that have a row with this text. */
async function tablesWith(text: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of await tablesOf()) {
    const rows = await database.sql`select from ${database.sql(name)} t where t::text like ${`%${text}%`} limit 1`;
    if (rows.length > 0) found.push(name);
  }
  return found;
}

/** All rows that name a run of the family, as a count and a hash for each table. */
async function rowsOf(root: string): Promise<Readonly<Record<string, string>>> {
  const { sql } = database;
  const runs = await sql<{ id: string }[]>`select id::text from runs where id = ${root} or root_run_id = ${root}`;
  const ids = runs.map(({ id }) => id);
  const hashes: [string, string][] = [];
  for (const name of await tablesOf()) {
    const [row] = await sql<{ hash: string }[]>`
      select count(*) || ' ' || md5(coalesce(string_agg(t::text, ',' order by t::text), '')) as hash
      from ${sql(name)} t
      where exists (select from regexp_matches(t::text, ${UUID}, 'g') found where found[1] = any(${ids}::text[]))`;
    hashes.push([name, row?.hash ?? ""]);
  }
  return Object.fromEntries(hashes);
}

const childrenOf = (root: string) =>
  database.sql<{ id: string }[]>`select id from runs where parent_run_id = ${root} order by id`;

/** Kills the service that erases the family while its erasure waits for rows that the test holds; returns how it was answered. */
async function killWhileErasing(hold: string, id: string): Promise<void> {
  const holder = database.session();
  await holder.sql.begin(async (transaction) => {
    await transaction.unsafe(hold, [id]);
    const erasing = client.send(killed.url, "DELETE", `/sagas/${family}`).then(
      ({ status }) => status,
      () => "cut off",
    );
    const waits = () => database.sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waits()).length > 0, { what: "an erasure in its middle" });
    await killed.kill();
    expect(await erasing).toBe("cut off");
  });
  await holder.close();
  // What its session had sent is carried out, or rolled back.
  const sessions = () => database.sql`
    select from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()`;
  await until(async () => (await sessions()).length === 0, { what: "the end of its sessions" });
}

async function isErased(): Promise<void> {
  expect(await tablesWith(mark)).toEqual([]);
  expect(await tablesWith(family)).toEqual(LEFT);
  expect(await rowsOf(spared)).toEqual(before);
  expect((await client.run(spared)).state).toBe("succeeded");
  for (const more of [{}, { run_id: family, idempotency_key: undefined }, { inputs: {} }]) {
    const again = JSON.parse(JSON.stringify({ ...bodyOf(mark, ITEMS), ...more }));
    expect(await client.ask("POST", "/sagas/start", again)).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining("erased") },
    });
  }
}

const EVENT = "select from run_events where run_id = $1::text::uuid for update";

describe("a service that is killed while it erases a family of some thousand rows", () => {
  it("has erased nothing before it is committed, and the other one erases it all", async () => {
    const children = await childrenOf(family);
    expect(children).toHaveLength(ITEMS);
    const whole = await rowsOf(family);
    await killWhileErasing("select from runs where id = $1::text::uuid for update", children[500]?.id ?? "");
    expect(await rowsOf(family)).toEqual(whole);
    expect((await client.run(family)).state).toBe("succeeded");
    await killed.start();
    expect((await client.send(other.url, "DELETE", `/sagas/${family}`)).status).toBe(204);
    await isErased();
  }, 120_000);

  it("has erased the family for everyone once it is committed, and the same request to the other one ends it", async () => {
    const middle = (await childrenOf(family))[300]?.id ?? "";
    await killWhileErasing(EVENT, middle);
    expect((await client.ask("GET", `/sagas/${family}`)).status).toBe(404);
    expect((await client.ask("GET", `/sagas/${middle}`)).status).toBe(404);
    expect(await tablesWith(mark)).not.toEqual([]);
    await killed.start();
    // It does not exist any more, and is not erased a second time.
    expect((await client.send(other.url, "DELETE", `/sagas/${family}`)).status).toBe(404);
    await isErased();
  }, 120_000);

  it("leaves the rest to the next round of a pruner, which nobody asks", async () => {
    const middle = (await childrenOf(family))[300]?.id ?? "";
    await killWhileErasing(EVENT, middle);
    expect(await tablesWith(mark)).not.toEqual([]);
    await killed.start();
    // A node has one in ten minutes.
    expect(await prune()).toBe(true);
    await isErased();
  }, 120_000);
});
