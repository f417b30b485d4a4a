// Concurrency keys on real runtimes and Postgres: who goes on, who waits, who is refused, and that no slot outlives its run.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type Dispatch, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import type { StartRequest } from "../../src/run/ports.js";
import { countSlots, grantSlots, type SlotNews } from "../../src/store/engine/slots.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { cancel, type Half, type HalfOptions, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched } from "./seen.js";

const TENANT = "0190a000-0000-7000-8000-00000000000a";
const KEY = "${inputs.key}";
const HOLD = { id: "hold", type: "wait_for_signal", signal_name: "go" };

let database: TestDatabase;
let half: Half;
const halves: Half[] = [];
const started: RunId[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await registerActions(database, "call", "undo");
  await publish(database, "queued", [HOLD], { concurrency: { key: KEY, limit: 2 } });
  await publish(database, "refused", [HOLD], { concurrency: { key: KEY, limit: 1, on_limit: "refuse" } });
  await publish(database, "newest", [HOLD], { concurrency: { key: KEY, limit: 1, on_limit: "cancel_oldest" } });
  await publish(database, "single", [HOLD], { concurrency: { key: KEY, limit: 1 } });
  await publish(database, "parent", [
    { id: "try", type: "try_catch", try: "sub", catch: "caught", errors: ["child_failed"] },
    { id: "sub", type: "sub_saga", workflow_id: "refused", inputs: { key: KEY } },
    { id: "caught", type: "set_var", name: "code", value: "${error.cause.code}" },
  ]);
  const limited = { action: "shop.call", concurrency: { key: KEY, limit: 2 } };
  await publish(database, "steps", [
    { id: "begin", type: "noop", next: "call" },
    { id: "call", type: "action", ...limited, next: "more" },
    { id: "more", type: "noop" },
  ]);
  await publish(database, "retried", [
    { id: "call", type: "action", ...limited, retry: { max_attempts: 2, initial_backoff_ms: 0, jitter: false } },
  ]);
  await publish(
    database,
    "helped",
    [{ id: "call", type: "action", ...limited, retry: { max_attempts: 1, initial_backoff_ms: 0 } }],
    {
      on_failure: "incident",
    },
  );
  await publish(database, "timed", [
    { id: "try", type: "try_catch", try: "call", catch: "late", errors: ["timeout"], timeout_ms: 50 },
    { id: "call", type: "action", ...limited },
    { id: "late", type: "noop" },
  ]);
});
afterEach(async () => {
  for (const one of halves.splice(0)) await one.stop();
  await database.sql`delete from concurrency_tickets`;
});
afterAll(() => database.drop());

async function begin(options: HalfOptions = {}): Promise<Half> {
  half = await startHalf(database, options);
  halves.push(half);
  half.poller.start();
  return half;
}

let keys = 0;
const newKey = () => `k${++keys}`;

async function startOf(workflowId: string, key: string, more: Partial<StartRequest> = {}): Promise<RunId> {
  const runId = await start(half.starter, workflowId, { inputs: { key }, ...more });
  started.push(runId);
  return runId;
}

const sql = () => database.sql;
const stateOf = async (runId: RunId) => (await look(sql(), runId)).run;
const awaits = (runId: RunId, reason: string) =>
  until(async () => (await stateOf(runId)).paused_reason === reason, { what: `${runId} paused for ${reason}` });
const ends = (runId: RunId, state: string) =>
  until(async () => (await stateOf(runId)).state === state, { what: `${runId} ${state}` });
const go = (runId: RunId) => half.runtime.command(runId, signal(newRunId(), "go"), { reach: EVERYTHING });
const act = (runId: RunId, type: "pause" | "resume") =>
  half.runtime.command(runId, { type, actor: "api" }, { reach: EVERYTHING });

/** Nothing holds or awaits a slot, and the histories are right. */
async function nothingLeft(...runIds: RunId[]): Promise<void> {
  await allEnd(sql(), runIds);
  await half.slots.idle();
  expect(await countSlots(sql())).toEqual({ waiting: 0, held: 0, leaked: 0 });
  await allSound(sql(), runIds);
  await nothingUnwatched(sql());
}

describe("a workflow's key", () => {
  it("runs beyond the limit wait, and go on first come first served as slots come free", async () => {
    await begin();
    const key = newKey();
    const ids: RunId[] = [];
    for (let nth = 0; nth < 5; nth++) ids.push(await startOf("queued", key));
    const [one, two, three, four, five] = ids as [RunId, RunId, RunId, RunId, RunId];
    for (const id of [one, two]) await awaits(id, "signal");
    for (const id of [three, four, five]) await awaits(id, "concurrency");
    await nothingUnwatched(sql());
    await go(two);
    await awaits(three, "signal");
    await cancelRun(four);
    await go(one);
    await awaits(five, "signal");
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 2, leaked: 0 });
    for (const id of [three, five]) await go(id);
    await nothingLeft(...ids);
  });

  it("keys are independent, of each value, of each workflow and of each tenant", async () => {
    await begin();
    const key = newKey();
    const ids = [
      await startOf("single", key),
      await startOf("single", newKey()),
      await startOf("queued", key),
      await startOf("single", key, { tenantId: TENANT }),
    ];
    for (const id of ids) await awaits(id, "signal");
    for (const id of ids) await go(id);
    await nothingLeft(...ids);
  });

  /** Three runs of one key: the first has the slot, the others wait in this order. */
  async function queueOfThree(key = newKey()): Promise<[first: RunId, second: RunId, third: RunId]> {
    const first = await startOf("single", key);
    const [second, third] = [await startOf("single", key), await startOf("single", key)];
    for (const id of [second, third]) await awaits(id, "concurrency");
    return [first, second, third];
  }

  it("a paused run lets those behind it pass, and is first again when it is resumed", async () => {
    await begin();
    const key = newKey();
    const [first, second, third] = await queueOfThree(key);
    const fourth = await startOf("single", key);
    await act(second, "pause");
    expect(await stateOf(second)).toMatchObject({ state: "paused", paused_reason: "operator" });
    await go(first);
    await awaits(third, "signal");
    await act(second, "resume");
    await awaits(second, "concurrency");
    await awaits(fourth, "concurrency");
    await go(third);
    await awaits(second, "signal");
    expect(await stateOf(fourth)).toMatchObject({ paused_reason: "concurrency" });
    for (const id of [second, fourth]) {
      await awaits(id, "signal");
      await go(id);
    }
    await nothingLeft(first, second, third, fourth);
  });

  it("a paused run whose slot is free has it as soon as it is resumed", async () => {
    await begin();
    const [first, second, third] = await queueOfThree();
    for (const id of [second, third]) await act(id, "pause");
    await go(first);
    await ends(first, "succeeded");
    await half.slots.tick();
    expect(await countSlots(sql())).toEqual({ waiting: 2, held: 0, leaked: 0 });
    await act(third, "resume");
    await awaits(third, "signal");
    await act(second, "resume");
    await awaits(second, "concurrency");
    for (const id of [third, second]) {
      await awaits(id, "signal");
      await go(id);
    }
    await nothingLeft(first, second, third);
  });

  it("a run in quarantine lets those behind it pass, too", async () => {
    await begin();
    const [first, second, third] = await queueOfThree();
    await half.runtime.command(second, { type: "quarantine" }, { reach: EVERYTHING });
    await go(first);
    await awaits(third, "signal");
    await half.runtime.command(second, { type: "release", actor: "api" }, { reach: EVERYTHING });
    await go(third);
    await awaits(second, "signal");
    await go(second);
    await nothingLeft(first, second, third);
  });

  it.each(["pause", "quarantine"] as const)(
    "a slot that is granted at the moment of a %s goes to the next one, and the place stays",
    async (halt) => {
      // Without a poller, a run does what the test tells it and no more.
      half = await startHalf(database, { hints: false });
      halves.push(half);
      const key = newKey();
      const granted = async (): Promise<SlotNews> => {
        const [news] = await grantSlots(sql(), { scope: "workflow:single", key });
        if (!news) throw new Error("no slot was free");
        return news;
      };
      const hear = ({ to, command, id }: SlotNews) => half.runtime.command(to, command, { id, reach: EVERYTHING });
      const [first, second, third] = [
        await startOf("single", key),
        await startOf("single", key),
        await startOf("single", key),
      ];
      for (const id of [first, second, third])
        await half.runtime.command(id, { type: "advance" }, { reach: EVERYTHING });
      await hear(await granted());
      await go(first);
      await ends(first, "succeeded");
      // The slot is given, and the news of it is under way when the run is halted.
      const news = await granted();
      expect(news.to).toBe(second);
      await half.runtime.command(second, halt === "pause" ? { type: "pause", actor: "api" } : { type: "quarantine" }, {
        reach: EVERYTHING,
      });
      await hear(news);
      half.poller.start();
      await half.slots.tick();
      await awaits(third, "signal");
      await half.runtime.command(
        second,
        { type: halt === "pause" ? "resume" : "release", actor: "api" },
        { reach: EVERYTHING },
      );
      await go(third);
      await ends(third, "succeeded");
      await half.slots.tick();
      await awaits(second, "signal");
      await go(second);
      await nothingLeft(first, second, third);
    },
  );

  it("a run that is paused after it has heard of its slot, and before its first step, gives it back", async () => {
    // Its news and its first step are two commits, and the pause comes between them.
    await begin({ stepsPerCommit: 1 });
    for (let round = 0; round < 20; round++) {
      const [first, second, third] = await queueOfThree();
      await Promise.all([go(first), act(second, "pause")]);
      const [row] = await sql()`select paused_reason, current_step from runs where id = ${second}`;
      expect(row?.paused_reason).toBe("operator");
      const hasBegun = row?.current_step !== null;
      // It has begun, and holds its slot; or it has not, and the next one has it.
      if (!hasBegun) await awaits(third, "signal");
      await act(second, "resume");
      for (const id of hasBegun ? [second, third] : [third, second]) {
        await awaits(id, "signal");
        await go(id);
      }
      await nothingLeft(first, second, third);
    }
  });

  it("a run that times out in the queue fails, and the next one has its place", async () => {
    await begin();
    const key = newKey();
    const holder = await startOf("single", key);
    await awaits(holder, "signal");
    const late = await startOf("single", key, { timeoutMs: 50 });
    const next = await startOf("single", key);
    await ends(late, "failed");
    await go(holder);
    await awaits(next, "signal");
    await go(next);
    await nothingLeft(holder, late, next);
  });

  it("a delayed run asks for its slot when it begins", async () => {
    await begin();
    const key = newKey();
    const delayed = await startOf("single", key, { delayMs: 3_600_000 });
    const prompt = await startOf("single", key);
    await awaits(prompt, "signal");
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 1, leaked: 0 });
    await cancelRun(delayed);
    await go(prompt);
    await nothingLeft(delayed, prompt);
  });

  it("a dry run needs no slot", async () => {
    await begin();
    const key = newKey();
    const holder = await startOf("single", key);
    await awaits(holder, "signal");
    const dry = await startOf("single", key, { dryRun: true });
    await ends(dry, "succeeded");
    await go(holder);
    await nothingLeft(holder, dry);
  });

  it("a key that cannot be evaluated refuses the start", async () => {
    await begin();
    await expect(start(half.starter, "single", { inputs: {} })).rejects.toMatchObject({ status: 422 });
    await expect(start(half.starter, "single", { inputs: { key: { a: 1 } } })).rejects.toMatchObject({ status: 422 });
    await expect(start(half.starter, "single", { inputs: { key: "x".repeat(257) } })).rejects.toMatchObject({
      status: 422,
    });
    const numbered = await start(half.starter, "single", { inputs: { key: 7 } });
    await awaits(numbered, "signal");
    await go(numbered);
    await nothingLeft(numbered);
  });

  it("the waiting list is bounded: a start beyond it is refused, and leaves no row", async () => {
    await begin({ slotRoom: 2 });
    const key = newKey();
    const ids = [await startOf("single", key)];
    await awaits(ids[0] as RunId, "signal");
    ids.push(await startOf("single", key), await startOf("single", key));
    const runId = newRunId();
    await expect(startOf("single", key, { runId })).rejects.toMatchObject({
      status: 429,
      code: "concurrency_queue_full",
    });
    expect(await sql()`select 1 from runs where id = ${runId}`).toHaveLength(0);
    for (const id of ids) {
      await awaits(id, "signal");
      await go(id);
    }
    await nothingLeft(...ids);
  });

  it("a run that stands in the queue survives its node: another one goes on with it", async () => {
    const first = await begin();
    const key = newKey();
    const ids = [await startOf("single", key), await startOf("single", key), await startOf("single", key)] as const;
    await awaits(ids[0], "signal");
    for (const id of ids.slice(1)) await awaits(id, "concurrency");
    await first.stop();
    await begin();
    for (const id of ids) {
      await awaits(id, "signal");
      await go(id);
    }
    await nothingLeft(...ids);
  });

  it("with the hints off, the poll grants what is free", async () => {
    await begin({ hints: false });
    const key = newKey();
    const [one, two] = [await startOf("single", key), await startOf("single", key)];
    await until(async () => {
      await half.slots.tick();
      return (await stateOf(one)).paused_reason === "signal";
    });
    await half.slots.tick();
    await awaits(two, "concurrency");
    await go(one);
    await until(async () => {
      await half.slots.tick();
      return (await stateOf(two)).paused_reason === "signal";
    });
    await go(two);
    await nothingLeft(one, two);
  });
});

describe("on_limit refuse", () => {
  it("refuses a start with 409 while the slot is taken, and accepts one afterwards", async () => {
    await begin();
    const key = newKey();
    const first = await startOf("refused", key, { runId: newRunId() });
    await expect(startOf("refused", key)).rejects.toMatchObject({ status: 409, code: "concurrency_limit" });
    await awaits(first, "signal");
    await expect(startOf("refused", key)).rejects.toMatchObject({ status: 409, code: "concurrency_limit" });
    await go(first);
    await ends(first, "succeeded");
    const second = await startOf("refused", key);
    await awaits(second, "signal");
    await go(second);
    await nothingLeft(first, second);
  });

  it("of starts at the same moment, as many as there are slots are accepted", async () => {
    await begin();
    const key = newKey();
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => startOf("refused", key)));
    const accepted = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? outcome.value : []));
    expect(accepted).toHaveLength(1);
    await awaits(accepted[0] as RunId, "signal");
    await go(accepted[0] as RunId);
    await nothingLeft(...accepted);
  });

  it("a repeat of a start gets the first run, and holds no second slot", async () => {
    await begin();
    const key = newKey();
    const runId = newRunId();
    await startOf("refused", key, { runId });
    expect(await startOf("refused", key, { runId })).toBe(runId);
    const [other] = [newKey()];
    const keyed = await startOf("refused", other, { idempotencyKey: other });
    expect(await startOf("refused", other, { idempotencyKey: other })).toBe(keyed);
    await go(keyed);
    await ends(keyed, "succeeded");
    expect(await startOf("refused", other, { idempotencyKey: other })).toBe(keyed);
    expect(await sql()`select 1 from concurrency_tickets where key = ${other}`).toHaveLength(0);
    await go(runId);
    await nothingLeft(runId, keyed);
  });

  it("a child that is refused fails with the code, which its parent can catch", async () => {
    await begin();
    const key = newKey();
    const holder = await startOf("refused", key);
    await awaits(holder, "signal");
    const parent = await startOf("parent", key);
    await ends(parent, "succeeded");
    expect((await stateOf(parent)).variables.code).toBe("concurrency_limit");
    await go(holder);
    const [child] = await sql()<{ id: string }[]>`select id from runs where parent_run_id = ${parent}`;
    await nothingLeft(holder, parent, asRunId(child?.id ?? ""));
  });
});

describe("on_limit cancel_oldest", () => {
  it("cancels the older runs, and the newest has the slot once they have ended", async () => {
    await begin();
    const key = newKey();
    const ids: RunId[] = [];
    for (let nth = 0; nth < 4; nth++) ids.push(await startOf("newest", key));
    const newest = ids.at(-1) as RunId;
    for (const id of ids.slice(0, -1)) await ends(id, "cancelled");
    await awaits(newest, "signal");
    await go(newest);
    await nothingLeft(...ids);
  });
});

describe("a step's key", () => {
  /** Dispatches in flight, which end when the test says so. */
  function flights() {
    const open: Dispatch[] = [];
    let most = 0;
    const reply = (dispatch: Dispatch) => {
      open.push(dispatch);
      most = Math.max(most, open.length);
      return undefined;
    };
    const end = (at: number, outcome: "result" | "failure" = "result", more = {}) => {
      const [dispatch] = open.splice(at, 1);
      if (!dispatch) throw new Error("nothing is in flight");
      const about = { dispatchId: dispatch.dispatchId, actor: "worker:w" };
      const failure = { code: "no", message: "no", retryable: false, outcomeUnknown: false, ...more };
      return half.runtime.command(
        dispatch.runId,
        outcome === "result" ? { type: "result", result: {}, ...about } : { type: "failure", ...failure, ...about },
        { reach: EVERYTHING },
      );
    };
    return { open, reply, end, most: () => most };
  }

  it("at most so many dispatches are open at once, over all runs, first come first served", async () => {
    const flight = flights();
    await begin({ reply: flight.reply });
    const key = newKey();
    const ids: RunId[] = [];
    for (let nth = 0; nth < 7; nth++) {
      const id = await startOf("steps", key);
      ids.push(id);
      await until(async () => (await sql()`select 1 from concurrency_tickets where run_id = ${id}`).length === 1);
    }
    for (let nth = 0; nth < 7; nth++) {
      await until(() => flight.open.length === Math.min(2, 7 - nth));
      const begun = half.dispatcher.sent.map(({ runId }) => runId);
      expect(begun.toSorted()).toEqual(ids.slice(0, nth + 2).toSorted());
      await flight.end(0);
    }
    expect(flight.most()).toBe(2);
    await nothingLeft(...ids);
  });

  it("a run that is paused before its step lets those behind it pass, and is first again when it is resumed", async () => {
    const flight = flights();
    await begin({ reply: flight.reply });
    const key = newKey();
    const ids: RunId[] = [];
    for (let nth = 0; nth < 5; nth++) {
      const id = await startOf("steps", key);
      ids.push(id);
      await until(async () => (await sql()`select 1 from concurrency_tickets where run_id = ${id}`).length === 1);
    }
    const [one, two, three, four, five] = ids;
    await until(() => flight.open.length === 2);
    await act(three as RunId, "pause");
    await flight.end(0);
    await until(() => flight.open.length === 2);
    await act(three as RunId, "resume");
    for (let left = 4; left > 0; left--) {
      await flight.end(0);
      await until(() => flight.open.length === Math.min(2, left - 1));
    }
    expect(half.dispatcher.sent.map(({ runId }) => runId)).toEqual([one, two, four, three, five]);
    await nothingLeft(...ids);
  });

  it("the slot stays through the retries of a step, and is free after its final failure", async () => {
    const flight = flights();
    await begin({ reply: flight.reply });
    const key = newKey();
    const id = await startOf("retried", key);
    await until(() => flight.open.length === 1);
    await flight.end(0, "failure", { retryable: true });
    await until(() => flight.open.length === 1);
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 1, leaked: 0 });
    await flight.end(0, "failure", { retryable: true });
    await ends(id, "failed");
    await nothingLeft(id);
  });

  it("an incident gives the slot back, and a retry asks for one again", async () => {
    const flight = flights();
    await begin({ reply: flight.reply });
    const key = newKey();
    const id = await startOf("helped", key);
    await until(() => flight.open.length === 1);
    await flight.end(0, "failure");
    await awaits(id, "incident");
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 0, leaked: 0 });
    await half.runtime.command(id, { type: "retry_step", actor: "api" }, { reach: EVERYTHING });
    await until(() => flight.open.length === 1);
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 1, leaked: 0 });
    await flight.end(0);
    await nothingLeft(id);
  });

  it("a step that is cut off in the queue leaves it: by a cancel, and by the timeout of a try", async () => {
    const flight = flights();
    await begin({ reply: flight.reply });
    const key = newKey();
    const holders = [await startOf("steps", key), await startOf("steps", key)];
    await until(() => flight.open.length === 2);
    const cut = await startOf("steps", key);
    await awaits(cut, "concurrency");
    await cancelRun(cut);
    const timed = await startOf("timed", key);
    await ends(timed, "succeeded");
    expect(await countSlots(sql())).toEqual({ waiting: 0, held: 2, leaked: 0 });
    await flight.end(0);
    await flight.end(0);
    await nothingLeft(...holders, cut, timed);
  });

  it("a step beyond the waiting list fails with its code", async () => {
    const flight = flights();
    await begin({ reply: flight.reply, slotRoom: 1 });
    const key = newKey();
    const ids = [await startOf("steps", key), await startOf("steps", key)];
    await until(() => flight.open.length === 2);
    ids.push(await startOf("steps", key));
    await awaits(ids[2] as RunId, "concurrency");
    const over = await startOf("steps", key);
    await ends(over, "failed");
    expect((await stateOf(over)).error).toMatchObject({ code: "concurrency_queue_full" });
    for (let nth = 0; nth < 3; nth++) {
      await until(() => flight.open.length > 0);
      await flight.end(0);
    }
    await nothingLeft(...ids, over);
  });
});

async function cancelRun(runId: RunId): Promise<void> {
  await half.runtime.command(runId, cancel, { reach: EVERYTHING });
  await ends(runId, "cancelled");
}
