// The ports of a node with TLS: whom they serve, whom they refuse, and that the certificate is replaced under open streams.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import fastify from "fastify";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { createLogger } from "../../src/log.js";
import { createHttpWorker } from "../../src/sdk/worker/http/index.js";
import { createWorker, type Log, type Worker, type WorkerOptions } from "../../src/sdk/worker/index.js";
import { type Action, handleAll } from "../harness/actions.js";
import { type Authority, createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { until } from "../harness/until.js";
import { type Asked, askOver, NAMES, ReplacedFiles, served } from "./tls-rig.js";

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };
/** The deprecated versions need ciphers that OpenSSL has put away. */
const OLD = { minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "DEFAULT:@SECLEVEL=0" } as const;

describeWithOpenssl("a node with TLS", () => {
  let database: TestDatabase;
  let authority: Authority;
  let other: Authority;
  let files: ReplacedFiles;
  let node: NodeHandle;
  const lines: string[] = [];
  const opened: { stop(): Promise<unknown> }[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    [authority, other] = [createAuthority("of the service"), createAuthority("of another")];
    files = new ReplacedFiles();
    files.hold(authority.issue(NAMES));
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", ...files.settings });
    const log = createLogger({ logLevel: "info" }, { write: (line: string) => void lines.push(line) });
    node = await startNode({ config, databaseUrl: database.url, log });
    await publish("greeting", "greeter.greet");
    await publish("calling", "caller.greet");
    await ask({ method: "POST", path: "/api/v1/workflows", body: WAITING });
  });
  afterAll(async () => {
    for (const each of opened.splice(0).reverse()) await each.stop();
    await node?.stop();
    await database.drop();
  });

  const WAITING = {
    ...{ id: "waiting", name: "Waiting", published: true, start: "wait" },
    steps: [{ id: "wait", type: "wait_for_signal", signal_name: "go" }],
  };
  const ask = (asked: Asked, ca = authority.ca) => askOver(node.httpPort, ca, asked);
  const ports = () => [node.httpPort, node.grpcPort];
  const bothServe = (more = {}) => Promise.all(ports().map((port) => served(port, { ca: authority.ca, ...more })));

  /** The gRPC streams of workers. */
  async function streams(): Promise<{ service: string; connected_at: string }[]> {
    const { body } = await ask({ path: "/api/v1/workers?transport=grpc" });
    return body.items.map(({ service, connected_at }: never) => ({ service, connected_at }));
  }

  /** Until the certificate expires, as the page of metrics says. */
  async function daysLeft(): Promise<number> {
    const { text } = await ask({ path: "/metrics" });
    return Number(/^saga_tls_expires_seconds (\S+)$/m.exec(text)?.[1]) / 86_400;
  }

  async function publish(id: string, action: string): Promise<void> {
    const steps = [{ id: "greet", type: "action", action }];
    const body = { id, name: id, published: true, start: "greet", steps };
    expect(await ask({ method: "POST", path: "/api/v1/workflows", body })).toMatchObject({ status: 201 });
  }

  async function run(workflowId: string): Promise<string> {
    const body = { workflow_id: workflowId };
    const { body: started } = await ask({ method: "POST", path: "/api/v1/sagas/start", body });
    return started.run_id;
  }

  const ended = async (runId: string) => (await ask({ path: `/api/v1/sagas/${runId}?wait_ms=20000` })).body.state;

  const greet: Action = { name: "greet", execute: () => ({ said: "hello" }) };

  function worker(service: string, more: Partial<WorkerOptions>): Worker {
    const api = `https://127.0.0.1:${node.httpPort}`;
    const made = createWorker({
      service,
      api,
      grpc: `127.0.0.1:${node.grpcPort}`,
      log: QUIET,
      ...more,
    });
    handleAll(made, service, [greet]);
    opened.push(made);
    return made;
  }

  let greeting: Promise<void> | undefined;
  /** The worker that serves the greetings, started once. */
  const greeter = () => {
    greeting ??= worker("greeter", { tls: { ca: [other.ca, authority.ca] } }).start();
    return greeting;
  };

  it("answers over HTTPS, and tells browsers to stay with it", async () => {
    const { status, headers } = await ask({ path: "/readyz" });
    expect([status, headers["strict-transport-security"]]).toEqual([200, "max-age=31536000"]);
    for (const path of ["/metrics", "/docs", "/openapi.json", "/api/v1/none", "/%zz"])
      expect((await ask({ path })).headers["strict-transport-security"], path).toBe("max-age=31536000");
    const refused = await ask({ path: "/readyz", headers: { expect: "anything" } });
    expect(refused).toMatchObject({ status: 417, headers: { "strict-transport-security": "max-age=31536000" } });
  });

  it("is not taken for a service whose authority is another", async () => {
    await expect(ask({ path: "/readyz" }, other.ca)).rejects.toMatchObject({ code: /UNABLE_TO_VERIFY|SELF_SIGNED/ });
    expect(await bothServe({ ca: other.ca })).toEqual([
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    ]);
    expect(await bothServe({ servername: "saga.example" })).toEqual([
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "ERR_TLS_CERT_ALTNAME_INVALID",
    ]);
  });

  it("speaks TLS 1.2 and 1.3 on both ports, and nothing older", async () => {
    for (const version of ["TLSv1.2", "TLSv1.3"] as const)
      expect(await bothServe({ minVersion: version, maxVersion: version })).toEqual(["01", "01"]);
    const refused = "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION";
    expect(await bothServe(OLD)).toEqual([refused, refused]);
  });

  it("gives plain HTTP no answer on either port", async () => {
    for (const port of ports()) {
      let answer = "";
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.on("data", (bytes) => {
        answer += bytes.toString("latin1");
      });
      socket.write("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
      await until(() => socket.closed, { what: "the end of the connection" });
      // An alert of TLS is two bytes of content.
      expect(answer).not.toContain("HTTP");
    }
  });

  it("is healthy for the check of the image, which speaks plain HTTP to a service without a certificate", async () => {
    const text = readFileSync(join(packageRoot(), "Dockerfile"), "utf8");
    const [, command = "[]"] = /^HEALTHCHECK .*\\\n {2}CMD (\[.*\])$/m.exec(text) ?? [];
    const [, ...words] = JSON.parse(command) as string[];
    const exitCode = (env: Readonly<Record<string, string>>) =>
      new Promise((resolve) => {
        const options = { env: { ...env, HTTP_PORT: String(node.httpPort) } };
        execFile(process.execPath, words, options, (error) => resolve(error === null ? 0 : error.code));
      });
    expect(await exitCode({ SAGA_TLS_CERT_FILE: files.certFile })).toBe(0);
    expect(await exitCode({})).toBe(1);
  });

  it("takes no page for its own that a browser has got without TLS", async () => {
    const body = { topic: "t" };
    const post = (origin: string) =>
      ask({ method: "POST", path: "/api/v1/events", body, headers: { origin, host: "localhost" } });
    expect((await post("https://localhost")).status).toBe(202);
    expect((await post("http://localhost")).status).toBe(403);
  });

  it("serves a worker over gRPC that trusts its authority", async () => {
    await greeter();
    expect(await ended(await run("greeting"))).toBe("succeeded");
  });

  it("gets no step to a worker that trusts another authority, or knows of no TLS", async () => {
    await greeter();
    // With its own API its registration fails for the same reason.
    const registry = createServer((_, response) => response.end("{}"));
    await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
    opened.push({ stop: async () => registry.close() });
    const api = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
    for (const [more, reason] of [
      [{ tls: { ca: other.ca }, api }, /^UNAVAILABLE: .*unable to verify/],
      [{ tls: {}, api }, /^UNAVAILABLE: .*unable to verify/],
      [{ api }, /^UNAVAILABLE: /],
      [{ tls: { ca: other.ca } }, /^POST https:.*unable to verify/],
    ] as const) {
      const reasons: string[] = [];
      const warn = (fields: { reason?: string }) => void reasons.push(String(fields.reason));
      const stranger = worker("stranger", { ...more, log: { ...QUIET, warn } as Log });
      const started = stranger.start().catch((error: Error) => error.message);
      await until(() => reasons.some((each) => reason.test(each)), { what: "the reason" });
      await stranger.stop();
      expect(await started).toMatch(/stopped|aborted/);
    }
    expect((await streams()).map(({ service }) => service)).toEqual(["greeter"]);
  });

  it("tells HTTP workers an https callback, over which they report", async () => {
    const callbacks: string[] = [];
    const [port] = await freePorts(1);
    const called = createHttpWorker({
      ...{ service: "caller", api: `https://127.0.0.1:${node.httpPort}`, address: `http://127.0.0.1:${port}/saga` },
      ...{ log: QUIET, tls: { ca: authority.ca }, inlineMs: 0 },
    });
    handleAll(called, "caller", [greet]);
    const app = fastify();
    app.addHook("preHandler", async ({ body }) => {
      callbacks.push((JSON.parse(String(body)) as { callback_url: string }).callback_url);
    });
    app.register(called.plugin, { prefix: "/saga" });
    await app.listen({ host: "127.0.0.1", port: port ?? 0 });
    opened.push({ stop: () => called.stop().then(() => app.close()) });
    await called.start();
    const runId = await run("calling");
    expect(await ended(runId)).toBe("succeeded");
    const base = `https://127.0.0.1:${node.httpPort}/api/v1/sagas/${runId}/`;
    expect(callbacks).toEqual([expect.stringContaining(base)]);
  });

  it("replaces its certificate under open streams, which go on", async () => {
    await greeter();
    const runId = await run("waiting");
    const url = `wss://127.0.0.1:${node.httpPort}/api/v1/sagas/${runId}/stream`;
    const socket = new WebSocket(url, { ca: authority.ca });
    const frames: string[] = [];
    socket.on("message", (data) => frames.push(String(data)));
    await until(() => frames.some((frame) => frame.includes('"paused"')), { what: "the run's stream" });
    const before = await streams();
    expect([Math.round(await daysLeft()), before.length]).toEqual([90, 1]);
    const [[old], [fresh]] = [await bothServe(), [authority.issue(NAMES, 10)]];
    if (fresh === undefined) throw new Error("no certificate");
    files.hold(fresh);
    node.replaceCertificate();
    const [http, grpc] = await bothServe();
    expect(http).not.toBe(old);
    expect(grpc).toBe(http);
    expect(await ended(await run("greeting")), "over the worker's stream").toBe("succeeded");
    expect(await streams(), "the worker's stream is the same").toEqual(before);
    await ask({ method: "POST", path: `/api/v1/sagas/${runId}/signal/go`, body: {} });
    await until(() => frames.some((frame) => frame.includes('"to_state":"succeeded"')), { what: "the end of the run" });
    await worker("late", { tls: { ca: authority.ca } }).start();
    await expect(bothServe(OLD), "the bound stays").resolves.toEqual(
      Array(2).fill("ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION"),
    );
    socket.close();
    expect(Math.round(await daysLeft())).toBe(10);
    const warned = "SAGA_TLS_CERT_FILE names a certificate that expires at ";
    expect(lines.filter((line) => line.includes(warned))).toHaveLength(1);
  });

  it("keeps its certificate if the new one cannot be served", async () => {
    const before = await bothServe();
    files.spoil();
    node.replaceCertificate();
    expect(await bothServe()).toEqual(before);
    const refused = lines.filter((line) => line.includes("certificate not replaced, the old one stays"));
    expect(refused.map((line) => JSON.parse(line))).toMatchObject([
      { level: "error", reason: "SAGA_TLS_CERT_FILE names a file that begins with no PEM certificate" },
    ]);
    files.hold({ ...authority.issue(NAMES), keyFile: authority.issue(NAMES).keyFile });
    node.replaceCertificate();
    expect(await bothServe(), "a key that belongs to another one").toEqual(before);
  });
});

it("a node without TLS has no end of a certificate on its page, and sends no header of TLS", async () => {
  const database = await createTestDatabase({ max: 1 });
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
  const node = await startNode({ config, databaseUrl: database.url, log: createLogger({ logLevel: "silent" }) });
  const { headers, ...page } = await fetch(`http://127.0.0.1:${node.httpPort}/metrics`).then(async (response) => ({
    ...{ headers: response.headers, text: await response.text() },
  }));
  expect(page.text).not.toMatch(/^saga_tls_expires_seconds /m);
  expect(headers.get("strict-transport-security")).toBeNull();
  await node.stop();
  await database.drop();
});
