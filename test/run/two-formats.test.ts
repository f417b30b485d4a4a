// Nodes of three releases, with a pretended next record format (law 13): this one; the next, which reads the format; and the one after, which
// writes it where all live nodes read it. Runs move between them in every state, and back.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  type JsonObject,
  RECORD_FORMATS,
  type RecordFormats,
  type RunCommand,
  type RunId,
} from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { RunAsk } from "../../src/run/node-messages.js";
import { Router } from "../../src/run/router.js";
import { SHARDS } from "../../src/shard/placement.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { joined, leave, type Node } from "./mixed-nodes.js";
import { NEXT_FORMAT, READS_NEXT, WRITES_NEXT } from "./next-format.js";
import { cancel, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
const nodes: Node[] = [];
const join = (formats?: RecordFormats) => joined(database, nodes, formats);

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
  const [row] = await database.sql<{ state: string; record: JsonObject }[]>`
    select state, record from runs where id = ${runId}`;
  return row;
};
const waitOf = async (runId: RunId) => (await rowOf(runId))?.record.wait as JsonObject | undefined;

/** Does what the run waits for, at this node. */
type GoOn = (node: Node, runId: RunId) => Promise<unknown>;

const send =
  (command: (id: string) => RunCommand): GoOn =>
  (node, runId) => {
    const id = uuidv7();
    return node.runtime.command(runId, command(id), { id, reach: EVERYTHING });
  };
const go = send((id) => signal(id, "go"));
const announce: GoOn = async (node, runId) => {
  const event = { id: uuidv7(), topic: "sent", headers: {}, payload: {}, hash: "" };
  await publishEvent(database.sql, event);
  await node.runtime.command(runId, { type: "event", eventId: event.id }, { id: uuidv7(), reach: EVERYTHING });
};
/** Polls as after a takeover: what is owed is due at once. */
const poll: GoOn = async (node) => {
  node.poller.takeOver(SHARDS);
  await node.poller.tick();
};
/** Its time has come. */
const due: GoOn = async (node, runId) => {
  await database.sql`update runs set record = jsonb_set(record::jsonb, '{wait,dueAt}', '1')::json where id = ${runId}`;
  await database.sql`update wakes set due_at = now() - interval '1 s' where run_id = ${runId}`;
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
  for (const name of Object.keys(STATES)) parked.set(name, await start(node.starter, name));
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

/** Runs are parked at the first of a pair and go on at the second one. */
async function moveBetween(pairs: readonly (readonly [Node, Node])[], format: (at: Node) => number): Promise<void> {
  for (const [from, to] of pairs) {
    for (const node of nodes) await node.membership.beat();
    const parked = await park(from);
    expect(await formats()).toEqual([format(from)]);
    await goOnAt(to, parked);
  }
  expect(nodes.map(({ poller }) => poller.unreadable.count)).toEqual(nodes.map(() => 0));
  await nothingUnwatched(database.sql);
}

describe("nodes of two releases in one cluster", () => {
  it("runs move between one that reads the next format and one that writes it, in either direction and in every state", async () => {
    const [newer, older] = [await join(WRITES_NEXT), await join(READS_NEXT)];
    // On a busy machine this takes longer than a row of a silent node counts.
    for (const { membership } of [newer, older]) await membership.start();
    const pairs = [
      [newer, older],
      [older, newer],
      [newer, older],
    ] as const;
    await moveBetween(pairs, (from) => (from === newer ? NEXT_FORMAT : RECORD_FORMATS.writes));
  });

  it("beside one that does not read the next format nothing is written in it, and runs move between both", async () => {
    const [newer, older] = [await join(WRITES_NEXT), await join()];
    for (const { membership } of [newer, older]) await membership.start();
    await moveBetween(
      [
        [newer, older],
        [older, newer],
      ],
      () => RECORD_FORMATS.writes,
    );
  });

  it("when the older one has left, the newer format is written, and what was written before is read", async () => {
    const newer = await join(WRITES_NEXT);
    const older = await join();
    await newer.membership.beat();
    const parked = await park(newer);
    expect(await formats()).toEqual([RECORD_FORMATS.writes]);
    await leave(older);
    nodes.splice(1);
    await newer.membership.beat();
    const runId = await start(newer.starter, "signal");
    await until(() => isWaiting("signal")(runId));
    expect((await rowOf(runId))?.record).toMatchObject({ v: NEXT_FORMAT, entered: 1 });
    const next = await join(WRITES_NEXT);
    await goOnAt(next, parked);
    await go(next, runId);
    await allEnd(database.sql, [runId]);
    const ended = await Promise.all([runId, ...parked.values()].map(rowOf));
    expect(new Set(ended.map((row) => row?.record.v))).toEqual(new Set([NEXT_FORMAT]));
  });
});

describe("a run that its owner cannot read", () => {
  it("is continued by the node that was asked; the owner itself answers 503", async () => {
    const newer = await join(WRITES_NEXT);
    const runId = await start(newer.starter, "event-none");
    await until(() => isWaiting("event")(runId));
    // Without a heartbeat, the newer one does not know that it is there.
    const owner = await startHalf(database);
    const common = { placement: { owner: () => "owner", others: [] }, refreshMembership: async () => {} };
    const nowhere = { ask: async () => undefined, tell: () => {}, advance: () => {} };
    const ownersRouter = new Router({ ...common, ...owner, nodeId: "owner", bus: nowhere });
    const ask = (_: string, request: object) =>
      ownersRouter.answer(request as RunAsk) as Promise<JsonObject | undefined>;
    const router = new Router({ ...common, ...newer, nodeId: "newer", bus: { ...nowhere, ask } });
    await expect(ownersRouter.command(runId, cancel, { reach: EVERYTHING })).rejects.toMatchObject({ status: 503 });
    expect(await router.command(runId, cancel, { reach: EVERYTHING })).toMatchObject({ type: "cancel" });
    await allEnd(database.sql, [runId]);
    await owner.stop();
  });
});
