// The WebSocket of the Stately inspector over real sockets: who may open it, and how it ends.

import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createFeed } from "../../src/feed/index.js";
import { uuidv7 } from "../../src/ids.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { verifierOf } from "../harness/verifier.js";
import { Client, hangUp } from "./client.js";
import { appendEvents, endRun, insertRun, otherApi, useRig } from "./rig.js";
import { ask } from "./wire.js";

const WORKFLOW = { id: "orders", name: "Orders", start: "begin", steps: [{ id: "begin", type: "noop" }] };

const HANDSHAKE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": Buffer.alloc(16, 1).toString("base64"),
};

const rig = useRig({ pingMs: 1_000 });
let port: number;
let definitionId = "";

const portOf = async (app: FastifyInstance) => {
  await app.listen({ port: 0, host: "127.0.0.1" });
  return (app.server.address() as AddressInfo).port;
};

beforeAll(async () => {
  port = await portOf(rig.app);
  await rig.call("POST", "/api/v1/workflows", WORKFLOW);
  const [row] = await rig.database.sql<{ definition_id: string }[]>`select definition_id from definitions limit 1`;
  definitionId = row?.definition_id ?? "";
});
afterEach(hangUp);

/** A run of the stored workflow. */
async function aRun(): Promise<Awaited<ReturnType<typeof insertRun>>> {
  const runId = await insertRun(rig);
  await rig.database.sql`update runs set definition_id = ${definitionId} where id = ${runId}`;
  return runId;
}

const viewer = (runId: string, at = port) => new Client(at, runId, "", "inspect");

describe("an inspection", () => {
  it("shows a run from its beginning, what happens next, and closes with its end", async () => {
    const runId = await aRun();
    await appendEvents(rig, runId, [{ type: "saga.started" }, { type: "step.started", step: "begin" }]);
    const client = viewer(runId);
    await client.has(7);
    expect(client.kinds.slice(0, 3)).toEqual(["@xstate.actor", "@xstate.event", "@xstate.snapshot"]);
    expect(client.frames.at(-1)).toMatchObject({ sessionId: `run:${runId}`, snapshot: { value: { active: "begin" } } });
    await appendEvents(rig, runId, [{ type: "step.succeeded", step: "begin" }]);
    await endRun(rig, runId);
    await rig.feed.poll();
    expect(await client.closed()).toBe(1000);
    expect(client.frames.at(-1)).toMatchObject({ snapshot: { value: "succeeded", status: "done" } });
    const late = viewer(runId);
    expect(await late.closed()).toBe(1000);
    expect(late.frames).toEqual(client.frames);
  });

  it("of a long run sends all of it to a viewer that reads", async () => {
    const runId = await aRun();
    const rows = Array.from({ length: 1_500 }, () => ({ metadata: { text: "x".repeat(3_000) } }));
    await appendEvents(rig, runId, rows);
    await endRun(rig, runId);
    const client = viewer(runId);
    expect(await client.closed()).toBe(1000);
    const seqs = client.frames.flatMap(({ type, event }) => (type === "@xstate.event" ? (event.seq ?? []) : []));
    expect(seqs).toEqual(Array.from({ length: 1_501 }, (_, index) => index + 1));
  });

  it("costs nothing when no one watches any more", async () => {
    const runId = await aRun();
    const client = viewer(runId);
    await client.has(1);
    await until(() => rig.feed.watching === 1);
    client.socket.close();
    await until(() => rig.feed.watching === 0);
  });

  it("is pinged, and closed with 1001 when the service stops", async () => {
    const app = await rig.another();
    const runId = await aRun();
    const client = viewer(runId, await portOf(app));
    await until(() => client.pings >= 1);
    await app.close();
    expect(await client.closed()).toBe(1001);
  });

  it("is refused to pages of other sites before the upgrade", async () => {
    const path = `/api/v1/sagas/${await aRun()}/inspect`;
    const of = async (origin: string) => (await ask(port, { path, headers: { ...HANDSHAKE, origin } })).status;
    expect(await of("https://evil.example")).toBe(403);
    expect(await of("http://localhost")).toBe(101);
  });
});

describe("the most inspections of a node", () => {
  it("are bounded: one too many is closed with 1013", async () => {
    const runId = await aRun();
    const clients = Array.from({ length: 50 }, () => viewer(runId));
    for (const client of clients) await client.has(1);
    expect(await viewer(runId).closed()).toBe(1013);
    clients[0]?.socket.terminate();
    await until(() => rig.feed.watching === 49);
    await viewer(runId).has(1);
  });

  it("are one tenant's to half of them: the next of its own is closed, and another's is not", async () => {
    const [a, b] = [uuidv7(), uuidv7()];
    const verifier = verifierOf({
      ann: { roles: ["viewer"], tenantId: a },
      bob: { roles: ["viewer"], tenantId: b },
    });
    const app = await otherApi(rig, {}, { verifier });
    onTestFinished(() => app.close());
    const at = await portOf(app);
    const [ofA, ofB] = [await aRun(), await aRun()];
    await rig.database.sql`update runs set tenant_id = ${a} where id = ${ofA}`;
    await rig.database.sql`update runs set tenant_id = ${b} where id = ${ofB}`;
    const by = (name: string, runId: typeof ofA) => new Client(at, runId, `?access_token=${name}`, "inspect");
    for (const client of Array.from({ length: 25 }, () => by("ann", ofA))) await client.has(1);
    expect(await by("ann", ofA).closed()).toBe(1013);
    await by("bob", ofB).has(1);
  });

  it("count as watchers of the feed", async () => {
    const feed = createFeed({ sql: rig.database.sql, log: silentLog, pollMs: 200, maxWatchers: 0 });
    const app = await otherApi(rig, {}, { feed });
    onTestFinished(async () => {
      await app.close();
      await feed.stop();
    });
    expect(await viewer(await aRun(), await portOf(app)).closed()).toBe(1013);
  });
});

describe("the page of an inspection", () => {
  const page = async (inspector: { ui?: string }) => {
    const app = await otherApi(rig, {}, { config: { inspector } });
    onTestFinished(() => app.close());
    const { statusCode, headers, body } = await app.inject({
      ...{ url: `/inspect/${await aRun()}`, headers: { host: "localhost" } },
    });
    expect(statusCode).toBe(200);
    return { policy: String(headers["content-security-policy"]), body };
  };

  it("lets nothing reach another host unless SAGA_INSPECT_UI names it, and the WebSocket stays", async () => {
    const without = await page({});
    expect(`${without.policy} ${without.body}`).not.toMatch(/https?:|frame-src|script-src/);
    expect(without.body).toContain("SAGA_INSPECT_UI");
    const named = await page({ ui: "https://inspector.example/view" });
    expect(named.policy).toContain("frame-src https://inspector.example;");
    const runId = await aRun();
    await appendEvents(rig, runId, [{ type: "saga.started" }]);
    await viewer(runId).has(1);
  });
});

describe("a service with SAGA_INSPECT=off", () => {
  it("has no such route", async () => {
    const app = await otherApi(rig, {}, { config: { inspector: undefined } as never });
    onTestFinished(() => app.close());
    const path = `/api/v1/sagas/${await aRun()}/inspect`;
    expect((await app.inject({ url: path, headers: { host: "localhost" } })).statusCode).toBe(404);
  });
});
