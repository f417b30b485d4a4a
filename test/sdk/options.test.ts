// What the SDK refuses before it connects to anything: options and actions that could not work. A program in plain JavaScript has no compiler
// that says so.
import { describe, expect, it } from "vitest";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { createWorker, defineAction, type Handles } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";

const Any = { type: "object" } as const;

describe("an action", () => {
  it("may be of a service whose name has dots", () => {
    expect(defineAction({ service: "eu.shop", name: "charge", input: Any, output: Any }).service).toBe("eu.shop");
  });

  it.each([
    [{ timeout_ms: 5 }, 'action charge has an unknown member "timeout_ms": did you mean timeoutMs?'],
    [{ execute: () => ({}) }, /unknown member "execute": it may have service, name, version, description/],
    [{ retry: { max_attempts: 5, initial_backoff_ms: 1 } }, /retry of action charge .* did you mean maxAttempts\?/],
  ])("refuses a member that would not count, and names the one that was meant: %o", (more, message) => {
    const options = { service: "shop", name: "charge", input: Any, output: Any, ...more };
    expect(() => defineAction(options as Parameters<typeof defineAction>[0])).toThrow(message);
  });

  it.each([
    [{ name: "a.b" }, 'action name "a.b" must match'],
    [{ name: "" }, 'action name "" must match'],
    [{ service: "the shop" }, 'service "the shop" of action charge must match'],
    [{ version: 0 }, "version of action charge must be an integer of 1 or more"],
    [{ input: undefined }, "action charge needs input, a JSON Schema"],
    [{ output: "text" }, "action charge needs output, a JSON Schema"],
  ])("refuses one that no step could use: %o", (more, message) => {
    const options = { service: "shop", name: "charge", input: Any, output: Any, ...more };
    expect(() => defineAction(options as unknown as Parameters<typeof defineAction>[0])).toThrow(message);
  });
});

interface Made extends Handles {
  start(): Promise<void>;
  stop(): Promise<void>;
}

const called = { service: "shop", api: "http://127.0.0.1:1" };
const transports: readonly (readonly [string, () => Made])[] = [
  ["gRPC", () => createWorker({ ...called, grpc: "127.0.0.1:1" })],
  ["HTTP", () => createHttpWorker({ ...called, address: "http://127.0.0.1:2" })],
  ["RabbitMQ", () => createRabbitMqWorker({ ...called, url: "amqp://127.0.0.1:1", queue: "q" })],
];

describe.each(transports)("handle of a worker over %s", (_transport, make) => {
  const quick = defineAction({ service: "shop", name: "quick", input: Any, output: Any });
  const code = () => ({});

  it("takes several actions and versions, one after the other", () => {
    const worker = make();
    const second = defineAction({ service: "shop", name: "quick", version: 2, input: Any, output: Any });
    const slow = defineAction({ service: "shop", name: "slow", input: Any, output: Any });
    expect(worker.handle(quick, code).handle(second, code).handle(slow, code, { autoHeartbeat: false })).toBe(worker);
  });

  it.each([
    [[{ ...quick, service: "bank" }, code], "action quick is of the service bank, and this worker of shop"],
    [[quick], "action quick needs its code, a function, as the second argument"],
    [[undefined, code], "handle takes a contract first, as defineAction returns it"],
    [[code], "handle takes a contract first, as defineAction returns it"],
    [[quick, code, { autoheartbeat: false }], 'unknown member "autoheartbeat": did you mean autoHeartbeat?'],
  ])("refuses what could not work: %o", (given, message) => {
    const handle = () => make().handle(...(given as unknown as Parameters<Made["handle"]>));
    expect(handle).toThrow(TypeError);
    expect(handle).toThrow(message);
  });

  it("refuses the same version of an action twice", () => {
    const worker = make().handle(quick, code);
    expect(() => worker.handle(quick, code)).toThrow("action quick@1 is handled twice");
  });

  it("comes before start: later ones and a start without any are refused", async () => {
    const worker = make();
    await expect(worker.start()).rejects.toThrow("the worker of shop has no actions: call handle(contract, execute)");
    expect(() => worker.handle(quick, code)).toThrow("action quick is handled after the worker was started");
    await worker.stop();
  });
});

describe("the options of a worker", () => {
  const called = { service: "s", api: "http://127.0.0.1:1" };
  const makers: readonly (readonly [string, object, (options: object) => unknown])[] = [
    ["gRPC", { ...called, grpc: "127.0.0.1:1" }, (options) => createWorker(options as never)],
    ["HTTP", { ...called, address: "http://127.0.0.1:2" }, (options) => createHttpWorker(options as never)],
    ["RabbitMQ", { ...called, url: "amqp://127.0.0.1:1", queue: "q" }, (o) => createRabbitMqWorker(o as never)],
  ];

  describe.each(makers)("over %s", (_transport, options, make) => {
    it("are taken if they are complete, and may be undefined where they are optional", () => {
      expect(() => make({ ...options, token: undefined, serviceVersion: undefined })).not.toThrow();
    });

    it.each([
      [{ api: undefined }, 'api must be an http: or https: URL, such as "http://127.0.0.1:8080", and it is missing'],
      [{ api: "127.0.0.1:8080" }, 'such as "http://127.0.0.1:8080", and it is "127.0.0.1:8080"'],
      [{ api: "http://" }, 'and it is "http://"'],
      [{ service: undefined }, "service must be the name before the dot"],
      [{ drainTimeoutms: 5 }, 'a worker has an unknown member "drainTimeoutms": did you mean drainTimeoutMs?'],
      [{ actions: [] }, /unknown member "actions": it may have service, /],
    ])("are refused before anything is connected to: %o", (more, message) => {
      expect(() => make({ ...options, ...more })).toThrow(message);
    });
  });

  it.each([
    [{ grpc: undefined }, 'grpc must be one or several "host:port", such as "127.0.0.1:9090", and it is missing'],
    [{ grpc: [] }, 'such as "127.0.0.1:9090", and it is []'],
    [{ grpc: ["127.0.0.1:9090", ""] }, 'such as "127.0.0.1:9090", and it is ["127.0.0.1:9090",""]'],
    [{ grpc: "http://127.0.0.1:9090" }, 'such as "127.0.0.1:9090", and it is "http://127.0.0.1:9090"'],
  ])("name no address of gRPC: %o", (more, message) => {
    expect(() => createWorker({ ...called, ...more } as never)).toThrow(message);
  });
});
