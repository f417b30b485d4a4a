// What the SDK refuses before it connects to anything: options and actions that could not work. A program in plain JavaScript has no compiler
// that says so.
import { describe, expect, it } from "vitest";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { createWorker, defineAction } from "../../src/sdk/worker/index.js";
import { createRabbitMqWorker } from "../../src/sdk/worker/rabbitmq/index.js";

const Any = { type: "object" } as const;

describe("an action", () => {
  it.each([
    [{ timeout_ms: 5 }, 'action charge has an unknown member "timeout_ms": did you mean timeoutMs?'],
    [{ run: 1 }, /unknown member "run": it may have name, version, description/],
    [{ retry: { max_attempts: 5, initial_backoff_ms: 1 } }, /retry of action charge .* did you mean maxAttempts\?/],
  ])("refuses a member that would not count, and names the one that was meant: %o", (more, message) => {
    const options = { name: "charge", input: Any, output: Any, execute: () => ({}), ...more };
    expect(() => defineAction(options as Parameters<typeof defineAction>[0])).toThrow(message);
  });

  it.each([
    [{ execute: undefined }, "action charge needs execute, a function"],
    [{ input: undefined }, "action charge needs input, a JSON Schema"],
    [{ output: "text" }, "action charge needs output, a JSON Schema"],
  ])("refuses one that no step could use: %o", (more, message) => {
    const options = { name: "charge", input: Any, output: Any, execute: () => ({}), ...more };
    expect(() => defineAction(options as unknown as Parameters<typeof defineAction>[0])).toThrow(message);
  });
});

describe("the options of a worker", () => {
  const quick = defineAction({ name: "quick", input: Any, output: Any, execute: () => ({}) });
  const called = { service: "s", api: "http://127.0.0.1:1", actions: [quick] };
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
      [{ actions: undefined }, "a worker needs at least one action"],
      [{ actions: [] }, "a worker needs at least one action"],
      [{ drainTimeoutms: 5 }, 'a worker has an unknown member "drainTimeoutms": did you mean drainTimeoutMs?'],
      [{ action: [quick] }, /unknown member "action": it may have service, /],
    ])("are refused before anything is connected to: %o", (more, message) => {
      expect(() => make({ ...options, ...more })).toThrow(message);
    });
  });

  it.each([
    [{ grpc: undefined }, 'grpc must be "host:port", such as "127.0.0.1:9090", and it is missing'],
    [{ grpc: "http://127.0.0.1:9090" }, 'such as "127.0.0.1:9090", and it is "http://127.0.0.1:9090"'],
  ])("name no address of gRPC: %o", (more, message) => {
    expect(() => createWorker({ ...called, ...more } as never)).toThrow(message);
  });
});
