// The worker protocol as of release 0.6, which knew no batches, against this one: an earlier worker on this service, and this
// worker on an earlier service. worker-0.6.proto is that release's file and must never change.
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { type Client, credentials, loadPackageDefinition, Server, ServerCredentials, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterEach, describe, expect, it } from "vitest";
import { PROTO_OPTIONS, protoPath } from "../../src/sdk/protocol/index.js";
import { createWorker } from "../../src/sdk/worker/index.js";
import { dispatchNow, until, useNodes, type Wire } from "../dispatch/rig.js";
import { handleAll } from "../harness/actions.js";
import { newDispatchId, newRunId } from "../harness/ids.js";

const earlier = loadSync(fileURLToPath(new URL("worker-0.6.proto", import.meta.url)), PROTO_OPTIONS);
const present = loadSync(protoPath(), PROTO_OPTIONS);
const { node } = useNodes();
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A bare worker that speaks the definition. It answers every step that comes in one message in one turn. */
function bareWorker(target: string, definition: typeof earlier, hello: Wire = {}) {
  const { saga }: Wire = loadPackageDefinition(definition);
  const client: Client & Wire = new saga.worker.v1.WorkerService(target, credentials.createInsecure());
  const call = client.ExecuteStep();
  const messages: Wire[] = [];
  const state: { error?: Wire } = {};
  call.on("data", (message: Wire) => messages.push(message));
  call.on("error", (error: Wire) => {
    state.error = error;
  });
  closers.push(() => {
    call.cancel();
    client.close();
  });
  call.write({ hello: { worker_id: "w1", service: "payments", max_in_flight: 100, ...hello } });
  const all = (): Wire[] => messages.flatMap((message) => message.batch?.messages ?? [message]);
  const of = (kind: string): Wire[] => all().flatMap((message) => message[kind] ?? []);
  return { call, messages, of, state, batches: () => messages.filter(({ batch }) => batch).length };
}

const answerTo = ({ dispatch_id, run_id, step_id, attempt }: Wire) => ({
  result: { dispatch_id, run_id, step_id, attempt, result_json: Buffer.from("{}") },
});

describe("an earlier worker on this service", () => {
  it("gets every message by itself, and its answers are recorded", async () => {
    const n = await node();
    const w = bareWorker(n.target, earlier);
    await until(() => w.of("hello_ack").length === 1);
    for (let nth = 0; nth < 10; nth++) dispatchNow(n);
    await until(() => w.of("execute").length === 10);
    for (const step of w.of("execute")) w.call.write(answerTo(step));
    await until(() => w.of("recorded").length === 10);
    expect(w.messages.every((message) => message.message !== undefined)).toBe(true);
    expect(w.messages).toHaveLength(21);
  });
});

describe("a worker that reads batches", () => {
  it("gets the steps of a turn as one message, sends its answers as one, and gets the acknowledgements as one", async () => {
    const n = await node();
    const w = bareWorker(n.target, present, { batches: true });
    await until(() => w.of("hello_ack").length === 1);
    expect(w.of("hello_ack")[0]).toMatchObject({ batches: true });
    for (let nth = 0; nth < 10; nth++) dispatchNow(n);
    await until(() => w.of("execute").length === 10);
    expect(w.batches()).toBe(1);
    w.call.write({ batch: { messages: w.of("execute").map(answerTo) } });
    await until(() => w.of("recorded").length === 10);
    expect(w.of("recorded").map(({ dispatch_id: id }) => id)).toEqual(w.of("execute").map(({ dispatch_id: id }) => id));
    expect(w.batches()).toBe(2);
  });

  it("is closed after a batch of too many messages", async () => {
    const n = await node();
    const w = bareWorker(n.target, present, { batches: true });
    await until(() => w.of("hello_ack").length === 1);
    w.call.write({ batch: { messages: Array(65).fill({ drain: {} }) } });
    await until(() => w.state.error !== undefined);
    expect(w.state.error.code).toBe(status.INVALID_ARGUMENT);
  });
});

describe("this worker on an earlier service", () => {
  it("sends every message by itself", async () => {
    const got: Wire[] = [];
    const server = new Server();
    const { saga }: Wire = loadPackageDefinition(earlier);
    const step = () => ({
      ...{ dispatch_id: newDispatchId(), run_id: newRunId(), step_id: "s", attempt: 1, timeout_ms: 60_000 },
      ...{ service: "payments", action: "charge", version: 1, deadline_at: "2100-01-01T00:00:00Z" },
    });
    server.addService(saga.worker.v1.WorkerService.service, {
      ExecuteStep: (call: Wire) => {
        call.on("error", () => {});
        call.on("end", () => call.end());
        call.on("data", (message: Wire) => {
          got.push(message);
          if (message.result) call.write({ recorded: { dispatch_id: message.result.dispatch_id } });
          if (!message.hello) return;
          call.write({ hello_ack: { node_id: "earlier", heartbeat_interval_ms: 1_000, node_count: 1 } });
          for (let nth = 0; nth < 10; nth++) call.write({ execute: step() });
        });
      },
    });
    const port = await new Promise((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    closers.push(() => server.forceShutdown());
    const worker = createWorker({
      ...{ service: "payments", grpc: `127.0.0.1:${port}`, api: await registered() },
      maxInFlight: 10,
    });
    handleAll(worker, "payments", [{ name: "charge", execute: () => ({}) }]);
    closers.push(() => worker.stop());
    await worker.start();
    await until(() => got.filter(({ result }) => result).length === 10);
    expect(got.every((message) => message.message !== undefined)).toBe(true);
  });
});

/** A registration endpoint that accepts everything. */
async function registered(): Promise<string> {
  const server = createServer((_, response) => response.end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}
