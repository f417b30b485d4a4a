// The receiver and the relay of @statelyai/inspect, as they come from npm, and a run of a service with every kind of block. The frames
// come from another node: an API on the same database that has no run of its own.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createWebSocketReceiver, type StatelyInspectionEvent } from "@statelyai/inspect";
import { createInspectorServer } from "@statelyai/inspect/server";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { type AnyActorRef, createActor, createMachine } from "xstate";
import { useRig } from "../api/rig.js";
import { freePorts } from "../harness/ports.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";

const noop = { type: "noop" };
const BLOCKS = {
  id: "blocks",
  name: "Blocks",
  start: "fork",
  published: true,
  steps: [
    { id: "fork", type: "parallel", branches: { left: { next: "l" }, right: { next: "r.1" } }, next: "joined" },
    { id: "l", ...noop },
    { id: "r.1", ...noop },
    { id: "joined", type: "join", next: "each" },
    { id: "each", type: "foreach", items: "[1, 2]", body: "item", max_concurrency: 1, next: "go" },
    { id: "item", ...noop },
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "try" },
    { id: "try", type: "try_catch", try: "bad", catch: "caught", next: "loop" },
    { id: "bad", type: "error", code: "bad" },
    { id: "caught", ...noop },
    { id: "loop", type: "while", condition: "iteration < 2", body: "round", next: "sub" },
    { id: "round", type: "noop", next: "loop" },
    { id: "sub", type: "sub_saga", workflow_id: "small", next: "choose" },
    { id: "choose", type: "switch", cases: [{ when: "true", next: "end" }], default: "never" },
    { id: "never", ...noop },
    { id: "end", type: "end" },
  ],
};
const SMALL = { id: "small", name: "Small", start: "only", published: true, steps: [{ id: "only", ...noop }] };

const rig = useRig();
let service: ServiceProcess;
let port: number;

beforeAll(async () => {
  service = await (await createService({ DATABASE_URL: rig.database.url, SAGA_WORKERS: "1" })).start();
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
  await post("/workflows", SMALL);
  await post("/workflows", BLOCKS);
});

afterAll(() => service?.stop());

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

/** The run and its five children have ended. */
const isOver = (frames: readonly StatelyInspectionEvent[]) =>
  new Set(frames.flatMap((frame) => (frame.type === "@xstate.snapshot" && isDone(frame) ? frame.sessionId : [])))
    .size === 6;

/** The run is at its signal, and has said that it waits. */
const waitsIn = (frame: StatelyInspectionEvent, runId: string) =>
  frame.type === "@xstate.snapshot" &&
  frame.sessionId === `run:${runId}` &&
  JSON.stringify(frame.snapshot).startsWith('{"status":"active","value":{"active":"go"}') &&
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
      const actor = createActor(createMachine(JSON.parse(frame.definition as string))).start();
      actors.set(sessionId, { name: frame.name, parentId: frame.parentId, actor, places: [] });
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

const at = (...steps: string[]) => steps.map((active) => ({ active }));

function expectAllOf(frames: readonly StatelyInspectionEvent[], runId: string): void {
  const actors = shown(frames);
  expect(actors.get(`run:${runId}`)?.places).toEqual([
    "pending",
    ...at("fork", "joined", "each", "go", "try", "bad", "try", "caught", "try"),
    ...at("loop", "round", "loop", "round", "loop", "sub", "choose", "end"),
    "succeeded",
  ]);
  const [root, ...children] = [...actors.values()];
  expect(root?.parentId).toBeUndefined();
  const names = ["blocks each[0]", "blocks each[1]", "blocks fork[left]", "blocks fork[right]", "small"];
  expect(children.map(({ name }) => name).sort()).toEqual(names);
  for (const { parentId, actor, places } of children) {
    expect([parentId, places.at(-1), actor.getSnapshot().status]).toEqual([`run:${runId}`, "succeeded", "done"]);
  }
}

/** A run that waits for its signal, in the middle of it. */
async function waiting(): Promise<string> {
  const { run_id: runId = "" } = await post("/sagas/start", { workflow_id: "blocks" });
  await until(async () => (await stateOf(runId)) === "paused", { what: "the wait for the signal" });
  return runId;
}

async function stateOf(runId: string): Promise<unknown> {
  const run = (await (await fetch(`${service.url}/api/v1/sagas/${runId}`)).json()) as Record<string, unknown>;
  return run.current_step === "go" || run.state === "succeeded" ? run.state : undefined;
}

describe("the receiver of @statelyai/inspect", () => {
  it("receives a live run from a node that does not own it, and the same again when it has ended", async () => {
    const runId = await waiting();
    const live = received(socketOf(runId));
    await until(() => live.some((frame) => waitsIn(frame, runId)), { what: "the frames so far" });
    expect(isOver(live)).toBe(false);
    await post(`/sagas/${runId}/signal/go`, {});
    await until(() => isOver(live), { what: "the end of the live run" });
    expectAllOf(live, runId);
    const late = received(socketOf(runId));
    await until(() => late.length === live.length, { what: "as many frames as the live run had" });
    expectAllOf(late, runId);
    const ofRoot = (frames: typeof live) => frames.filter(({ sessionId }) => sessionId === `run:${runId}`);
    expect(ofRoot(late)).toEqual(ofRoot(live));
    // The owner says the same.
    const owners = received(socketOf(runId, Number(new URL(service.url).port)));
    await until(() => owners.length === late.length, { what: "the owner's frames" });
    expect(owners).toEqual(late);
  });

  it("receives a run through the relay of the package", async () => {
    const runId = await waiting();
    await post(`/sagas/${runId}/signal/go`, {});
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
    expectAllOf(frames, runId);
    into.terminate();
  });
});
