// Nothing that a client, a worker or an operator entrusts to the service is seen elsewhere: a whole life on two nodes, with a canary in every
// input, header, key, secret, form and error. The ways over HTTP, RabbitMQ, webhooks and triggers are in canary-carriers.test.ts, those of people in
// canary-people.test.ts.
// @module-tag long
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import WebSocket from "ws";
import { ActionError, createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { RawWorker } from "../dispatch/rig.js";
import { handleAll } from "../harness/actions.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { at, CanaryService, silentWorker } from "./canary-rig.js";

describeWithRedis("what is entrusted to a service of two nodes", (redisUrl) => {
  const asked: IncomingHttpHeaders[] = [];
  let canary: CanaryService;
  let worker: Worker;
  let site: Server;

  beforeAll(async () => {
    site = createServer(({ headers }, response) => {
      asked.push(headers);
      response.writeHead(500).end(at("answer"));
    }).listen(0, "127.0.0.1");
    await once(site, "listening");
    canary = await CanaryService.open(redisUrl);
    const { service, keys } = canary;
    worker = createWorker({
      ...{ service: "safe", grpc: service.grpcAddress, api: service.url, log: silentWorker, token: keys.worker },
    });
    handleAll(worker, "safe", [
      { name: "keep", execute: () => ({ kept: at("output") }) },
      {
        name: "break",
        execute() {
          throw new ActionError(at("error-code"), at("error"), { retryable: false });
        },
      },
    ]);
    await worker.start();
  });
  afterAll(async () => {
    await worker?.stop();
    await canary?.close();
    site?.close();
  });

  /** Steps, a signal, a form, an event, failures, a secret, and refusals of every kind. Each run lives on any of the nodes. */
  async function life(): Promise<void> {
    const keep = { type: "action", action: "safe.keep", inputs: { note: "${inputs.note}" } };
    await canary.publish("whole", [
      { id: "keep", ...keep, next: "wait" },
      { id: "wait", type: "wait_for_signal", signal_name: "go", next: "ask" },
      { id: "ask", type: "manual_approval", assignee: at("assignee"), next: "again" },
      { id: "again", ...keep, next: "done" },
      { id: "done", type: "end", output: "${vars.keep}" },
    ]);
    await canary.publish("breaks", [
      { id: "break", type: "action", action: "safe.break", inputs: { note: "${inputs.note}" } },
    ]);
    const { port } = site.address() as AddressInfo;
    const request = {
      type: "http_request",
      url: `http://127.0.0.1:${port}/\${inputs.note}`,
      method: "POST",
      secret_ref: "vault",
    };
    await canary.publish("calls", [
      { id: "call", ...request, body: { note: "${inputs.note}" }, retry: { max_attempts: 1, initial_backoff_ms: 0 } },
    ]);
    const runs = await Promise.all(["whole", "breaks", "calls"].map((workflow) => canary.start(workflow)));
    const [whole = "", breaks = "", calls = ""] = runs;
    await canary.reaches(whole, "paused", ({ awaited_signal }) => awaited_signal === "go");
    await canary.ask(`/api/v1/sagas/${whole}/signal/go`, {
      body: { payload: { note: at("signal") }, idempotency_key: at("signal-key") },
    });
    const task = await until(async () => (await canary.ask(`/api/v1/sagas/${whole}/user_tasks`)).json?.items[0]?.id);
    const form = { result: { approved: true, note: at("form") } };
    expect((await canary.ask(`/api/v1/sagas/${whole}/user_task/${task}/submit`, { body: form })).status).toBe(202);
    const event = {
      topic: "canaries",
      payload: { note: at("event") },
      idempotency_key: at("event-key"),
      headers: { own: at("event-header") },
    };
    expect((await canary.ask("/api/v1/events", { body: event })).status).toBe(202);
    await canary.reaches(whole, "succeeded");
    await Promise.all([breaks, calls].map((run) => canary.reaches(run, "failed")));
    await refusals(whole);
  }

  async function refusals(run: string): Promise<void> {
    const { url, keys } = canary;
    const wrong = `saga_${"a".repeat(16)}_${at("wrong").replaceAll("-", "").padEnd(43, "a").slice(0, 43)}`;
    for (const key of [wrong, at("bearer"), `e30.${at("token")}.e30`])
      await canary.refuses(401, "/api/v1/sagas", { key });
    const own = { origin: url };
    await canary.refuses(401, "/auth/session", { body: { api_key: wrong }, headers: own });
    const session = await canary.ask("/auth/session", { body: { api_key: keys.own }, headers: own });
    expect(session.status).toBeLessThan(300);
    await canary.ask(`/api/v1/sagas?q=${at("query")}`);
    await canary.refuses(400, "/api/v1/sagas/start", { body: `{"workflow_id": "${at("malformed")}` });
    await canary.ask(`/api/v1/sagas/${run}/cancel`, { body: { reason: at("reason") } });
    const socket = new WebSocket(
      `${url.replace("http", "ws")}/api/v1/sagas/${run}/stream?access_token=${at("access-token")}`,
    );
    socket.on("error", () => {});
    await once(socket, "unexpected-response").catch(() => {});
    socket.terminate();
    // An answer may repeat the name that was asked for, to whoever asked.
    for (const [path, body] of [
      [`/api/v1/sagas?nothing=${at("unknown-filter")}`, undefined],
      [`/api/v1/${at("path")}`, undefined],
      ["/api/v1/sagas/start", { workflow_id: at("no-workflow"), tenant_id: at("tenant") }],
    ] as const) {
      const { length } = canary.refusals;
      const { status } = await canary.ask(path, body ? { body } : {});
      expect(status).toBeGreaterThanOrEqual(400);
      canary.refusals.splice(length);
    }
  }

  /** Hellos that are refused, and answers that are malformed, over a bare stream. */
  async function bareStreams(): Promise<void> {
    const { service, keys } = canary;
    const bearer = (token: string) => {
      const metadata = new Metadata();
      metadata.set("authorization", `Bearer ${token}`);
      return { metadata };
    };
    for (const [hello, door] of [
      [{ token: at("hello-token") }, {}],
      [{}, bearer(at("metadata-token"))],
      [{ token: keys.worker }, bearer(at("other-token"))],
      [{ token: keys.own, worker_id: "" }, {}],
    ] as const) {
      const refused = new RawWorker(service.grpcAddress, undefined, door);
      refused.send({ hello: { worker_id: "w1", service: "raw", max_in_flight: 1, ...hello } });
      await until(() => refused.ended, { what: "a refused hello" });
      canary.refusals.push(`${refused.error?.code} ${refused.error?.details}`);
      refused.cut();
    }
    const body = { service: "raw", actions: [{ action_name: "keep" }] };
    expect((await canary.ask("/api/v1/registry/register", { body })).status).toBe(200);
    const keep = { type: "action", action: "raw.keep", inputs: "${inputs}" };
    await canary.publish("raw", [{ id: "keep", ...keep, retry: { max_attempts: 1, initial_backoff_ms: 0 } }]);
    const raw = new RawWorker(service.grpcAddress);
    raw.send({ hello: { worker_id: "w1", service: "raw", max_in_flight: 2, token: keys.worker } });
    await raw.wait("hello_ack");
    const run = await canary.start("raw");
    const dispatch = await raw.wait("execute");
    canary.more.add(dispatch.callback_token);
    raw.send({ heartbeat: { dispatch_id: at("dispatch"), details_json: Buffer.from(at("heartbeat")) } });
    raw.send({ result: { ...dispatch, result_json: Buffer.from(`{"kept": ${at("grpc-result")}`) } });
    await until(async () => (await canary.ask(`/api/v1/sagas/${run}`)).json?.state !== "running" || raw.ended);
    canary.refusals.push(`${raw.error?.code} ${raw.error?.details}`);
    raw.cut();
  }

  /** Each run lives on any node, so half of the signals have to go from one to another. */
  async function crossings(): Promise<void> {
    await canary.publish("crosses", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    await until(async () => {
      const run = await canary.start("crosses");
      await canary.ask(`/api/v1/sagas/${run}/signal/go`, { body: { payload: { note: at("crossing") } } });
      return canary.heard.some((line) => /publish .*saga:node:/i.test(line));
    });
  }

  it("is in no line of the log, no metric, no argument of a process, no message of Redis, no refusal, and no page of another tenant", async () => {
    await life();
    await bareStreams();
    await crossings();
    expect([...new Set(asked.map((headers) => headers["x-api-key"]))]).toEqual([at("secret")]);
    await until(() => canary.collector.spans.length > 0, { what: "a span" });
    await canary.expectNoLeak();
  });
});
