// The spans of runs on a real database, and the trace contexts that workers and children get: which runs are traced, and what each span says.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Dispatch, type JsonObject, parseTraceparent, type RunId, traceparentOf } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { samplerOf } from "../../src/tracing/otlp.js";
import { type Span, spansOf } from "../../src/tracing/run-spans.js";
import { TraceContexts } from "../../src/tracing/trace-source.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, registerActions, type Step, signal, start, startHalf } from "../run/rig.js";

const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
const SENDER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const [YES, NO] = [true, false].map((sampled) => traceparentOf({ ...CALLER, sampled })) as [string, string];
const SIGNAL = "00000000-0000-7000-8000-00000000000";

const charge = (id: string, more: object = {}): Step => ({ id, type: "action", action: `shop.${id}`, ...more });

let database: TestDatabase;
/** It exports spans. */
let node: Half;
/** It exports none. */
let plain: Half;
let contexts: TraceContexts;
let spans: Span[] = [];
/** Whether a run is traced whose caller says nothing. */
let isTraced = true;

beforeAll(async () => {
  database = await createTestDatabase();
  await registerActions(database, "book", "pay", "silent", "refuse", "busy");
  contexts = new TraceContexts((_, parent) => parent ?? isTraced);
  const reply = ({ call: { action } }: Dispatch) => {
    if (action === "silent") return undefined;
    if (action === "busy") return { code: "busy", retryable: true };
    return action === "refuse" ? { code: "a secret", retryable: false } : { result: {} };
  };
  node = await startHalf(database, {
    ...{ reply, traces: contexts },
    onCommit: (_, events, change) => void (change && spans.push(...spansOf(contexts, events, change))),
  });
  plain = await startHalf(database, { reply });
  await publish(database, "part", [charge("pay")]);
  await publish(database, "whole", [
    { id: "p", type: "parallel", branches: { a: { next: "book" } }, next: "j" },
    charge("book"),
    { id: "j", type: "join", next: "spawn" },
    { id: "spawn", type: "spawn_saga", workflow_id: "part", inputs: {}, next: "sub" },
    { id: "sub", type: "sub_saga", workflow_id: "part", inputs: {} },
  ]);
  await publish(database, "waits", [
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "book" },
    charge("book"),
  ]);
  await node.poller.start();
});
afterAll(async () => {
  await node.stop();
  await plain.stop();
  await database.drop();
});
beforeEach(() => {
  spans = [];
  isTraced = true;
});

const named = (name: string) => spans.filter((span) => span.name === name);
const sentOf = ({ dispatcher }: Half, id: RunId) => dispatcher.sent.filter(({ runId }) => runId === id);
const linkOf = ({ traceId, spanId }: Span["context"]) => `${traceId}-${spanId}`;

async function ended(id: RunId, ...states: readonly string[]): Promise<void> {
  await until(async () => {
    const [row] = await database.sql<{ state: string }[]>`select state from runs where id = ${id}`;
    return states.includes(row?.state ?? "");
  });
}

async function runOf(workflow: string, more: JsonObject = {}, half = node): Promise<RunId> {
  const id = await start(half.starter, workflow, more);
  await ended(id, "succeeded", "failed", "cancelled");
  return id;
}

/** The runs that came of it, and itself. */
async function family(id: RunId): Promise<RunId[]> {
  await until(async () => {
    const rows = await database.sql`select from runs where workflow_id in ('whole', 'part') and state <> 'succeeded'`;
    return rows.length === 0;
  });
  const rows = await database.sql<
    { id: RunId }[]
  >`select id from runs where started_at >= (select started_at from runs where id = ${id})`;
  return rows.map((row) => row.id);
}

describe("a run", () => {
  it("is traced under its own id, and its worker and its span have one context", async () => {
    const id = await runOf("part");
    const [whole] = named("saga.run");
    expect(whole?.context).toEqual({
      traceId: id.replaceAll("-", ""),
      spanId: id.replaceAll("-", "").slice(16),
      sampled: true,
    });
    expect(whole).toMatchObject({ kind: "internal", links: [] });
    expect(whole?.parent).toBeUndefined();
    const [step] = named("saga.step");
    expect(parseTraceparent(sentOf(node, id)[0]?.traceparent)).toEqual(step?.context);
    expect(step?.parent).toEqual(whole?.context);
  });

  it("is not traced where its sampler says no, and its worker learns of it", async () => {
    isTraced = false;
    const id = await runOf("part");
    expect(spans).toEqual([]);
    expect(sentOf(node, id)[0]?.traceparent).toMatch(/-00$/);
  });

  it.each([
    ["yes", YES, false],
    ["no", NO, true],
  ])("whose caller says %s is as its caller is, with all that it starts", async (_, traceparent, other) => {
    isTraced = other;
    const id = await runOf("whole", { traceparent });
    const ids = await family(id);
    expect(ids).toHaveLength(4);
    const sampled = traceparent === YES;
    expect(new Set(spans.map(({ attributes }) => attributes["saga.run.id"])).size).toBe(sampled ? 4 : 0);
    const flags = ids.flatMap((each) => sentOf(node, each)).map((dispatch) => dispatch.traceparent?.slice(-2));
    expect(flags).toEqual(flags.map(() => (sampled ? "01" : "00")));
    expect(flags).toHaveLength(3);
    const whole = spans.find(({ parent }) => parent?.spanId === CALLER.spanId);
    if (!sampled) return;
    expect(whole?.context.traceId).toBe(CALLER.traceId);
    const below = named("saga.run").filter((span) => span !== whole);
    expect(below.map(({ links, parent }) => [links.map(linkOf), parent])).toEqual(
      below.map(() => [[whole && linkOf(whole.context)], undefined]),
    );
    expect(new Set(below.map(({ context }) => context.traceId)).size).toBe(3);
  });

  it("gives its workers, and the runs below it, the trace of its caller where nothing is exported", async () => {
    const id = await runOf("whole", { traceparent: YES }, plain);
    const sent = (await family(id)).flatMap((each) => sentOf(plain, each));
    expect(sent.map(({ traceparent }) => traceparent)).toEqual([YES, YES, YES]);
    const without = await runOf("part", {}, plain);
    expect(sentOf(plain, without).map(({ traceparent }) => traceparent)).toEqual([undefined]);
    expect(spans).toEqual([]);
  });

  it("says how long an attempt waited for a worker, and nothing of a worker's own code", async () => {
    node.dispatcher.credit = false;
    await publish(database, "refused", [charge("refuse")]);
    const id = await start(node.starter, "refused");
    const since = await until(async () => {
      const [row] = await database.sql`select record -> 'wait' ->> 'since' as since from runs where id = ${id}`;
      return row?.since && Number(row.since);
    });
    await until(() => node.clock.now() >= since + 20);
    node.dispatcher.credit = true;
    node.dispatcher.offerAll();
    await ended(id, "failed");
    const [step] = named("saga.step");
    expect(step?.attributes["saga.step.queue_seconds"]).toBeGreaterThanOrEqual(0.02);
    expect([step?.error, named("saga.run")[0]?.error]).toEqual(["given", "given"]);
    expect(JSON.stringify(spans)).not.toContain("secret");
  });

  it("that an operator terminates has a span of the attempt that it did not await", async () => {
    await publish(database, "abandoned", [charge("silent")]);
    const id = await start(node.starter, "abandoned");
    await until(() => sentOf(node, id).length > 0);
    await node.runtime.command(id, { type: "terminate", reason: "now", actor: "api" }, { reach: EVERYTHING });
    await ended(id, "cancelled", "failed");
    expect(named("saga.step").map(({ error }) => error)).toEqual(["cancelled"]);
    expect(named("saga.run")).toHaveLength(1);
  });

  it("that is cancelled has not failed", async () => {
    const id = await start(node.starter, "waits");
    await node.runtime.command(id, cancel, { reach: EVERYTHING });
    await ended(id, "cancelled");
    const [whole] = named("saga.run");
    expect(whole?.attributes["saga.run.state"]).toBe("cancelled");
    expect(whole?.error).toBeUndefined();
  });
});

describe("after a wait", () => {
  it("a run goes on in a trace of its own, whose attempts are linked to the first one", async () => {
    const id = await start(node.starter, "waits");
    const command = { ...signal(`${SIGNAL}1`, "go"), traceparent: SENDER };
    await node.runtime.command(id, command, { reach: EVERYTHING });
    await ended(id, "succeeded");
    const [whole, resumed, step] = ["saga.run", "saga.resume", "saga.step"].map((name) => named(name)[0]);
    expect(resumed?.context.traceId).not.toBe(whole?.context.traceId);
    expect(resumed?.links).toEqual([whole?.context, parseTraceparent(SENDER)]);
    expect(resumed?.attributes).toMatchObject({ "saga.step.id": "go", "saga.wait.kind": "signal" });
    expect(resumed?.attributes["saga.wait.seconds"]).toBeGreaterThanOrEqual(0);
    expect([step?.context.traceId, step?.parent, step?.links]).toEqual([
      ...[resumed?.context.traceId, resumed?.context, [whole?.context]],
    ]);
    expect(named("saga.signal")).toEqual([]);
  });

  it.each([
    ["a time", { id: "w", type: "wait_duration", duration: "PT0.001S", next: "book" }, "timer"],
    ["an incident", charge("refuse", { next: "book" }), "incident"],
  ])("for %s it does, too", async (_, step, kind) => {
    await publish(database, `after-${kind}`, [step, charge("book")], { on_failure: "incident" });
    const id = await start(node.starter, `after-${kind}`);
    if (kind === "incident") {
      await ended(id, "paused");
      await node.runtime.command(id, { type: "skip_step", actor: "api" }, { reach: EVERYTHING });
    }
    await ended(id, "succeeded");
    expect(named("saga.resume").map(({ attributes }) => attributes["saga.wait.kind"])).toEqual([kind]);
  });

  it("of a signal that another run has sent, it is linked to that run", async () => {
    await publish(database, "sends", [
      { id: "tell", type: "emit_signal", run_id: "${inputs.to}", signal_name: "go", payload: {} },
    ]);
    const id = await start(node.starter, "waits");
    const sender = await start(node.starter, "sends", { inputs: { to: id } });
    await ended(id, "succeeded");
    const run = named("saga.run").find(({ attributes }) => attributes["saga.run.id"] === sender);
    const [resumed] = named("saga.resume");
    expect(resumed?.links.map(linkOf)).toContain(linkOf(run?.context as Span["context"]));
  });

  it("between two attempts it does not", async () => {
    await publish(database, "tries", [charge("busy", { retry: { max_attempts: 2, initial_backoff_ms: 1 } })]);
    await runOf("tries");
    expect([named("saga.step").length, named("saga.resume")]).toEqual([2, []]);
    expect(new Set(spans.map(({ context }) => context.traceId)).size).toBe(1);
  });

  it("a signal that no step takes is a span of the run, with a link to its sender", async () => {
    const id = await start(node.starter, "waits");
    for (const nth of [2, 3]) {
      const more = nth === 2 ? { traceparent: SENDER } : {};
      await node.runtime.command(id, { ...signal(`${SIGNAL}${nth}`, "early"), ...more }, { reach: EVERYTHING });
    }
    const [kept, ...others] = named("saga.signal");
    expect(others).toEqual([]);
    expect(kept).toMatchObject({ kind: "consumer", links: [parseTraceparent(SENDER)] });
    expect(kept?.context.traceId).toBe(id.replaceAll("-", ""));
    await node.runtime.command(id, cancel, { reach: EVERYTHING });
    await ended(id, "cancelled");
  });

  it("a task that was submitted is linked to who submitted it", async () => {
    await publish(database, "asks", [{ id: "ask", type: "manual_approval", assignee: "ann" }]);
    const id = await start(node.starter, "asks");
    const taskId = await until(async () => {
      const [row] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${id}`;
      return row?.id;
    });
    const command = { type: "submit", taskId, result: { approved: true }, actor: "api", traceparent: SENDER } as const;
    await node.runtime.command(id, command, { reach: EVERYTHING });
    await ended(id, "succeeded");
    const [resumed] = named("saga.resume");
    expect(resumed?.attributes["saga.wait.kind"]).toBe("user_task");
    expect(resumed?.links.map(linkOf)).toContain(SENDER.slice(3, -3));
  });
});

describe("a sampler", () => {
  const share = (ratio: number) => {
    const sampler = samplerOf({ ratio, followsCaller: true });
    const ids = Array.from({ length: 4_000 }, () => uuidv7().replaceAll("-", ""));
    return ids.filter((id) => sampler(id)).length / ids.length;
  };

  it("takes the share that it is told", () => {
    expect([share(0), share(1)]).toEqual([0, 1]);
    expect(share(0.1)).toBeGreaterThan(0.05);
    expect(share(0.1)).toBeLessThan(0.15);
  });

  it("follows a caller only if it is told so", () => {
    const of = (followsCaller: boolean, parent: boolean) =>
      samplerOf({ ratio: parent ? 0 : 1, followsCaller })(CALLER.traceId, parent);
    expect([of(true, true), of(true, false), of(false, true), of(false, false)]).toEqual([true, false, false, true]);
  });
});
