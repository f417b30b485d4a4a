// A revision that comes back: the database loses its last commits (a failover to an asynchronous standby, a restore to an earlier point
// in time), and another node advances the run to the same revision by another way.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, signal, start, startHalf } from "./rig.js";

const TABLES = {
  ...{ runs: "id", run_starts: "run_id", run_variables: "run_id", run_events: "run_id", run_commands: "run_id" },
  ...{ signals: "run_id", wakes: "run_id" },
};

let database: TestDatabase;
let memory: Half;
let other: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publish(database, "order", [
    { id: "amount", type: "wait_for_signal", signal_name: "amount", save_as: "amount", next: "go" },
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "done" },
    { id: "done", type: "end", output: "${vars.amount.n}" },
  ]);
  [memory, other] = [await startHalf(database), await startHalf(database)];
});
afterAll(async () => {
  await memory?.stop();
  await other?.stop();
  await database.drop();
});

const revisionOf = async (runId: RunId) =>
  Number((await database.sql`select revision from runs where id = ${runId}`)[0]?.revision);
const outputOf = async (runId: RunId) => (await database.sql`select output from runs where id = ${runId}`)[0]?.output;
const amount = (half: Half, runId: RunId, n: number) =>
  half.runtime.command(runId, signal(uuidv7(), "amount", { n }), { id: uuidv7(), reach: EVERYTHING });

/** What a row has of its own: generated columns follow. */
async function columnsOf(table: string): Promise<string[]> {
  const rows = await database.sql<{ name: string }[]>`
    select attname as name from pg_attribute where attrelid = ${table}::text::regclass and attnum > 0 and attgenerated = ''`;
  return rows.map(({ name }) => name);
}

/** A backup of the run's rows. The result restores it: what was committed later is lost. */
async function backUp(runId: RunId): Promise<() => Promise<void>> {
  const { sql } = database;
  const kept = (table: string) => sql(`kept_${table}`);
  for (const [table, column] of Object.entries(TABLES))
    await sql`create table ${kept(table)} as select * from ${sql(table)} where ${sql(column)} = ${runId}`;
  return async () => {
    for (const [table, column] of Object.entries(TABLES)) {
      await sql`delete from ${sql(table)} where ${sql(column)} = ${runId}`;
      const columns = sql(await columnsOf(table));
      await sql`insert into ${sql(table)} (${columns}) select ${columns} from ${kept(table)}`;
      await sql`drop table ${kept(table)}`;
    }
  };
}

/** A run that waits for its amount, whose actor is in memory on the first node. */
async function waiting(): Promise<RunId> {
  const runId = await start(memory.starter, "order");
  const awaited = () => database.sql`select 1 from runs where id = ${runId} and awaited_signal = 'amount'`;
  await until(async () => (await awaited()).length > 0 || undefined, { what: "the run waits" });
  return runId;
}

describe("a revision that comes back", () => {
  it("with other content does not win: the node discards what it has in memory, and continues what is stored", async () => {
    const runId = await waiting();
    const restore = await backUp(runId);
    await amount(memory, runId, 1);
    const revision = await revisionOf(runId);
    await restore();
    await amount(other, runId, 2);
    expect(await revisionOf(runId), "the same revision by another way").toBe(revision);
    await memory.runtime.command(runId, signal(uuidv7(), "go"), { id: uuidv7(), reach: EVERYTHING });
    expect(await outputOf(runId)).toBe(2);
  });

  it("a refusal that is based on lost content is not confirmed", async () => {
    const runId = await waiting();
    const restore = await backUp(runId);
    await amount(memory, runId, 1);
    await restore();
    await amount(other, runId, 2);
    // Not quarantined: the command is refused, by the stored state.
    const before = await memory.conflicts();
    await memory.runtime.command(runId, { type: "release", actor: "api" }, { id: uuidv7(), reach: EVERYTHING });
    expect(await memory.conflicts()).toBe(before + 1);
  });

  it("runs in memory go when another server answers, so the next command reads the run again", async () => {
    const runId = await waiting();
    await until(() => memory.runtime.residents.busy === 0 || undefined, { what: "the actor is idle" });
    expect(memory.runtime.residents.has(runId)).toBe(true);
    memory.runtime.forget();
    expect(memory.runtime.residents.size).toBe(0);
    const before = await memory.conflicts();
    await amount(memory, runId, 4);
    expect(await memory.conflicts()).toBe(before);
  });
});
