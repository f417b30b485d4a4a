// Business keys that runs hold: of the starts of a key, at whichever of two nodes, one at a time has a run, and what becomes of the others is as they ask.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import type { OnConflict, StartAnswer, StartRequest } from "../../src/run/ports.js";
import { adopt } from "../../src/store/upkeep/adoption.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, signal, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
let halves: readonly Half[];

beforeAll(async () => {
  database = await createTestDatabase();
  const wait = { id: "wait", type: "wait_for_signal", signal_name: "go" };
  await publish(database, "wait", [wait]);
  await publish(database, "other", [wait]);
  await publish(database, "quick", [{ id: "done", type: "noop" }]);
  halves = await Promise.all([startHalf(database), startHalf(database, { applicationName: "other node" })]);
  for (const half of halves) half.poller.start();
});
afterAll(async () => {
  for (const half of halves) await half.stop();
  await database.drop();
});

const half = (nth = 0) => halves[nth % halves.length] as Half;

function request(businessKey: string, more: Partial<StartRequest> = {}): StartRequest {
  const given = { workflowId: "wait", inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api" };
  return { ...given, businessKey, ...more };
}

const start = (key: string, onConflict: OnConflict | undefined, more: Partial<StartRequest> = {}, nth = 0) =>
  half(nth).starter.start(request(key, { onConflict, ...more }));

const stateOf = async (runId: RunId) =>
  (await database.sql<{ state: string }[]>`select state from runs where id = ${runId}`)[0]?.state;
const reaches = (runId: RunId, state: string) =>
  until(async () => (await stateOf(runId)) === state, { what: `${state} of ${runId}` });

/** Ends with the signal that it waits for. */
async function end(runId: RunId): Promise<void> {
  await reaches(runId, "paused");
  await half().runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING });
  await reaches(runId, "succeeded");
}

const refusal = (answer: PromiseSettledResult<StartAnswer>) =>
  answer.status === "rejected" && answer.reason instanceof SagaError ? answer.reason : undefined;

/** As many starts at once, at both nodes in turn. */
const together = (key: string, onConflict: OnConflict, count: number) =>
  Promise.allSettled(Array.from({ length: count }, (_, nth) => start(key, onConflict, { inputs: { nth } }, nth)));

const runsOf = (key: string) =>
  database.sql<{ id: RunId; state: string }[]>`
    select id, state from runs where business_key = ${key} order by started_at, id`;

describe.each(["order-1081", "Größe 🍵/'\"\\ %_", " ", "k".repeat(256)])("a key such as %j", (key) => {
  it("is refused while a run holds it, and free once that has ended", async () => {
    const { runId } = await start(key, "reject");
    const again = await start(key, "reject").catch((error: unknown) => error);
    expect(again).toMatchObject({ status: 409, code: "conflict", extra: { run_id: runId } });
    expect((again as Error).message).toContain(runId);
    await end(runId);
    const next = await start(key, "reject");
    expect(next).toMatchObject({ state: "pending", deduplicated: false });
    await end(next.runId);
  });

  it("is that of the run which is answered", async () => {
    const { runId } = await start(key, "return");
    await reaches(runId, "paused");
    const found = await start(key, "return", { inputs: { other: 1 } }, 1);
    expect(found).toMatchObject({ runId, state: "paused", deduplicated: true, version: 1 });
    await end(runId);
    const next = await start(key, "return");
    expect(next.runId).not.toBe(runId);
    await end(next.runId);
  });

  it("goes to the newer run, and the older is cancelled", async () => {
    const first = await start(key, "cancel_old");
    const second = await start(key, "cancel_old", {}, 1);
    await reaches(first.runId, "cancelled");
    expect(await stateOf(second.runId)).not.toBe("cancelled");
    await expect(start(key, "reject")).rejects.toMatchObject({ extra: { run_id: second.runId } });
    await end(second.runId);
    await allSound(database.sql, [first.runId, second.runId]);
  });
});

describe("starts that come at the same time", () => {
  it("make one run, and the others are refused", async () => {
    const answers = await together("race-reject", "reject", 40);
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(new Set(answers.flatMap((answer) => refusal(answer)?.status ?? []))).toEqual(new Set([409]));
    expect(await runsOf("race-reject")).toHaveLength(1);
  });

  it("make one run, and all are answered with it", async () => {
    const answers = await together("race-return", "return", 40);
    const ids = answers.map((answer) => (answer.status === "fulfilled" ? answer.value.runId : answer.reason));
    expect(new Set(ids).size).toBe(1);
    expect(answers.filter((each) => each.status === "fulfilled" && !each.value.deduplicated)).toHaveLength(1);
    expect(await runsOf("race-return")).toHaveLength(1);
  });

  it("leave one run that is not cancelled, whose start was answered", async () => {
    const answers = await together("race-cancel", "cancel_old", 12);
    const started = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value.runId] : []));
    for (const answer of answers) if (answer.status === "rejected") expect(refusal(answer)?.status).toBe(503);
    const open = async () => (await runsOf("race-cancel")).filter(({ state }) => state !== "cancelled");
    await until(async () => (await open()).length === 1, { what: "one run" });
    expect(started).toContain((await open())[0]?.id);
    expect((await runsOf("race-cancel")).map(({ id }) => id).sort()).toEqual([...started].sort());
  });

  it("with one idempotency key are one start", async () => {
    const same = { idempotencyKey: "one" };
    const answers = await Promise.all(Array.from({ length: 20 }, (_, nth) => start("keyed", "reject", same, nth)));
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
  });
});

describe("a key", () => {
  it("belongs to a tenant and a workflow", async () => {
    const tenants = [undefined, uuidv7(), uuidv7()];
    const starts = tenants.flatMap((tenantId) =>
      ["wait", "other"].map((workflowId) => start("shared", "reject", { tenantId, workflowId })),
    );
    expect(new Set((await Promise.all(starts)).map(({ runId }) => runId)).size).toBe(6);
  });

  it("is held by runs that were started with a policy alone", async () => {
    const plain = await start("mixed", undefined);
    const held = await start("mixed", "reject");
    expect(held.runId).not.toBe(plain.runId);
    expect((await start("mixed", undefined)).deduplicated).toBe(false);
    await expect(start("mixed", "reject")).rejects.toMatchObject({ extra: { run_id: held.runId } });
  });

  it("of a run that is repeated by its id or idempotency key is no conflict, whatever has become of the run", async () => {
    for (const same of [{ idempotencyKey: "again" }, { runId: uuidv7() as RunId }]) {
      const key = `repeated-${Object.keys(same)[0]}`;
      const { runId } = await start(key, "reject", same);
      expect(await start(key, "reject", same, 1)).toMatchObject({ runId, deduplicated: true });
      await end(runId);
      const other = await start(key, "reject");
      expect(await start(key, "reject", same)).toMatchObject({ runId, deduplicated: true, state: "succeeded" });
      await expect(start(key, "return", same)).rejects.toMatchObject({ status: 409 });
      await end(other.runId);
    }
  });

  it("stays with its run when that is rolling back, and when it gets a tenant", async () => {
    const { runId } = await start("adopted", "reject");
    const tenantId = uuidv7();
    await adopt(database.sql, tenantId);
    await expect(start("adopted", "reject", { tenantId })).rejects.toMatchObject({ extra: { run_id: runId } });
    await half().runtime.command(runId, cancel, { reach: EVERYTHING });
    await reaches(runId, "cancelled");
    expect((await start("adopted", "reject", { tenantId })).deduplicated).toBe(false);
  });

  it("is neither held nor taken by a dry run", async () => {
    const { runId } = await start("dry", "reject");
    const dryRun = { dryRun: true };
    for (const policy of ["reject", "return", "cancel_old"] as const) {
      const dry = await start("dry", policy, { ...dryRun, debounce: { windowMs: 60_000 } });
      expect(dry).toMatchObject({ deduplicated: false });
      await reaches(dry.runId, "succeeded");
    }
    await expect(start("dry", "reject")).rejects.toMatchObject({ extra: { run_id: runId } });
    await end(runId);
  });

  it("of a start that is refused for another reason is not held", async () => {
    await expect(start("refused", "reject", { entrypoint: "nowhere" })).rejects.toMatchObject({ status: 400 });
    expect((await start("refused", "reject", { workflowId: "quick" })).deduplicated).toBe(false);
    expect((await start("refused", "reject")).deduplicated).toBe(false);
  });
});

describe("a burst of starts", () => {
  const debounced = (key: string, windowMs: number, more: Partial<StartRequest> = {}, nth = 0) =>
    half(nth).starter.start(request(key, { debounce: { windowMs }, ...more }));

  it("is one run, that of the last start, at the end of its window", async () => {
    const starts: RunId[] = [];
    for (let nth = 0; nth < 6; nth++) starts.push((await debounced("burst", 60_000, { inputs: { nth } }, nth)).runId);
    const last = await debounced("burst", 300, { inputs: { last: true } });
    await reaches(last.runId, "paused");
    await allEnd(database.sql, starts);
    for (const { run, events } of await allSound(database.sql, starts)) {
      expect(run.state).toBe("cancelled");
      expect(events.map(({ event_type }) => event_type)).not.toContain("step.started");
    }
    await end(last.runId);
  });

  it("that comes at once, at both nodes, is one run", async () => {
    const burst = Array.from({ length: 12 }, (_, nth) => debounced("flood", 60_000, {}, nth));
    const started = (await Promise.allSettled(burst)).flatMap((each) =>
      each.status === "fulfilled" ? [each.value.runId] : [],
    );
    const open = async () => (await runsOf("flood")).filter(({ state }) => state !== "cancelled");
    await until(async () => (await open()).length === 1, { what: "one run" });
    const [left] = await open();
    expect(left?.state).toBe("pending");
    expect(started).toContain(left?.id);
    const last = await debounced("flood", 1);
    await reaches(last.runId, "paused");
    await reaches(left?.id as RunId, "cancelled");
  });

  it("does not cancel a run that begins at that moment", async () => {
    const { runId } = await start("moment", undefined);
    await reaches(runId, "paused");
    const late = { ...cancel, unlessBegun: true } as const;
    const answer = await half().runtime.command(runId, late, { reach: EVERYTHING });
    expect(answer).toMatchObject({ state: "paused", alreadyTerminal: false });
    await end(runId);
  });

  it("leaves a run alone that has begun, unless a policy says otherwise", async () => {
    const first = await debounced("begun", 1);
    await reaches(first.runId, "paused");
    const second = await debounced("begun", 1);
    await reaches(second.runId, "paused");
    expect(await stateOf(first.runId)).toBe("paused");
    await expect(debounced("begun", 1, { onConflict: "reject" })).rejects.toMatchObject({ status: 409 });
    expect(await debounced("begun", 1, { onConflict: "return" })).toMatchObject({ runId: second.runId });
    const third = await debounced("begun", 1, { onConflict: "cancel_old" });
    await reaches(second.runId, "cancelled");
    await reaches(third.runId, "paused");
  });

  it("is put off no longer than it may be", async () => {
    const debounce = { windowMs: 60_000, maxMs: 400 };
    const burst: RunId[] = [];
    for (let nth = 0; nth < 3; nth++) burst.push((await debounced("bounded", 1, { debounce }, nth)).runId);
    await reaches(burst.at(-1) as RunId, "paused");
    const [first] = await database.sql<{ ms: number }[]>`
      select extract(epoch from min(recorded_at) - (select min(started_at) from runs where business_key = 'bounded')) * 1000 as ms
      from run_events where run_id = ${burst.at(-1) as RunId} and event_type = 'step.started'`;
    expect(Number(first?.ms)).toBeGreaterThanOrEqual(400);
    expect(await stateOf(burst[0] as RunId)).toBe("cancelled");
  });
});

describe("a signal with a start", () => {
  const command = { type: "signal", name: "go", payload: { price: 12.5 }, actor: "api" } as const;

  it("reaches the run, also if its node does not send it", async () => {
    const id = uuidv7();
    const { runId } = await half().starter.start(request("signalled", { onConflict: "return" }), () => ({
      ...command,
      id,
    }));
    await reaches(runId, "succeeded");
    expect(await database.sql`select id, payload from signals where run_id = ${runId}`).toEqual([
      { id, payload: { price: 12.5 } },
    ]);
    // The node that does send it gets the same answer.
    const sent = await half(1).runtime.command(runId, { ...command, id }, { reach: EVERYTHING, id });
    expect(sent).toMatchObject({ type: "signal", id });
    await until(async () => (await database.sql`select from inbox`).length === 0, { what: "an empty inbox" });
  });

  it("is not owed to a run that was there before", async () => {
    const { runId } = await start("there", "return");
    const signalled = await half().starter.start(request("there", { onConflict: "return" }), () => ({
      ...command,
      id: uuidv7(),
    }));
    expect(signalled).toMatchObject({ runId, held: true });
    expect(await database.sql`select from inbox where run_id = ${runId}`).toEqual([]);
    expect(await stateOf(runId)).not.toBe("succeeded");
    await end(runId);
  });
});

it("leaves no run that nothing looks at", async () => {
  await nothingUnwatched(database.sql);
});
