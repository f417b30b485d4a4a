// Migrations beside services that work: what is in the way of a migration is waited for briefly and again, and starts of runs go on.
// @module-tag both
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { createLogger } from "../../src/log.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { type MigrateOptions, migrateDatabase } from "../../src/store/migrate/migrate.js";
import { startService } from "../faults/rig.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { TcpRelay } from "../harness/tcp-relay.js";
import { until } from "../harness/until.js";
import { type Half, publish, type Step, start, startHalf } from "../run/rig.js";
import { allEnd } from "../run/seen.js";

const READER_MS = long(0, 5_000);
const STARTS = long(20, 50);

let database: TestDatabase;
let folders: string;
let releases = 0;
beforeAll(() => {
  folders = mkdtempSync(join(tmpdir(), "saga-migrations-"));
});
afterAll(() => rmSync(folders, { recursive: true }));
beforeEach(async () => {
  database = await createTestDatabase({ max: 4 });
});
afterEach(() => database.drop());

/** The migrations of this release and one more, of a later release. */
function laterRelease(...statements: readonly string[]): string {
  const folder = mkdtempSync(join(folders, "later-"));
  cpSync(join(packageRoot(), "src", "store", "migrations"), folder, { recursive: true });
  const journal = JSON.parse(readFileSync(join(folder, "meta", "_journal.json"), "utf8"));
  // A test may have several later releases.
  const when = Math.max(...journal.entries.map((entry: { when: number }) => entry.when)) + ++releases;
  journal.entries.push({ idx: 999, version: "7", when, tag: "later", breakpoints: true });
  writeFileSync(join(folder, "meta", "_journal.json"), JSON.stringify(journal));
  writeFileSync(join(folder, "later.sql"), statements.join(";--> statement-breakpoint\n"));
  return folder;
}

const GROW_RUNS = 'ALTER TABLE "runs" ADD COLUMN "later" integer';

const compensation = { action: "shop.refund" };
const BUSY: Step[] = [
  { id: "p", type: "parallel", branches: { a: { next: "pay" }, b: { next: "tell" } }, next: "j" },
  { id: "pay", type: "action", action: "shop.charge", compensation },
  { id: "tell", type: "emit_event", topic: "told" },
  { id: "j", type: "join", next: "hear" },
  { id: "hear", type: "wait_for_event", topic: "told", next: "ask" },
  { id: "ask", type: "manual_approval", assignee: "ann" },
];
/** As Postgres writes it in an error: cached plan must not change result type. */
const CHANGED_RESULT = "C0A000\0";
const READS = [
  ...["/sagas/{id}", "/sagas/{id}/events", "/sagas/{id}/signals", "/sagas/{id}/children", "/sagas/{id}/undo", "/sagas"],
  ...["/sagas/{id}/user_tasks", "/user_tasks", "/workflows", "/workflows/busy", "/registry/actions"],
];

/** A transaction that reads `runs` until it is let go. */
async function reader(): Promise<() => Promise<void>> {
  const { sql, close } = database.session();
  await sql`set idle_in_transaction_session_timeout = 0`;
  await sql`begin`;
  await sql`select 1 from runs limit 1`;
  return close;
}

function lines() {
  const all: string[] = [];
  const log = createLogger({ logLevel: "info" }, { write: (line) => void all.push(line) });
  return { all, log };
}

describe("a migration that needs a table which a long transaction reads", () => {
  let half: Half;
  beforeEach(async () => {
    await publish(database, "quick", [{ id: "only", type: "noop" }]);
    half = await startHalf(database);
  });
  afterEach(() => half.stop());

  it.each<readonly [string, () => MigrateOptions]>([
    ["a column of a later release", () => ({ folder: laterRelease(GROW_RUNS) })],
    ["the policies of a start with access on", () => ({ reader: { ownLogin: true } })],
  ])("does not hold up starts: each is answered before the reader ends (%s)", async (_what, optionsOf) => {
    await database.sql`drop policy if exists readers_of_all on runs`;
    const letGo = await reader();
    const { all, log } = lines();
    const since = performance.now();
    let migrated = false;
    const migrating = migrateDatabase(database.url, log, optionsOf()).then(() => {
      migrated = true;
    });
    await until(() => all.join().includes("migration waits for other sessions"));
    const runIds: string[] = [];
    while (runIds.length < STARTS || performance.now() - since < READER_MS)
      runIds.push(await start(half.starter, "quick"));
    await allEnd(database.sql, runIds);
    expect(migrated).toBe(false);
    await letGo();
    await migrating;
    expect(JSON.parse(all.find((line) => line.includes("waits")) ?? "{}")).toMatchObject({
      level: "warn",
      sessions: [{ pid: expect.any(Number), application: "saga-test-session", state: "idle in transaction" }],
    });
  });

  it("gives up when its patience is used up, and names the session in its way; the next start goes on", {
    tags: "short",
  }, async () => {
    const letGo = await reader();
    const folder = laterRelease(GROW_RUNS);
    const patience = { lockMs: 100, totalMs: 300 };
    await expect(migrateDatabase(database.url, silentLog, { folder, patience })).rejects.toThrow(
      /has waited 0\.3 s for locks; in its way: \d+ \("saga-test-session", idle in transaction, \d+ s\)\. End these sessions/,
    );
    await letGo();
    await migrateDatabase(database.url, silentLog, { folder });
    await database.sql`select later from runs`;
  });
});

describe("an index that is built concurrently", { tags: "short" }, () => {
  const INDEX = 'CREATE UNIQUE INDEX CONCURRENTLY "later_index" ON "trigger_fires" USING btree ("workflow_id")';
  const fire = () => database.sql`
    insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at)
    values (gen_random_uuid(), gen_random_uuid(), 'same', now(), now())`;
  const validity = async () =>
    (await database.sql`select indisvalid as valid from pg_index where indexrelid = to_regclass('later_index')`)[0]
      ?.valid;

  it("is built again if an interrupted build has left it invalid", async () => {
    for (let nth = 0; nth < 2; nth++) await fire();
    const folder = laterRelease(INDEX);
    await expect(migrateDatabase(database.url, silentLog, { folder })).rejects.toMatchObject({ code: "23505" });
    expect(await validity()).toBe(false);
    await database.sql`delete from trigger_fires`;
    await migrateDatabase(database.url, silentLog, { folder });
    expect(await validity()).toBe(true);
    await migrateDatabase(database.url, silentLog, { folder });
  });

  it("holds up no other service that starts meanwhile, and is held up by none", async () => {
    const writer = database.session();
    await writer.sql`begin`;
    await writer.sql`delete from trigger_fires`;
    const folder = laterRelease(INDEX);
    const building = migrateDatabase(database.url, silentLog, { folder });
    await until(async () => {
      const waiting = await database.sql`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%CONCURRENTLY%' and pid <> pg_backend_pid()`;
      return waiting.length === 1;
    });
    // If its wait for its turn were one statement, the index would wait for it, and it for the index.
    const other = migrateDatabase(database.url, silentLog, { folder });
    await until(async () => {
      const waiting = await database.sql`select 1 from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`;
      return waiting.length === 1;
    });
    await writer.sql`commit`;
    await writer.close();
    await Promise.all([building, other]);
    expect(await validity()).toBe(true);
  });

  it("needs a migration of its own", async () => {
    await expect(migrateDatabase(database.url, silentLog, { folder: laterRelease(INDEX, GROW_RUNS) })).rejects.toThrow(
      "migration later: indexes that are built concurrently need a migration of their own",
    );
  });
});

describe("a new column", { tags: "long" }, () => {
  it("invalidates no statement of a node: none returns the columns of a table with *", async () => {
    const url = new URL(database.url);
    const relay = await TcpRelay.before(Number(url.port || 5432));
    url.host = relay.address;
    // The driver hides the error and prepares the statement anew, but its transaction counts as rolled back.
    let refused = 0;
    relay.passing = (data) => {
      if (data.includes(CHANGED_RESULT)) refused++;
    };
    // With one run in memory, all others are loaded again and again.
    const service = await startService(url.href, { env: { SAGA_RESIDENTS: "1" } });
    await service.client.publish("busy", BUSY);
    const one = async () => {
      const runId = await service.client.start("busy");
      await service.client.untilState(runId, "paused");
      for (const path of READS)
        expect((await service.client.insist("GET", path.replace("{id}", runId))).status).toBe(200);
      await service.client.insist("POST", `/sagas/${runId}/cancel`);
      await service.client.allEnd([runId]);
    };
    const use = () => Promise.all(Array.from({ length: 6 }, one));
    const ours = openDatabase(url.href, { max: 1, applicationName: "saga-test", log: silentLog });
    const all = () => ours.sql`select * from runs limit 1`;
    await use();
    await all();
    const tables = await database.sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`;
    for (const { name } of tables) await database.sql`alter table ${database.sql(name)} add column later integer`;
    await use();
    await service.stop();
    expect(refused).toBe(0);
    await all();
    expect(refused).toBe(1);
    await ours.close();
    await relay.close();
  });
});
