// The worker SDK against the real dispatcher and gRPC server, over real sockets: what users' code sees, and what the SDK does for
// it.

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type TSchema, Type } from "typebox";
import { afterEach, describe, expect, expectTypeOf, it } from "vitest";
import { overloaded } from "../../src/errors.js";
import {
  type ActionContext,
  type ActionContract,
  ActionError,
  createWorker,
  defineAction,
  type Execute,
  type HandleOptions,
  runWorker,
  type Worker,
  type WorkerOptions,
} from "../../src/sdk/worker/index.js";
import { dispatchNow, makeCall, makeDispatch, type Node, type NodeOptions, startNode, until } from "../dispatch/rig.js";
import { RawServer } from "../egress/raw-server.js";
import { newDispatchId } from "../harness/ids.js";
import { freePorts } from "../harness/ports.js";
import { TcpRelay } from "../harness/tcp-relay.js";
import { until as untilTrue } from "../harness/until.js";

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function node(options?: NodeOptions): Promise<Node> {
  const started = await startNode(options);
  closers.push(() => started.stop());
  return started;
}

interface Registry {
  readonly url: string;
  readonly bodies: { service: string; actions: Record<string, unknown>[] }[];
  readonly authorizations: (string | undefined)[];
}

/** The registration endpoint, answering with the given statuses in turn, then 200. */
async function registry(...statuses: number[]): Promise<Registry> {
  const bodies: Registry["bodies"] = [];
  const authorizations: Registry["authorizations"] = [];
  const server: Server = createServer(async (request, response) => {
    bodies.push(JSON.parse(await read(request)));
    authorizations.push(request.headers.authorization);
    response.writeHead(request.url === "/api/v1/registry/register" ? (statuses.shift() ?? 200) : 404).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies, authorizations };
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };
// An answer that has no `recorded` yet is sent again: late enough for a busy machine, so that each comes once.
const TIMING = { resendMs: 10_000, backoffMs: 10, backoffMaxMs: 50, lookAgainMs: 50, abortGraceMs: 200 };
const Any = Type.Record(Type.String(), Type.Unknown());

type Code = (input: unknown, ctx: ActionContext) => unknown;

const charge = defineAction({ service: "payments", name: "charge", input: Any, output: Any });

interface Started extends Partial<WorkerOptions>, HandleOptions {
  /** Default: charge. */
  readonly contract?: ActionContract;
}

async function start(n: Node, execute: Code, options: Started = {}): Promise<Worker> {
  const { contract = charge, autoHeartbeat = true, ...rest } = options;
  const worker = createWorker({
    service: "payments",
    grpc: n.target,
    api: (await registry()).url,
    log: silent,
    timing: TIMING,
    drainTimeoutMs: 2_000,
    ...rest,
  }).handle(contract, execute as Execute<TSchema, TSchema>, { autoHeartbeat });
  closers.push(() => worker.stop());
  await worker.start();
  return worker;
}

const nowhere = { service: "payments", api: "http://127.0.0.1:1", grpc: "127.0.0.1:1" };

describe("handle", () => {
  it("types the code by TypeBox and by plain JSON Schema", () => {
    const pay = defineAction({
      ...{ service: "payments", name: "pay", compensable: true },
      input: Type.Object({ amount: Type.Number() }),
      output: Type.Object({ id: Type.String() }),
    });
    const send = defineAction({
      ...{ service: "payments", name: "send", output: { type: "object" } },
      input: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
    });
    const worker = createWorker(nowhere)
      .handle(pay, (input, ctx) => {
        expectTypeOf(input).toEqualTypeOf<{ amount: number }>();
        expectTypeOf(ctx).toEqualTypeOf<ActionContext>();
        return { id: String(input.amount) };
      })
      .handle(send, async (input) => {
        expectTypeOf(input.to).toEqualTypeOf<string>();
        return {};
      });
    expectTypeOf(worker).toEqualTypeOf<Worker>();
    // @ts-expect-error The contract's output has an id, which is a text.
    createWorker(nowhere).handle(pay, () => ({ id: 5 }));
    // @ts-expect-error An output without it.
    createWorker(nowhere).handle(pay, async () => ({}));
    // @ts-expect-error There is no such member of the input.
    createWorker(nowhere).handle(pay, ({ total }) => ({ id: String(total) }));
  });

  it("refuses a token that is an empty text", () => {
    expect(() => createWorker({ ...nowhere, token: "" })).toThrow("the token is an empty text");
  });
});

describe("registering", () => {
  it("declares the actions as plain JSON Schema, with the credential", async () => {
    const n = await node();
    const api = await registry();
    const contract = defineAction({
      service: "payments",
      name: "refund",
      version: 2,
      description: "gives it back",
      compensable: true,
      timeoutMs: 5_000,
      retry: { maxAttempts: 4, initialBackoffMs: 10, nonRetryableCodes: ["gone"] },
      errorCodes: ["gone"],
      dryRunSupported: true,
      input: Type.Object({ amount: Type.Number() }),
      output: Type.Object({}),
    });
    await start(n, () => ({}), { api: api.url, contract, token: "t0k", serviceVersion: "1.2" });
    expect(api.authorizations).toEqual(["Bearer t0k"]);
    expect(api.bodies).toEqual([
      {
        service: "payments",
        service_version: "1.2",
        actions: [
          {
            action_name: "refund",
            version: 2,
            description: "gives it back",
            compensable: true,
            input_schema: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
            output_schema: { type: "object", properties: {} },
            error_codes: ["gone"],
            default_retry: { max_attempts: 4, initial_backoff_ms: 10, non_retryable_codes: ["gone"] },
            default_timeout_ms: 5_000,
            deprecated: false,
            dry_run_supported: true,
            transport: "grpc",
          },
        ],
      },
    ]);
  });

  it("is retried while the service is away, and ends when the service refuses it", async () => {
    const n = await node();
    const late = await registry(503, 500, 429);
    await start(n, () => ({}), { api: late.url });
    expect(late.bodies).toHaveLength(4);
    const strict = await registry(400);
    await expect(start(n, () => ({}), { api: strict.url })).rejects.toThrow("refused to register payments: 400");
  });

  it("that fails names the address and the cause, and says when it has worked", async () => {
    const n = await node();
    const lines: string[] = [];
    const keep = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
    const [port] = await freePorts(1);
    const started = start(n, () => ({}), {
      api: `http://127.0.0.1:${port}`,
      log: { ...silent, info: keep, warn: keep },
    });
    await untilTrue(() => lines.length > 0, { what: "a line" });
    expect(lines[0]).toContain(`POST http://127.0.0.1:${port}/api/v1/registry/register: connect ECONNREFUSED`);
    const server = createServer((_, response) => response.end("{}")).listen(port, "127.0.0.1");
    closers.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
    await started;
    expect(lines.some((line) => line.startsWith("actions registered"))).toBe(true);
  });

  it("skips interim responses that it did not ask for", async () => {
    const n = await node();
    const server = await RawServer.open((socket) => {
      socket.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
    });
    closers.push(() => server.close());
    await start(n, () => ({}), { api: server.url });
    expect(server.requests).toEqual(["POST /api/v1/registry/register HTTP/1.1"]);
  });

  it("ends when the worker is stopped", async () => {
    const n = await node();
    const worker = createWorker({
      service: "payments",
      grpc: n.target,
      api: "http://127.0.0.1:1",
      log: silent,
      timing: TIMING,
    }).handle(charge, () => ({}));
    const started = worker.start();
    await worker.stop();
    await expect(started).rejects.toThrow("stopped");
    await worker.stop();
  });
});

describe("executing", () => {
  it("gives the action its input and context, and the service its output", async () => {
    const n = await node();
    const seen: { input: unknown; ctx: ActionContext }[] = [];
    const worker = await start(n, (input, ctx) => {
      seen.push({ input, ctx });
      return { paid: true };
    });
    const call = makeCall({ phase: "compensation", forwardIdempotencyKey: "key-0" });
    const sentAt = Date.now();
    const dispatch = dispatchNow(n, { call, tenantId: "acme", dryRun: true, attempt: 3 });
    await until(() => !n.dispatcher.holds(dispatch.dispatchId));
    expect(n.runs.of("result")).toMatchObject([{ result: { paid: true }, actor: `worker:${worker.workerId}` }]);
    expect(seen[0]?.input).toEqual({ amount: 7 });
    expect(seen[0]?.ctx).toMatchObject({
      runId: dispatch.runId,
      stepId: "charge",
      attempt: 3,
      dispatchId: dispatch.dispatchId,
      idempotencyKey: "key-1",
      forwardIdempotencyKey: "key-0",
      phase: "compensation",
      dryRun: true,
      tenantId: "acme",
    });
    // It counts from the arrival, which was between these two times.
    const deadline = seen[0]?.ctx.deadline.getTime() ?? 0;
    expect([deadline >= sentAt + 10_000, deadline <= Date.now() + 10_000]).toEqual([true, true]);
  });

  const thrown: [string, Code, object][] = [
    [
      "an ActionError says what it says",
      () => {
        throw new ActionError("card_declined", "no", { retryable: false });
      },
      { code: "card_declined", message: "no", retryable: false, outcomeUnknown: false },
    ],
    [
      "an ActionError is retryable where it does not say",
      () => {
        throw new ActionError("busy");
      },
      { code: "busy", message: "busy", retryable: true, outcomeUnknown: false },
    ],
    [
      "anything else thrown may have happened",
      async () => {
        throw new TypeError("oops");
      },
      { code: "error", message: "oops", retryable: true, outcomeUnknown: true },
    ],
    [
      "an output that is no object must be undone",
      () => [1],
      { code: "schema_mismatch", retryable: false, outcomeUnknown: true },
    ],
    [
      "an output that is no JSON must be undone",
      () => ({ n: 1n }),
      { code: "schema_mismatch", retryable: false, outcomeUnknown: true },
    ],
    [
      "an output over the limit is not sent, and must be undone",
      () => ({ blob: "x".repeat(1_048_576) }),
      {
        ...{ code: "limit_exceeded", retryable: false, outcomeUnknown: true },
        message: "the action's output has 1048587 bytes of JSON, more than 1048576 (outputBytes)",
      },
    ],
  ];
  it.each(thrown)("%s", async (_name, execute, failure) => {
    const n = await node();
    await start(n, execute);
    dispatchNow(n);
    await until(() => n.runs.of("failure").length === 1);
    expect(n.runs.of("failure")).toMatchObject([failure]);
  });

  it("never executes another version of the action; an undefined result is {}", async () => {
    const n = await node();
    await start(n, () => undefined);
    expect(n.dispatcher.reserve(newDispatchId(), makeCall({ version: 2 }))).toBeUndefined();
    dispatchNow(n);
    await until(() => n.runs.of("result").length === 1);
    expect(n.runs.of("result")[0]?.result).toEqual({});
  });

  it("gets a cancel through its signal, and still answers", async () => {
    const n = await node();
    const signals: AbortSignal[] = [];
    await start(n, (_input, { signal }) => {
      signals.push(signal);
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const dispatch = dispatchNow(n);
    await until(() => signals.length === 1);
    n.dispatcher.cancel(dispatch.dispatchId, "rolled back");
    await until(() => n.runs.of("failure").length === 1);
    expect(n.runs.of("failure")).toMatchObject([
      { code: "error", message: "cancelled: rolled back", retryable: true, outcomeUnknown: true },
    ]);
  });

  it("is aborted at its deadline", async () => {
    const n = await node();
    await start(
      n,
      (_input, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    dispatchNow(n, { deadlineAt: n.clock.now + 40 });
    await until(() => n.runs.of("failure").length === 1);
    expect(n.runs.of("failure")).toMatchObject([{ message: "the deadline has passed", outcomeUnknown: true }]);
  });

  it("sends heartbeats if the step asks for them, automatically or on request", async () => {
    const n = await node();
    let finish: () => void = () => {};
    const wait = () =>
      new Promise((resolve) => {
        finish = () => resolve({});
      });
    const call = makeCall({ heartbeatTimeoutMs: 80 });
    await start(n, wait);
    const { dispatchId } = dispatchNow(n, { call });
    await until(() => n.runs.of("heartbeat").length >= 3);
    expect(new Set(n.runs.of("heartbeat").map((beat) => beat.dispatchId))).toEqual(new Set([dispatchId]));
    finish();
    await until(() => !n.dispatcher.holds(dispatchId));

    const m = await node();
    let beat: () => void = () => {};
    const manual: Code = (_input, ctx) => {
      beat = ctx.heartbeat;
      return wait();
    };
    await start(m, manual, { autoHeartbeat: false });
    const told = dispatchNow(m, { call: makeCall({ heartbeatTimeoutMs: 60_000 }) });
    await until(() => m.dispatcher.inFlight === 1);
    await until(() => {
      beat();
      return m.runs.of("heartbeat").length === 1;
    });
    for (let nth = 0; nth < 100; nth++) beat();
    finish();
    await until(() => !m.dispatcher.holds(told.dispatchId));
    expect(m.runs.of("heartbeat")).toHaveLength(1);
  });
});

describe("a connection", () => {
  it("that is accepted and never answered is given up for another one, and closed", async () => {
    const n = await node();
    const relay = await TcpRelay.before(n.port);
    closers.push(() => relay.close());
    const grpc = relay.address;
    relay.silent = true;
    const starting = start(n, () => ({}), { grpc, timing: { ...TIMING, helloMs: 100 } });
    await until(() => relay.accepted.size > 0);
    const [first] = relay.accepted;
    relay.silent = false;
    await starting;
    await until(() => first?.destroyed === true && relay.accepted.size === 1);
  });

  it("that falls silent is given up for another one, and its step is answered there", async () => {
    const n = await node({ limits: { claimWaitMs: 60_000 } });
    const relay = await TcpRelay.before(n.port);
    closers.push(() => relay.close());
    const grpc = relay.address;
    const finish: (() => void)[] = [];
    const timing = { ...TIMING, helloMs: 1_000, keepaliveMs: 1_000, keepaliveTimeoutMs: 1_000 };
    await start(n, () => new Promise((resolve) => void finish.push(() => resolve({ done: true }))), { grpc, timing });
    const dispatch = dispatchNow(n);
    await until(() => finish.length === 1);
    const [first] = relay.accepted;
    relay.freeze();
    await until(() => first?.destroyed === true);
    finish[0]?.();
    await until(() => !n.dispatcher.holds(dispatch.dispatchId));
    expect([n.runs.of("result").length, finish.length]).toEqual([1, 1]);
  });
});

describe("answers", () => {
  it("are sent again until they are recorded, while the action runs once", async () => {
    const n = await node();
    let runs = 0;
    let tries = 0;
    await start(n, () => ({ nth: ++runs }), { timing: { ...TIMING, resendMs: 30 } });
    n.runs.reply = () => {
      if (++tries < 4) throw overloaded("not learnt in time");
      return { type: "report", stale: false };
    };
    const dispatch = dispatchNow(n);
    await until(() => !n.dispatcher.holds(dispatch.dispatchId));
    expect(runs).toBe(1);
    expect(new Set(n.runs.told.map(({ options }) => options?.id)).size).toBe(1);
  });

  it("to a step that was sent again are the first ones: the action does not run again", async () => {
    const n = await node();
    let runs = 0;
    await start(n, () => ({ nth: ++runs }));
    const dispatch = dispatchNow(n);
    await until(() => !n.dispatcher.holds(dispatch.dispatchId));
    n.dispatcher.send(dispatch);
    await until(() => n.runs.of("result").length === 2 && !n.dispatcher.holds(dispatch.dispatchId));
    expect(runs).toBe(1);
    expect(n.runs.of("result").map(({ result }) => result)).toEqual([{ nth: 1 }, { nth: 1 }]);
    expect(n.runs.told[0]?.options?.id).toBe(n.runs.told[1]?.options?.id);
  });

  it("survive the node: after its restart the worker claims its steps, and their answers are recorded", async () => {
    const first = await startNode();
    let finish: () => void = () => {};
    let runs = 0;
    await start(first, () => {
      runs++;
      return new Promise((resolve) => {
        finish = () => resolve({ kept: true });
      });
    });
    const dispatch = dispatchNow(first);
    await until(() => runs === 1);
    await first.stop();
    const second = await node({ port: first.port, limits: { claimWaitMs: 60_000 } });
    await until(() => second.dispatcher.workers.connected === 1);
    // What the recovered run does.
    second.dispatcher.send({ ...dispatch, deadlineAt: second.clock.now + 10_000 });
    expect(second.dispatcher.inFlight).toBe(1);
    finish();
    await until(() => !second.dispatcher.holds(dispatch.dispatchId));
    expect(second.runs.of("result")).toMatchObject([{ dispatchId: dispatch.dispatchId, result: { kept: true } }]);
    expect(runs).toBe(1);
  });

  it("after a restart of the service, the last line of the log says that the worker is connected", async () => {
    const first = await startNode();
    const lines: string[] = [];
    const keep = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
    await start(first, () => ({}), { log: { ...silent, info: keep, warn: keep } });
    await first.stop();
    await untilTrue(() => lines.some((line) => line.includes("reconnecting")), { what: "the loss in the log" });
    expect(lines.at(-1)).toContain(`"target":"127.0.0.1:${first.port}"`);
    const second = await node({ port: first.port });
    await until(() => second.dispatcher.workers.connected === 1);
    await untilTrue(() => lines.at(-1)?.startsWith("connected to the service again"), { what: "the last line" });
  });

  it("given while the service is away are sent at once on reconnect", async () => {
    const first = await startNode();
    let finish: (() => void) | undefined;
    const wait = () =>
      new Promise((resolve) => {
        finish = () => resolve({});
      });
    await start(first, wait, { timing: { ...TIMING, resendMs: 60_000 } });
    const dispatch = dispatchNow(first);
    await until(() => finish !== undefined);
    await first.stop();
    finish?.();
    const second = await node({ port: first.port });
    await until(() => second.runs.of("result").length === 1);
    expect(second.runs.of("result")[0]?.dispatchId).toBe(dispatch.dispatchId);
  });
});

describe("stopping", () => {
  it("takes no more steps, finishes those in flight and waits until their answers are recorded", async () => {
    const n = await node();
    let finish: () => void = () => {};
    let running = false;
    const hold = () => {
      running = true;
      return new Promise((resolve) => {
        finish = () => resolve({});
      });
    };
    const worker = await start(n, hold, { timing: { ...TIMING, resendMs: 30 }, drainTimeoutMs: 30_000 });
    const dispatch = dispatchNow(n);
    await until(() => running);
    let stopped = false;
    const stopping = worker.stop().then(() => {
      stopped = true;
    });
    await until(() => n.dispatcher.reserve(newDispatchId(), makeCall()) === undefined);
    expect(stopped).toBe(false);
    let tries = 0;
    n.runs.reply = () => {
      if (++tries < 3) throw overloaded("not learnt in time");
      return { type: "report", stale: false };
    };
    finish();
    await stopping;
    expect(tries).toBeGreaterThanOrEqual(3);
    expect(n.dispatcher.holds(dispatch.dispatchId)).toBe(false);
    await until(() => n.dispatcher.workers.connected === 0);
  });

  it("aborts steps that do not finish in time, and reports them to the service", async () => {
    const n = await node();
    let running = false;
    const worker = await start(
      n,
      (_input, { signal }) => {
        running = true;
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
      { drainTimeoutMs: 20, timing: { ...TIMING, abortGraceMs: 30_000 } },
    );
    dispatchNow(n);
    await until(() => running);
    await worker.stop();
    expect(n.runs.of("failure")).toMatchObject([
      { message: "the worker stops", retryable: true, outcomeUnknown: true },
    ]);
  });
});

describe("runWorker", () => {
  it("runs until a signal, then drains; a second signal ends the process", async () => {
    const told: string[] = [];
    const worker: Parameters<typeof runWorker>[0] = {
      start: async () => void told.push("start"),
      stop: async () => void told.push("stop"),
    };
    const before = process.listeners("SIGTERM");
    const running = runWorker(worker).then(() => told.push("done"));
    await until(() => told.includes("start"));
    for (const listener of process.listeners("SIGTERM")) if (!before.includes(listener)) listener("SIGTERM");
    await running;
    expect(told).toEqual(["start", "stop", "done"]);
    expect(process.listeners("SIGTERM")).toEqual(before);
  });

  it("stops a worker that cannot start, and logs the reason", async () => {
    let stopped = false;
    const worker: Parameters<typeof runWorker>[0] = {
      start: () => Promise.reject(new Error("refused")),
      stop: async () => {
        stopped = true;
      },
    };
    await expect(runWorker(worker)).rejects.toThrow("refused");
    expect(stopped).toBe(true);
  });
});

describe("a worker of several nodes behind one address", () => {
  it("opens further channels until every node has one, and closes duplicates", async () => {
    const a = await node({ nodeId: "a", nodes: 2 });
    const b = await node({ nodeId: "b", nodes: 2 });
    // The address lands on a for the first three connections, then on b.
    const address = await balancer([a.port, a.port, a.port, b.port]);
    await start(a, () => ({}), { grpc: address.target });
    await until(() => b.dispatcher.workers.connected === 1 && a.dispatcher.workers.connected === 1);
    await untilTrue(async () => (await credits([a, b])).join() === "8,8");
    const [onA, onB] = [dispatchNow(a), dispatchNow(b)];
    await until(() => !a.dispatcher.holds(onA.dispatchId) && !b.dispatcher.holds(onB.dispatchId));
    // An answer that is not acknowledged soon is sent again.
    const answered = ({ runs }: typeof a) => new Set(runs.of("result").map(({ dispatchId }) => dispatchId));
    expect([answered(a), answered(b)]).toEqual([new Set([onA.dispatchId]), new Set([onB.dispatchId])]);
    expect(address.connections()).toBe(4);
  });

  it("divides its credit among them, and never executes more than that", async () => {
    const a = await node({ nodeId: "a", nodes: 2 });
    const b = await node({ nodeId: "b", nodes: 2 });
    const address = await balancer([a.port, b.port]);
    const release: (() => void)[] = [];
    const execute = () => new Promise<void>((resolve) => release.push(resolve));
    await start(a, execute, { grpc: address.target, maxInFlight: 5 });
    await untilTrue(async () => (await credits([a, b])).join() === "3,2");
    for (const n of [a, b]) for (let nth = 0; nth < 6; nth++) tryDispatch(n);
    await until(() => release.length === 5);
    expect(a.dispatcher.inFlight + b.dispatcher.inFlight).toBe(5);
    for (const answer of release) answer();
    await b.stop();
    await untilTrue(async () => (await credits([a])).join() === "5");
  });

  it("opens and closes channels when the number of nodes changes; one node gets one stream", async () => {
    const a = await node({ nodeId: "a" });
    const b = await node({ nodeId: "b" });
    const address = await balancer([a.port, b.port]);
    await start(a, () => ({}), { grpc: address.target });
    const dispatch = makeDispatch(a);
    a.dispatcher.send(dispatch);
    await until(() => a.runs.of("result").length === 1);
    expect(address.connections()).toBe(1);
    a.clock.nodes = 2;
    b.clock.nodes = 2;
    await until(() => b.dispatcher.workers.connected === 1);
    expect(a.dispatcher.workers.connected).toBe(1);
  });
});

/** What the nodes may give to the worker. */
async function credits(nodes: readonly Node[]): Promise<number[]> {
  const reports = await Promise.all(nodes.map(({ dispatcher }) => dispatcher.directory.report()));
  return reports.map(({ workers }) => workers.reduce((sum, { maxInFlight }) => sum + maxInFlight, 0));
}

function tryDispatch(n: Node): void {
  const dispatch = makeDispatch(n);
  if (n.dispatcher.reserve(dispatch.dispatchId, dispatch.call)) n.dispatcher.send(dispatch);
}

/** Forwards each TCP connection to the next port of the list, the last one from then on. */
async function balancer(ports: number[]): Promise<{ target: string; connections: () => number }> {
  const net = await import("node:net");
  let count = 0;
  const open = new Set<import("node:net").Socket>();
  const server = net.createServer((socket) => {
    const port = ports[Math.min(count++, ports.length - 1)] ?? 0;
    const upstream = net.connect(port, "127.0.0.1");
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      open.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    for (const socket of open) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return { target: `127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => count };
}
