// Several nodes' dispatchers with their gRPC servers, joined by a real bus (the exchange and the relay of IPC, in one process) that
// loses, doubles or delays what a test says. Their runs are a small model of what runs do with offers, answers and `carry`.

import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterEach } from "vitest";
import type { Answer, AnswerTo, Dispatch, JsonObject, RunCommand } from "../../machines/index.js";
import type { Bus } from "../../src/bus/bus.js";
import type { Channel } from "../../src/bus/channel.js";
import { IpcBus } from "../../src/bus/ipc.js";
import { IpcRelay } from "../../src/bus/ipc-relay.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { dispatchProtocol } from "../../src/dispatch/relay/messages.js";
import { shardOf } from "../../src/ids.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { makeCall, makeDispatch, type Node, type NodeOptions, RawWorker, startNode } from "./rig.js";

/** For what is to be in time on a busy machine, too. */
export const NEVER_MS = 60_000;
/** Quick, but in the same order as the real ones. */
export const TIMES: Partial<DispatchLimits> = {
  demandMs: 40,
  demandGatherMs: 1,
  voucherMs: 300,
  handOverMs: 50,
  rollCallMs: 80,
  takeoverMs: 200,
  claimWaitMs: 150,
};

export interface Sent {
  readonly from: string;
  readonly to: string;
  /** The kind of the body; `answer` for an answer to an ask. */
  readonly kind: string;
  readonly body: JsonObject;
}

/** What becomes of a message: how often, and when, it arrives. */
export type Fate = "lost" | "doubled" | { readonly lateMs: number } | { readonly againMs: number } | undefined;

export interface ClusterNode extends Node {
  readonly id: string;
  readonly bus: Bus;
}

interface Order {
  readonly dispatch: Dispatch;
  state: "queued" | "dispatched" | "done";
  readonly answers: Extract<RunCommand, { type: "result" | "failure" }>[];
}

export class Cluster {
  readonly nodes = new Map<string, ClusterNode>();
  readonly orders = new Map<string, Order>();
  readonly sent: Sent[] = [];
  readonly workers: RawWorker[] = [];
  fate: (sent: Sent) => Fate = () => undefined;
  /** Called after an offer is committed, before its dispatch is let out. A promise holds it back. */
  onCommitted: (dispatch: Dispatch) => Promise<void> | void = () => {};
  /** Shard n belongs to the nth node that was opened, unless it is placed elsewhere. */
  readonly placed = new Map<number, string>();
  private readonly relay: IpcRelay = new IpcRelay();

  constructor(
    private readonly push: NodeOptions["push"] = {},
    private readonly access: Pick<NodeOptions, "door" | "access"> = {},
  ) {}

  async open(ids: readonly string[], limits: Partial<DispatchLimits> = {}): Promise<void> {
    for (const id of ids) await this.add(id, limits);
    this.placeAll();
  }

  private async add(id: string, limits: Partial<DispatchLimits>): Promise<void> {
    this.placed.set(this.nodes.size, id);
    const { channel, detach } = this.channel(id);
    const bus = new IpcBus({
      nodeId: id,
      protocol: dispatchProtocol,
      handlers: {
        onAdvance() {},
        onAsk: async (request) => this.node(id).dispatcher.asked(request),
        onTell: (message, from) => this.node(id).dispatcher.told(message, from),
      },
      log: pino({ level: "silent" }),
      channel,
    });
    const peers = { bus, owner: (shard: number) => this.placed.get(shard) ?? id };
    const node = await startNode({
      nodeId: id,
      limits: { ...TIMES, ...limits },
      peers,
      commands: this,
      push: this.push,
      ...this.access,
    });
    const stop = async () => {
      await node.stop();
      await bus.stop();
      detach();
    };
    this.nodes.set(id, { ...node, id, bus, stop });
  }

  node(id: string): ClusterNode {
    const node = this.nodes.get(id);
    if (!node) throw new Error(`there is no node ${id}`);
    return node;
  }

  /** All nodes learn that these are the living. */
  placeAll(): void {
    const ids = [...this.nodes.keys()];
    for (const { dispatcher } of this.nodes.values()) dispatcher.placed(ids);
  }

  /** Its streams break and it says nothing more; the others see it gone, and `heir` has its shards. */
  async kill(id: string, heir: string): Promise<void> {
    const node = this.node(id);
    const fate = this.fate;
    this.fate = (sent) => (sent.from === id || sent.to === id ? "lost" : fate(sent));
    this.nodes.delete(id);
    await node.stop();
    for (const [shard, owner] of this.placed) if (owner === id) this.placed.set(shard, heir);
    this.placeAll();
  }

  async worker(id: string, hello: Record<string, unknown> = {}): Promise<RawWorker> {
    const worker = await RawWorker.connect(this.node(id).target, { worker_id: `w-${id}`, ...hello });
    this.workers.push(worker);
    return worker;
  }

  /** A run of this node calls an action. */
  call(id: string, more: Parameters<typeof makeCall>[0] = {}, about: Pick<Dispatch, "tenantId"> = {}): Dispatch {
    const shard = [...this.placed].find(([, owner]) => owner === id)?.[0] ?? 0;
    const node = this.node(id);
    const runId = newRunId(shard);
    const call = makeCall({ idempotencyKey: randomUUID(), ...more });
    const dispatch = makeDispatch(node, { dispatchId: newDispatchId(shard), runId, call, ...about });
    this.orders.set(dispatch.dispatchId, { dispatch, state: "queued", answers: [] });
    node.dispatcher.enqueue(runId, dispatch.dispatchId, call, dispatch.tenantId);
    return dispatch;
  }

  /** What a run that has ended meanwhile does with its call. */
  withdraw({ dispatchId }: Dispatch): void {
    const order = this.order(dispatchId);
    order.state = "done";
    this.ownerOf(dispatchId).dispatcher.resolved(dispatchId);
  }

  order(dispatchId: string): Order {
    const order = this.orders.get(dispatchId);
    if (!order) throw new Error(`there is no dispatch ${dispatchId}`);
    return order;
  }

  isDone({ dispatchId }: Dispatch): boolean {
    return this.order(dispatchId).state === "done";
  }

  /** All executions of it, by whichever worker. */
  executions({ dispatchId }: Dispatch): unknown[] {
    return this.workers.flatMap((worker) => worker.of("execute").filter((step) => step.dispatch_id === dispatchId));
  }

  kinds(kind: string): Sent[] {
    return this.sent.filter((sent) => sent.kind === kind);
  }

  /** The command reaches the run as on a node: whoever asks, the owner carries out what was committed. */
  command<C extends RunCommand>(_runId: string, command: C): Promise<AnswerTo<C>> {
    return this.reply(command) as Promise<AnswerTo<C>>;
  }

  private async reply(command: RunCommand): Promise<Answer> {
    if (command.type === "heartbeat") return { type: "report", stale: false };
    if (!("dispatchId" in command) || command.dispatchId === undefined) return { type: "refused", reason: "what?" };
    const order = this.order(command.dispatchId);
    const { dispatcher } = this.ownerOf(command.dispatchId);
    const { dispatch } = order;
    if (command.type === "offer") {
      if (order.state !== "queued") return { type: "refused", reason: "it does not wait" };
      order.state = "dispatched";
      const heldBack = this.onCommitted(dispatch);
      if (heldBack) await heldBack;
      dispatcher.send(dispatch);
      return { type: "advanced" };
    }
    if (command.type === "carry") {
      if (order.state === "done") dispatcher.resolved(dispatch.dispatchId);
      else if (order.state === "dispatched") dispatcher.send(dispatch);
      else dispatcher.enqueue(dispatch.runId, dispatch.dispatchId, dispatch.call, dispatch.tenantId);
      return { type: "advanced" };
    }
    if (command.type !== "result" && command.type !== "failure") return { type: "refused", reason: "what?" };
    const stale = order.state !== "dispatched";
    order.answers.push(command);
    order.state = "done";
    if (!stale) dispatcher.resolved(dispatch.dispatchId);
    return { type: "report", stale };
  }

  private ownerOf(dispatchId: string): ClusterNode {
    return this.node(this.placed.get(shardOf(dispatchId)) ?? "");
  }

  async close(): Promise<void> {
    for (const worker of this.workers.splice(0)) worker.cut();
    await Promise.all([...this.nodes.values()].map((node) => node.stop()));
  }

  /** One end for the node, the other for the relay; what goes out of the node meets its fate here. */
  private channel(id: string): { channel: Channel; detach: () => void } {
    const hearing = { node: new Set<(message: unknown) => void>(), relay: new Set<(message: unknown) => void>() };
    const hear = (side: "node" | "relay") => (listener: (message: unknown) => void) => {
      hearing[side].add(listener);
      return () => void hearing[side].delete(listener);
    };
    const deliver = (side: "node" | "relay", message: unknown) =>
      void setImmediate(() => {
        for (const listener of hearing[side]) listener(structuredClone(message));
      });
    const detach = this.relay.attach({ send: (message) => deliver("node", message), onMessage: hear("relay") });
    const send: Channel["send"] = (message) => {
      if (message.saga_bus !== "node") return deliver("relay", message);
      const fate = this.meet(id, message.to, message.text);
      if (fate === "lost") return;
      const later = typeof fate !== "object" ? undefined : "lateMs" in fate ? fate.lateMs : fate.againMs;
      if (later !== undefined) setTimeout(() => deliver("relay", message), later).unref();
      if (typeof fate !== "object" || "againMs" in fate) deliver("relay", message);
      if (fate === "doubled") deliver("relay", message);
    };
    return { channel: { send, onMessage: hear("node") }, detach };
  }

  private meet(from: string, to: string, text: string): Fate {
    const { kind, body } = JSON.parse(text) as { kind: string; body: JsonObject };
    const sent: Sent = { from, to, kind: kind === "answer" ? "answer" : String(body.kind), body };
    this.sent.push(sent);
    return this.fate(sent);
  }
}

/** Opens clusters for the tests of one file, and closes them after each test. Call it at the top of the file. */
export function useClusters(
  limitsOfAll: Partial<DispatchLimits> = {},
  access: ConstructorParameters<typeof Cluster>[1] = {},
) {
  const clusters: Cluster[] = [];
  afterEach(async () => {
    for (const cluster of clusters.splice(0)) await cluster.close();
  });
  return async (ids: readonly string[], limits: Partial<DispatchLimits> = {}): Promise<Cluster> => {
    const cluster = new Cluster({}, access);
    clusters.push(cluster);
    await cluster.open(ids, { ...limitsOfAll, ...limits });
    return cluster;
  };
}

/** A worker that executes whatever it gets, and answers at once. */
export function answering(worker: RawWorker): RawWorker {
  worker.onExecute = (step) =>
    worker.send({
      result: {
        ...{ dispatch_id: step.dispatch_id, run_id: step.run_id, step_id: step.step_id, attempt: step.attempt },
        result_json: Buffer.from("{}"),
      },
    });
  for (const step of worker.of("execute")) worker.onExecute(step);
  return worker;
}

/** The first so many of these meet the fate, the rest arrive. */
export function first(count: number, fate: Fate, fits: (sent: Sent) => boolean): (sent: Sent) => Fate {
  let met = 0;
  return (sent) => (fits(sent) && met++ < count ? fate : undefined);
}
