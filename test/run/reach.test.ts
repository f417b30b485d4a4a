// Commands to runs of another tenant, on a real runtime: whatever they are, and whichever node they reach, for their sender there is no such run,
// and the run stays as it is, to the byte. Two walls see to that, the decision and the fence of the commit: mutants take each of them out, and both.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMAND_KINDS, type DispatchId, type RunCommand, type RunId } from "../../machines/index.js";
import { EVERYTHING, Patterns, type Reach } from "../../src/access/index.js";
import type { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { type RunAsk, runProtocol } from "../../src/run/node-messages.js";
import { Router } from "../../src/run/router.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { rowsOf } from "../store/commit-rows.js";
import { breaksOnce, comeTo, publishHelped, STANDS } from "./helped.js";
import { cancel, type Half, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { look } from "./seen.js";

const TENANT = uuidv7();
const by = { actor: "user:eve" };

/** Reaches that the runs of TENANT are outside of. */
const OTHERS: Readonly<Record<string, Reach>> = {
  "another tenant": { tenants: [uuidv7()] },
  "other tenants": { tenants: [uuidv7(), uuidv7()] },
  "no tenant": { tenants: [] },
};
const NARROWED: Reach = { tenants: [TENANT], workflows: new Patterns(["helped", "other.*"]) };

let database: TestDatabase;
let half: Half;
let asked: { readonly runId: RunId; readonly taskId: string };

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publishHelped(database);
  await registerActions(database, "hold");
  await publish(database, "busy", [{ id: "hold", type: "action", action: "shop.hold", inputs: {} }]);
  await publish(database, "ask", [{ id: "ask", type: "collect_input", assignee: "ann", form_schema: {} }]);
  const run_id = "${inputs.to}";
  await publish(database, "signals", [{ id: "s", type: "emit_signal", run_id, signal_name: "go" }]);
  await publish(database, "cancels", [{ id: "s", type: "cancel", run_id }]);
  const broken = breaksOnce();
  half = await startHalf(database, {
    reply: (dispatch) => (dispatch.call.action === "hold" ? undefined : broken(dispatch)),
  });
  const runId = await start(half.starter, "ask", { tenantId: TENANT });
  await until(async () => (await look(database.sql, runId)).run.state === "paused");
  const [task] = await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`;
  asked = { runId, taskId: task?.id ?? "" };
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

interface Addressed {
  readonly runId: RunId;
  readonly command: RunCommand;
}

const waiting = () => comeTo(STANDS[0] as (typeof STANDS)[number], database, half, { tenantId: TENANT });

const failure = { code: "no", message: "no", retryable: false, outcomeUnknown: false };

async function toBusyRun(commandAbout: (dispatchId: DispatchId) => RunCommand): Promise<Addressed> {
  const runId = await start(half.starter, "busy", { tenantId: TENANT });
  const dispatch = () => half.dispatcher.sent.find((sent) => sent.runId === runId);
  await until(() => dispatch() !== undefined);
  return { runId, command: commandAbout(dispatch()?.dispatchId as DispatchId) };
}

/** Every kind of command, each to a run that would take it. */
async function commandsOfEveryKind(): Promise<readonly Addressed[]> {
  const acts = await Promise.all(
    STANDS.map(async (stand) => ({
      runId: await comeTo(stand, database, half, { tenantId: TENANT }),
      command: { ...stand.act, ...by } as RunCommand,
    })),
  );
  const others: readonly RunCommand[] = [
    { type: "advance" },
    signal(uuidv7(), "go"),
    cancel,
    { type: "child", entry: 1, branch: "a", state: "succeeded", owed: 0, unprotected: {} },
    { type: "take", signalId: uuidv7(), name: "go", from: newRunId() },
    { type: "look", name: "go" },
    { type: "event", eventId: uuidv7() },
    { type: "quarantine", proof: { end: "ended", trials: 3, heap_mb: 1, ms: 1 } },
    { type: "slot_granted", entry: 0 },
    { type: "slot_refused", entry: 0, reason: "refused" },
    { type: "turn_given", entry: 0, at: 0 },
    { type: "turn_refused", entry: 0 },
    { type: "data_lost" },
    { type: "fork", runId: newRunId(), step: "ask", inherits: true, ...by },
  ];
  const reports: readonly ((dispatchId: DispatchId) => RunCommand)[] = [
    (dispatchId) => ({ type: "offer", dispatchId }),
    (dispatchId) => ({ type: "carry", dispatchId }),
    (dispatchId) => ({ type: "heartbeat", dispatchId, ...by }),
    (dispatchId) => ({ type: "result", result: {}, dispatchId, ...by }),
    (dispatchId) => ({ type: "failure", ...failure, dispatchId, ...by }),
  ];
  return [
    ...acts,
    // Each to a run of its own: if the fence alone keeps them off, they are replayed for seconds.
    ...(await Promise.all(others.map(async (command) => ({ runId: await waiting(), command })))),
    ...(await Promise.all(reports.map(toBusyRun))),
    { runId: asked.runId, command: { type: "submit", taskId: asked.taskId, result: {}, ...by } },
  ];
}

const send = ({ runId, command }: Addressed, reach: Reach) =>
  half.runtime.command(runId, command, { id: uuidv7(), reach });

/** Rejects with why it was refused. */
const refusalOf = (sent: Promise<unknown>) =>
  sent.then(
    (answer) => Promise.reject(new Error(`was answered ${JSON.stringify(answer)}`)),
    (error: SagaError) => error,
  );

const shown = ({ status, code, message, details, extra }: SagaError, runId: string) => ({
  ...{ status, code, details, extra },
  message: message.replaceAll(runId, "<run>"),
});

describe("a command whose sender may not reach the run", () => {
  it("changes nothing of it, whatever it is", async () => {
    const addressed = await commandsOfEveryKind();
    expect(new Set(addressed.map(({ command }) => command.type))).toEqual(new Set(Object.keys(COMMAND_KINDS)));
    const runIds = [...new Set(addressed.map(({ runId }) => runId))];
    const all = () => Promise.all(runIds.map((runId) => rowsOf(database.sql, runId)));
    const before = await all();
    await Promise.all(addressed.map((one) => refusalOf(send(one, OTHERS["another tenant"] as Reach))));
    expect(await all()).toEqual(before);
  });

  it.each(Object.entries({ ...OTHERS, "other workflows": NARROWED }))(
    "is answered as for an id that exists nowhere (%s)",
    async (_, reach) => {
      for (const { runId, command } of await commandsOfEveryKind()) {
        const nowhere = newRunId();
        const unknown = await refusalOf(half.runtime.command(nowhere, command, { id: uuidv7(), reach }));
        const refusal = await refusalOf(send({ runId, command }, reach));
        expect([command.type, shown(refusal, runId)]).toEqual([command.type, shown(unknown, nowhere)]);
      }
    },
  );

  it("does not drop the run from memory, nor end its timers", async () => {
    const runId = await waiting();
    expect(half.runtime.residents.has(runId)).toBe(true);
    await refusalOf(send({ runId, command: cancel }, OTHERS["another tenant"] as Reach));
    expect(half.runtime.residents.has(runId)).toBe(true);
  });

  it("is not told the answer that its id got from another sender", async () => {
    const runId = await waiting();
    const id = uuidv7();
    const command = signal(id, "other");
    const own = { id, keep: true, requestHash: "one", reach: { tenants: [TENANT] } };
    expect(await half.runtime.command(runId, command, own)).toMatchObject({ type: "signal", matched: false });
    for (const requestHash of ["one", "two"]) {
      const foreign = { ...own, requestHash, reach: OTHERS["another tenant"] as Reach };
      expect(await refusalOf(half.runtime.command(runId, command, foreign))).toMatchObject({ status: 404 });
    }
  });
});

describe("a command whose sender may reach the run", () => {
  it.each<[string, Reach]>([
    ["of its tenant", { tenants: [TENANT] }],
    ["of several tenants", { tenants: [uuidv7(), TENANT] }],
    ["of the platform", { tenants: "*" }],
    ["of its workflows", { tenants: [TENANT], workflows: new Patterns(["helped-*"]) }],
  ])("is carried out (%s)", async (_, reach) => {
    const runId = await waiting();
    expect(await send({ runId, command: { type: "pause", ...by } }, reach)).toMatchObject({ changed: true });
    expect(await send({ runId, command: { type: "pause", ...by } }, reach)).toMatchObject({ changed: false });
  });

  it("is carried out although a run of no tenant exists for the platform alone", async () => {
    const runId = await comeTo(STANDS[0] as (typeof STANDS)[number], database, half);
    const command: RunCommand = { type: "pause", ...by };
    expect(await refusalOf(send({ runId, command }, { tenants: [TENANT] }))).toMatchObject({ status: 404 });
    expect(await send({ runId, command }, EVERYTHING)).toMatchObject({ changed: true });
  });
});

describe("a step of a run", () => {
  it.each(["signals", "cancels"])("finds no run of another tenant: it %s its own tenant's alone", async (workflow) => {
    for (const [target, others] of [
      [TENANT, [uuidv7(), undefined]],
      [undefined, [TENANT]],
    ] as const) {
      const owner = target === undefined ? {} : { tenantId: target };
      const to = await comeTo(STANDS[0] as (typeof STANDS)[number], database, half, owner);
      const before = await rowsOf(database.sql, to);
      for (const tenantId of others) {
        const runId = await start(half.starter, workflow, { inputs: { to }, ...(tenantId && { tenantId }) });
        await until(async () => (await look(database.sql, runId)).run.state === "failed");
        const { run } = await look(database.sql, runId);
        expect(run).toMatchObject({ error: { code: "not_found", message: `there is no run ${to}` } });
      }
      expect(await rowsOf(database.sql, to)).toEqual(before);
      const own = await start(half.starter, workflow, { inputs: { to }, ...owner });
      await until(async () => (await look(database.sql, own)).run.state === "succeeded");
    }
  });
});

describe("the reach of a command", () => {
  /** The router of a node that owns nothing, and asks the node of the test. */
  function asking(onTheWay: (ask: RunAsk) => unknown = (ask) => ask): Router {
    const parts = { runtime: half.runtime, catalog: half.catalog, refreshMembership: async () => {} };
    const bus = { ask: async () => undefined, advance: () => {} };
    const placement = { owner: () => "owner", others: [] };
    const owner = new Router({ ...parts, nodeId: "owner", placement, bus });
    const ask = async (_: string, request: object) => {
      const received = runProtocol.ask(JSON.parse(JSON.stringify(onTheWay(request as RunAsk))));
      return received && owner.answer(received as RunAsk);
    };
    const noRuntime = { command: () => Promise.reject(new Error("carried out by the asking node")) };
    return new Router({ ...parts, runtime: noRuntime, nodeId: "asking", placement, bus: { ...bus, ask } as never });
  }

  it.each(Object.entries({ ...OTHERS, "other workflows": NARROWED }))(
    "travels to the node that owns the run (%s)",
    async (_, reach) => {
      const { runId } = asked;
      expect(await refusalOf(asking().command(runId, cancel, { reach }))).toMatchObject({
        status: 404,
        message: `there is no run ${runId}`,
      });
    },
  );

  it("lets the owner carry out what the sender may command", async () => {
    const runId = await waiting();
    const reach = { tenants: [TENANT], workflows: new Patterns(["helped-*"]) };
    expect(await asking().command(runId, { type: "pause", ...by }, { reach })).toMatchObject({ changed: true });
  });

  it.each<[string, unknown]>([
    ["is absent", undefined],
    ["is a text", "*"],
    ["has no tenants", {}],
    ["has tenants that are no texts", { tenants: [1] }],
    ["has workflows that are none", { tenants: "*", workflows: "*" }],
  ])("is never taken for all: an ask is not understood whose reach %s", async (_, reach) => {
    const sent = asking((ask) => ({ ...ask, reach })).command(asked.runId, cancel, { reach: EVERYTHING });
    await expect(sent).rejects.toThrow("carried out by the asking node");
  });
});
