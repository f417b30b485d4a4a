// A saga of two nodes and a worker in another process, with a branch, a retry, a wait for a signal and a rollback, as a collector of OpenTelemetry gets
// it: one story, whichever node has told which part.
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { livingNodes } from "../cluster/rig.js";
import { credential, workerToken } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { asLink, Collector, type Received } from "./collector.js";

const WORKER = join(packageRoot(), "test", "tracing", "traced-worker.mjs");
const CALLER = { trace: "0af7651916cd43dd8448eb211c80319c", span: "b7ad6b7169203331" };
const SENDER = { trace: "4bf92f3577b34da6a3ce929d0e0e4736", span: "00f067aa0ba902b7" };
const traceparent = ({ trace, span }: typeof CALLER) => `00-${trace}-${span}-01`;

const retry = { max_attempts: 3, initial_backoff_ms: 1 };
const action = (id: string, more: object = {}) => ({ id, type: "action", action: `shop.${id}`, ...more });
const WORKFLOW = {
  ...{ id: "traced", name: "traced", version: 1, published: true, start: "reserve" },
  steps: [
    action("reserve", { compensation: { action: "shop.release", inputs: {} }, next: "both" }),
    { id: "both", type: "parallel", branches: { goods: { next: "ship" } }, next: "all" },
    action("ship"),
    { id: "all", type: "join", next: "go" },
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "flaky" },
    action("flaky", { retry, next: "broken" }),
    action("broken"),
  ],
};

let database: TestDatabase;
let collector: Collector;
let service: ServiceProcess;
let worker: ChildProcess;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  collector = await Collector.open();
  const otel = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: "50" };
  const login = { OTEL_EXPORTER_OTLP_HEADERS: "x-login=a%20key" };
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2", ...otel, ...login });
  await service.start();
  const { token } = workerToken();
  worker = spawn(process.execPath, [WORKER, service.grpcAddress, service.url, collector.url], {
    cwd: packageRoot(),
    env: { PATH: process.env.PATH, ...(token !== undefined && { TOKEN: token }) },
    stdio: ["ignore", "inherit", "inherit"],
  });
  await post("/api/v1/workflows", WORKFLOW);
  await until(async () => (await database.sql`select from actions`).length === 5, {
    what: "the actions of the worker",
  });
});
afterAll(async () => {
  worker?.kill("SIGKILL");
  await service?.kill();
  await collector?.close();
  await database.drop();
});

async function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}) {
  const own = { ...credential(), "content-type": "application/json", connection: "close", ...headers };
  const response = await fetch(`${service.url}${path}`, { method: "POST", headers: own, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { readonly run_id: string };
}

const one = (name: string, has: (span: Received) => boolean = () => true) =>
  until(() => collector.named(name).find(has), { what: `the span ${name}` });
const step = (id: string, attempt = 1) =>
  one("saga.step", ({ attributes: of }) => of["saga.step.id"] === id && of["saga.step.attempt"] === attempt);

describe("a saga over two nodes and a worker", () => {
  let runId: string;

  beforeAll(async () => {
    const started = await post("/api/v1/sagas/start", { workflow_id: "traced" }, { traceparent: traceparent(CALLER) });
    runId = started.run_id;
    const { resource } = await step("ship");
    await until(async () => {
      const [row] = await database.sql`select state from runs where id = ${runId} and current_step = 'go'`;
      return row?.state === "paused";
    });
    // All that the first node has to tell is told. The other one goes on with the run.
    await one("saga.resume");
    await one("saga.run", ({ attributes }) => attributes["saga.run.parent_id"] === runId);
    const first = livingNodes(service).find(({ nodeId }) => nodeId === resource["service.instance.id"]);
    if (!first) throw new Error("the node that made the first spans is not known");
    process.kill(first.pid, "SIGKILL");
    await until(async () => {
      await post(`/api/v1/sagas/${runId}/signal/go`, {}, { traceparent: traceparent(SENDER) });
      return true;
    });
    await one("saga.run", ({ attributes }) => attributes["saga.run.id"] === runId);
  });

  const run = () => one("saga.run", ({ attributes }) => attributes["saga.run.id"] === runId);

  it("is part of the trace of the request that started it", async () => {
    const { kind, trace, parent, attributes, status } = await run();
    expect({ kind, trace, parent, status }).toEqual({
      kind: 2,
      ...{ trace: CALLER.trace, parent: CALLER.span },
      status: 2,
    });
    expect(attributes).toMatchObject({
      "saga.workflow.id": "traced",
      "saga.run.state": "failed",
      "error.type": "given",
    });
  });

  it("has a span for each attempt, which the worker continues with its own", async () => {
    const [whole, reserve] = [await run(), await step("reserve")];
    expect(reserve).toMatchObject({ kind: 3, trace: whole.trace, parent: whole.span, status: 0, links: [] });
    expect(reserve.attributes).toMatchObject({ "saga.action": "shop.reserve@1", "peer.service": "shop" });
    const theirs = await one("shop.reserve");
    expect(theirs).toMatchObject({ kind: 2, trace: whole.trace, parent: reserve.span });
    expect(theirs.resource["service.name"]).toBe("shop");
    // What the code of the action did, in a tracer that knows nothing of sagas.
    expect(await one("own reserve")).toMatchObject({ trace: whole.trace, parent: theirs.span });
  });

  it("has a trace of its own for a branch, with a link to the run", async () => {
    const [whole, ship] = [await run(), await step("ship")];
    const branch = await one("saga.run", ({ attributes }) => attributes["saga.run.parent_id"] === runId);
    expect(branch.links).toEqual([asLink(whole)]);
    expect(branch).toMatchObject({ kind: 1, parent: "", status: 0 });
    expect(ship).toMatchObject({ trace: branch.trace, parent: branch.span });
    expect(branch.trace).toBe(String(branch.attributes["saga.run.id"]).replaceAll("-", ""));
  });

  it("goes on in a new trace after each wait, with links to the run and to the sender of the signal", async () => {
    const whole = await run();
    const [joined, resumed] = collector.named("saga.resume");
    expect(joined?.attributes).toMatchObject({ "saga.step.id": "all", "saga.wait.kind": "children" });
    expect(joined?.links).toEqual([asLink(whole)]);
    expect(resumed?.attributes).toMatchObject({ "saga.step.id": "go", "saga.wait.kind": "signal" });
    expect(resumed?.links).toEqual([asLink(whole), asLink(SENDER)]);
    expect(new Set([whole.trace, joined?.trace, resumed?.trace]).size).toBe(3);
    for (const attempt of [1, 2]) {
      const flaky = await step("flaky", attempt);
      expect(flaky).toMatchObject({ trace: resumed?.trace, parent: resumed?.span, links: [asLink(whole)] });
      expect(flaky.status).toBe(attempt === 1 ? 2 : 0);
    }
    expect((await step("flaky", 1)).attributes["error.type"]).toBe("given");
  });

  it("links an undo to the attempt that it undoes", async () => {
    const [whole, reserve, undo] = [await run(), await step("reserve"), await one("saga.undo")];
    expect(undo.links).toEqual([asLink(whole), asLink(reserve)]);
    expect(undo.trace).toBe((await step("broken")).trace);
    expect((await one("shop.release")).parent).toBe(undo.span);
  });

  it("was told by the killed node and by those after it, each part once", async () => {
    const own = collector.spans.filter(({ name }) => name.startsWith("saga."));
    const nodes = new Set(own.map(({ resource }) => resource["service.instance.id"]));
    // Two, or three: the node that is forked for the killed one may get the shard of the run before its end.
    expect(nodes.size).toBeGreaterThanOrEqual(2);
    expect(own.map(({ name }) => name).sort()).toEqual([
      ...["saga.resume", "saga.resume", "saga.run", "saga.run"],
      ...["saga.step", "saga.step", "saga.step", "saga.step", "saga.step", "saga.undo"],
    ]);
    expect(new Set(own.map(asLink)).size).toBe(own.length);
    for (const { from, to } of own) expect(to).toBeGreaterThanOrEqual(from);
  });

  it("logs in at the collector as the settings say", () => {
    expect(collector.headers.some((headers) => headers["x-login"] === "a key")).toBe(true);
  });
});
