// Erasing runs, over HTTP and on a real node: what is left of a family in the whole database, what is refused, and that nothing starts it again.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { actOn, type TargetActOptions } from "../../src/operate/target-act.js";
import { Erasure } from "../../src/store/upkeep/erasure.js";
import { hangUp, Client as Stream } from "../api/client.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { ended, useNode } from "./rig.js";

const rig = useNode({ SAGA_EGRESS_ALLOW: "127.0.0.1" });
/** Takes webhooks. */
const site = createServer((_, response) => response.end());
const CANARY = "canary-7f3a";
const EVERYWHERE = { tenants: "*" } as const;
const TENANT = "0190a000-0000-7000-8000-00000000000a";

afterAll(() => site.close());
afterEach(hangUp);
beforeAll(async () => {
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  const hook = `http://127.0.0.1:${(site.address() as AddressInfo).port}/hook`;
  const refund = { action: "shop.refund", inputs: { text: "${inputs.text}" } };
  await rig.client.publish("echo", [{ id: "out", type: "end", output: "${inputs}" }]);
  await rig.client.publish("waits", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await rig.client.publish("nested", [
    { id: "child", type: "sub_saga", workflow_id: "echo", inputs: "${inputs}", next: "out" },
    { id: "out", type: "end" },
  ]);
  await rig.client.publish("family", [
    { id: "note", type: "log", message: "${inputs.text}", next: "keep" },
    { id: "keep", type: "set_var", name: "kept", value: "${inputs.text}", next: "tell" },
    {
      id: "tell",
      type: "webhook_emit",
      url: hook,
      event_type: "made",
      payload: { text: "${inputs.text}" },
      next: "emit",
    },
    { id: "emit", type: "emit_event", topic: "made", payload: { text: "${inputs.text}" }, next: "pay" },
    {
      id: "pay",
      type: "action",
      action: "shop.charge",
      inputs: { text: "${inputs.text}" },
      compensation: refund,
      next: "each",
    },
    { id: "each", type: "foreach", items: "[1, 2, 3]", body: "item", max_concurrency: 3, next: "ask" },
    { id: "item", type: "sub_saga", workflow_id: "nested", inputs: { text: "${inputs.text}" } },
    { id: "ask", type: "collect_input", assignee: "${inputs.text}", form_schema: { title: CANARY }, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
});

async function erase(id: string) {
  const response = await fetch(`${rig.client.url}/api/v1/sagas/${id}`, { method: "DELETE" });
  return { status: response.status, body: response.status === 204 ? undefined : await response.json() };
}

/** What names a run that was erased: its tombstone, and the empty start. */
const LEFT = ["erased_runs", "run_starts"];

const start = (body: object, key?: string) => rig.ask("POST", "/sagas/start", body, key);

/** The tables that have a row with this text. */
async function tablesWith(text: string): Promise<string[]> {
  const { sql } = rig.database;
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await sql`select from ${sql(name)} t where t::text like ${`%${text}%`} limit 1`;
    if (rows.length > 0) found.push(name);
  }
  return found.sort();
}

async function endedFamily(key: string): Promise<string> {
  const labels = { team: CANARY };
  const body = { workflow_id: "family", inputs: { text: CANARY }, business_key: CANARY, labels };
  const { run_id: id } = (await start(body, key)).body;
  await rig.ask("POST", `/sagas/${id}/signal/other`, { payload: { text: CANARY } }, CANARY);
  const tasks = async () => (await rig.ask("GET", `/user_tasks?run_id=${id}`)).body.items;
  await expect.poll(async () => (await tasks()).length, { timeout: 20_000 }).toBe(1);
  // A job that the run refuses: the reason names the signal.
  const params = { signal_name: CANARY };
  const job = await rig.ask("POST", "/bulk", { filter: { business_key: CANARY }, action: "signal", params });
  const { body: refused } = await rig.ask("GET", `/bulk/${job.body.bulk_id}?wait_ms=30000`);
  expect(refused).toMatchObject({ state: "done", done: 0 });
  await rig.database.sql`update bulk_jobs set filter = '{}', params = '{}'`;
  const [task] = await tasks();
  await rig.ask("POST", `/sagas/${id}/user_task/${task.id}/submit`, { result: { text: CANARY } });
  await rig.ask("POST", `/sagas/${id}/signal/go`, { payload: { text: CANARY } });
  expect((await rig.ask("GET", `/sagas/${id}?wait_ms=30000`)).body.state).toBe("succeeded");
  const owed = async () => (await rig.database.sql`select from outbox where run_id = ${id}`).length;
  await until(async () => (await owed()) === 0, { what: "a webhook that has arrived" });
  return id;
}

describe("erasing a run", () => {
  it("leaves no row with anything of it, or of its children, in any table", async () => {
    const id = await endedFamily(`${CANARY}-key`);
    const before = await tablesWith(CANARY);
    expect(before).toEqual(
      expect.arrayContaining([
        "bulk_targets",
        "events",
        "run_events",
        "run_starts",
        "runs",
        "signals",
        "undo",
        "user_tasks",
      ]),
    );
    const { sql } = rig.database;
    const family = await sql<{ id: string }[]>`select id from runs where id = ${id} or root_run_id = ${id}`;
    expect(family.length).toBeGreaterThanOrEqual(10);
    expect(await erase(id)).toEqual({ status: 204, body: undefined });
    // The definition is the author's, and what was published is for those that take it.
    expect(await tablesWith(CANARY)).toEqual(["definitions", "events"]);
    for (const { id: one } of family) {
      expect((await rig.ask("GET", `/sagas/${one}`)).status).toBe(404);
      const left = one === id ? [...LEFT, "start_keys"] : [];
      expect(
        (await tablesWith(one)).filter((name) => name !== "bulk_targets"),
        one,
      ).toEqual(left.sort());
    }
    expect(await sql`select erased_by, owed from erased_runs`).toEqual([{ erased_by: "api", owed: false }]);
    expect((await erase(id)).status).toBe(404);
  }, 60_000);

  it("leaves nothing of the variables that a run kept of its steps, nor of the fork that began with them", async () => {
    const mark = "forked-41c9";
    // Longer than what an entry keeps in its own row.
    const text = `${mark} ${"long ".repeat(2_000)}`;
    await rig.client.publish(
      "kept",
      [
        { id: "copy", type: "set_var", variables: { text: "${inputs.text}" }, next: "wait" },
        { id: "wait", type: "wait_for_signal", signal_name: "go" },
      ],
      { history: "full" },
    );
    const { run_id: id } = (await start({ workflow_id: "kept", inputs: { text } })).body;
    await rig.client.untilState(id, "paused");
    const { run_id: fork } = (await rig.ask("POST", `/sagas/${id}/fork`, { step: "wait" })).body;
    await rig.client.untilState(fork, "paused");
    expect(await tablesWith(mark)).toEqual(expect.arrayContaining(["kept_values", "run_starts", "run_variables"]));
    expect(await tablesWith(id)).toEqual(expect.arrayContaining(["forks", "kept_entries"]));
    await rig.ask("POST", `/sagas/${fork}/signal/go`, { payload: {} });
    await rig.client.untilState(fork, "succeeded");
    expect((await erase(id)).status).toBe(204);
    // The audit log of the fork names the run that it is of.
    expect(await tablesWith(id)).toEqual(["erased_runs", "run_events", "run_starts"]);
    expect((await rig.ask("GET", `/sagas/${fork}`)).body).toMatchObject({ state: "succeeded", inputs: { text } });
    expect((await erase(fork)).status).toBe(204);
    expect([await tablesWith(mark), await tablesWith(fork), await tablesWith(id)]).toEqual([[], LEFT, LEFT]);
  });

  it("refuses a run that has not ended, a child, and a run that there is not", async () => {
    const { run_id: running } = (await start({ workflow_id: "waits" })).body;
    await expect.poll(async () => (await rig.ask("GET", `/sagas/${running}`)).body.state).toBe("paused");
    expect(await erase(running)).toMatchObject({ status: 409, body: { error: "conflict" } });
    const root = await ended(rig, "nested", { inputs: { a: 1 } });
    const [child] = (await rig.ask("GET", `/sagas/${root.id}/children`)).body.items;
    const refused = await erase(child.id);
    expect(refused).toMatchObject({ status: 409, body: { message: expect.stringContaining(root.id) } });
    expect((await rig.ask("GET", `/sagas/${child.id}`)).status).toBe(200);
    expect((await erase(randomUUID())).status).toBe(404);
    expect((await erase("no-id")).status).toBe(400);
  });

  it("goes in pieces: more children and more rows than one of them has", async () => {
    await rig.client.publish("many", [
      { id: "each", type: "foreach", items: "inputs.items", body: "item", max_concurrency: 100, next: "out" },
      { id: "item", type: "noop" },
      { id: "out", type: "end" },
    ]);
    const run = await ended(rig, "many", { inputs: { items: Array.from({ length: 450 }, (_, nth) => nth) } });
    const { sql } = rig.database;
    const children = await sql`select id from runs where parent_run_id = ${run.id}`;
    expect(children).toHaveLength(450);
    await sql`
      insert into run_events (run_id, seq, recorded_at, event_type, attempt, from_state, to_state, actor)
      select ${run.id}, nth, now(), 'log', 0, 'running', 'running', 'api' from generate_series(100000, 112000) nth`;
    expect((await erase(run.id)).status).toBe(204);
    expect(await tablesWith(run.id)).toEqual(LEFT);
    expect(await sql`select from runs where parent_run_id = ${run.id}`).toHaveLength(0);
    expect(await sql`select from erased_runs where root_run_id = ${run.id}`).toHaveLength(1);
    for (const { id } of children.slice(0, 3)) expect(await tablesWith(id)).toEqual([]);
  }, 60_000);

  it("takes no command and no late answer, as one that does not exist", async () => {
    const run = await ended(rig, "echo");
    expect((await erase(run.id)).status).toBe(204);
    const undos = ["compensations/retry", "compensations/skip"];
    for (const act of undos) {
      const answers = [{}, { ordinal: 1 }].map((body) => rig.ask("POST", `/sagas/${run.id}/${act}`, body));
      const [all, one] = (await Promise.all(answers)).map(({ status, body: { request_id: _, ...body } }) => [
        status,
        body,
      ]);
      expect(one, act).toEqual(all);
    }
    const late: readonly (readonly [string, object])[] = [
      ...undos.map((act) => [act, { ordinal: 1 }] as const),
      ["cancel", {}],
      ["terminate", { reason: "late" }],
      ["signal/go", {}],
      ["actions/out/result", { result: {} }],
      ["rerun", {}],
    ];
    for (const [act, body] of late)
      expect((await rig.ask("POST", `/sagas/${run.id}/${act}`, body)).status, act).toBe(404);
    expect(await tablesWith(run.id)).toEqual(LEFT);
  });

  it("takes its children with it at once, while their rows go piece by piece", async () => {
    const root = await ended(rig, "nested", { inputs: { a: 1 } });
    const [child] = (await rig.ask("GET", `/sagas/${root.id}/children`)).body.items;
    const holder = rig.database.session();
    let erasing: ReturnType<typeof erase> | undefined;
    await holder.sql.begin(async (transaction) => {
      await transaction`select from run_events where run_id = ${child.id} for update`;
      erasing = erase(root.id);
      await until(async () => (await rig.ask("GET", `/sagas/${root.id}`)).status === 404, {
        what: "a root that is gone",
      });
      expect((await rig.ask("GET", `/sagas/${child.id}`)).status).toBe(404);
      expect((await rig.ask("POST", `/sagas/${child.id}/cancel`, {})).status).toBe(404);
      const { items } = (await rig.ask("GET", "/sagas?workflow_id=echo&limit=100")).body;
      expect(items.filter(({ id }: { id: string }) => id === child.id)).toEqual([]);
      expect(await rig.database.sql`select from run_events where run_id = ${child.id}`).not.toHaveLength(0);
    });
    await holder.close();
    expect((await erasing)?.status).toBe(204);
  });

  it("is refused while a child has not ended", async () => {
    const root = await ended(rig, "nested", { inputs: { a: 1 } });
    const { sql } = rig.database;
    const [child] = await sql<{ id: string }[]>`select id from runs where parent_run_id = ${root.id}`;
    await sql.unsafe("alter table runs disable trigger runs_terminal_guard");
    await sql`update runs set state = 'running', terminal_at = null where id = ${child?.id ?? ""}`;
    await sql.unsafe("alter table runs enable trigger runs_terminal_guard");
    expect(await erase(root.id)).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining(`${child?.id}`) },
    });
    expect((await rig.ask("GET", `/sagas/${root.id}`)).status).toBe(200);
    await sql`update runs set state = 'succeeded', terminal_at = now() where id = ${child?.id ?? ""}`;
    expect((await erase(root.id)).status).toBe(204);
  });

  it("waits for what it, or a child of it, owes to others", async () => {
    const root = await ended(rig, "nested", { inputs: { a: 1 } });
    const { sql } = rig.database;
    const [child] = await sql<{ id: string }[]>`select id from runs where parent_run_id = ${root.id}`;
    const later = "2100-01-01";
    for (const id of [root.id, child?.id ?? ""]) {
      const shard = shardOf(id);
      await sql`insert into outbox (id, run_id, shard, kind, payload, due_at) values (${uuidv7(shard)}, ${id}, ${shard}, 'webhook', '{}', ${later})`;
      expect(await erase(root.id)).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining("1 webhook") },
      });
      await sql`delete from outbox where run_id = ${id}`;
      expect((await rig.ask("GET", `/sagas/${id}`)).status).toBe(200);
    }
    expect((await erase(root.id)).status).toBe(204);
  });

  it("waits until RabbitMQ has the events of its family, and says how to go on; without AMQP_URL they go with it", async () => {
    const root = await ended(rig, "nested", { inputs: { a: 1 } });
    const { sql } = rig.database;
    const [child] = await sql<{ id: string }[]>`select id from runs where parent_run_id = ${root.id}`;
    const owe = (id: string) => {
      const shard = shardOf(id);
      return sql`insert into outgoing_events (id, run_id, shard, topic, payload) values (${uuidv7(shard)}, ${id}, ${shard}, 'made', '{}')`;
    };
    const other = await ended(rig, "echo");
    for (const id of [root.id, child?.id ?? "", other.id]) await owe(id);
    const withBroker = new Erasure(sql, { hasBroker: true });
    const refused = await withBroker
      .erase(root.id as RunId, { actor: "api", reach: EVERYWHERE })
      .catch((error: Error) => error);
    expect(refused).toMatchObject({ status: 409, message: expect.stringMatching(/2 events to RabbitMQ.*AMQP_URL/) });
    expect((await rig.ask("GET", `/sagas/${root.id}`)).status).toBe(200);
    // The service of this test has no broker: nobody will ever take them.
    expect((await erase(root.id)).status).toBe(204);
    expect(await tablesWith(child?.id ?? "")).toEqual([]);
    expect(await sql`select run_id from outgoing_events`).toEqual([{ run_id: other.id }]);
    await sql`delete from outgoing_events`;
  });

  it("ends its streams, and takes no command, on every node", async () => {
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
    const other = await startNode({ config, databaseUrl: rig.database.url, log: silentLog });
    try {
      const ports = [rig.node.httpPort, other.httpPort];
      const { run_id: id } = (await start({ workflow_id: "waits" })).body;
      await expect.poll(async () => (await rig.ask("GET", `/sagas/${id}`)).body.state).toBe("paused");
      const streams = ports.flatMap((port) => [new Stream(port, id), new Stream(port, id, "", "inspect")]);
      for (const stream of streams) await stream.has(1);
      // Each node has had it in memory.
      for (const port of ports) await act(port, `${id}/signal/other`, {});
      // No stream is told of its end. On a slow machine a poll finds it before the run is erased.
      await rig.database.sql`update runs set state = 'succeeded', terminal_at = now() where id = ${id}`;
      expect((await erase(id)).status).toBe(204);
      for (const stream of streams) expect([1000, 1011]).toContain(await stream.closed());
      for (const port of ports)
        for (const path of ["signal/go", "cancel", "actions/wait/result"])
          expect(await act(port, `${id}/${path}`, path.startsWith("actions") ? { result: {} } : {})).toBe(404);
    } finally {
      await other.stop();
    }
  }, 60_000);

  it("does not exist for another tenant", async () => {
    const run = await ended(rig, "echo", { tenant_id: TENANT });
    const request = { actor: "user:mallory", reach: { tenants: ["0190a000-0000-7000-8000-00000000000b"] } };
    const erasure = new Erasure(rig.database.sql);
    await expect(erasure.erase(run.id as RunId, request)).rejects.toMatchObject({ status: 404 });
    expect((await rig.ask("GET", `/sagas/${run.id}`)).status).toBe(200);
  });

  it("is never started again: neither by its key nor by its id", async () => {
    const body = { workflow_id: "echo", inputs: { a: 1 }, run_id: randomUUID() };
    const first = await start(body, "the key");
    expect(first.status).toBe(202);
    await rig.ask("GET", `/sagas/${body.run_id}?wait_ms=30000`);
    expect((await erase(body.run_id)).status).toBe(204);
    const refused = { status: 409, body: { error: "conflict", message: expect.stringContaining("erased") } };
    expect(await start(body, "the key")).toMatchObject(refused);
    expect(await start({ workflow_id: "echo", inputs: { a: 1 } }, "the key")).toMatchObject(refused);
    expect(await start({ workflow_id: "echo", inputs: { b: 1 }, run_id: body.run_id })).toMatchObject(refused);
    expect((await start({ workflow_id: "echo" }, "another key")).status).toBe(202);
  });

  it("is not spawned again: the run that would start it under its key is told so", async () => {
    const spawn = { type: "spawn_saga", workflow_id: "echo", idempotency_key: "spawned once" };
    await rig.client.publish("spawns", [
      { id: "spawn", ...spawn, next: "out" },
      { id: "out", type: "end", output: "${vars.spawn}" },
    ]);
    const { run_id: spawned } = (await ended(rig, "spawns")).output;
    await rig.ask("GET", `/sagas/${spawned}?wait_ms=30000`);
    expect((await ended(rig, "spawns")).output).toEqual({ run_id: spawned });
    expect((await erase(spawned)).status).toBe(204);
    expect(await ended(rig, "spawns")).toMatchObject({
      state: "failed",
      error: { code: "not_found", step_id: "spawn", message: expect.stringContaining("erased") },
    });
  });

  it("takes no slot of its concurrency key when its start is refused", async () => {
    const head = { concurrency: { key: "all", limit: 1, on_limit: "refuse" } };
    await rig.client.publish("single", [{ id: "out", type: "end" }], head);
    const body = { workflow_id: "single", inputs: { a: 1 } };
    const { run_id: id } = (await start(body, "single key")).body;
    await rig.ask("GET", `/sagas/${id}?wait_ms=30000`);
    const tickets = () => rig.database.sql`select from concurrency_tickets where scope like '%single'`;
    expect((await start({ ...body, inputs: { a: 2 } }, "single key")).status).toBe(409);
    expect(await tickets()).toEqual([]);
    expect((await erase(id)).status).toBe(204);
    expect((await start(body, "single key")).body.message).toContain("erased");
    expect(await tickets()).toEqual([]);
  });

  it("is taken up where it was cut off", async () => {
    const root = await ended(rig, "nested", { inputs: { text: "cut-off-9c1d" } });
    const { sql } = rig.database;
    const holder = rig.database.session();
    await holder.sql.begin(async (transaction) => {
      await transaction`select from run_events where run_id = ${root.id} for update`;
      const erasing = new Erasure(sql).erase(root.id as RunId, { actor: "api", reach: EVERYWHERE }).catch(String);
      const cutOff = () => sql`
        select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await cutOff()).length > 0, { what: "an erasure that waits" });
      expect(await erasing).toContain("cancel");
    });
    await holder.close();
    expect(await tablesWith("cut-off-9c1d")).not.toEqual([]);
    await new Erasure(sql).finishAll();
    expect(await tablesWith("cut-off-9c1d")).toEqual([]);
    await expect(new Erasure(sql).erase(root.id as RunId, { actor: "api", reach: EVERYWHERE })).resolves.toEqual({
      ...{ changed: false, bulkId: null },
    });
  });
});

async function act(port: number, path: string, body: object): Promise<number> {
  const headers = { "content-type": "application/json" };
  const url = `http://127.0.0.1:${port}/api/v1/sagas/${path}`;
  return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status;
}

describe("the bulk action erase", () => {
  it("refuses a run that others have erased, and knows its own work again", async () => {
    const [mine, theirs] = [await ended(rig, "echo"), await ended(rig, "echo")];
    const lines: unknown[] = [];
    const security = { jobDid: (...line: unknown[]) => void lines.push(line) };
    const erasure = new Erasure(rig.database.sql);
    const options = { erasure, security } as unknown as TargetActOptions;
    const job = { id: uuidv7(), action: "erase", params: {}, actor: "user:ann", reach: { tenants: "*" } } as const;
    await erase(theirs.id);
    for (const _ of ["first", "after a crash"]) {
      expect(await actOn(options, job, mine.id as RunId)).toEqual({});
      expect(await actOn(options, job, theirs.id as RunId)).toEqual({ message: "the run had been erased before" });
    }
    expect(lines).toEqual([["run erased", "user:ann", { run_id: mine.id, bulk: job.id }]]);
  });

  it("erases what has ended, and refuses the rest", async () => {
    const labels = { batch: "old" };
    const done = await ended(rig, "echo", { labels });
    const { run_id: running } = (await start({ workflow_id: "waits", labels })).body;
    const job = await rig.ask("POST", "/bulk", { filter: { "label.batch": "old" }, action: "erase" });
    expect(job).toMatchObject({ status: 202, body: { matched: 2 } });
    const { body } = await rig.ask("GET", `/bulk/${job.body.bulk_id}?wait_ms=30000`);
    expect(body).toMatchObject({ state: "done", done: 1, refused: 1, refusals: [{ run_id: running }] });
    expect((await rig.ask("GET", `/sagas/${done.id}`)).status).toBe(404);
    expect((await rig.ask("GET", `/sagas/${running}`)).status).toBe(200);
  });
});
