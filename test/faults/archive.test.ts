// A process that is killed (SIGKILL) again and again while it archives and deletes families: at the end every run that is gone is in a whole file with all
// that belonged to it, and every other one is untouched.
// @module-tag long
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { findRun, linesOf, listArchive, verifyFile } from "../../src/archive/reader.js";
import { ArchiveFolder } from "../../src/archive/writer.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { insertFamily, type Made, rowsByRun } from "../store/retained.js";

const PROGRAM = resolve(import.meta.dirname, "../../dist/test/store/archiving-rounds.js");
const KILLS = 4;
/** Of four runs each: a round over them takes a second or more. */
const FAMILIES = 40;
const KEPT = 10;
/** What has happened in its first slice when a process is killed, in turns. */
const FACTS = ["a file is begun", "a file is written", "a manifest is written", "runs are being deleted"] as const;

let database: TestDatabase;
let folder: string;
const children: ChildProcess[] = [];
beforeAll(async () => {
  database = await createTestDatabase({ max: 6, fresh: true });
}, 120_000);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-archive-"));
});
afterEach(async () => {
  for (const child of children) if (child.exitCode === null && child.signalCode === null) await kill(child);
  rmSync(folder, { recursive: true, force: true });
});
afterAll(() => database.drop());

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

const names = () => readdirSync(folder, { recursive: true, encoding: "utf8" });
const insert = async (ended: number, count: number): Promise<readonly Made[]> => {
  const made: Made[] = [];
  for (let nth = 0; nth < count; nth++)
    made.push(
      await insertFamily(database.sql, { workflow: "flow", state: "failed", ended, children: 3, text: "🍵 19.99" }),
    );
  return made;
};

it("a service that is killed while it archives loses no run, and deletes none that is not in a whole file", async () => {
  const { sql } = database;
  const kept = await insert(1, KEPT);
  const past: Made[] = [];
  const rows = new Map<string, string>();
  for (let nth = 0; nth < KILLS; nth++) {
    past.push(...(await insert(40, FAMILIES)));
    for (const [id, of] of await rowsByRun(sql)) if (!rows.has(id)) rows.set(id, of);
    const before = new Set(names());
    const child = spawn(process.execPath, [PROGRAM, folder, "20"], {
      env: { ...process.env, DATABASE_URL: database.url },
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    child.stdout?.resume();
    const isNew = (name: string) => !before.has(name);
    const count = (await sql`select from runs`).length;
    const facts: Readonly<Record<(typeof FACTS)[number], () => boolean | Promise<boolean>>> = {
      "a file is begun": () => names().some((name) => isNew(name) && name.endsWith(".part")),
      "a file is written": () => names().some((name) => isNew(name) && name.endsWith(".ndjson")),
      "a manifest is written": () => names().some((name) => isNew(name) && name.endsWith(".json")),
      "runs are being deleted": async () => (await sql`select from runs`).length < count,
    };
    const what = FACTS[nth % FACTS.length] ?? FACTS[0];
    await until(facts[what], { what, pause: 2, within: 120_000 });
    await kill(child);
    const over = async () =>
      (
        await sql`select from pg_stat_activity where application_name = 'archiving-rounds' and datname = current_database()`
      ).length === 0;
    await until(over, { what: "the end of its sessions" });
  }
  // Whatever the last kill has left, another node ends.
  const archive = { folder: new ArchiveFolder(folder), reads: sql };
  expect(await new Pruner(sql, silentLog, { eventDays: 30, runDays: 20 }, { archive }).prune()).toBe(true);

  const after = await rowsByRun(sql);
  const runsOf = (families: readonly Made[]) => families.flatMap(({ runs }) => runs);
  for (const id of runsOf(kept)) expect([id, after.get(id)]).toEqual([id, rows.get(id)]);
  for (const id of runsOf(past))
    expect([id, after.get(id)?.replace(/^run_events \d+$/, "") || undefined]).toEqual([id, undefined]);
  const { files, faults, unfinished } = await listArchive(folder);
  expect(faults).toEqual([]);
  for (const file of files) expect(await verifyFile(folder, file)).toEqual([]);
  const copies = new Map<string, string[]>();
  for await (const { line } of linesOf(folder, files, ""))
    if (line.kind === "run") copies.set(line.run, [...(copies.get(line.run) ?? []), JSON.stringify(line.data)]);
  expect([...copies.keys()].sort()).toEqual([...runsOf(past)].sort());
  const most = Math.max(...[...copies.values()].map((all) => all.length));
  expect(most).toBeLessThanOrEqual(KILLS + 1);
  for (const [id, all] of copies) expect([id, new Set(all).size]).toEqual([id, 1]);
  for (const { root, runs } of past.slice(0, 40))
    for (const id of [root, runs.at(-1) ?? ""]) {
      const found = await findRun(folder, files, id);
      const count = Number(/run_events (\d+)/.exec(rows.get(id) ?? "")?.[1]);
      expect([id, found?.events.length, found?.signals.length]).toEqual([id, count, 1]);
    }
  const twice = [...copies.values()].filter((all) => all.length > 1).length;
  console.info(
    `archive: ${KILLS} kills, ${copies.size} runs in ${files.length} files, ${twice} of them twice, ${unfinished.length} files unfinished`,
  );
}, 600_000);
