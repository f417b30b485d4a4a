// Retention with an archive: what clients read of a run before it was deleted is in exactly one file, to the byte of its JSON; and where the archive cannot
// be written, nothing is deleted.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import type { ArchiveLine } from "../../src/archive/format.js";
import { type ArchivedFile, findRun, linesOf, listArchive, verifyFile } from "../../src/archive/reader.js";
import { ArchiveFolder } from "../../src/archive/writer.js";
import type { RunStarter, Runs } from "../../src/run/ports.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { Erasure } from "../../src/store/upkeep/erasure.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { useRig } from "../api/rig.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, registerActions, startHalf } from "../run/rig.js";
import { insertFamily, makePastWeeks, rowsByRun, weeksOf } from "./retained.js";

let node: Half;
const starter: RunStarter = { start: (request) => node.starter.start(request) };
const runs: Runs = { command: (runId, command, options) => node.runtime.command(runId, command, options) };
const rig = useRig({ deps: { starter, runs, canceller: runs } });

const TENANT = "0198f29d-0000-7000-8000-00000000000a";
const VALUE = { text: 'line\u2028line\r\n🍵 "quoted"', amount: 12.35, none: null, list: [], "a.b": { c: false } };

let folder: string;
beforeAll(async () => {
  await registerActions(rig.database, "charge", "refund");
  await publish(rig.database, "inner", [
    { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "ask" },
    { id: "ask", type: "collect_input", assignee: "ann", title: "Look", form_schema: { type: "object" } },
  ]);
  await publish(rig.database, "outer", [
    { id: "set", type: "set_var", name: "kept", value: "${inputs}", next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "each" },
    { id: "each", type: "foreach", items: "[1, 2]", body: "sub", max_concurrency: 2, next: "out" },
    { id: "sub", type: "sub_saga", workflow_id: "inner", inputs: { n: "${item}" } },
    { id: "out", type: "end", output: "${vars.kept}" },
  ]);
  await publish(rig.database, "short", [{ id: "no", type: "error", code: "no", message: "${inputs.text}" }]);
  node = await startHalf(rig.database);
  node.poller.start();
}, 120_000);
afterAll(() => node?.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-archive-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const get = async (path: string) => (await rig.call("GET", `/api/v1/sagas/${path}`)).body as JsonObject;
const itemsOf = async (path: string) =>
  ((await get(`${path}${path.includes("?") ? "&" : "?"}limit=500`)).items ?? []) as JsonObject[];
const endOf = (id: string) => until(async () => (await get(id)).terminal_at !== undefined, { within: 60_000 });

const start = async (workflow: string, more: object = {}) => {
  const request = { workflow_id: workflow, inputs: VALUE, labels: { shop: "tea" }, business_key: "k-1", ...more };
  const { status, body } = await rig.call("POST", "/api/v1/sagas/start", request);
  expect(status, JSON.stringify(body)).toBeLessThan(300);
  return (body as { run_id: string }).run_id;
};

/** A family of five: the run, two items, and two sub-sagas that wait for a person. */
async function startFamily(): Promise<string> {
  const id = await start("outer", { idempotency_key: `key-${Math.random()}` });
  await until(async () => (await get(id)).paused_reason === "signal");
  expect((await rig.call("POST", `/api/v1/sagas/${id}/signal/go`, VALUE)).status).toBeLessThan(300);
  const tasks = async () =>
    ((await rig.call("GET", "/api/v1/user_tasks?status=open")).body as { items: JsonObject[] }).items;
  const submitted = async () => {
    for (const { run_id, id: task } of await tasks()) {
      const { status } = await rig.call("POST", `/api/v1/sagas/${run_id}/user_task/${task}/submit`, { result: VALUE });
      expect(status).toBeLessThan(300);
    }
    return (await get(id)).terminal_at !== undefined;
  };
  await until(submitted, { within: 60_000, what: "the end of the family" });
  return id;
}

interface Seen {
  readonly run: JsonObject;
  readonly events: readonly JsonObject[];
  readonly signals: readonly JsonObject[];
  readonly undo: readonly JsonObject[];
  readonly userTasks: readonly JsonObject[];
}

async function seen(id: string): Promise<Seen> {
  return {
    ...{ run: await get(id), events: await itemsOf(`${id}/events`), signals: await itemsOf(`${id}/signals`) },
    ...{ undo: await itemsOf(`${id}/undo`), userTasks: await itemsOf(`${id}/user_tasks`) },
  };
}

const allRuns = async () =>
  (await rig.database.sql<{ id: string }[]>`select id from runs where terminal_at is not null order by id`).map(
    ({ id }) => id,
  );

interface Round {
  readonly days?: number;
  readonly archive?: ArchiveFolder;
}

async function prune({ days = 0, archive = new ArchiveFolder(folder) }: Round = {}) {
  const counted = { archived: 0, failed: 0 };
  const { sql, close } = openDatabase(rig.database.url, { max: 3, applicationName: "pruner", log: silentLog });
  const pruner = new Pruner(
    sql,
    silentLog,
    { eventDays: 30, runDays: days },
    {
      archive: { folder: archive, reads: rig.database.sql },
      onArchived: (count) => {
        counted.archived += count;
      },
      onArchiveFailed: () => {
        counted.failed++;
      },
    },
  );
  const error = await pruner.prune().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  await close();
  return { ...counted, error };
}

/** All of it is whole. */
async function archived(): Promise<readonly ArchivedFile[]> {
  const { files, faults, unfinished } = await listArchive(folder);
  expect([faults, unfinished]).toEqual([[], []]);
  for (const file of files) expect(await verifyFile(folder, file)).toEqual([]);
  return files;
}

/** The files that have the run itself. */
async function filesWith(id: string, files: readonly ArchivedFile[]): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { path, line } of linesOf(folder, files, id))
    if (line.kind === "run" && line.run === id) found.push(path);
  return found;
}

describe("an archive", () => {
  it("has of each run what clients read of it before it was deleted, in one file", async () => {
    const root = await startFamily();
    const failed = await start("short");
    await endOf(failed);
    // What a fork keeps for its branches is removed soon after the end, before any retention.
    await new Pruner(rig.database.sql, silentLog, { eventDays: 30 }).prune();
    const ids = await allRuns();
    expect(ids).toEqual(expect.arrayContaining([root, failed]));
    const before = new Map<string, Seen>();
    for (const id of ids) before.set(id, await seen(id));
    expect(before.get(root)).toMatchObject({ run: { output: VALUE }, signals: [{ payload: VALUE }] });
    expect(before.get(root)?.events.length).toBeGreaterThan(5);
    const all = [...before.values()];
    expect(all.filter(({ userTasks }) => userTasks.length > 0).length).toBeGreaterThan(1);
    expect(before.get(root)?.undo.length, "what its sub-sagas have handed over").toBe(2);

    expect(await prune()).toEqual({ archived: ids.length, failed: 0, error: undefined });
    expect(await allRuns()).toEqual([]);
    expect((await rig.call("GET", `/api/v1/sagas/${root}`)).status).toBe(404);
    const files = await archived();
    for (const id of ids) {
      expect(await filesWith(id, files), id).toHaveLength(1);
      const found = await findRun(folder, files, id);
      expect(JSON.stringify(found?.run), id).toBe(JSON.stringify(before.get(id)?.run));
      expect(found, id).toEqual({ path: expect.any(String), ...before.get(id) });
    }
    expect(await prune()).toMatchObject({ archived: 0 });
    expect(await archived()).toHaveLength(files.length);
  }, 120_000);

  it("has the tenant in each line and in the manifest, and the lines of a family behind each other", async () => {
    const own = await insertFamily(rig.database.sql, {
      workflow: "t",
      state: "failed",
      ended: 2,
      children: 5,
      tenant: TENANT,
    });
    const none = await insertFamily(rig.database.sql, { workflow: "u", state: "failed", ended: 2, children: 2 });
    await prune({ days: 1 });
    const files = await archived();
    const lines: ArchiveLine[] = [];
    for await (const { line } of linesOf(folder, files, "")) lines.push(line);
    for (const { root, tenant_id, data, kind } of lines) {
      expect(tenant_id).toBe(root === own.root ? TENANT : null);
      if (kind === "run") expect(data.tenant_id).toBe(tenant_id ?? undefined);
    }
    expect([...new Set(files.flatMap(({ manifest }) => manifest.tenants))].sort()).toEqual(["", TENANT]);
    for (const { root, runs: members } of [own, none]) {
      const places = lines.flatMap((line, nth) => (line.root === root ? [nth] : []));
      expect((places.at(-1) ?? 0) - (places[0] ?? 0)).toBe(places.length - 1);
      expect(
        lines
          .filter((line) => line.root === root && line.kind === "run")
          .map(({ run }) => run)
          .sort(),
      ).toEqual([...members].sort());
      expect(lines[places[0] ?? 0]).toMatchObject({ kind: "run", run: root });
    }
  });

  it("that cannot be written stops the deletion of runs, and of their weeks, until it can", async () => {
    const { sql } = rig.database;
    await makePastWeeks(sql, 60);
    const family = await insertFamily(sql, { workflow: "t", state: "failed", ended: 40, children: 3, lasted: 10 });
    const [before, weeks] = [await rowsByRun(sql), await weeksOf(sql)];
    const broken = join(folder, "file");
    writeFileSync(broken, "");
    const { archived: count, failed, error } = await prune({ days: 20, archive: new ArchiveFolder(broken) });
    expect([count, failed]).toEqual([0, 1]);
    expect(String(error)).toMatch(/cannot be written, so no run is deleted/);
    expect(await rowsByRun(sql)).toEqual(before);
    expect(await weeksOf(sql)).toEqual(weeks);
    rmSync(broken);
    expect(await prune({ days: 20 })).toEqual({ archived: 4, failed: 0, error: undefined });
    const after = await rowsByRun(sql);
    expect(family.runs.filter((id) => after.has(id))).toEqual([]);
    const files = await archived();
    for (const id of family.runs) {
      const rows = Number(/run_events (\d+)/.exec(before.get(id) ?? "")?.[1]);
      expect((await findRun(folder, files, id))?.events, id).toHaveLength(rows);
    }
  });

  it("has the audit rows of a run that goes on while their week falls, and joins them to the others later", async () => {
    const { sql } = rig.database;
    await makePastWeeks(sql, 60);
    const kept = await insertFamily(sql, { workflow: "t", state: "succeeded", ended: 5, lasted: 50 });
    const rows = async () =>
      (await sql<{ seq: number }[]>`select seq from run_events where run_id = ${kept.root} order by seq`).map(
        ({ seq }) => seq,
      );
    const before = await rows();
    await prune({ days: 20 });
    const left = await rows();
    expect(left.length).toBeLessThan(before.length);
    expect((await archived()).map(({ manifest }) => manifest.holds)).toContain("events");
    await prune({ days: 4 });
    expect((await rowsByRun(sql)).get(kept.root) ?? "").not.toMatch(/runs 1/);
    const found = await findRun(folder, await archived(), kept.root);
    expect(found?.events.map(({ seq }) => seq)).toEqual(before);
  });

  it("has nothing of a run that was erased, and an erasure waits for a file that is being written", async () => {
    const { sql } = rig.database;
    const erased = await insertFamily(sql, { workflow: "t", state: "failed", ended: 3, children: 2, text: "canary" });
    const other = await insertFamily(sql, { workflow: "t", state: "failed", ended: 2 });
    const erasure = new Erasure(sql);
    await erasure.erase(erased.root as never, { actor: "api", reach: { tenants: "*" } });
    await prune({ days: 1 });
    const files = await archived();
    expect(await filesWith(other.root, files)).toHaveLength(1);
    for (const id of erased.runs) expect(await filesWith(id, files)).toEqual([]);

    const late = await insertFamily(sql, { workflow: "t", state: "failed", ended: 2 });
    let erasing: Promise<unknown> | undefined;
    const order: string[] = [];
    class Slow extends ArchiveFolder {
      override async write(...given: Parameters<ArchiveFolder["write"]>) {
        erasing = erasure
          .erase(late.root as never, { actor: "api", reach: { tenants: "*" } })
          .then(() => order.push("erased"));
        const waits = async () =>
          (await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
            .length > 0;
        await until(waits, { what: "the erasure to wait for the root" });
        const manifest = await super.write(...given);
        order.push("written");
        return manifest;
      }
    }
    await prune({ days: 1, archive: new Slow(folder) });
    await erasing;
    expect(order).toEqual(["written", "erased"]);
    expect(await filesWith(late.root, await archived())).toHaveLength(1);
    expect((await rowsByRun(sql)).get(late.root) ?? "").not.toMatch(/runs/);
  });

  it("is not written again with what a crash has left of a family", async () => {
    const { sql } = rig.database;
    const family = await insertFamily(sql, { workflow: "t", state: "failed", ended: 2, children: 6 });
    const whole = await rowsByRun(sql);
    // The round ends where the first rows of its children are to be deleted.
    await sql.unsafe(`
      create function refuse_deletion() returns trigger language plpgsql as $$ begin raise 'a crash'; end $$;
      create trigger refuse_deletion before delete on signals for each statement execute function refuse_deletion()`);
    const { error } = await prune({ days: 1 });
    expect(String(error)).toMatch(/a crash/);
    await sql.unsafe("drop function refuse_deletion cascade");
    const half = await rowsByRun(sql);
    expect(half.get(family.root)).not.toBe(whole.get(family.root));
    expect(half.get(family.root)).toMatch(/runs 1/);
    await prune({ days: 1 });
    const files = await archived();
    for (const id of family.runs) {
      expect(await filesWith(id, files)).toHaveLength(1);
      expect((await findRun(folder, files, id))?.signals).toHaveLength(1);
    }
  });
});
