// The scenarios of the REST suite: every route about runs, in its effects and its refusals. They do not depend on their place.
import { expect, vi } from "vitest";
import { uuidv7 } from "../../../src/ids.js";
import type { Client } from "../../faults/client.js";
import { accessIsOn } from "../../harness/access.js";
import { DIES_OF_ITS_TRIAL, suspect } from "../../harness/deadly-trial.js";
import { until } from "../../harness/until.js";
import type { Talk } from "./talk.js";

const compensation = { action: "shop.refund" };
const once = { max_attempts: 1, initial_backoff_ms: 0 };
const wait = { id: "wait", type: "wait_for_signal", signal_name: "go" };

export async function publishAll(client: Client): Promise<void> {
  await client.publish("wait", [wait]);
  await client.publish("paid", [
    { id: "pay", type: "action", action: "shop.charge", compensation, next: "wait" },
    wait,
  ]);
  await client.publish("hang", [
    { id: "hang", type: "action", action: "shop.hang", retry: once, heartbeat_timeout_ms: 60_000 },
  ]);
  await client.publish("wait-and-hang", [
    { ...wait, next: "hang" },
    { id: "hang", type: "action", action: "shop.hang", retry: once, heartbeat_timeout_ms: 60_000 },
  ]);
  await client.publish("ask", [{ id: "ask", type: "manual_approval", assignee: "ann", title: "Order 7" }]);
  for (const on_limit of ["queue", "refuse"])
    await client.publish(`single-${on_limit}`, [{ id: "wait", type: "wait_for_signal", signal_name: "go" }], {
      concurrency: { key: "${inputs.key}", limit: 1, on_limit },
    });
  await client.publish("begins-rarely", [wait], {
    rate_limit: { key: "${inputs.key}", limit: 1, per_ms: 3_600_000 },
  });
  const rate_limit = { key: "${inputs.key}", limit: 2, per_ms: 1_000, burst: 1 };
  await client.publish("calls-slowly", [{ id: "pay", type: "action", action: "shop.charge", rate_limit }]);
  await client.publish("errand", [
    { ...wait, next: "flaky" },
    {
      ...{ id: "flaky", type: "action", action: "shop.flaky", compensation, next: "more" },
      retry: { max_attempts: 2, initial_backoff_ms: 20, jitter: false },
    },
    { id: "more", type: "wait_for_signal", signal_name: "more", save_as: "said", next: "done" },
    { id: "done", type: "end", output: "${vars.said}" },
  ]);
  await client.publish("sleep", [{ id: "sleep", type: "wait_duration", duration_ms: 3_600_000 }]);
  await client.publish("work", [
    { id: "count", type: "set_var", name: "n", value: "${inputs.n + 1}", next: "flaky" },
    {
      ...{ id: "flaky", type: "action", action: "shop.flaky", compensation, next: "rest" },
      retry: { max_attempts: 2, initial_backoff_ms: 20, jitter: false },
    },
    { id: "rest", type: "wait_duration", duration_ms: 20, next: "which" },
    { id: "which", type: "switch", cases: [{ when: "inputs.refuse", next: "refuse" }], default: "done" },
    { id: "refuse", type: "action", action: "shop.refuse" },
    { id: "done", type: "end", output: "${vars.n}" },
  ]);
}

const untilHanging = ({ place }: Talk, runId: string) =>
  until(() => place.shop.hanging(runId).length > 0, { what: "the hanging step" });

const PARTS = ["", "/explain", "/events", "/signals", "/undo", "/children", "/children/counts", "/user_tasks"];

/** Everything that can be read of a run. */
async function readAll(talk: Talk, runId: string): Promise<void> {
  for (const part of PARTS) expect((await talk.ask("GET", `/sagas/${runId}${part}`)).status).toBe(200);
}

async function ends(talk: Talk, runId: string, state: string): Promise<void> {
  await talk.aside.untilState(runId, state);
  await talk.aside.allEnd([runId]);
  await readAll(talk, runId);
}

export const SCENARIOS: Readonly<Record<string, (talk: Talk) => Promise<void>>> = {
  async "a start, and its repeats"(talk) {
    const again = { run_id: talk.place.newRunId(), inputs: { a: [1, { b: null }] }, business_key: "b 1" };
    const first = await talk.start("wait", again);
    await talk.aside.untilState(first, "paused");
    expect(await talk.start("wait", again)).toBe(first);
    expect((await talk.ask("POST", "/sagas/start", { ...again, workflow_id: "paid" })).status).toBe(409);
    expect((await talk.ask("POST", "/sagas/start", { workflow_id: "nowhere" })).status).toBe(404);
    const keyed = { workflow_id: "wait", idempotency_key: "k", unknown_member: 1 };
    const made = await talk.ask("POST", "/sagas/start", keyed);
    await talk.aside.untilState(made.body.run_id, "paused");
    const found = await talk.ask("POST", "/sagas/start", keyed);
    expect(found.body).toEqual({ ...made.body, deduplicated: true, state: "paused" });
    await readAll(talk, first);
    expect((await talk.ask("GET", "/sagas?business_key=b%201&workflow_id=wait")).body.total).toBe(1);
    expect((await talk.ask("GET", "/sagas/counts?business_key=b%201&workflow_id=wait")).body.items).toHaveLength(1);
  },

  async "runs that hold a business key"(talk) {
    const held = { workflow_id: "paid", business_key: `Größe 🍵 ${talk.place.newRunId()}` };
    const start = (on_conflict: string, more: object = {}) =>
      talk.ask("POST", "/sagas/start", { ...held, run_id: talk.place.newRunId(), on_conflict, ...more });
    const { run_id: first } = (await start("reject")).body;
    await talk.aside.untilState(first, "paused");
    expect(await start("reject")).toMatchObject({ status: 409, body: { run_id: first, state: "paused" } });
    const found = { run_id: first, deduplicated: true, state: "paused" };
    expect(await start("return", { inputs: { amount: 0.1 } })).toMatchObject({ status: 202, body: found });
    const { run_id: second } = (await start("cancel_old")).body;
    await talk.aside.untilState(first, "cancelled");
    await talk.aside.untilState(second, "paused");
    const debounce = { window_ms: 60_000, max_ms: 60_000 };
    const { run_id: early } = (await start("cancel_old", { debounce })).body;
    await talk.aside.untilState(second, "cancelled");
    const { run_id: late } = (await start("reject", { debounce: { window_ms: 1 } })).body;
    await talk.aside.untilState(early, "cancelled");
    await talk.aside.untilState(late, "paused");
    for (const wrong of ["", "cancel", null, 1])
      expect((await start(wrong as string)).status).toBe(wrong === null ? 202 : 400);
    for (const window_ms of [0, -1, 1.5, "1s", null])
      expect((await start("return", { debounce: { window_ms } })).status).toBe(400);
    expect((await start("return", { debounce: { window_ms: 5 }, delay_ms: 5 })).status).toBe(400);
    expect((await start("return", { business_key: undefined })).status).toBe(400);
    expect((await talk.ask("POST", `/sagas/${late}/signal/go?wait_ms=30000`, {})).status).toBe(200);
    for (const runId of [first, second, early]) await ends(talk, runId, "cancelled");
    await ends(talk, late, "succeeded");
  },

  async "a signal with a start"(talk) {
    const body = (name: string, more: object = {}) => ({
      ...{ workflow_id: "errand", business_key: "cart 77", run_id: talk.place.newRunId() },
      signal: { name, payload: { price: 12.5, tea: "🍵", none: null, lines: [] }, ...more },
    });
    const send = (sent: object, query = "") => talk.ask("POST", `/sagas/signal_with_start${query}`, sent);
    const begun = await send(body("go", { idempotency_key: "click 1" }), "?wait_ms=30000");
    expect(begun).toMatchObject({ status: 200, body: { deduplicated: false, run: { awaited_signal: "more" } } });
    const { run_id: runId } = begun.body;
    const again = await send(body("go", { idempotency_key: "click 1" }));
    const same = { run_id: runId, deduplicated: true, signal_id: begun.body.signal_id, matched: begun.body.matched };
    expect(again).toMatchObject({ status: 202, body: same });
    expect(await send(body("later"))).toMatchObject({ status: 202, body: { run_id: runId, matched: false } });
    expect((await send({ ...body("go"), business_key: undefined })).status).toBe(400);
    for (const name of ["", "user_task.x", undefined, 7]) expect((await send(body(name as string))).status).toBe(400);
    expect((await send({ ...body("go"), signal: undefined })).status).toBe(400);
    const last = await send(body("more"), "?wait_ms=30000");
    const said = { price: 12.5, tea: "🍵", none: null, lines: [] };
    expect(last).toMatchObject({ status: 200, body: { run_id: runId, run: { state: "succeeded", output: said } } });
    const other = await send(body("go"), "?wait_ms=30000");
    expect(other.body.run_id).not.toBe(runId);
    await talk.ask("POST", `/sagas/${other.body.run_id}/cancel`, {});
    await ends(talk, runId, "succeeded");
    await ends(talk, other.body.run_id, "cancelled");
    expect((await talk.ask("GET", `/sagas/${runId}/signals`)).body.items).toHaveLength(3);
  },

  async "runs that share a slot"(talk) {
    const key = { inputs: { key: talk.place.newRunId() } };
    const [first, second] = [await talk.start("single-queue", key), await talk.start("single-queue", key)];
    await talk.aside.untilState(second, "paused");
    await until(async () => (await talk.aside.run(first)).paused_reason === "signal");
    const explained = await talk.ask("GET", `/sagas/${second}/explain`);
    expect(explained.body.waiting_for).toMatchObject([{ kind: "concurrency", ahead: 0, held_by: [first] }]);
    const { body: stats } = await talk.ask("GET", "/workflows/single-queue/stats");
    expect(stats.concurrency.held).toBeGreaterThan(0);
    const holder = await talk.start("single-refuse", key);
    const refused = await talk.ask("POST", "/sagas/start", { workflow_id: "single-refuse", ...key });
    expect(refused).toMatchObject({ status: 409, body: { error: "concurrency_limit" } });
    for (const runId of [first, second, holder]) {
      await until(async () => (await talk.aside.run(runId)).paused_reason === "signal");
      expect((await talk.ask("POST", `/sagas/${runId}/signal/go`, {})).status).toBe(202);
      await ends(talk, runId, "succeeded");
    }
  },

  async "runs and attempts that wait for their turn"(talk) {
    const key = { inputs: { key: talk.place.newRunId() } };
    const waitOf = async (runId: string) => (await talk.ask("GET", `/sagas/${runId}/explain`)).body.waiting_for;
    const turnOf = async (runId: string): Promise<string> => {
      const seen = async () => (await talk.aside.ask("GET", `/sagas/${runId}`)).body as { readonly wakeup_at?: string };
      return until(async () => (await seen()).wakeup_at, { what: "its turn" });
    };
    const first = await talk.start("begins-rarely", key);
    await until(async () => (await talk.aside.run(first)).paused_reason === "signal");
    const [second, third] = [await talk.start("begins-rarely", key), await talk.start("begins-rarely", key)];
    const [next, later] = [await turnOf(second), await turnOf(third)];
    expect(Date.parse(later) - Date.parse(next), "one an hour").toBe(3_600_000);
    const rate = { kind: "rate_limit", limit: 1, per_ms: 3_600_000, burst: 1, key: key.inputs.key };
    expect(await waitOf(second)).toMatchObject([{ ...rate, ahead: 0, scope: "workflow:begins-rarely" }]);
    expect(await waitOf(third)).toMatchObject([{ ...rate, ahead: 1 }]);
    const { body: waiting } = await talk.ask("GET", `/sagas/${third}`);
    expect(waiting).toMatchObject({ state: "paused", paused_reason: "rate_limit", wakeup_at: later });
    const { body: stats } = await talk.ask("GET", "/workflows/begins-rarely/stats");
    expect(stats.rate_limit.waiting).toBeGreaterThanOrEqual(2);
    // The one in between is lost, and the last one goes back.
    for (const runId of [second, third]) {
      await talk.ask("POST", `/sagas/${runId}/cancel`, {});
      await ends(talk, runId, "cancelled");
    }
    const fourth = await talk.start("begins-rarely", key);
    expect(await turnOf(fourth), "both turns are there again").toBe(next);
    await talk.ask("POST", `/sagas/${fourth}/terminate`, { reason: "enough" });
    await talk.ask("POST", `/sagas/${first}/signal/go`, {});
    await ends(talk, first, "succeeded");
    const calls = [await talk.start("calls-slowly", key), await talk.start("calls-slowly", key)];
    const turns: number[] = [];
    for (const runId of calls) {
      await ends(talk, runId, "succeeded");
      const { items } = (await talk.ask("GET", `/sagas/${runId}/events?limit=100`)).body;
      const rows = items as { event_type: string; recorded_at: string; metadata?: { kind?: string; at?: string } }[];
      const taken = rows.find(({ metadata }) => metadata?.kind === "turn_taken");
      const sent = rows.find(({ event_type: type }) => type === "step.dispatched");
      turns.push(Date.parse(taken?.metadata?.at ?? ""));
      expect(Date.parse(sent?.recorded_at ?? ""), "not before its turn").toBeGreaterThanOrEqual(turns.at(-1) ?? 0);
    }
    expect(Math.abs((turns[1] ?? 0) - (turns[0] ?? 0)), "two a second").toBeGreaterThanOrEqual(499);
  },

  async "what was registered and published a moment ago"(talk) {
    const actions = [{ action_name: "arrive", transport: "grpc" }];
    expect((await talk.ask("POST", "/registry/register", { service: "late", actions })).status).toBe(200);
    const document = { id: "late", name: "late", start: "only", published: true };
    for (const version of [1, 2]) {
      const steps = [{ id: "only", type: "action", action: "late.arrive", title: `of ${version}` }];
      expect((await talk.ask("POST", "/workflows", { ...document, version, steps })).status).toBe(201);
      const runId = await talk.start("late");
      await until(async () => (await talk.aside.run(runId)).state === "running");
      expect((await talk.ask("GET", `/sagas/${runId}`)).body).toMatchObject({ version, current_step: "only" });
      await talk.ask("POST", `/sagas/${runId}/cancel`, { compensate: false });
      await ends(talk, runId, "cancelled");
    }
  },

  async "a run that works, retries, rests and ends"(talk) {
    const runId = await talk.start("work", { inputs: { n: 1, refuse: false }, variables: { given: true } });
    await ends(talk, runId, "succeeded");
  },

  async "a run that fails and undoes"(talk) {
    const runId = await talk.start("work", { inputs: { n: 1, refuse: true } });
    await ends(talk, runId, "failed");
    const page = await talk.ask("GET", `/sagas/${runId}/events?limit=3`);
    await talk.ask("GET", `/sagas/${runId}/events?limit=2&cursor=${page.body.next_cursor}`);
    await talk.ask("GET", `/sagas/${runId}/events?limit=2&offset=4`);
  },

  async signals(talk) {
    const runId = await talk.start("wait");
    await talk.aside.untilState(runId, "paused");
    const signal = (name: string, body?: object) => talk.ask("POST", `/sagas/${runId}/signal/${name}`, body);
    expect(await signal("other", { a: 1 })).toMatchObject({ status: 409, body: { recorded: true } });
    expect((await signal("user_task.x")).status).toBe(400);
    const keyed = { payload: { by: 1 }, idempotency_key: "once" };
    const first = await signal("go", keyed);
    expect(first).toMatchObject({ status: 202, body: { matched: true } });
    expect(await signal("go", keyed)).toEqual(first);
    await talk.aside.untilState(runId, "succeeded");
    expect((await signal("go", { payload: {} })).status).toBe(409);
    expect((await talk.ask("POST", `/sagas/${uuidv7()}/signal/go`)).status).toBe(404);
    expect((await talk.ask("POST", "/sagas/17/signal/go")).status).toBe(400);
    await ends(talk, runId, "succeeded");
  },

  async "signals whose answer waits"(talk) {
    const runId = await talk.start("errand");
    await talk.aside.untilState(runId, "paused");
    const signal = (name: string, query: string, body?: object) =>
      talk.ask("POST", `/sagas/${runId}/signal/${name}${query}`, body);
    expect((await signal("go", "?wait_ms=60001")).status).toBe(400);
    expect((await signal("none", "?wait_ms=30000")).status).toBe(409);
    // Not when it only waits for its next attempt.
    const keyed = { payload: { by: "ann" }, idempotency_key: "once" };
    const first = await signal("go", "?wait_ms=30000", keyed);
    const paused = { state: "paused", paused_reason: "signal", awaited_signal: "more" };
    expect(first).toMatchObject({ status: 200, body: { matched: true, run: { id: runId, ...paused } } });
    expect(await signal("go", "?wait_ms=30000", keyed)).toEqual(first);
    const { signal_id } = first.body;
    expect(await signal("go", "", keyed)).toEqual({ status: 202, body: { signal_id, matched: true } });
    const said = { price: "12.50", what: "🍵", none: null, lines: [] };
    const last = await signal("more", "?wait_ms=30000", { payload: said });
    expect(last).toMatchObject({ status: 200, body: { run: { state: "succeeded", output: said } } });
    await ends(talk, runId, "succeeded");
  },

  async "a submit whose answer waits"(talk) {
    const runId = await talk.start("ask");
    await talk.aside.untilState(runId, "paused");
    const { items } = (await talk.ask("GET", `/sagas/${runId}/user_tasks`)).body;
    const path = `/sagas/${runId}/user_task/${items[0].id}/submit?wait_ms=30000`;
    const submitted = await talk.ask("POST", path, { result: { approved: true }, submitted_by: "ann" });
    expect(submitted).toMatchObject({ status: 200, body: { matched: true, run: { state: "succeeded" } } });
    await ends(talk, runId, "succeeded");
  },

  async "a signal that does not come to its next wait in time"(talk) {
    const runId = await talk.start("wait-and-hang");
    await talk.aside.untilState(runId, "paused");
    const taken = await talk.ask("POST", `/sagas/${runId}/signal/go?wait_ms=50`, {});
    expect([taken.status, Object.keys(taken.body)]).toEqual([202, ["signal_id", "matched"]]);
    await untilHanging(talk, runId);
    for (const letGo of talk.place.shop.hanging(runId)) letGo();
    await ends(talk, runId, "succeeded");
  },

  async queries(talk) {
    const variables = { price: 12.5, tea: "🍵", none: null, lines: [], "a-b": { "": 1 } };
    const runId = await talk.start("wait", { inputs: { amount: 20.25 }, variables });
    await talk.aside.untilState(runId, "paused");
    const query = (expression: unknown, id = runId) => talk.ask("POST", `/sagas/${id}/query`, { expression });
    expect(await query("inputs.amount + vars.price")).toMatchObject({ status: 200, body: { value: 32.75 } });
    expect((await query("vars")).body).toMatchObject({ run_id: runId, state: "paused", value: variables });
    expect(await query("vars.none")).toMatchObject({ status: 200, body: { value: null } });
    for (const wrong of ["", "vars.", "nothing", 7, null, undefined]) expect((await query(wrong)).status).toBe(400);
    for (const lacking of ["vars.nowhere", "vars.tea + 1", "1 / 0"]) expect((await query(lacking)).status).toBe(422);
    expect((await query("vars", uuidv7())).status).toBe(404);
    expect((await query("vars", "17")).status).toBe(400);
    expect((await query("output")).status).toBe(400);
    await talk.ask("POST", `/sagas/${runId}/signal/go?wait_ms=30000`, { payload: { by: "ann" } });
    await ends(talk, runId, "succeeded");
    expect(await query("output")).toMatchObject({ status: 200, body: { state: "succeeded" } });
  },

  async cancels(talk) {
    const runId = await talk.start("paid");
    await talk.aside.untilState(runId, "paused");
    const cancel = (id: string, body?: object) => talk.ask("POST", `/sagas/${id}/cancel`, body);
    expect((await cancel(runId, { reason: "enough" })).status).toBe(202);
    await talk.aside.untilState(runId, "cancelled");
    expect((await cancel(runId)).body).toMatchObject({ state: "cancelled", already_terminal: true });
    const other = await talk.start("paid");
    await talk.aside.untilState(other, "paused");
    expect((await cancel(other, { compensate: false })).body.state).toBe("cancelled");
    expect((await cancel(uuidv7())).status).toBe(404);
    expect((await cancel("17")).status).toBe(400);
    expect((await cancel(other, { reason: 1 })).status).toBe(400);
    await ends(talk, runId, "cancelled");
    await ends(talk, other, "cancelled");
  },

  async "reports of an action"(talk) {
    const runId = await talk.start("hang");
    await untilHanging(talk, runId);
    const { body } = await talk.ask("GET", `/sagas/${runId}`);
    const to = (what: string, query = "") => `/sagas/${runId}/actions/hang/${what}${query}`;
    const stale = async (path: string, report?: object) => {
      const answer = await talk.ask("POST", path, report);
      expect(answer.status).toBe(202);
      return answer.body.stale;
    };
    expect(await stale(to("heartbeat"))).toBe(false);
    expect(await stale(to("heartbeat", "?attempt=7"))).toBe(true);
    expect(await stale(to("result", "?attempt=7"), { result: {} })).toBe(true);
    expect((await talk.ask("POST", to("result"), { result: {}, error: { code: "x", message: "y" } })).status).toBe(400);
    // A worker of a tenant is not told which runs there are.
    const unknown = await talk.ask("POST", `/sagas/${uuidv7()}/actions/hang/result`, { result: {} });
    expect(unknown.status).toBe(accessIsOn() ? 403 : 404);
    const pinned = `?dispatch_id=${body.awaited_action_dispatch}&attempt=1`;
    expect(await stale(to("result", pinned), { result: { receipt: "by hand" } })).toBe(false);
    expect(await stale(to("result", pinned), { result: { receipt: "by hand" } })).toBe(true);
    await ends(talk, runId, "succeeded");
    const failing = await talk.start("hang");
    await untilHanging(talk, failing);
    const error = { code: "no", message: "never", retryable: false };
    expect(await stale(`/sagas/${failing}/actions/hang/result`, { error })).toBe(false);
    await ends(talk, failing, "failed");
  },

  async "a user task"(talk) {
    const runId = await talk.start("ask");
    await talk.aside.untilState(runId, "paused");
    const { body } = await talk.ask("GET", `/sagas/${runId}/user_tasks`);
    const submit = async (taskId: string, answer: object) =>
      (await talk.ask("POST", `/sagas/${runId}/user_task/${taskId}/submit`, answer)).status;
    const [task] = body.items;
    expect(await submit(uuidv7(), { approved: true })).toBe(404);
    expect(await submit("17", { approved: true })).toBe(400);
    expect(await submit(task.id, { result: { approved: "perhaps" } })).toBe(422);
    expect(await submit(task.id, { result: { approved: true }, submitted_by: "ann" })).toBe(202);
    expect(await submit(task.id, { result: { approved: true }, submitted_by: "ann" })).toBe(409);
    await ends(talk, runId, "succeeded");
  },

  async "a release from quarantine"(talk) {
    const runId = await talk.start("sleep");
    await talk.aside.untilState(runId, "paused");
    expect((await talk.ask("POST", `/sagas/${runId}/release`)).status).toBe(409);
    vi.stubEnv("NODE_OPTIONS", DIES_OF_ITS_TRIAL);
    await suspect(talk.place.database.sql, runId);
    await until(async () => (await talk.aside.run(runId)).paused_reason === "quarantine");
    vi.unstubAllEnvs();
    await talk.ask("GET", `/sagas/${runId}`);
    expect((await talk.ask("POST", `/sagas/${runId}/release`)).status).toBe(202);
    expect((await talk.ask("POST", `/sagas/${uuidv7()}/release`)).status).toBe(404);
    await talk.ask("POST", `/sagas/${runId}/cancel`);
    await ends(talk, runId, "cancelled");
  },

  async "the acts of an operator"(talk) {
    const steps = [{ id: "no", type: "assert", condition: "has(vars.n) && vars.n > 1" }];
    await talk.aside.publish("stands", steps, { on_failure: "incident" });
    const act = async (runId: string, name: string, body?: object) =>
      (await talk.ask("POST", `/sagas/${runId}/${name}`, body)).status;
    const runId = await talk.start("stands");
    await until(async () => (await talk.aside.run(runId)).paused_reason === "incident");
    expect(await act(runId, "compensations/retry")).toBe(409);
    expect(await act(runId, "compensations/skip", { ordinal: 1 })).toBe(400);
    expect(await act(runId, "pause", { reason: "to look" })).toBe(202);
    expect(await act(runId, "retry_step", { variables: { n: 1 } })).toBe(409);
    expect(await act(runId, "resume")).toBe(202);
    expect(await act(runId, "retry_step", { variables: { m: 1 } })).toBe(400);
    expect(await act(runId, "skip_step", { output: 7 })).toBe(202);
    await ends(talk, runId, "succeeded");
    expect(await act(runId, "fail")).toBe(409);
    expect(await act(runId, "terminate", {})).toBe(400);
    expect(await act(runId, "rerun", { labels: { again: "yes" } })).toBe(202);
    expect(await act(uuidv7(), "terminate", { reason: "stuck" })).toBe(404);
  },

  async "forking a run from a step"(talk) {
    const steps = [
      { id: "make", type: "set_var", name: "made", value: "é", next: "rest" },
      { id: "rest", type: "wait_for_signal", signal_name: "go", next: "done" },
      { id: "done", type: "end", output: "${vars.made}" },
    ];
    await talk.aside.publish("forked", steps, { history: "full" });
    const original = await talk.start("forked");
    await talk.aside.untilState(original, "paused");
    const fork = (body: object) => talk.ask("POST", `/sagas/${original}/fork`, body);
    expect((await fork({})).status).toBe(400);
    expect((await fork({ step: "nowhere" })).status).toBe(409);
    expect((await talk.ask("POST", `/sagas/${uuidv7()}/fork`, { step: "rest" })).status).toBe(404);
    const { status, body } = await fork({ step: "rest", entry: 1 });
    expect([status, body.changed]).toEqual([202, true]);
    await ends(talk, original, "cancelled");
    await talk.aside.untilState(body.run_id, "paused");
    expect((await talk.ask("POST", `/sagas/${body.run_id}/signal/go`, { payload: {} })).status).toBe(202);
    await ends(talk, body.run_id, "succeeded");
    const seen = (await talk.ask("GET", `/sagas/${body.run_id}`)).body;
    expect(seen).toMatchObject({ output: "é", forked_from: { saga_id: original, step: "rest", entry: 1 } });
    expect((await fork({ step: "rest" })).body).toMatchObject({ error: "conflict", run_id: body.run_id });
    expect((await fork({ step: "make", effects: "assume" })).status).toBe(202);
    expect((await talk.ask("GET", `/sagas?forked_from=${original}`)).body.total).toBe(2);
  },

  async "erasing a run"(talk) {
    const erase = async (runId: string) => (await talk.ask("DELETE", `/sagas/${runId}`)).status;
    const runId = await talk.start("sleep");
    await talk.aside.untilState(runId, "paused");
    expect(await erase(runId)).toBe(409);
    await talk.ask("POST", `/sagas/${runId}/cancel`);
    await ends(talk, runId, "cancelled");
    expect(await erase(runId)).toBe(204);
    expect(await erase(runId)).toBe(404);
    expect((await talk.ask("GET", `/sagas/${runId}`)).status).toBe(404);
  },

  async "a run that moves to another version"(talk) {
    const wait = (id: string) => [{ id, type: "wait_for_signal", signal_name: "go" }];
    await talk.aside.publish("moves", wait("hold"));
    await talk.aside.publish("moves", wait("wait"), { version: 2 });
    const runId = await talk.start("moves");
    await talk.aside.untilState(runId, "paused");
    const migrate = (id: string, body: object) => talk.ask("POST", `/sagas/${id}/migrate`, body);
    const steps = { wait: "hold" };
    expect((await migrate(runId, { version: 1 })).status).toBe(409);
    expect((await migrate(runId, { version: 1, check: true })).body).toMatchObject({ allowed: false });
    expect((await migrate(runId, { version: 1, steps, check: true })).body).toEqual({ allowed: true, reasons: [] });
    const report = await talk.ask("POST", "/workflows/moves/migrations/check", { version: 1, steps });
    expect(report.body).toMatchObject({ matched: 1, movable: 1 });
    expect((await talk.ask("POST", "/workflows/moves/migrations/check", { version: 9 })).status).toBe(404);
    expect((await migrate(runId, { version: 1, steps })).status).toBe(202);
    expect((await migrate(runId, { version: 9 })).status).toBe(404);
    expect((await migrate(runId, {})).status).toBe(400);
    expect((await migrate(uuidv7(), { version: 1 })).status).toBe(404);
    await talk.ask("POST", `/sagas/${runId}/signal/go`, {});
    await ends(talk, runId, "succeeded");
    expect((await migrate(runId, { version: 2 })).status).toBe(409);
  },

  async "the live stream"(talk) {
    const runId = await talk.start("paid");
    await talk.aside.untilState(runId, "paused");
    await talk.watch(runId, "", () => talk.ask("POST", `/sagas/${runId}/signal/go`, { n: 1 }));
    await talk.watch(runId, "?after_seq=2", async () => {});
    await ends(talk, runId, "succeeded");
  },

  async "the inspection"(talk) {
    const runId = await talk.start("paid");
    await talk.aside.untilState(runId, "paused");
    await talk.inspect(runId, () => talk.ask("POST", `/sagas/${runId}/signal/go`, { n: 1 }));
    await talk.inspect(runId, async () => {});
    await ends(talk, runId, "succeeded");
  },

  async "the figures of a workflow and of the cluster"(talk) {
    const runId = await talk.start("work", { inputs: { n: 1, refuse: false }, variables: { given: true } });
    await ends(talk, runId, "succeeded");
    // Aside: each node answers as of its moment, and says more of itself than of others.
    const { body } = await talk.aside.ask("GET", "/workflows/work/performance?hours=1");
    expect(body.buckets.at(-1).succeeded + body.buckets.at(-2).succeeded).toBeGreaterThan(0);
    expect(body.steps).not.toEqual([]);
    expect((await talk.ask("GET", "/workflows/nowhere/performance")).status).toBe(404);
    expect((await talk.ask("GET", "/workflows/work/performance?hours=0")).status).toBe(400);
    const { nodes, shards } = (await talk.aside.ask("GET", "/cluster")).body;
    const owned = nodes.reduce((sum: number, node: { shards: number }) => sum + node.shards, 0);
    expect([owned, shards.unowned]).toEqual([256, 0]);
  },

  async "runs that are not there"(talk) {
    for (const part of PARTS) {
      expect((await talk.ask("GET", `/sagas/${uuidv7()}${part}`)).status).toBe(404);
      expect((await talk.ask("GET", `/sagas/17${part}`)).status).toBe(400);
    }
  },
};
