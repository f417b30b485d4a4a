// Nodes of two record formats in one cluster (law 13). What only the newer one could read is lowered when the older one joins; runs move
// between them in every state, and back.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  encodeRecord,
  type JsonObject,
  newRun,
  RECORD_FORMAT,
  type RunCommand,
  type RunContext,
  type RunId,
  type Wait,
} from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { RunAsk } from "../../src/run/node-messages.js";
import { Router } from "../../src/run/router.js";
import { SHARDS } from "../../src/shard/placement.js";
import { publishEvent } from "../../src/store/events.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { joined, leave, type Node } from "./mixed-nodes.js";
import { cancel, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
const nodes: Node[] = [];
const join = (newestFormat?: number) => joined(database, nodes, newestFormat);

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "hold", "fail", "undo");
  for (const [name, { steps }] of Object.entries(STATES)) await publish(database, name, steps);
  await publish(database, "inner", [{ id: "i", type: "wait_for_signal", signal_name: "go" }]);
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await leave(node);
});
afterAll(() => database.drop());

const rowOf = async (runId: RunId) => {
  const [row] = await database.sql<{ state: string; record: JsonObject; record_format: number | null }[]>`
    select state, record, record_format from runs where id = ${runId}`;
  return row;
};
const waitOf = async (runId: RunId) => (await rowOf(runId))?.record.wait as JsonObject | undefined;

/** Does what the run waits for, at this node. */
type GoOn = (node: Node, runId: RunId) => Promise<unknown>;

const send =
  (command: (id: string) => RunCommand): GoOn =>
  (node, runId) => {
    const id = uuidv7();
    return node.runtime.command(runId, command(id), { id });
  };
const go = send((id) => signal(id, "go"));
const announce: GoOn = async (node, runId) => {
  const event = { id: uuidv7(), topic: "sent", headers: {}, payload: {}, hash: "" };
  await publishEvent(database.sql, event);
  await node.runtime.command(runId, { type: "event", eventId: event.id }, { id: uuidv7() });
};
/** As after a takeover: what is owed is due at once. */
const poll: GoOn = async (node) => {
  node.poller.takeOver(SHARDS);
  await node.poller.tick();
};
/** Its time has come. */
const due: GoOn = async (node, runId) => {
  await database.sql`update runs set record = jsonb_set(record::jsonb, '{wait,dueAt}', '1')::json where id = ${runId}`;
  await database.sql`update wakes set due_at = now() where run_id = ${runId}`;
  await poll(node, runId);
};
const report: GoOn = async (node, runId) => {
  const dispatchId = (await waitOf(runId))?.dispatchId as never;
  await send(() => ({ type: "result", dispatchId, result: {}, actor: "worker:w" }))(node, runId);
};

const compensation = { action: "shop.undo" };
const held: Step = { id: "held", type: "action", action: "shop.hold", timeout_ms: 600_000 };
const waiting = { type: "wait_for_signal", signal_name: "go" };
const isWaiting = (kind: string) => async (runId: RunId) => {
  const wait = await waitOf(runId);
  return wait?.kind === kind && wait.look === undefined && wait.more === undefined;
};

interface State {
  readonly steps: readonly Step[];
  /** It has come to its wait. */
  readonly stands: (runId: RunId) => Promise<boolean>;
  readonly goOn: GoOn;
  readonly end?: string;
}

const STATES: Readonly<Record<string, State>> = {
  signal: { steps: [{ id: "s", ...waiting }], stands: isWaiting("signal"), goOn: go },
  "event-none": {
    steps: [{ id: "s", type: "wait_for_event", topic: "sent", lookback: "none" }],
    ...{ stands: isWaiting("event"), goOn: announce },
  },
  "event-run": {
    steps: [{ id: "s", type: "wait_for_event", topic: "sent" }],
    stands: isWaiting("event"),
    goOn: announce,
  },
  timer: { steps: [{ id: "s", type: "wait_duration", duration_ms: 3_600_000 }], stands: isWaiting("timer"), goOn: due },
  task: {
    steps: [{ id: "s", type: "manual_approval", assignee: "ann" }],
    stands: isWaiting("user_task"),
    goOn: async (node, runId) => {
      const taskId = (await waitOf(runId))?.taskId as string;
      await send(() => ({ type: "submit", taskId, result: { approved: true }, submittedBy: "ann", actor: "api" }))(
        node,
        runId,
      );
    },
  },
  dispatched: { steps: [held], stands: isWaiting("dispatched"), goOn: report },
  backoff: {
    steps: [
      { id: "s", type: "action", action: "shop.fail", retry: { max_attempts: 2, initial_backoff_ms: 3_600_000 } },
    ],
    ...{ stands: isWaiting("backoff"), goOn: due, end: "failed" },
  },
  branches: {
    steps: [
      { id: "p", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "j" },
      { id: "a", ...waiting },
      { id: "b", type: "noop" },
      { id: "j", type: "join" },
    ],
    ...{ stands: async (runId) => await standing(runId, 1), goOn: go },
  },
  items: {
    steps: [
      { id: "f", type: "foreach", items: "[1, 2, 3]", body: "b", max_concurrency: 3 },
      { id: "b", ...waiting },
    ],
    stands: (runId) => standing(runId, 3),
    goOn: async (node, runId) => {
      for (let nth = 0; nth < 3; nth++) await go(node, runId);
    },
  },
  sub: {
    steps: [{ id: "s", type: "sub_saga", workflow_id: "inner" }],
    stands: (runId) => standing(runId, 1),
    goOn: async (node, runId) => {
      const [child] = await database.sql<{ id: RunId }[]>`select id from runs where parent_run_id = ${runId}`;
      await go(node, child?.id as RunId);
    },
  },
  undoing: {
    steps: [
      { id: "done", type: "noop", compensation, next: "no" },
      { id: "no", type: "error", code: "no" },
    ],
    stands: async (runId) => (await rowOf(runId))?.state === "compensating" && (await isWaiting("dispatched")(runId)),
    ...{ goOn: report, end: "failed" },
  },
  cancelled: {
    steps: [{ id: "s", ...waiting }],
    stands: isWaiting("signal"),
    goOn: send(() => cancel),
    end: "cancelled",
  },
};

/** So many children of the run wait. */
async function standing(runId: RunId, count: number): Promise<boolean> {
  const rows = await database.sql<
    { record: JsonObject }[]
  >`select record from runs where parent_run_id = ${runId} and state = 'paused'`;
  return rows.filter(({ record }) => (record.wait as JsonObject).look === undefined).length === count;
}

async function park(node: Node): Promise<Map<string, RunId>> {
  const parked = new Map<string, RunId>();
  for (const name of Object.keys(STATES)) parked.set(name, await start(node.runtime, name));
  for (const [name, runId] of parked) await until(() => STATES[name]?.stands(runId), { what: `${name} at its wait` });
  return parked;
}

/** Everything goes on at this node, and ends as it has to. */
async function goOnAt(node: Node, parked: ReadonlyMap<string, RunId>): Promise<void> {
  for (const [name, runId] of parked) await STATES[name]?.goOn(node, runId);
  const runIds = [...parked.values()];
  await until(async () => {
    // Its neighbour does not poll, so that nothing but this node can have done it.
    await poll(node, runIds[0] as RunId);
    return allEnd(database.sql, runIds, 100).then(() => true);
  });
  const ends = (await allSound(database.sql, runIds)).map(({ run }) => run.state);
  expect(ends).toEqual([...parked.keys()].map((name) => STATES[name]?.end ?? "succeeded"));
}

const formats = async () =>
  (
    await database.sql<
      { v: number }[]
    >`select distinct (record->>'v')::int as v from runs where terminal_at is null order by v`
  ).map(({ v }) => v);

describe("nodes of two record formats in one cluster", () => {
  it("runs that the newer one parked while it was alone go on at the older one that joins", async () => {
    const newer = await join();
    const parked = await park(newer);
    expect(await formats()).toEqual([1, 2]);
    const older = await join(1);
    expect(await formats()).toEqual([1]);
    await goOnAt(older, parked);
    expect(older.poller.unreadable.count).toBe(0);
    await nothingUnwatched(database.sql);
  });

  it("runs move between both, in either direction and in every state", async () => {
    const [newer, older] = [await join(), await join(1)];
    // On a busy machine this takes longer than a row of a silent node counts.
    await older.membership.start();
    for (const [from, to] of [
      [newer, older],
      [older, newer],
      [newer, older],
    ] as const) {
      await newer.membership.beat();
      const parked = await park(from);
      expect(await formats()).toEqual([1]);
      await goOnAt(to, parked);
    }
    expect(older.poller.unreadable.count).toBe(0);
  });

  it("a newer node that has not heard of the older one yet writes nothing that it cannot read", async () => {
    const newer = await join();
    await join(1);
    expect(newer.membership.recordFormat).toBe(RECORD_FORMAT);
    const runId = await start(newer.runtime, "event-none");
    await until(() => isWaiting("event")(runId));
    expect(await rowOf(runId)).toMatchObject({ record: { v: 1 }, record_format: null });
    await announce(newer, runId);
    await allEnd(database.sql, [runId]);
  });

  it("when the older one has left, the newer format is written again", async () => {
    const newer = await join();
    await leave(await join(1));
    nodes.splice(1);
    await newer.membership.beat();
    const runId = await start(newer.runtime, "event-none");
    await until(() => isWaiting("event")(runId));
    expect(await rowOf(runId)).toMatchObject({ record: { v: 2 }, record_format: 2 });
    await announce(newer, runId);
    await allEnd(database.sql, [runId]);
    expect(await rowOf(runId)).toMatchObject({ record: { v: 1 }, record_format: null });
  });
});

describe("a run that its owner cannot read", () => {
  it("is continued by the node that was asked; the owner itself answers 503", async () => {
    const newer = await join();
    const runId = await start(newer.runtime, "event-none");
    await until(() => isWaiting("event")(runId));
    // Without a heartbeat, the database does not know that it is there.
    const owner = await startHalf(database, { newestFormat: 1 });
    const common = { placement: { owner: () => "owner", others: [] }, refreshMembership: async () => {} };
    const nowhere = { ask: async () => undefined, tell: () => {}, advance: () => {} };
    const ownersRouter = new Router({ ...common, ...owner, nodeId: "owner", bus: nowhere });
    const ask = (_: string, request: object) =>
      ownersRouter.answer(request as RunAsk) as Promise<JsonObject | undefined>;
    const router = new Router({ ...common, ...newer, nodeId: "newer", bus: { ...nowhere, ask } });
    await expect(ownersRouter.command(runId, cancel)).rejects.toMatchObject({ status: 503 });
    expect(await router.command(runId, cancel)).toMatchObject({ type: "cancel" });
    await allEnd(database.sql, [runId]);
    await owner.stop();
  });
});

/** Records of newer formats are left alone: see held-records.test.ts. */
const NEWEST_LOWERED = 2;

describe("a record that the database lowers", () => {
  const run = { id: uuidv7() } as unknown as RunContext["run"];
  const event: Extract<Wait, { kind: "event" }> = {
    ...{ kind: "event", topic: "t", headers: { z: "1", a: "2" }, since: "7", snapshot: "1:1:@2" },
    ...{ after: "9", dueAt: 5, look: true },
  };
  const contexts: readonly RunContext[] = [
    { ...newRun(run, {}), wait: event },
    { ...newRun(run, {}), wait: { ...event, headers: {}, since: undefined, after: undefined, dueAt: undefined } },
    {
      ...newRun(run, {}),
      wait: event,
      caught: { code: "x" as never, message: "'\\\"\n", details: { b: [1.5e300, null, { c: "" }], a: {} } },
    },
  ];

  it.each(contexts.map((context, nth) => [nth, context] as const))(
    "is what a node would have written in the older format, members in their order (%i)",
    async (_, context) => {
      const written = (format: number) => JSON.stringify(encodeRecord(context, format));
      expect(JSON.parse(written(NEWEST_LOWERED)).v).toBe(NEWEST_LOWERED);
      for (let format = 1; format <= NEWEST_LOWERED; format++) {
        const [row] = await database.sql<{ record: JsonObject }[]>`
          select record_in_format(${written(NEWEST_LOWERED)}::text::json, ${format}::smallint) as record`;
        expect(JSON.stringify(row?.record)).toBe(written(format));
      }
    },
  );
});
