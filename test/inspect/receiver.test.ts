// The receiver and the relay of @statelyai/inspect, as they come from npm, and a run of a service with every kind of block. The frames
// come from another node: an API on the same database that has no run of its own.
// @module-tag long
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createWebSocketReceiver, type StatelyInspectionEvent } from "@statelyai/inspect";
import { createInspectorServer } from "@statelyai/inspect/server";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { type AnyActorRef, createActor, createMachine } from "xstate";
import { useRig } from "../api/rig.js";
import { openShop, type Shop } from "../faults/shop.js";
import { freePorts } from "../harness/ports.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { BLOCKS, CHILDREN, ENDS, FIRST, MOVED_WAY, SECOND, SMALL, WAY } from "./every-block.js";

const rig = useRig();
let service: ServiceProcess;
let shop: Shop;
let port: number;

beforeAll(async () => {
  service = await (await createService({ DATABASE_URL: rig.database.url, SAGA_WORKERS: "1" })).start();
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  for (const document of [SMALL, BLOCKS, FIRST, SECOND]) await post("/workflows", document);
});

afterAll(async () => {
  await shop?.stop();
  await service?.stop();
});

async function post(path: string, body: object): Promise<Record<string, string>> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${service.url}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.ok).toBe(true);
  return (await answer.json()) as Record<string, string>;
}

const socketOf = (runId: string, at = port) => `ws://127.0.0.1:${at}/api/v1/sagas/${runId}/inspect`;

/** What the package's receiver hands to a subscriber. */
function received(server: string): StatelyInspectionEvent[] {
  const frames: StatelyInspectionEvent[] = [];
  createWebSocketReceiver({ server }).subscribe((frame) => void frames.push(frame));
  return frames;
}

/** So many runs have ended. */
const haveEnded = (count: number, frames: readonly StatelyInspectionEvent[]) =>
  new Set(frames.flatMap((frame) => (frame.type === "@xstate.snapshot" && isDone(frame) ? frame.sessionId : [])))
    .size === count;

/** The run and its five children. */
const isOver = (frames: readonly StatelyInspectionEvent[]) => haveEnded(1 + CHILDREN.length, frames);

/** The run is at its step, and has said that it waits. */
const waitsIn = (frame: StatelyInspectionEvent, runId: string, step: string) =>
  frame.type === "@xstate.snapshot" &&
  frame.sessionId === `run:${runId}` &&
  JSON.stringify(frame.snapshot).startsWith(`{"status":"active","value":{"active":"${step}"}`) &&
  JSON.stringify(frame.snapshot).includes('"state":"paused"');

const isDone = ({ snapshot }: { readonly snapshot: unknown }) => (snapshot as { status: string }).status === "done";

interface Shown {
  readonly name: string;
  readonly parentId: string | undefined;
  readonly actor: AnyActorRef;
  readonly places: unknown[];
}

/** Every actor, played on its own definition by the events that were received; its snapshots must agree. */
function shown(frames: readonly StatelyInspectionEvent[]): Map<string, Shown> {
  const actors = new Map<string, Shown>();
  for (const frame of frames) {
    const { sessionId } = frame;
    if (frame.type === "@xstate.actor") {
      const { places = [] } = actors.get(sessionId) ?? {};
      actors.set(sessionId, { name: frame.name, parentId: frame.parentId, actor: actorOf(frame), places });
    } else if (frame.type === "@xstate.event") actors.get(sessionId)?.actor.send(frame.event);
    else {
      const { actor, places } = actors.get(sessionId) as Shown;
      const { value, status } = actor.getSnapshot();
      expect(frame.snapshot).toMatchObject({ value, status });
      if (JSON.stringify(value) !== JSON.stringify(places.at(-1))) places.push(value);
    }
  }
  return actors;
}

const placesIn = (frames: readonly StatelyInspectionEvent[]) =>
  Object.fromEntries([...shown(frames)].map(([sessionId, { places }]) => [sessionId, places]));

/** A run that moves to another version comes as an actor again, in the middle of it. */
function actorOf({ definition, snapshot }: Extract<StatelyInspectionEvent, { type: "@xstate.actor" }>): AnyActorRef {
  const machine = createMachine(JSON.parse(definition as string));
  const { value } = snapshot as unknown as { value: string };
  return createActor(machine, { snapshot: machine.resolveState({ value }) }).start();
}

type End = keyof typeof ENDS;

function expectAllOf(frames: readonly StatelyInspectionEvent[], runId: string, end: End): void {
  const actors = shown(frames);
  expect(actors.get(`run:${runId}`)?.places).toEqual([...WAY, ...ENDS[end]]);
  const [root, ...children] = [...actors.values()];
  expect(root?.parentId).toBeUndefined();
  expect(children.map(({ name }) => name).sort()).toEqual(CHILDREN);
  for (const { parentId, actor, places } of children) {
    expect([parentId, places.at(-1), actor.getSnapshot().status]).toEqual([`run:${runId}`, "succeeded", "done"]);
  }
}

/** A run that waits for its signal, in the middle of it. */
async function waiting(workflow: string, step: string, inputs: object = {}): Promise<string> {
  const { run_id: runId = "" } = await post("/sagas/start", { workflow_id: workflow, version: 1, inputs });
  await until(async () => (await waitsAt(runId)) === step, { what: "the wait for the signal" });
  return runId;
}

async function get(path: string): Promise<Record<string, unknown>> {
  return (await (await fetch(`${service.url}/api/v1${path}`)).json()) as Record<string, unknown>;
}

async function waitsAt(runId: string): Promise<unknown> {
  const { state, current_step: step } = await get(`/sagas/${runId}`);
  return state === "paused" ? step : undefined;
}

/** Gives a run of all blocks what it waits for. */
async function driveOn(runId: string): Promise<void> {
  await post(`/sagas/${runId}/signal/go`, {});
  await post("/events", { topic: "news", headers: { run: runId } });
  for (const step of ["approve", "form"]) {
    await until(async () => (await waitsAt(runId)) === step, { what: `the task of ${step}` });
    const { items } = (await get(`/sagas/${runId}/user_tasks`)) as { items: { id: string; step_id: string }[] };
    const task = items.find(({ step_id }) => step_id === step);
    await post(`/sagas/${runId}/user_task/${task?.id}/submit`, { result: { approved: true } });
  }
}

/** The run is received as it was live from a node that does not own it: once more after the end, and again from its owner. */
async function expectTheSameAgain(live: readonly StatelyInspectionEvent[], runId: string): Promise<void> {
  const late = received(socketOf(runId));
  await until(() => late.length === live.length, { what: "as many frames as the live run had" });
  const ofRoot = (frames: typeof live) => frames.filter(({ sessionId }) => sessionId === `run:${runId}`);
  expect(ofRoot(late)).toEqual(ofRoot(live));
  expect(placesIn(late)).toEqual(placesIn(live));
  const owners = received(socketOf(runId, Number(new URL(service.url).port)));
  await until(() => owners.length === late.length, { what: "the owner's frames" });
  expect(owners).toEqual(late);
}

describe("the receiver of @statelyai/inspect", () => {
  it.each<[End, string]>([
    ["good", "to its success"],
    ["bad", "through its undo"],
  ])(
    "receives a live run with every block from a node that does not own it, %s: %s, and the same again when it has ended",
    async (end) => {
      const runId = await waiting("blocks", "go", { end });
      const live = received(socketOf(runId));
      await until(() => live.some((frame) => waitsIn(frame, runId, "go")), { what: "the frames so far" });
      expect(isOver(live)).toBe(false);
      await driveOn(runId);
      await until(() => isOver(live), { what: "the end of the live run" });
      expectAllOf(live, runId, end);
      expect(shop.of(runId, "refund")).toHaveLength(end === "bad" ? 1 : 0);
      await expectTheSameAgain(live, runId);
    },
  );

  it("receives a run that moves to another version with the chart of each, and the same again when it has ended", async () => {
    const runId = await waiting("moving", "hold");
    const live = received(socketOf(runId));
    await until(() => live.some((frame) => waitsIn(frame, runId, "hold")), { what: "the frames so far" });
    await post(`/sagas/${runId}/migrate`, { version: 2 });
    await until(() => live.some((frame) => waitsIn(frame, runId, "confirm")), { what: "the move" });
    await post(`/sagas/${runId}/signal/go`, {});
    await until(() => haveEnded(2, live), { what: "the end of the run and of its item" });
    expect(shown(live).get(`run:${runId}`)?.places).toEqual(MOVED_WAY);
    await expectTheSameAgain(live, runId);
  });

  it("receives a run through the relay of the package", async () => {
    const runId = await waiting("blocks", "go", { end: "bad" });
    await driveOn(runId);
    const [relayPort = 0] = await freePorts(1);
    const relay = createInspectorServer({ port: relayPort, autoOpen: false });
    onTestFinished(() => relay.stop());
    const into = new WebSocket(`ws://127.0.0.1:${relayPort}`);
    await once(into, "open");
    const frames = received(`ws://127.0.0.1:${relayPort}`);
    const from = new WebSocket(socketOf(runId));
    from.on("message", (data) => into.send(String(data)));
    const [code] = await once(from, "close");
    expect(code).toBe(1000);
    await until(() => isOver(frames), { what: "the end of the run, from the relay" });
    expectAllOf(frames, runId, "bad");
    into.terminate();
  });
});
