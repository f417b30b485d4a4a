// Encryption at rest, seen from outside and from the database: what runs answer is the same, and no table has a byte of what users gave.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { randomBytes } from "../../src/ambient.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const TENANT = "0190a000-0000-7000-8000-0000000000e1";
const CANARY = "canary7d2f";
const folder = mkdtempSync(join(tmpdir(), "saga-sealed-"));
const A = { id: "a", key: randomBytes(32).toString("base64") };
const B = { id: "b", key: randomBytes(32).toString("base64") };
const keysFile = (current: string, ...keys: object[]) => {
  const file = join(folder, `${current}-${keys.length}-${randomBytes(4).toString("hex")}.json`);
  writeFileSync(file, JSON.stringify({ current, keys }), { mode: 0o600 });
  return file;
};

type Item = Record<string, unknown> & { readonly run_id: string; readonly items: readonly Record<string, unknown>[] };

class Service {
  private constructor(
    readonly database: TestDatabase,
    public node: NodeHandle,
  ) {}

  static async open(database: TestDatabase, env: Record<string, string> = {}): Promise<Service> {
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", ...env });
    return new Service(database, await startNode({ config, databaseUrl: database.url, log: silentLog }));
  }

  async ask(method: string, path: string, body?: object): Promise<{ status: number; body: Item }> {
    const response = await fetch(`http://127.0.0.1:${this.node.httpPort}/api/v1${path}`, {
      method,
      ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Item };
  }

  async ok(method: string, path: string, body?: object): Promise<Item> {
    const answer = await this.ask(method, path, body);
    expect([path, answer.status < 300 ? "ok" : answer]).toEqual([path, "ok"]);
    return answer.body;
  }

  reaches(runId: string, state: string): Promise<Item> {
    return until(
      async () => {
        const run = await this.ok("GET", `/sagas/${runId}`);
        if (run.state !== state) throw new Error(`it is ${String(run.state)}: ${JSON.stringify(run.error ?? run)}`);
        return run;
      },
      { what: `the state ${state}`, within: 15_000 },
    );
  }

  async publish(id: string, start: string, steps: readonly object[]): Promise<void> {
    await this.ok("POST", "/workflows", { id, name: id, published: true, start, steps });
  }

  start(workflow: string, inputs: object = {}): Promise<Item> {
    return this.ok("POST", "/sagas/start", {
      ...{ workflow_id: workflow, tenant_id: TENANT, inputs, variables: { given: `${CANARY}-variable` } },
    });
  }
}

const secret = (name: string) => ({
  [name]: `${CANARY}-${name}`,
  deep: [{ more: `${CANARY}-${name}-deep`.repeat(20) }],
});

/** Branches, items, a signal, an event, a task, an error that is caught, a rollback, a loop. */
async function publishAll(service: Service): Promise<void> {
  await service.publish("child", "out", [
    { id: "out", type: "set_var", variables: { mine: "${inputs.note}" }, next: "end" },
    { id: "end", type: "end", output: { of_child: "${vars.mine}" } },
  ]);
  await service.publish("all", "keep", [
    { id: "keep", type: "set_var", variables: { kept: "${inputs.note}", large: "${inputs.large}" }, next: "both" },
    { id: "both", type: "parallel", branches: { a: { next: "one" }, b: { next: "two" } }, next: "all" },
    { id: "one", type: "set_var", variables: { from_one: "${vars.large}" }, next: "nested" },
    { id: "nested", type: "foreach", items: "[vars.kept]", body: "in_nested", next: "all" },
    { id: "in_nested", type: "transform", expression: "item + vars.large.large" },
    { id: "two", type: "transform", expression: "vars.kept", next: "all" },
    { id: "all", type: "join", next: "each" },
    { id: "each", type: "foreach", items: "inputs.list", body: "item", next: "try" },
    { id: "item", type: "transform", template: { seen: "${item}", large: "${vars.large}" } },
    { id: "try", type: "try_catch", try: "fail", catch: "note", errors: ["declined"], next: "sub" },
    { id: "fail", type: "error", code: "declined", message: "not ${inputs.note}" },
    { id: "note", type: "log", message: "caught ${error.message}" },
    { id: "sub", type: "sub_saga", workflow_id: "child", inputs: { note: "${inputs.note}" }, next: "go" },
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "event" },
    { id: "event", type: "wait_for_event", topic: "paid", match: "event.payload.note == inputs.note", next: "done" },
    { id: "done", type: "end", output: { all: "${vars}", note: "${inputs.note}" } },
  ]);
}

async function lifeOfAll(service: Service): Promise<{ run: Item; runId: string }> {
  const inputs = { note: `${CANARY}-note`, large: secret("large"), list: [`${CANARY}-item-1`, `${CANARY}-item-2`] };
  const { run_id: runId } = await service.start("all", inputs);
  await service.reaches(runId, "paused");
  await until(async () => (await service.ok("GET", `/sagas/${runId}`)).awaited_signal === "go", { within: 10_000 });
  await service.ok("POST", `/sagas/${runId}/signal/go`, { payload: secret("signal") });
  await until(async () => (await service.ok("GET", `/sagas/${runId}`)).current_step === "event", { within: 10_000 });
  await service.ok("POST", "/events", { topic: "paid", payload: { note: "another" } });
  await service.ok("POST", "/events", { topic: "paid", payload: { note: `${CANARY}-note` } });
  return { run: await service.reaches(runId, "succeeded"), runId };
}

/** All rows of all tables as text. */
async function dump(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition`;
  const texts = await Promise.all(
    tables.map(({ name }) => sql.unsafe<{ text: string }[]>(`select row::text as text from "${name}" row`)),
  );
  return texts.flatMap((rows, nth) => rows.map(({ text }) => `${tables[nth]?.name}: ${text}`)).join("\n");
}

const linesWith = (text: string, what: string) => text.split("\n").filter((line) => line.includes(what));

describe("encryption at rest", () => {
  const opened: Service[] = [];
  const databases: TestDatabase[] = [];
  let plain: Service;
  let sealed: Service;

  async function database(): Promise<TestDatabase> {
    const made = await createTestDatabase({ max: 2 });
    databases.push(made);
    return made;
  }

  async function open(on: TestDatabase, env: Record<string, string> = {}): Promise<Service> {
    const service = await Service.open(on, env);
    opened.push(service);
    return service;
  }

  beforeAll(async () => {
    plain = await open(await database());
    sealed = await open(await database(), { SAGA_ENCRYPTION_KEYS_FILE: keysFile("a", A) });
    await publishAll(plain);
    await publishAll(sealed);
  });
  afterAll(async () => {
    await Promise.all(opened.map(({ node }) => node.stop()));
    await Promise.all(databases.map((one) => one.drop()));
    rmSync(folder, { recursive: true, force: true });
  });

  it("answers of a run what it answers without, and no table has a byte of what users gave", async () => {
    const lives = [await lifeOfAll(plain), await lifeOfAll(sealed)];
    const [off, on] = await Promise.all(
      [plain, sealed].map(async (service, nth) => {
        const { run, runId } = lives[nth] ?? { run: {}, runId: "" };
        const events = await service.ok("GET", `/sagas/${runId}/events?limit=200`);
        const signals = await service.ok("GET", `/sagas/${runId}/signals`);
        return without([run, signals.items, events.items.map((event) => JSON.stringify(without(event))).sort()]);
      }),
    );
    expect(on).toEqual(off);
    expect(linesWith(await dump(plain.database.sql), CANARY).length).toBeGreaterThan(20);
    expect(linesWith(await dump(sealed.database.sql), CANARY)).toEqual([]);
  });

  it("calls, their undo, errors and posts work as they do without, and leave no byte of what users gave", async () => {
    const undone: object[] = [];
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const worker = createWorker({
      ...{ service: "safe", grpc: `127.0.0.1:${sealed.node.grpcPort}`, log: silent },
      api: `http://127.0.0.1:${sealed.node.httpPort}`,
    });
    handleAll(worker, "safe", [
      { name: "keep", execute: () => ({ kept: `${CANARY}-output` }) },
      {
        name: "undo",
        execute(inputs) {
          undone.push(inputs);
          return {};
        },
      },
      {
        name: "break",
        execute() {
          throw new ActionError("broken", `${CANARY}-error`, { retryable: false });
        },
      },
    ]);
    await worker.start();
    try {
      const compensation = { action: "safe.undo", inputs: { note: "${inputs.note}", kept: "${output.kept}" } };
      const post = { url: "http://127.0.0.1:9/x", event_type: "kept", payload: { note: "${inputs.note}" } };
      await sealed.publish("undone", "keep", [
        {
          id: "keep",
          type: "action",
          action: "safe.keep",
          inputs: { note: "${inputs.note}" },
          compensation,
          next: "post",
        },
        { id: "post", type: "webhook_emit", ...post, next: "emit" },
        { id: "emit", type: "emit_event", topic: "kept", payload: { note: "${vars.keep.kept}" }, next: "break" },
        { id: "break", type: "action", action: "safe.break", inputs: { note: "${vars.keep.kept}" } },
      ]);
      const { run_id: run } = await sealed.start("undone", { note: `${CANARY}-note` });
      const ended = await sealed.reaches(run, "failed");
      expect(ended.error).toMatchObject({ code: "broken", message: `${CANARY}-error` });
      expect(undone).toEqual([{ note: `${CANARY}-note`, kept: `${CANARY}-output` }]);
      const rerun = await sealed.ok("POST", `/sagas/${run}/rerun`, {});
      await sealed.reaches(rerun.run_id, "failed");
      expect(undone).toHaveLength(2);
      expect(linesWith(await dump(sealed.database.sql), CANARY)).toEqual([]);
    } finally {
      await worker.stop();
    }
  });

  /** A service of its own with runs that wait, and no node that has them in memory. */
  async function waiting(count: number) {
    const on = await database();
    const first = await open(on, { SAGA_ENCRYPTION_KEYS_FILE: keysFile("a", A) });
    await first.publish("waits", "go", [
      { id: "go", type: "wait_for_signal", signal_name: "go", next: "done" },
      { id: "done", type: "end", output: "${vars.given}" },
    ]);
    const runs: string[] = [];
    for (let nth = 0; nth < count; nth++) runs.push((await first.start("waits", { note: `${CANARY}-${nth}` })).run_id);
    for (const run of runs) await first.reaches(run, "paused");
    await first.node.stop();
    opened.splice(opened.indexOf(first), 1);
    return { on, runs };
  }

  it("a value that was moved from another row, or changed, is refused: its run is left alone, lists say so, and other runs go on", async () => {
    const { on, runs } = await waiting(3);
    const [moved = "", honest = "", changed = ""] = runs;
    const [{ value: before }] = await on.sql<[{ value: string }]>`
      select value::text from run_variables where run_id = ${moved} and name = 'given'`;
    await on.sql`
      update run_variables v set value = o.value from run_variables o
      where v.run_id = ${moved} and o.run_id = ${honest} and v.name = 'given' and o.name = 'given'`;
    await on.sql`
      update run_variables set value = overlay(value::text placing case substr(value::text, length(value::text) - 12, 1) when 'A' then 'B' else 'A' end
        from length(value::text) - 12 for 1)::json where run_id = ${changed} and name = 'given'`;
    const second = await open(on, { SAGA_ENCRYPTION_KEYS_FILE: keysFile("a", A) });
    for (const run of [moved, changed]) {
      const answer = await second.ask("POST", `/sagas/${run}/signal/go`, { payload: null });
      expect([answer.status, answer.body.message]).toEqual([
        503,
        expect.stringContaining("a sealed value cannot be used"),
      ]);
    }
    expect((await second.ok("GET", `/sagas/${changed}`)).variables).toEqual({
      given: "[unreadable: this value was changed, or is not where it was written]",
    });
    expect((await second.ok("GET", "/sagas")).items).toHaveLength(3);
    await second.ok("POST", `/sagas/${honest}/signal/go`, { payload: null });
    expect(await second.reaches(honest, "succeeded")).toMatchObject({ output: `${CANARY}-variable` });
    await on.sql`update run_variables set value = ${before}::text::json where run_id = ${moved} and name = 'given'`;
    await second.ok("POST", `/sagas/${moved}/signal/go`, { payload: null });
    expect(await second.reaches(moved, "succeeded")).toMatchObject({ output: `${CANARY}-variable` });
  });

  it("a master key is replaced while runs wait: data keys are wrapped anew, and then the old key may go", async () => {
    const { on, runs } = await waiting(1);
    const refused = (env: Record<string, string>) => Service.open(on, env).then(() => "started", String);
    expect(await refused({})).toContain("SAGA_ENCRYPTION_KEYS_FILE is not set");
    expect(await refused({ SAGA_ENCRYPTION_KEYS_FILE: keysFile("b", B) })).toContain("has no key a");
    const other = { id: "a", key: B.key };
    expect(await refused({ SAGA_ENCRYPTION_KEYS_FILE: keysFile("a", other) })).toContain("has another key as a");
    const both = await open(on, { SAGA_ENCRYPTION_KEYS_FILE: keysFile("b", A, B) });
    await until(async () => (await on.sql`select from data_keys where master_key <> 'b'`).length === 0, {
      within: 10_000,
    });
    await both.node.stop();
    opened.splice(opened.indexOf(both), 1);
    const next = await open(on, { SAGA_ENCRYPTION_KEYS_FILE: keysFile("b", B) });
    await next.ok("POST", `/sagas/${runs[0]}/signal/go`, { payload: null });
    expect(await next.reaches(runs[0] ?? "", "succeeded")).toMatchObject({ output: `${CANARY}-variable` });
  });

  it("a database with plain rows is read on, and what is written from then on is sealed", async () => {
    const on = await database();
    const before = await open(on);
    await before.publish("waits", "go", [
      { id: "go", type: "wait_for_signal", signal_name: "go", next: "done" },
      { id: "done", type: "end", output: "${vars.given + inputs.note}" },
    ]);
    const { run_id: run } = await before.start("waits", { note: "-plain" });
    await before.reaches(run, "paused");
    await before.node.stop();
    opened.splice(opened.indexOf(before), 1);
    const after = await open(on, { SAGA_ENCRYPTION_KEYS_FILE: keysFile("a", A) });
    await after.ok("POST", `/sagas/${run}/signal/go`, { payload: null });
    expect(await after.reaches(run, "succeeded")).toMatchObject({ output: `${CANARY}-variable-plain` });
    const [row] = await on.sql<{ output: string }[]>`select output::text from runs where id = ${run}`;
    expect(row?.output).toContain('{"$sealed"');
  });
});

/** Ids and times differ from run to run. */
function without(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, member) =>
      /(^id|_id|_at|_ms|hash|traceparent|revision)$/.test(key) ? undefined : member,
    ).replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "id"),
  );
}
