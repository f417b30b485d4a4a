// Dispatches to workers without streams whose runs change their owner: which node sends them. The nodes, their bus and the worker's server
// are real; the runs and the outbox are stand-ins.
import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Dispatch, DispatchId } from "../../machines/index.js";
import type { LocalWorkers } from "../../src/dispatch/directory.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { MAY_COME_TWICE } from "../../src/dispatch/push/recovered.js";
import { Guard, listedOrAny } from "../../src/egress/guard.js";
import { until } from "../harness/until.js";
import { Cluster, first, NEVER_MS } from "./relay-rig.js";
import { dispatchOf, Site, secretsOf } from "./requests-rig.js";
import { makeCall, makeDispatch } from "./rig.js";

let cluster: Cluster;
let site: Site;
/** The outbox: what is accepted has no row any more. */
const gone = new Set<DispatchId>();
/** Their rows were to be removed, whether the store was there or not. */
const tried = new Set<DispatchId>();
let storeIsAway: boolean;
/** Comes before a node reads which dispatches have rows. */
let readingRows: () => Promise<void> | void;

beforeEach(async () => {
  readingRows = () => {};
  [cluster, site, storeIsAway] = [
    new Cluster({
      egress: { guard: new Guard({ admits: listedOrAny(undefined) }), secrets: secretsOf() },
      withRows: async (dispatchIds) => {
        await readingRows();
        return dispatchIds.filter((id) => !gone.has(id));
      },
      callbacks: {
        publicUrl: () => "http://saga.example",
        removeRows: async (dispatchIds) => {
          for (const id of dispatchIds) tried.add(id);
          if (storeIsAway) throw new Error("the store is away");
          for (const id of dispatchIds) gone.add(id);
        },
        http: { guard: new Guard({ admits: listedOrAny(undefined) }) },
      },
    }),
    await Site.open(),
    false,
  ];
});
afterEach(async () => {
  await cluster.close();
  await site.close();
  gone.clear();
  tried.clear();
});

/** On two nodes, unless told otherwise; a node is asked again soon. */
async function open(limits: Partial<DispatchLimits> = {}, ids = ["a", "b"]): Promise<void> {
  await cluster.open(ids, { handOverTries: 1_000_000, ...limits });
}

const call = (id = "a") => cluster.call(id, { transport: "http", address: site.url });

/** All shards are on that node from now on, and its poll asks the run to carry the dispatch. */
async function moveTo(id: string, dispatch: Dispatch): Promise<void> {
  for (const shard of cluster.placed.keys()) cluster.placed.set(shard, id);
  cluster.placeAll();
  await carry(dispatch);
}

const carry = ({ runId, dispatchId }: Dispatch) => cluster.command(runId, { type: "carry", dispatchId });
const isAt = (id: string) =>
  until(() => cluster.node(id).dispatcher.inFlight === 1, { what: `its worker known at ${id}` });
const rounds = (nth: number) => until(() => cluster.kinds("dispatch.held").length >= nth, { what: "a question" });

/** The worker accepts when it is told to. */
function holdResponses(): ServerResponse[] {
  const held: ServerResponse[] = [];
  site.answer = (_, response) => void held.push(response);
  return held;
}

describe("a dispatch that its worker has accepted", () => {
  beforeEach(() => {
    site.answer = (_, response) => response.writeHead(202).end();
  });

  it("has no outbox row any more, at once", async () => {
    await open({ tickMs: 10 * NEVER_MS });
    const { dispatchId } = call();
    await until(() => gone.has(dispatchId), { what: "its row is gone" });
  });

  it("is not sent again by the next owner of its run", async () => {
    await open();
    const dispatch = call();
    await until(() => site.asked.length === 1);
    await moveTo("b", dispatch);
    await isAt("b");
    await until(() => gone.has(dispatch.dispatchId), { what: "its row is gone" });
    await carry(dispatch);
    // What the node has sent before has arrived when this one is accepted.
    const later = call("b");
    await until(() => gone.has(later.dispatchId), { what: "a later one" });
    expect(site.asked.map(({ body }) => JSON.parse(body).dispatch_id)).toEqual([dispatch.dispatchId, later.dispatchId]);
    expect(cluster.node("b").dispatcher.holds(dispatch.dispatchId)).toBe(true);
  });

  it("is not sent again while the node that has its acceptance cannot write it", async () => {
    await open();
    storeIsAway = true;
    const dispatch = call();
    await isAt("a");
    await moveTo("b", dispatch);
    await rounds(2);
    storeIsAway = false;
    await isAt("b");
    expect([site.asked.length, gone.has(dispatch.dispatchId)]).toEqual([1, true]);
  });

  it("is counted by the owner of its run alone, and by no node once it is answered", async () => {
    await open();
    const dispatch = call();
    const { dispatchId } = dispatch;
    await until(() => gone.has(dispatchId), { what: "its row is gone" });
    await moveTo("b", dispatch);
    await isAt("b");
    const counted = () => ["a", "b"].map((id) => cluster.node(id).dispatcher.inFlight);
    const atWorkers = () =>
      ["a", "b"].map(
        (id) => [...(cluster.node(id).dispatcher as unknown as LocalWorkers).connectedWorkers()][0]?.inFlight ?? 0,
      );
    expect([counted(), atWorkers()]).toEqual([
      [0, 1],
      [0, 0],
    ]);
    await cluster.command(dispatch.runId, { type: "result", commandId: "r", dispatchId, result: {} } as never);
    expect([counted(), atWorkers()]).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });

  it("has no row either if the node stops just then, and if the node has forgotten it", async () => {
    await open({ accepted: { remembered: 1 } });
    storeIsAway = true;
    const dispatches = [call(), call(), call()];
    await until(() => tried.size === 3 && cluster.node("a").dispatcher.inFlight <= 1);
    storeIsAway = false;
    await cluster.node("a").dispatcher.stop(0);
    for (const { dispatchId } of dispatches) expect(gone).toContain(dispatchId);
  });
});

describe("a dispatch whose commit is answered after its shard has moved", () => {
  it("is sent by its former owner, who has reserved it, and not by the next one as well", async () => {
    await open();
    site.answer = (_, response) => response.writeHead(202).end();
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let committed = false;
    cluster.onCommitted = () => {
      committed = true;
      return answered;
    };
    const dispatch = call();
    await until(() => committed);
    await moveTo("b", dispatch);
    await rounds(2);
    answer();
    await isAt("b");
    expect(site.asked).toHaveLength(1);
  });
});

describe("a hand-over that is under way at the former owner", () => {
  it("is left to it, and not repeated when it is accepted", async () => {
    await open();
    const held = holdResponses();
    const dispatch = call();
    await until(() => held.length === 1);
    await moveTo("b", dispatch);
    await rounds(3);
    held[0]?.writeHead(202).end();
    await isAt("b");
    // Nothing would tell the former owner of its answer.
    await until(() => cluster.node("a").dispatcher.inFlight === 0, { what: "forgotten at the former owner" });
    expect(site.asked).toHaveLength(1);
  });

  it("is not repeated when its worker answers in the response", async () => {
    await open();
    const held = holdResponses();
    const dispatch = call();
    await until(() => held.length === 1);
    await moveTo("b", dispatch);
    await rounds(2);
    held[0]?.end('{"result":{"ok":true}}');
    await until(() => cluster.isDone(dispatch));
    expect(cluster.order(dispatch.dispatchId).answers).toMatchObject([{ type: "result", result: { ok: true } }]);
    expect([site.asked.length, cluster.node("b").dispatcher.holds(dispatch.dispatchId)]).toEqual([1, false]);
  });

  it("is not repeated where the service itself does the work: a request", async () => {
    await open();
    const held = holdResponses();
    const dispatch = cluster.call("a", dispatchOf({ url: site.url, method: "POST" }).call);
    await until(() => held.length === 1);
    await moveTo("b", dispatch);
    await rounds(2);
    held[0]?.end("{}");
    await until(() => cluster.isDone(dispatch));
    expect([site.asked.length, cluster.node("b").dispatcher.holds(dispatch.dispatchId)]).toEqual([1, false]);
  });

  it("is repeated by the next owner if nothing was taken", async () => {
    await open();
    const held = holdResponses();
    const dispatch = call();
    await until(() => held.length === 1);
    await moveTo("b", dispatch);
    await rounds(2);
    site.answer = (_, response) => response.writeHead(202).end();
    held[0]?.writeHead(503).end();
    await until(() => gone.has(dispatch.dispatchId), { what: "its acceptance" });
    expect([site.asked.length, cluster.node("a").dispatcher.inFlight]).toEqual([2, 0]);
  });

  it("is repeated, unchanged, if it was cut: the former owner is gone", async () => {
    await open();
    const held = holdResponses();
    const dispatch = call();
    await until(() => held.length === 1);
    site.answer = (_, response) => response.writeHead(202).end();
    await cluster.kill("a", "b");
    await carry(dispatch);
    await until(() => gone.has(dispatch.dispatchId), { what: "its acceptance" });
    expect([site.asked.length, site.cutOff]).toEqual([2, 1]);
    expect(site.asked[1]?.body).toContain(dispatch.dispatchId);
  });

  it("is repeated after a while if the former owner says nothing: messages may be lost", async () => {
    await open({ handOverTries: 2, handOverMs: 20 });
    const held = holdResponses();
    const dispatch = call();
    await until(() => held.length === 1);
    cluster.fate = ({ kind }) => (kind === "dispatch.held" ? "lost" : undefined);
    await moveTo("b", dispatch);
    await until(() => held.length === 2);
    const told = cluster.node("b").logged.filter((line) => line.includes(MAY_COME_TWICE));
    expect(told.map((line) => (JSON.parse(line) as { dispatches: number }).dispatches)).toEqual([1]);
  });
});

describe("two nodes that both believe to own the run", () => {
  beforeEach(() => {
    site.answer = (_, response) => response.writeHead(202).end();
  });

  /** Every node owns everything from now on. */
  function makeDisputed(): Dispatch {
    const dispatch = makeDispatch(cluster.node("a"), { call: makeCall({ transport: "http", address: site.url }) });
    cluster.placed.clear();
    return dispatch;
  }

  it("send it once if the second one recovers it while the first one reads its row", async () => {
    await open();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let reads = 0;
    readingRows = () => (reads++ === 0 ? held : undefined);
    const dispatch = makeDisputed();
    cluster.node("b").dispatcher.send(dispatch);
    await until(() => reads === 1);
    cluster.node("a").dispatcher.send(dispatch);
    await until(() => cluster.sent.filter(({ kind, from }) => kind === "dispatch.held" && from === "a").length >= 2);
    release();
    for (const id of ["a", "b"]) await isAt(id);
    expect(site.asked).toHaveLength(1);
  });

  it("send it once if the second one has not seen the first one yet: who asks, lives", async () => {
    await open();
    const held = holdResponses();
    const dispatch = makeDisputed();
    cluster.node("a").dispatcher.placed(["a"]);
    cluster.node("b").dispatcher.send(dispatch);
    await until(() => held.length === 1);
    cluster.node("a").dispatcher.send(dispatch);
    const asked = () => cluster.kinds("dispatch.held").filter(({ from }) => from === "a").length;
    await until(() => held.length > 1 || asked() > 1, { what: "it asks the other one again" });
    for (const response of held) response.writeHead(202).end();
    for (const id of ["a", "b"]) await isAt(id);
    expect(site.asked).toHaveLength(1);
  });

  it("send it once if the second one recovers it while the first one waits for the answer of a third", async () => {
    await open({ handOverMs: 1_000 }, ["a", "b", "c"]);
    // It has accepted nothing yet when that answer comes, so the row is still there.
    const held = holdResponses();
    cluster.fate = first(1, { lateMs: 300 }, ({ kind, from, to }) => kind === "answer" && from === "c" && to === "b");
    const dispatch = makeDisputed();
    cluster.node("b").dispatcher.send(dispatch);
    await until(() => cluster.sent.some(({ kind, from, to }) => kind === "answer" && from === "a" && to === "b"));
    cluster.node("a").dispatcher.send(dispatch);
    const asked = () => cluster.kinds("dispatch.held").filter(({ from }) => from === "b").length;
    await until(() => held.length > 1 || asked() > 2, { what: "it asks both nodes again" });
    for (const response of held) response.writeHead(202).end();
    for (const id of ["a", "b"]) await isAt(id);
    expect(site.asked).toHaveLength(1);
  });
});

it("two nodes that both believe to own the run do not wait for each other", async () => {
  await open();
  site.answer = (_, response) => response.writeHead(202).end();
  const call = makeCall({ transport: "http", address: site.url });
  const dispatch = makeDispatch(cluster.node("a"), { call });
  cluster.placed.clear();
  for (const { dispatcher } of cluster.nodes.values()) dispatcher.send(dispatch);
  for (const id of ["a", "b"]) await isAt(id);
  await until(() => gone.has(dispatch.dispatchId));
  expect(site.asked).toHaveLength(1);
});
