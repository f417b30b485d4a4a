// Calls of HTTP workers against a real server: the message and its signature, what each status means, what is tried again and for how long,
// and that no host holds up another. The runs are stand-ins; what a run makes of all this is in carriers.test.ts.
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Dispatch, RunCommand } from "../../machines/index.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { Guard, listedOrAny } from "../../src/egress/guard.js";
import { readSigning } from "../../src/egress/signing.js";
import type { FairScheduler } from "../../src/work/fair-scheduler.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { heldScheduler, openNode, type RequestNode, Site } from "./requests-rig.js";
import { type FakeRuns, makeCall } from "./rig.js";

const SECRET = `whsec_${Buffer.from("a key of thirty-two bytes length").toString("base64")}`;
const SIGNING = JSON.stringify({ payments: SECRET });
const nodes: RequestNode[] = [];
const sites: Site[] = [];
const removed: string[] = [];
let site: Site;

beforeEach(async () => {
  site = await openSite();
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.dispatcher.stop(0);
  for (const one of sites.splice(0)) await one.close();
  removed.length = 0;
});

async function openSite(): Promise<Site> {
  const opened = await Site.open();
  sites.push(opened);
  return opened;
}

interface Options {
  readonly limits?: Partial<DispatchLimits>;
  readonly allow?: readonly string[];
  readonly runs?: FakeRuns;
  readonly scheduler?: Pick<FairScheduler, "compute">;
}

/** Longer than a busy machine holds up a call on its way. Calls that are to be given up wait so long. */
const PATIENCE_MS = 3_000;
const QUICK = { backoffMs: 20, backoffMaxMs: 50, askedMaxMs: 60_000, reachedMs: 1_000, forgetMs: 60_000 };

function open({ limits, allow, runs, scheduler }: Options = {}): RequestNode {
  const node = openNode({
    ...(runs && { runs }),
    ...(scheduler && { scheduler }),
    limits: { destinations: QUICK, accepted: { remembered: 10 }, ...limits },
    callbacks: {
      publicUrl: () => "https://saga.example/base",
      removeRows: async (ids) => void removed.push(...ids),
      http: { guard: new Guard({ admits: listedOrAny(allow), connectMs: 500 }), signing: readSigning(SIGNING) },
    },
  });
  nodes.push(node);
  return node;
}

function dispatchTo(address: string, more: Partial<Dispatch> = {}, call = {}): Dispatch {
  const timeoutMs = 60_000;
  return {
    ...{
      dispatchId: newDispatchId(),
      runId: newRunId(),
      dryRun: false,
      attempt: 3,
      deadlineAt: Date.now() + timeoutMs,
    },
    call: makeCall({ transport: "http", address, timeoutMs, ...call }),
    ...more,
  };
}

function send(node: RequestNode, dispatch: Dispatch): Dispatch {
  if (!node.dispatcher.reserve(dispatch.dispatchId, dispatch.call)) throw new Error("no slot is free");
  node.dispatcher.send(dispatch);
  return dispatch;
}

type Failure = Extract<RunCommand, { type: "failure" }>;

async function outcome(node: RequestNode, dispatch: Dispatch): Promise<RunCommand> {
  return until(() => node.outcome(dispatch), { what: "an outcome" });
}

describe("the message of a call", () => {
  it("is the dispatch as JSON, with a URL to report to, signed under the dispatch's id", async () => {
    const node = open();
    const dispatch = send(
      node,
      dispatchTo(`${site.url}/steps?a=b`, { tenantId: "t-1" }, { stepId: "a:b.c", inputs: { n: 1 } }),
    );
    const { method, path, headers, body } = await until(() => site.asked[0]);
    expect([method, path, headers["content-type"], headers["idempotency-key"]]).toEqual([
      ...["POST", "/steps?a=b", "application/json", "key-1"],
    ]);
    const verified = new Webhook(SECRET).verify(body, headers as Record<string, string>);
    expect(headers["webhook-id"]).toBe(dispatch.dispatchId);
    const { runId, dispatchId } = dispatch;
    expect(verified).toEqual({
      ...{ dispatch_id: dispatchId, run_id: runId, step_id: "a:b.c", attempt: 3, inputs: { n: 1 }, version: 1 },
      ...{ service: "payments", action: "charge", idempotency_key: "key-1", dry_run: false, phase: "FORWARD" },
      ...{ tenant_id: "t-1", deadline_at: new Date(dispatch.deadlineAt).toISOString(), timeout_ms: expect.any(Number) },
      callback_url: `https://saga.example/base/api/v1/sagas/${runId}/actions/a%3Ab.c/result?attempt=3&dispatch_id=${dispatchId}`,
    });
  });
});

describe("a response", () => {
  const plain = { retryable: false, outcomeUnknown: false };
  const unknown = { retryable: true, outcomeUnknown: true };
  const broken = { code: "schema_mismatch", retryable: false, outcomeUnknown: true };

  it.each<[status: number, body: string, Partial<Failure>]>([
    [301, "", { code: "http_301", ...plain }],
    [400, "", { code: "http_400", ...plain }],
    [404, '{"result":{}}', { code: "http_404", ...plain }],
    [408, "", { code: "http_408", ...plain }],
    [500, "", { code: "http_500", ...unknown }],
    [504, "", { code: "http_504", ...unknown }],
    [
      200,
      '{"error":{"code":"declined","message":"no","retryable":false}}',
      { code: "declined", message: "no", ...plain },
    ],
    [200, '{"error":{"code":"busy","message":""}}', { code: "busy", retryable: true, outcomeUnknown: false }],
    [200, '{"error":{"code":"broke","message":"","outcome_unknown":true}}', { code: "broke", ...unknown }],
    [200, '{"result":{},"error":{"code":"a","message":""}}', broken],
    [200, '{"error":{"message":"no code"}}', broken],
    [200, '{"result":[1]}', broken],
    [200, '{"result":{"a":"\\u0000"}}', broken],
  ])("%i %s fails the attempt", async (status, body, expected) => {
    const node = open();
    site.answer = (_, response) => response.writeHead(status, { location: "/elsewhere" }).end(body);
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject({ type: "failure", ...expected });
    expect(site.asked).toHaveLength(1);
  });

  it("is read in a turn of the loop, and its run goes on in another", async () => {
    const parties: string[] = [];
    const scheduler: Pick<FairScheduler, "compute"> = {
      compute: async (party, piece) => {
        parties.push(party);
        return piece();
      },
    };
    const node = open({ scheduler });
    site.answer = (_, response) => response.end('{"result":{}}');
    await outcome(node, send(node, dispatchTo(site.url)));
    const { origin } = new URL(site.url);
    expect(parties).toEqual([origin, origin]);
  });

  it("is in time by the moment it arrived, however long it waits for its turn", async () => {
    const { scheduler, came, release } = heldScheduler();
    const node = open({ scheduler });
    site.answer = (_, response) => response.end('{"result":{}}');
    const dispatch = send(node, dispatchTo(site.url));
    const arrived = await until(came, { what: "an answer that waits" });
    await until(() => Date.now() > arrived, { what: "a later moment" });
    release();
    const { arrivedAt } = (await outcome(node, dispatch)) as { arrivedAt: number };
    expect(arrivedAt).toBeLessThanOrEqual(arrived);
  });

  it("200 with a result completes the attempt, in the name of the host", async () => {
    const node = open();
    site.answer = (_, response) => response.end('{"result":{"a":1},"more":2}');
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject({
      ...{ type: "result", result: { a: 1 }, actor: `worker:127.0.0.1:${site.port}` },
    });
  });

  it.each([
    [200, ""],
    [200, "thanks"],
    [200, '{"ok":true}'],
    [202, '{"result":{}}'],
    [204, ""],
  ])("%i %j is accepted: the worker reports later, and the dispatch's row is removed", async (status, body) => {
    const node = open();
    site.answer = (_, response) => response.writeHead(status).end(body);
    const dispatch = send(node, dispatchTo(site.url));
    await until(() => removed.includes(dispatch.dispatchId));
    expect([node.dispatcher.holds(dispatch.dispatchId), node.dispatcher.inFlight]).toEqual([true, 1]);
    node.dispatcher.send(dispatch);
    node.dispatcher.resolved(dispatch.dispatchId);
    expect([node.dispatcher.holds(dispatch.dispatchId), node.outcome(dispatch)]).toEqual([false, undefined]);
    expect(site.asked).toHaveLength(1);
  });

  it("is the one that follows the interim responses, and the call is sent once", async () => {
    site.answer = (_, response) => {
      response.writeContinue();
      response.writeProcessing();
      response.writeHead(200, { "content-type": "application/json" }).end('{"result":{"n":1}}');
    };
    const node = open();
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject({ type: "result", result: { n: 1 } });
    expect(site.asked).toHaveLength(1);
  });

  it("over the limit fails the attempt, which has happened", async () => {
    const node = open({ limits: { outputBytes: 100 } });
    site.answer = (_, response) => response.end(`{"result":{"a":"${"x".repeat(200)}"}}`);
    const over = { code: "limit_exceeded", retryable: false, outcomeUnknown: true };
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject(over);
    site.answer = (_, response) => response.end("x".repeat(100_000));
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject(over);
  });
});

describe("without a response", () => {
  it("a connection that breaks may have brought the call", async () => {
    const node = open();
    site.answer = (_, response) => response.destroy();
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject({
      ...{ code: "http_network", retryable: true, outcomeUnknown: true },
    });
  });

  it("the deadline ends the call", async () => {
    const node = open();
    site.answer = () => {};
    const dispatch = send(
      node,
      dispatchTo(site.url, { deadlineAt: Date.now() + PATIENCE_MS }, { timeoutMs: PATIENCE_MS }),
    );
    expect(await outcome(node, dispatch)).toMatchObject({ code: "timeout", retryable: true, outcomeUnknown: true });
    await until(() => site.cutOff === 1);
  });

  it("an address that is not allowed fails the attempt, which did not happen", async () => {
    const node = open({ allow: ["10.0.0.0/8"] });
    expect(await outcome(node, send(node, dispatchTo(site.url)))).toMatchObject({
      ...{
        code: "http_network",
        message: "127.0.0.1 is not an allowed address",
        retryable: false,
        outcomeUnknown: false,
      },
    });
    expect(site.asked).toEqual([]);
  });
});

describe("a call that was not handed over", () => {
  it.each([429, 503])("(%i) is tried again, unchanged, until it is", async (status) => {
    const node = open();
    site.answer = (_, response) => response.writeHead(site.asked.length < 3 ? status : 202).end();
    const dispatch = send(node, dispatchTo(site.url));
    await until(() => removed.includes(dispatch.dispatchId));
    expect(site.asked).toHaveLength(3);
    expect(new Set(site.asked.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect([node.outcome(dispatch), [...node.dispatcher.away()]]).toEqual([undefined, []]);
  });

  it("is not tried before the time that the host asks for", async () => {
    const node = open();
    const at: number[] = [];
    site.answer = (_, response) => {
      at.push(performance.now());
      response.writeHead(at.length === 1 ? 503 : 202, { "retry-after": "1" }).end();
    };
    send(node, dispatchTo(site.url));
    await until(() => at.length === 2);
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it("is given back to its run, as no attempt, before half of its time is over", async () => {
    const gone = await openSite();
    const { url } = gone;
    await gone.close();
    const node = open();
    const dispatch = send(
      node,
      dispatchTo(url, { deadlineAt: Date.now() + 2 * PATIENCE_MS }, { timeoutMs: 2 * PATIENCE_MS }),
    );
    await until(() => [...node.dispatcher.away()].length === 1);
    expect([...node.dispatcher.away()][0]).toMatchObject({
      ...{ transport: "http", destination: url, reason: "no_connection" },
      why: "127.0.0.1: the connection failed (ECONNREFUSED)",
    });
    const given = await outcome(node, dispatch);
    expect(given).toMatchObject({
      ...{ type: "failure", code: "not_handed_over", retryable: true, outcomeUnknown: false, notHandedOver: true },
    });
    expect((given as Failure).arrivedAt).toBeLessThan(dispatch.deadlineAt);
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
  });

  it("is given back when its queue timeout ends", async () => {
    site.answer = (_, response) => response.writeHead(503).end();
    const node = open();
    const handOverBy = Date.now() + 150;
    const given = await outcome(node, send(node, dispatchTo(site.url, { handOverBy })));
    expect(given).toMatchObject({ notHandedOver: true });
    expect((given as Failure).arrivedAt).toBeGreaterThanOrEqual(handOverBy);
  });

  it("is given back at once by a cancel", async () => {
    site.answer = (_, response) => response.writeHead(503).end();
    const node = open();
    const dispatch = send(node, dispatchTo(site.url));
    await until(() => site.asked.length > 1);
    node.dispatcher.cancel(dispatch.dispatchId, "enough");
    expect(await outcome(node, dispatch)).toMatchObject({ notHandedOver: true });
  });

  it("is never given back if a former owner may have sent it: it is tried until its deadline, and then left to its run", async () => {
    site.answer = (_, response) => response.writeHead(503).end();
    const node = open();
    const dispatch = dispatchTo(site.url, { deadlineAt: Date.now() + 300 }, { timeoutMs: 300 });
    node.recover(dispatch);
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
    expect(Date.now()).toBeGreaterThanOrEqual(dispatch.deadlineAt);
    // A try that the deadline cut off says so.
    expect([undefined, "timeout"]).toContain((node.outcome(dispatch) as Failure | undefined)?.code);
    // A status that says what happened says so of this try only.
    site.answer = (_, response) => response.writeHead(404).end();
    const other = dispatchTo(site.url);
    node.recover(other);
    expect(await outcome(node, other)).toMatchObject({ code: "http_404", outcomeUnknown: true });
    // The worker knows of its earlier tries.
    site.answer = (_, response) => response.end('{"error":{"code":"declined","message":""}}');
    const third = dispatchTo(site.url);
    node.recover(third);
    expect(await outcome(node, third)).toMatchObject({ code: "declined", outcomeUnknown: false });
  });

  it("is sent no more once it is cancelled, if a former owner may have sent it, and is kept until its deadline", async () => {
    site.answer = (_, response) => response.writeHead(503).end();
    const node = open();
    const dispatch = dispatchTo(site.url, { deadlineAt: Date.now() + PATIENCE_MS }, { timeoutMs: PATIENCE_MS });
    node.recover(dispatch);
    await until(() => site.asked.length > 0 && [...node.dispatcher.away()].length === 1);
    node.dispatcher.cancel(dispatch.dispatchId, "enough");
    // One try may be on its way.
    const asked = site.asked.length;
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
    expect([Date.now() >= dispatch.deadlineAt, site.asked.length <= asked + 1, node.outcome(dispatch)]).toEqual([
      ...[true, true, undefined],
    ]);
  });
});

describe("a host that is away", () => {
  it("gets one try at a time, gives no credit meanwhile, and all that waits when it is back", async () => {
    const node = open({ limits: { destinations: { ...QUICK, backoffMs: 400, backoffMaxMs: 400 } } });
    site.answer = (_, response) => response.writeHead(503).end();
    const first = send(node, dispatchTo(site.url));
    await until(() => [...node.dispatcher.away()].length === 1);
    const waiting = Array.from({ length: 5 }, () => dispatchTo(`${site.url}/other`));
    for (const { runId, dispatchId, call } of waiting) {
      expect(node.dispatcher.reserve(dispatchId, call)).toBeUndefined();
      node.dispatcher.enqueue(runId, dispatchId, call);
    }
    await until(() => site.asked.length >= 3);
    expect(new Set(site.asked.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([first.dispatchId]));
    expect(node.runs.of("offer")).toEqual([]);
    site.answer = (_, response) => response.writeHead(202).end();
    await until(() => node.runs.of("offer").length === 5);
  });

  it("holds up no other host, and neither does one that hangs", async () => {
    const node = open({ limits: { httpCalls: 20, httpCallsPerHost: 8 } });
    site.answer = () => {};
    const other = await openSite();
    const third = await openSite();
    for (const hangs of [site, third]) {
      hangs.answer = () => {};
      for (let nth = 0; nth < 30; nth++) {
        const { runId, dispatchId, call } = dispatchTo(hangs.url);
        if (node.dispatcher.reserve(dispatchId, call))
          node.dispatcher.send({ ...dispatchTo(hangs.url), runId, dispatchId });
        else node.dispatcher.enqueue(runId, dispatchId, call);
      }
    }
    const dead = await Site.open();
    const { url } = dead;
    await dead.close();
    send(node, dispatchTo(url));
    other.answer = (_, response) => response.end('{"result":{}}');
    for (let nth = 0; nth < 10; nth++)
      expect(await outcome(node, send(node, dispatchTo(other.url)))).toMatchObject({ type: "result" });
    expect(site.asked.length + third.asked.length).toBeLessThanOrEqual(16);
  });

  it("is told apart from a slow one: a try that is under way for long has reached it", async () => {
    const node = open({ limits: { destinations: { ...QUICK, reachedMs: 100 } } });
    site.answer = (_, response) => response.writeHead(503).end();
    send(node, dispatchTo(site.url));
    await until(() => [...node.dispatcher.away()].length === 1);
    // From now on it takes its time.
    site.answer = () => {};
    const next = dispatchTo(site.url);
    await until(() => node.dispatcher.reserve(next.dispatchId, next.call), { what: "credit" });
  });
});

describe("what operators see", () => {
  const why = async (node: RequestNode, { call }: Dispatch) => (await node.dispatcher.directory.obstacles([call]))[0];
  const workers = async (node: RequestNode) =>
    (await node.dispatcher.directory.report()).workers.map(
      ({ workerId, service, actions, transport, inFlight, maxInFlight }) => [
        ...[workerId, service, actions.join(), transport, inFlight, maxInFlight],
      ],
    );
  const quick = { directoryMemoryMs: 0 };

  it("is the address as a worker, with its actions and what it holds, once it has taken a call", async () => {
    const node = open({ limits: { ...quick, httpCallsPerHost: 7 } });
    site.answer = (_, response) => response.writeHead(202).end();
    expect(await workers(node)).toEqual([]);
    const first = send(node, dispatchTo(site.url));
    send(node, dispatchTo(site.url, {}, { action: "refund", version: 2 }));
    await until(async () => (await workers(node))[0]?.[2] === "charge@1,refund@2" && site.asked.length === 2);
    await until(async () => (await workers(node))[0]?.[4] === 2);
    node.dispatcher.resolved(first.dispatchId);
    expect(await workers(node)).toEqual([[site.url, "payments", "charge@1,refund@2", "http", 1, 7]]);
  });

  it("is why calls wait: the host is away, or has as many as it may get", async () => {
    const node = open({ limits: { ...quick, httpCallsPerHost: 1 } });
    site.answer = () => {};
    const hanging = send(node, dispatchTo(site.url));
    expect(await why(node, hanging)).toEqual({
      ...{ reason: "no_credit", detail: "as many calls as its host may get are under way" },
    });
    await until(() => site.asked.length === 1);
    node.dispatcher.resolved(hanging.dispatchId);
    site.answer = (_, response) => response.writeHead(503).end();
    await until(() => site.cutOff === 1);
    send(node, dispatchTo(site.url));
    await until(() => [...node.dispatcher.away()].length === 1);
    expect(await why(node, hanging)).toEqual({ reason: "no_worker", detail: `127.0.0.1:${site.port} answered 503` });
    expect(await workers(node)).toEqual([]);
  });
});

describe("a node", () => {
  it("that stops cuts its calls off without a report, and the next owner makes them again", async () => {
    const node = open();
    site.answer = () => {};
    const dispatch = send(node, dispatchTo(site.url));
    await until(() => site.asked.length === 1);
    await node.dispatcher.stop(20);
    expect(node.outcome(dispatch)).toBeUndefined();
    const next = open();
    site.answer = (_, response) => response.end('{"result":{}}');
    next.recover(dispatch);
    expect(await outcome(next, dispatch)).toMatchObject({ type: "result" });
    expect(new Set(site.asked.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  });

  it("that cannot remove the rows of accepted dispatches tries again, and forgets the oldest above its limit", async () => {
    let refusals = 2;
    const rows: string[] = [];
    const node = openNode({
      limits: { accepted: { remembered: 3 } },
      callbacks: {
        publicUrl: () => "http://saga.example",
        removeRows: async (ids) => {
          if (refusals-- > 0) throw new Error("the store is away");
          rows.push(...ids);
        },
        http: { guard: new Guard({ admits: listedOrAny(undefined) }) },
      },
    });
    nodes.push(node);
    site.answer = (_, response) => response.writeHead(202).end();
    const first = send(node, dispatchTo(site.url));
    await until(() => rows.includes(first.dispatchId));
    expect(refusals).toBeLessThanOrEqual(0);
    expect(node.logged.filter((line) => line.includes("keep their rows"))).toHaveLength(1);
    for (let nth = 0; nth < 5; nth++) send(node, dispatchTo(site.url));
    await until(() => site.asked.length === 6 && !node.dispatcher.holds(first.dispatchId));
    expect(node.dispatcher.inFlight).toBeLessThanOrEqual(4);
  });
});
