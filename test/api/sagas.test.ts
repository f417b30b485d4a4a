// Starting, reading and listing runs over HTTP.
import { describe, expect, it } from "vitest";
import { SagaError } from "../../src/errors.js";
import { eventId, uuidv7 } from "../../src/ids.js";
import { appendEvents, insertRun, useRig } from "./rig.js";

const rig = useRig();
const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const ids = (body: { items: { id: string }[] }) => body.items.map(({ id }) => id);

describe("start", () => {
  it("asks the runtime, and answers with the location of the run", async () => {
    const body = {
      workflow_id: "orders",
      version: 3,
      entrypoint: "late",
      inputs: { a: [1, null] },
      variables: { b: 2 },
      tenant_id: "0190A000-0000-7000-8000-0000000000AA",
      dry_run: true,
      feature_overrides: { fast: true },
      run_id: "0190a000-0000-7000-8000-0000000000bb",
      idempotency_key: "k",
      business_key: "order 7",
      delay_ms: 5,
      timeout_ms: 6,
    };
    const response = await rig.call("POST", "/api/v1/sagas/start", body, { "idempotency-key": "k" });
    expect(response.status).toBe(202);
    expect(response.headers.location).toBe(`/api/v1/sagas/${body.run_id}`);
    expect(response.body).toEqual({
      run_id: body.run_id,
      workflow_id: "orders",
      version: 3,
      definition_id: expect.any(String),
      state: "pending",
      deduplicated: false,
    });
    expect(rig.started.at(-1)).toEqual({
      workflowId: "orders",
      version: 3,
      entrypoint: "late",
      inputs: { a: [1, null] },
      variables: { b: 2 },
      tenantId: "0190a000-0000-7000-8000-0000000000aa",
      dryRun: true,
      features: { fast: true },
      runId: body.run_id,
      idempotencyKey: "k",
      businessKey: "order 7",
      delayMs: 5,
      timeoutMs: 6,
      actor: "api",
    });
  });

  it("takes the idempotency key from the header, and fills in defaults", async () => {
    await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "orders" }, { "idempotency-key": "h" });
    expect(rig.started.at(-1)).toMatchObject({
      idempotencyKey: "h",
      inputs: {},
      variables: {},
      dryRun: false,
      features: {},
    });
  });

  it("a key beyond ASCII is the same key in the header and in the body", async () => {
    const key = "für 5 €";
    const headers = { "idempotency-key": Buffer.from(key).toString("latin1") };
    const response = await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "w", idempotency_key: key }, headers);
    expect([response.status, rig.started.at(-1)?.idempotencyKey]).toEqual([202, key]);
  });

  it("ignores unknown members, and names them", async () => {
    const response = await rig.call("POST", "/api/v1/sagas/start", { workflow_id: "orders", prio: 1, "a b\n": 2 });
    expect(response.status).toBe(202);
    expect(response.headers["saga-ignored-fields"]).toBe("prio, a%20b%0A");
  });
});

describe("errors of the ports", () => {
  it.each([
    [
      "a SagaError is sent unchanged",
      new SagaError(422, "unprocessable", "no", [{ path: "$.inputs", message: "no" }]),
      422,
      "unprocessable",
    ],
    ["an unreachable store is 503", Object.assign(new Error("x"), { code: "CONNECTION_CLOSED" }), 503, "overloaded"],
    [
      "any other error is internal, and its message stays secret",
      new Error("select password from users"),
      500,
      "internal",
    ],
  ])("%s", async (_, error, status, code) => {
    rig.answer = () => {
      throw error;
    };
    const response = await rig.call("POST", `/api/v1/sagas/${uuidv7()}/cancel`);
    expect([response.status, response.body.error]).toEqual([status, code]);
    expect(response.body.message).not.toContain("password");
    expect(response.headers["retry-after"]).toBe(status === 503 ? "1" : undefined);
  });
});

describe("get", () => {
  it("omits members without a value", async () => {
    const id = await insertRun(rig, { started_at: at(0) });
    const { status, body } = await rig.call("GET", `/api/v1/sagas/${id.toUpperCase()}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      id,
      workflow_id: "orders",
      version: 1,
      definition_id: expect.any(String),
      state: "running",
      inputs: {},
      variables: {},
      started_at: "2026-01-01T00:00:00.000Z",
      last_event_at: "2026-01-01T00:00:00.000Z",
      requires_manual_review: false,
      dry_run: false,
    });
  });

  it("shows the wait of a run", async () => {
    const dueAt = Date.parse(at(9));
    const see = async (seed: object) => (await rig.call("GET", `/api/v1/sagas/${await insertRun(rig, seed)}`)).body;
    const dispatched = { kind: "dispatched", dispatchId: "d", attempt: 2, nth: 1, at: 0, deadlineAt: 1 };
    expect(await see({ record: { wait: dispatched } })).toMatchObject({
      awaited_action_dispatch: "d",
      current_attempt: 2,
    });
    expect(await see({ state: "pending", identity: { delayedUntil: dueAt } })).toMatchObject({ wakeup_at: at(9) });
    for (const kind of ["timer", "backoff"]) {
      const paused = await see({ state: "paused", paused_reason: "timer", record: { wait: { kind, dueAt } } });
      expect(paused).toMatchObject({ wakeup_at: at(9), paused_reason: "timer" });
    }
    const waiting = { state: "paused", awaited_signal: "paid", record: { wait: { kind: "signal", name: "paid" } } };
    const signal = await see(waiting);
    expect(signal.awaited_signal).toBe("paid");
    expect(signal).not.toHaveProperty("wakeup_at");
  });

  it("shows an error only for a run that ended with it", async () => {
    const ending = {
      to: "failed",
      reason: "card refused",
      error: { code: "refused", message: "card refused", step_id: "charge" },
    };
    const seed = { record: { ending }, variables: { z: [1], "step-1": { ok: null } }, output: null };
    const see = async (more: object) =>
      (await rig.call("GET", `/api/v1/sagas/${await insertRun(rig, { ...seed, ...more })}`)).body;
    const failed = await see({ state: "failed", terminal_at: at(1) });
    expect(failed).toMatchObject({
      last_error: "card refused",
      error: { code: "refused", message: "card refused", step_id: "charge" },
      terminal_at: at(1),
      variables: { z: [1], "step-1": { ok: null } },
    });
    expect(failed).not.toHaveProperty("output");
    const compensating = await see({ state: "compensating" });
    expect(compensating).not.toHaveProperty("last_error");
    expect(compensating).not.toHaveProperty("error");
  });
});

describe("list", () => {
  it("pages by cursor stay correct while runs are started", async () => {
    const made = [];
    for (const second of [1, 2, 2, 2, 3])
      made.push(await insertRun(rig, { workflow_id: "paged", started_at: at(second) }));
    const newest = [...made.slice(4), ...made.slice(1, 4).sort().reverse(), ...made.slice(0, 1)];
    const seen: string[] = [];
    let url = "/api/v1/sagas?workflow_id=paged&limit=2";
    for (let page = 0; page < 3; page++) {
      const { body } = await rig.call("GET", url);
      seen.push(...ids(body));
      await insertRun(rig, { workflow_id: "paged", started_at: at(50 + page) });
      if (page < 2) url = `/api/v1/sagas?workflow_id=paged&limit=2&offset=9&cursor=${body.next_cursor}`;
      else expect(body).not.toHaveProperty("next_cursor");
    }
    expect(seen).toEqual(newest);
  });

  it("a cursor wins over an offset", async () => {
    for (let second = 0; second < 3; second++) await insertRun(rig, { workflow_id: "both", started_at: at(second) });
    const { body } = await rig.call("GET", "/api/v1/sagas?workflow_id=both&limit=1");
    const next = `/api/v1/sagas?workflow_id=both&limit=1&cursor=${body.next_cursor}`;
    const byCursor = (await rig.call("GET", next)).body.items;
    expect(byCursor).toHaveLength(1);
    expect((await rig.call("GET", `${next}&offset=2`)).body.items).toEqual(byCursor);
  });

  it("pages by offset have the total", async () => {
    for (let second = 0; second < 5; second++) await insertRun(rig, { workflow_id: "counted", started_at: at(second) });
    const { body } = await rig.call("GET", "/api/v1/sagas?workflow_id=counted&limit=2&offset=3&sort=started_at");
    expect(body).toMatchObject({ total: 5, limit: 2, offset: 3 });
    expect(body.items.map((item: { started_at: string }) => item.started_at)).toEqual([at(3), at(4)]);
    expect(body).not.toHaveProperty("total_is_lower_bound");
    expect((await rig.call("GET", "/api/v1/sagas?workflow_id=counted&offset=50")).body).toMatchObject({
      items: [],
      total: 5,
    });
  });

  it("every filter finds its runs and no other", async () => {
    const parent = uuidv7();
    const seed = {
      workflow_id: "filtered",
      version: 4,
      state: "paused",
      tenant_id: uuidv7(),
      parent_run_id: parent,
      business_key: "order_7%",
      requires_manual_review: true,
      awaited_signal: "it's paid",
      current_step: "wait",
      started_at: at(30),
    };
    const id = await insertRun(rig, seed);
    await insertRun(rig, { workflow_id: "filtered", business_key: "orderX7Y", started_at: at(20) });
    const finds = async (query: string) =>
      ids((await rig.call("GET", `/api/v1/sagas?workflow_id=filtered&${query}`)).body);
    const queries = [
      "version=4",
      "state=paused",
      "state=paused,failed&state=cancelled",
      `tenant_id=${seed.tenant_id}`,
      `parent_run_id=${parent}`,
      "business_key=order_7%25",
      "requires_manual_review=true",
      "awaited_signal=it%27s%20paid",
      "current_step=wait",
      `started_after=${encodeURIComponent(at(20))}`,
      "started_after=2026-01-01T01:00:20.001%2B01:00",
      "q=order_7",
      `q=${id.slice(0, 20).toUpperCase()}`,
      `q=${id}`,
    ];
    for (const query of queries) expect([query, await finds(query)]).toEqual([query, [id]]);
    expect(await finds("q=")).toHaveLength(2);
    expect(await finds("q=order")).toHaveLength(2);
    expect(await finds("q=rder")).toEqual([]);
    expect(await finds("root_only=true")).toHaveLength(1);
    expect(await finds(`started_before=${encodeURIComponent(at(20))}`)).toEqual([]);
  });

  it("a page ends at 8 MiB, and the next page continues there", async () => {
    for (let second = 0; second < 4; second++) {
      await insertRun(rig, {
        workflow_id: "large",
        started_at: at(second),
        inputs: { text: "x".repeat(3 * 1024 * 1024) },
      });
    }
    const first = (await rig.call("GET", "/api/v1/sagas?workflow_id=large")).body;
    expect(first.items).toHaveLength(2);
    expect(first.total).toBe(4);
    const second = (await rig.call("GET", `/api/v1/sagas?workflow_id=large&cursor=${first.next_cursor}`)).body;
    expect(second.items).toHaveLength(2);
    expect(second).not.toHaveProperty("next_cursor");
  });

  it("a page may need more than one statement", async () => {
    for (let n = 0; n < 130; n++) await insertRun(rig, { workflow_id: "many", started_at: at(n % 7) });
    const { body } = await rig.call("GET", "/api/v1/sagas?workflow_id=many&limit=120&offset=5");
    expect(new Set(ids(body)).size).toBe(120);
    expect(body.next_cursor).toBeDefined();
    const rest = (await rig.call("GET", `/api/v1/sagas?workflow_id=many&limit=120&cursor=${body.next_cursor}`)).body;
    expect(rest.items).toHaveLength(5);
    expect(new Set([...ids(body), ...ids(rest)]).size).toBe(125);
  });
});

describe("the parts of a run", () => {
  it("events are listed by seq, with ids that never change", async () => {
    const id = await insertRun(rig);
    await appendEvents(rig, id, [{ type: "saga.started" }, { step: "begin", metadata: { n: 1 } }, {}]);
    const { body } = await rig.call("GET", `/api/v1/sagas/${id}/events?limit=2`);
    expect(body.items[1]).toEqual({
      id: eventId(id, 2),
      run_id: id,
      seq: 2,
      recorded_at: "2026-11-21T00:00:00.002Z",
      event_type: "log",
      step_id: "begin",
      attempt: 0,
      from_state: "running",
      to_state: "running",
      actor: "coordinator",
      metadata: { n: 1 },
    });
    expect(body.total).toBe(3);
    const rest = await rig.call("GET", `/api/v1/sagas/${id}/events?cursor=${body.next_cursor}`);
    expect(rest.body.items.map((item: { seq: number }) => item.seq)).toEqual([3]);
  });

  it("signals, children and undo entries are listed", async () => {
    const { sql } = rig.database;
    const id = await insertRun(rig);
    const branch = await insertRun(rig, {
      parent_run_id: id,
      parent_step_id: "fan",
      parent_branch_id: "left",
      started_at: at(1),
    });
    const sub = await insertRun(rig, { parent_run_id: id, parent_step_id: "sub", root_run_id: id, started_at: at(2) });
    const signal = uuidv7();
    await sql`insert into signals (id, run_id, signal_name, payload, received_at)
      values (${signal}, ${id}, 'paid', '{"a":1}', ${at(1)})`;
    await sql`insert into undo (owner_run_id, step_id, entry, action, forward_idempotency_key, state)
      values (${id}, 'charge', 1, 'pay.refund@1', 'k', 'owed'), (${id}, 'ship', 2, null, 'k', 'passed')`;
    const part = async (name: string) => (await rig.call("GET", `/api/v1/sagas/${id}/${name}`)).body.items;
    expect(await part("signals")).toEqual([
      { id: signal, run_id: id, signal_name: "paid", payload: { a: 1 }, received_at: at(1) },
    ]);
    expect((await part("children")).map((run: { id: string }) => run.id)).toEqual([branch, sub]);
    expect(await part("undo")).toMatchObject([
      { ordinal: 1, step_id: "charge", action: "pay.refund@1", state: "owed" },
      { ordinal: 2, step_id: "ship", state: "passed" },
    ]);
  });
});
