// Requests and webhooks of a service that is killed, of runs that are cancelled, to a server that refuses: real processes, a
// server with a ledger, a worker that undoes. A request that may have happened is repeated under its key, or undone.
// @module-tag long
// @access both
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { readSigning } from "../../src/egress/signing.js";
import { Site } from "../dispatch/requests-rig.js";
import { credential, secretTenants } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, type Seen } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

const SECRET = "s3cr3t-of-the-tests";
const SIGNING = `whsec_${Buffer.from("a key of thirty-two bytes length").toString("base64")}`;
const [FOR_WEBHOOKS = ""] = readSigning(SIGNING).of("@webhook");
const folder = mkdtempSync(join(tmpdir(), "saga-outgoing-"));
const once = { max_attempts: 1, initial_backoff_ms: 0 };
const compensation = { action: "shop.refund" };

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;
let site: Site;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  site = await Site.open();
  const secretsFile = join(folder, "secrets.json");
  writeFileSync(secretsFile, JSON.stringify({ shop: { header: "x-api-key", value: SECRET, ...secretTenants() } }), {
    mode: 0o600,
  });
  service = await createService({
    ...{ DATABASE_URL: database.url, SAGA_WORKERS: "1", LOG_LEVEL: "debug" },
    ...{ SAGA_EGRESS_ALLOW: "127.0.0.1", SAGA_SECRETS_FILE: secretsFile, SAGA_SIGNING_SECRET: SIGNING },
  });
  await service.start();
  client = new Client(service.url);
  shop = await openShop({ grpc: service.grpcAddress, api: service.url });
  const ask = { type: "http_request", url: `${site.url}/\${run.id}`, method: "POST", body: { n: "${inputs.n}" } };
  await client.publish("ask", [
    { id: "ask", ...ask, compensation, secret_ref: "shop", retry: { ...once, max_attempts: 3 }, next: "end" },
    { id: "end", type: "end", output: "${vars.ask}" },
  ]);
  await client.publish("ask-once", [{ id: "ask", ...ask, compensation, retry: once }]);
  await client.publish("ask-elsewhere", [
    { id: "ask", ...ask, url: "http://169.254.169.254/latest/meta-data", compensation },
  ]);
  await client.publish("tell", [
    { id: "tell", type: "webhook_emit", url: `${site.url}/hook`, event_type: "made", payload: { of: "${run.id}" } },
  ]);
});
afterEach(() => {
  site.answer = (_, response) => response.end();
});
afterAll(async () => {
  await shop.stop();
  await service.stop();
  await site.close();
  await database.drop();
  rmSync(folder, { recursive: true });
});

const ofRun = (runId: string) => site.asked.filter(({ path }) => path === `/${runId}`);
const hooksOf = (runId: string) => site.asked.filter(({ path, body }) => path === "/hook" && body.includes(runId));
const keyOf = (runId: string) => ofRun(runId)[0]?.headers["idempotency-key"];
const rowsOf = ({ events }: Seen, type: string) => events.filter(({ event_type }) => event_type === type);

async function ends(runId: string, state: string): Promise<Seen> {
  const [seen] = await client.allEnd([runId]);
  if (!seen) throw new Error("nothing was seen");
  expect(seen.run).toMatchObject({ state });
  return seen;
}

describe("a request", () => {
  it("is retried no sooner than the server asks, under one key, and its response is the output", async () => {
    const at: number[] = [];
    site.answer = (_, response) => {
      at.push(Date.now());
      if (at.length === 1) response.writeHead(429, { "retry-after": "1" }).end();
      else response.writeHead(200, { "content-type": "application/json" }).end('{"receipt":7}');
    };
    const runId = await client.start("ask", { inputs: { n: 1 } });
    const seen = await ends(runId, "succeeded");
    expect(seen.run.output).toMatchObject({ status: 200, body: { receipt: 7 } });
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(1_000);
    expect(ofRun(runId).map(({ headers, body }) => [headers["idempotency-key"], headers["x-api-key"], body])).toEqual(
      Array(2).fill([`${runId}:ask:1`, SECRET, '{"n":1}']),
    );
    expect(rowsOf(seen, "step.dispatched").map(({ metadata }) => [metadata?.action, metadata?.transport])).toEqual(
      Array(2).fill(["http_request", "request"]),
    );
    expect(shop.of(runId)).toEqual([]);
  });

  it("that was interrupted by a kill is repeated with the same key and dispatch id", async () => {
    site.answer = () => {};
    const runId = await client.start("ask", { inputs: { n: 2 } });
    await until(() => ofRun(runId).length === 1);
    await service.kill();
    site.answer = (_, response) => response.end("late");
    await service.start();
    const seen = await ends(runId, "succeeded");
    expect(seen.run.output).toMatchObject({ body: "late" });
    expect(new Set(ofRun(runId).map(({ headers }) => headers["idempotency-key"]))).toEqual(new Set([`${runId}:ask:1`]));
    expect([ofRun(runId).length, rowsOf(seen, "step.dispatched").length]).toEqual([2, 1]);
    await nothingUnwatched(database.sql);
  });

  it.each([
    ["cut", "http_network", (response: { destroy(): void }) => response.destroy()],
    [
      "answered 500",
      "http_500",
      (response: { writeHead(status: number): { end(): void } }) => response.writeHead(500).end(),
    ],
  ])("that was %s may have happened: it is undone, told its key", async (_, code, answer) => {
    site.answer = (_, response) => answer(response);
    const runId = await client.start("ask-once", { inputs: { n: 3 } });
    const seen = await ends(runId, "failed");
    expect(seen.run.error).toMatchObject({ code });
    expect(shop.of(runId).map(({ action, forwardKey }) => [action, forwardKey])).toEqual([["refund", keyOf(runId)]]);
  });

  it("with a plain refusal did not happen, and is not undone", async () => {
    site.answer = (_, response) => response.writeHead(409).end();
    const runId = await client.start("ask-once", { inputs: { n: 4 } });
    expect((await ends(runId, "failed")).run.error).toMatchObject({ code: "http_409" });
    expect([ofRun(runId).length, shop.of(runId)]).toEqual([1, []]);
  });

  it("is aborted by a cancel long before its timeout, and undone", async () => {
    site.answer = () => {};
    const runId = await client.start("ask", { inputs: { n: 5 } });
    await until(() => ofRun(runId).length === 1);
    const cutOff = site.cutOff;
    const began = Date.now();
    await client.insist("POST", `/sagas/${runId}/cancel`, { reason: "enough" });
    await ends(runId, "cancelled");
    expect(Date.now() - began).toBeLessThan(15_000);
    expect(site.cutOff).toBe(cutOff + 1);
    expect(shop.of(runId).map(({ forwardKey }) => forwardKey)).toEqual([keyOf(runId)]);
  });

  it("to a private address is not sent, not retried and not undone", async () => {
    const runId = await client.start("ask-elsewhere", { inputs: { n: 6 } });
    const seen = await ends(runId, "failed");
    expect(seen.run.error).toMatchObject({ code: "http_network" });
    expect([rowsOf(seen, "step.dispatched").length, shop.of(runId)]).toEqual([1, []]);
  });

  it("of a dry run is not sent", async () => {
    const runId = await client.start("ask", { inputs: { n: 7 }, dry_run: true });
    expect((await ends(runId, "succeeded")).run.output).toEqual({});
    expect(ofRun(runId)).toEqual([]);
  });

  it("leaves its secret in no log line and no table", async () => {
    expect(site.asked.some(({ headers }) => headers["x-api-key"] === SECRET)).toBe(true);
    const tables = ["runs", "run_starts", "run_events", "run_variables", "run_commands", "outbox", "inbox", "undo"];
    for (const table of tables) {
      const [row] = await database.sql.unsafe(
        `select count(*)::int as n from ${table} t where t::text like '%${SECRET}%'`,
      );
      expect([table, row?.n]).toEqual([table, 0]);
    }
    const secrets = [SECRET, SIGNING, FOR_WEBHOOKS];
    expect(service.log.filter((line) => secrets.some((secret) => line.includes(secret)))).toEqual([]);
  });
});

describe("a webhook", () => {
  const owed = async () => (await database.sql`select 1 from outbox`).length;

  it("does not delay its run, and arrives signed", async () => {
    site.answer = () => {};
    const runId = await client.start("tell");
    await ends(runId, "succeeded");
    await until(() => hooksOf(runId).length === 1);
    const [asked] = hooksOf(runId);
    new Webhook(FOR_WEBHOOKS).verify(asked?.body ?? "", asked?.headers as Record<string, string>);
    expect(await owed()).toBe(1);
  });

  it("that was interrupted by a kill is sent again with the same id", async () => {
    site.answer = () => {};
    const runId = await client.start("tell");
    await until(() => hooksOf(runId).length === 1);
    await ends(runId, "succeeded");
    await service.kill();
    site.answer = (_, response) => response.end();
    await service.start();
    await until(async () => (await owed()) === 0, { what: "every webhook's delivery" });
    const asked = hooksOf(runId);
    expect(asked.length).toBeGreaterThanOrEqual(2);
    expect(new Set(asked.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    for (const { body, headers } of asked) new Webhook(FOR_WEBHOOKS).verify(body, headers as Record<string, string>);
  });

  it("is counted", async () => {
    await ends(await client.start("tell"), "succeeded");
    const isCounted = async () =>
      /^saga_webhooks_total\{outcome="delivered"\} [1-9]/m.test(
        await (await fetch(`${service.url}/metrics`, { headers: credential() })).text(),
      );
    await until(isCounted, { what: "a webhook that was delivered" });
  });
});
