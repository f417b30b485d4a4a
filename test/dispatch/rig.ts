// A node's dispatcher and gRPC server on a real socket, a scripted stand-in for the runs, and a worker that speaks the
// bare protocol. No database and no SDK.

import {
  type ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { pino } from "pino";
import { afterEach, vi } from "vitest";
import type { ActionCall, Answer, AnswerTo, Dispatch, RunCommand } from "../../machines/index.js";
import { type GrpcServerOptions, startGrpcServer } from "../../src/dispatch/grpc/server.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { createDispatcher, type DispatcherOptions, type NodeDispatcher } from "../../src/dispatch/node-dispatcher.js";
import type { Peers } from "../../src/dispatch/ownership.js";
import type { CommandOptions, Runs } from "../../src/run/ports.js";
import { PROTO_OPTIONS, protoPath } from "../../src/sdk/protocol/index.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { workerToken } from "../harness/access.js";
import { newDispatchId, newRunId } from "../harness/ids.js";

export interface Told {
  readonly runId: string;
  readonly command: RunCommand;
  readonly options: CommandOptions | undefined;
}

type Reply = (told: Told) => Answer | Promise<Answer>;

/** Records every command; answers as scripted. */
export class FakeRuns implements Runs {
  readonly told: Told[] = [];
  reply: Reply = ({ command }) =>
    command.type === "offer" || command.type === "heartbeat" ? { type: "advanced" } : { type: "report", stale: false };

  async command<C extends RunCommand>(runId: string, command: C, options?: CommandOptions): Promise<AnswerTo<C>> {
    const told = { runId, command, options };
    this.told.push(told);
    return (await this.reply(told)) as AnswerTo<C>;
  }

  of<T extends RunCommand["type"]>(type: T): Extract<RunCommand, { type: T }>[] {
    return this.told
      .map(({ command }) => command)
      .filter((command): command is Extract<RunCommand, { type: T }> => command.type === type);
  }
}

export const QUICK: Partial<DispatchLimits> = {
  tickMs: 10,
  claimWaitMs: 60,
  offerBackoffMs: 10,
  claimMemoryMs: 60_000,
};

export interface Node {
  readonly dispatcher: NodeDispatcher;
  readonly runs: FakeRuns;
  readonly port: number;
  readonly target: string;
  readonly clock: { now: number; nodes: number };
  readonly logged: string[];
  stop(): Promise<void>;
}

export interface NodeOptions {
  readonly limits?: Partial<DispatchLimits>;
  readonly nodeId?: string;
  readonly port?: number;
  readonly nodes?: number;
  readonly unbound?: boolean;
  readonly door?: GrpcServerOptions["door"];
  readonly access?: DispatcherOptions["access"];
  readonly tls?: Pick<GrpcServerOptions, "tls" | "clientAuthority">;
  readonly keepalive?: GrpcServerOptions["keepalive"];
  readonly peers?: Peers;
  /** Instead of the scripted ones. */
  readonly commands?: Runs;
  /** For workers that open no stream. */
  readonly push?: Pick<DispatcherOptions, "callbacks" | "egress" | "withRows">;
}

/** The clock stands at database time 0 plus what a test adds to it. */
export async function startNode(options: NodeOptions = {}): Promise<Node> {
  const runs = new FakeRuns();
  const clock = { now: 1_000_000, nodes: options.nodes ?? 1 };
  const logged: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(line) });
  const dispatcher = createDispatcher({
    scheduler: new FairScheduler(),
    ...(options.unbound ? {} : { runs: options.commands ?? runs }),
    ...(options.peers ? { peers: options.peers } : {}),
    ...options.push,
    ...(options.access ? { access: options.access } : {}),
    nodeId: options.nodeId ?? "node-1",
    log,
    now: () => clock.now,
    nodeCount: () => clock.nodes,
    limits: { ...QUICK, ...options.limits },
  });
  const { door } = options;
  const server = await startGrpcServer({
    host: "127.0.0.1",
    port: options.port ?? 0,
    dispatcher,
    log,
    ...(door ? { door } : {}),
    ...options.tls,
    ...(options.keepalive ? { keepalive: options.keepalive } : {}),
  });
  const target = `127.0.0.1:${server.port}`;
  return { dispatcher, runs, clock, logged, port: server.port, target, stop: () => server.stop(200) };
}

export function makeCall(overrides: Partial<ActionCall> = {}): ActionCall {
  return {
    phase: "forward",
    stepId: "charge",
    service: "payments",
    action: "charge",
    version: 1,
    transport: "grpc",
    inputs: { amount: 7 },
    idempotencyKey: "key-1",
    timeoutMs: 10_000,
    retry: {
      max_attempts: 3,
      initial_backoff_ms: 1,
      max_backoff_ms: 1,
      multiplier: 1,
      jitter: false,
      non_retryable_codes: [],
    },
    ...overrides,
  };
}

export function makeDispatch(node: Node, overrides: Partial<Dispatch> = {}): Dispatch {
  return {
    dispatchId: newDispatchId(),
    runId: newRunId(),
    dryRun: false,
    attempt: 1,
    deadlineAt: node.clock.now + 10_000,
    call: makeCall(),
    ...overrides,
  };
}

/** Dispatches as the runtime does where credit is free: reserve, commit, send. */
export function dispatchNow(node: Node, overrides: Partial<Dispatch> = {}): Dispatch {
  const dispatch = makeDispatch(node, overrides);
  if (!node.dispatcher.reserve(dispatch.dispatchId, dispatch.call, dispatch.tenantId)) throw new Error("no credit");
  node.dispatcher.send(dispatch);
  return dispatch;
}

// biome-ignore lint/suspicious/noExplicitAny: the bare protocol, read as it comes.
export type Wire = any;

const definition = loadSync(protoPath(), PROTO_OPTIONS);

/** How a worker shows who it is, beside its hello. */
export interface Door {
  readonly metadata?: Metadata;
  readonly channel?: ChannelCredentials;
}

/** A worker that speaks the bare protocol. */
export class RawWorker {
  readonly messages: Wire[] = [];
  onExecute: (step: Wire) => void = () => {};
  onRecorded: (recorded: Wire) => void = () => {};
  error: ServiceError | undefined;
  ended = false;
  private readonly client: Client;
  private readonly call: ClientDuplexStream<Wire, Wire>;

  /** `over`: the connection of that worker. */
  constructor(
    target: string,
    over?: RawWorker,
    { metadata = new Metadata(), channel = credentials.createInsecure() }: Door = {},
  ) {
    const { saga }: Wire = loadPackageDefinition(definition);
    const client =
      over?.client ?? new saga.worker.v1.WorkerService(target, channel, { "grpc.use_local_subchannel_pool": 1 });
    this.client = client;
    this.call = client.ExecuteStep(metadata);
    this.call.on("data", (message) => {
      this.messages.push(message);
      if (message.execute) this.onExecute(message.execute);
      if (message.recorded) this.onRecorded(message.recorded);
    });
    this.call.on("error", (error: ServiceError) => {
      this.error = error;
      this.ended = true;
    });
    this.call.on("end", () => {
      this.ended = true;
    });
  }

  /** A step may arrive as soon as the service knows the worker: `onExecute` is there before. */
  static async connect(target: string, hello: Wire = {}, onExecute?: (step: Wire) => void): Promise<RawWorker> {
    const worker = new RawWorker(target);
    if (onExecute) worker.onExecute = onExecute;
    worker.send({ hello: { ...workerToken(), worker_id: "w1", service: "payments", max_in_flight: 2, ...hello } });
    await worker.wait("hello_ack");
    return worker;
  }

  send(message: Wire): void {
    this.call.write(message);
  }

  of(kind: "hello_ack" | "execute" | "cancel" | "recorded" | "credited"): Wire[] {
    return this.messages.filter((message) => message[kind]).map((message) => message[kind]);
  }

  /** The nth message of the kind, once it is there. */
  async wait(kind: "hello_ack" | "execute" | "cancel" | "recorded" | "credited", nth = 1): Promise<Wire> {
    await until(() => this.of(kind).length >= nth);
    return this.of(kind)[nth - 1];
  }

  result(dispatch: Dispatch, result: unknown = { ok: true }): void {
    this.send({ result: { ...about(dispatch), result_json: Buffer.from(JSON.stringify(result)) } });
  }

  failure(dispatch: Dispatch, failure: Wire): void {
    this.send({ failure: { ...about(dispatch), ...failure } });
  }

  /** The connection breaks: nothing is said. */
  cut(): void {
    this.call.cancel();
    this.client.close();
  }

  /** Its stream ends, and its connection stands. */
  leave(): void {
    this.call.cancel();
  }

  /** It stops reading, while its connection stands. */
  freeze(): void {
    this.call.pause();
  }

  halfClose(): void {
    this.call.end();
  }
}

function about(dispatch: Dispatch): Wire {
  return {
    dispatch_id: dispatch.dispatchId,
    run_id: dispatch.runId,
    step_id: dispatch.call.stepId,
    attempt: dispatch.attempt,
  };
}

/** Opens nodes and workers for the tests of one file, and closes them after each test. Call it at the top of the file. */
export function useNodes() {
  const nodes: Node[] = [];
  const workers: RawWorker[] = [];
  afterEach(async () => {
    for (const worker of workers.splice(0)) worker.cut();
    await Promise.all(nodes.splice(0).map((node) => node.stop()));
  });
  const kept = <T>(list: T[], item: T): T => {
    list.push(item);
    return item;
  };
  return {
    node: async (options?: NodeOptions) => kept(nodes, await startNode(options)),
    worker: async (target: string, hello: Wire = {}) => kept(workers, await RawWorker.connect(target, hello)),
    /** A worker that has not said hello. */
    silentWorker: (target: string, door?: Door) => kept(workers, new RawWorker(target, undefined, door)),
  };
}

export async function until(fact: () => boolean): Promise<void> {
  await vi.waitFor(
    () => {
      if (!fact()) throw new Error(`not yet: ${fact}`);
    },
    { timeout: 60_000, interval: 5 },
  );
}
