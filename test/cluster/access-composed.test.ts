// What access control changes behind the doors of a node, composed as the service composes it: where HTTP workers may be, whose secrets are, which
// events reach a tenant's runs and triggers, and how much of the metrics is one tenant's; and what its doors have in common.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ANYONE, makeApiKey } from "../../src/access/index.js";
import { openFoundations } from "../../src/cluster/foundations.js";
import { type Env, loadConfig } from "../../src/config/index.js";
import { prepareReader } from "../../src/store/migrate/reader-role.js";
import type { WireRequest } from "../api/wire.js";
import { RawWorker } from "../dispatch/rig.js";
import { createTestDatabase, silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Locked, OTHER, openLocked, TENANT } from "./access-rig.js";

describe("with access on and with access off", () => {
  const folder = mkdtempSync(join(tmpdir(), "saga-composed-"));
  const secretsFile = join(folder, "secrets.json");
  writeFileSync(secretsFile, JSON.stringify({ free: "a-secret-of-every-definition" }), { mode: 0o600 });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** What a node with these settings would do. */
  async function egressWith(env: Env) {
    const database = await createTestDatabase({ max: 1 });
    try {
      await prepareReader(database.sql, { ownLogin: true });
      const { config } = loadConfig({ DATABASE_URL: database.url, SAGA_SECRETS_FILE: secretsFile, ...env });
      const foundations = await openFoundations({ config, databaseUrl: database.url, log: silentLog });
      const { workers, secrets } = foundations.egress;
      const ofPlatform = secrets.get("free")?.ofPlatform === true;
      const admits = ["http://127.0.0.1/", "http://10.1.1.1/", "http://8.8.8.8/"].filter((url) => {
        try {
          return workers.target(url);
        } catch {
          return false;
        }
      });
      await foundations.catalog.stop();
      await foundations.feed.stop();
      await foundations.closeDatabase();
      return { admits, ofPlatform };
    } finally {
      await database.drop();
    }
  }

  const [LOOPBACK, PRIVATE, PUBLIC] = ["http://127.0.0.1/", "http://10.1.1.1/", "http://8.8.8.8/"];
  it.each<readonly [string, Env, readonly (string | undefined)[], boolean]>([
    ["on: HTTP workers are public addresses, and secrets the platform's", { SAGA_AUTH: "api_key" }, [PUBLIC], true],
    [
      "on, with a list: HTTP workers are those of the list",
      { SAGA_AUTH: "api_key", SAGA_WORKER_ALLOW: "10.0.0.0/8" },
      [PRIVATE],
      true,
    ],
    ["off: HTTP workers are anywhere, and secrets everyone's", {}, [LOOPBACK, PRIVATE, PUBLIC], false],
  ])("%s", async (_what, env, admits, ofPlatform) => {
    expect(await egressWith(env)).toEqual({ admits, ofPlatform });
  });
});

describe("a node with access control", () => {
  let locked: Locked;
  let platform: string;
  beforeAll(async () => {
    locked = await openLocked();
    const grant = { name: "root", roles: ["platform", "operator"] as const };
    ({ key: platform } = await makeApiKey(locked.database.sql, ANYONE, grant, { now: Date.now() }));
  });
  afterAll(() => locked?.stop());

  const admin = () => locked.bearer("API key", "admin", TENANT);
  async function call(bearer: string, method: string, path: string, body?: object) {
    const sent = { method, path: `/api/v1${path}`, ...(body && { body: JSON.stringify(body) }) };
    const answer = await locked.ask(sent, bearer);
    expect([path, answer.status < 300, answer.text]).toEqual([path, true, answer.text]);
    return answer.json;
  }
  const publish = (bearer: string, topic: string, payload: object) =>
    call(bearer, "POST", "/events", { topic, payload });
  async function started(steps: readonly object[], id: string): Promise<string> {
    await call(admin(), "POST", "/workflows", { id, name: id, start: "a", published: true, steps });
    return (await call(admin(), "POST", "/sagas/start", { workflow_id: id })).run_id;
  }
  const outputOf = async (runId: string) => {
    const { state, output } = await call(admin(), "GET", `/sagas/${runId}?wait_ms=60000`);
    return [state, output];
  };
  const awaiting = (runId: string, reason: string) =>
    until(async () => (await call(admin(), "GET", `/sagas/${runId}`)).paused_reason === reason, { what: reason });

  const OUTPUT = { id: "z", type: "end", output: "${vars.taken.payload.of}" };
  const event = (id: string) => ({ id, type: "wait_for_event", topic: "parcel", save_as: "taken", next: "z" });

  it("keeps events of the platform, and of other tenants, from the runs of a tenant that wait for them", async () => {
    const runId = await started([event("a"), OUTPUT], "waiting");
    await awaiting(runId, "event");
    await publish(platform, "parcel", { of: "the platform" });
    await publish(locked.bearer("API key", "operator", OTHER), "parcel", { of: "another" });
    await publish(admin(), "parcel", { of: "its own" });
    expect(await outputOf(runId)).toEqual(["succeeded", "its own"]);
  });

  it("keeps them from those that look back, too", async () => {
    const signal = { id: "a", type: "wait_for_signal", signal_name: "go", next: "b" };
    const runId = await started([signal, event("b"), OUTPUT], "looking-back");
    await awaiting(runId, "signal");
    await publish(platform, "parcel", { of: "the platform" });
    await publish(admin(), "parcel", { of: "its own" });
    await call(admin(), "POST", `/sagas/${runId}/signal/go`, {});
    expect(await outputOf(runId)).toEqual(["succeeded", "its own"]);
  });

  it("keeps records of the platform from the triggers of a tenant", async () => {
    const record = { record_type: "order", from_state: "packed", to_state: "shipped" };
    await started([{ id: "a", type: "end", output: "${inputs.of}" }], "of-records");
    const config = { ...record, input_mapping: { of: "${record.of}" } };
    const about = { trigger_type: "record_transition", workflow_id: "of-records", config };
    const { id } = await call(admin(), "POST", "/triggers", about);
    await publish(platform, "record.transition", { ...record, record: { of: "the platform" } });
    await publish(admin(), "record.transition", { ...record, record: { of: "its own" } });
    const runs = await until(
      async () => {
        const { items } = await call(admin(), "GET", `/sagas?trigger_id=${id}`);
        return items.length > 0 && items;
      },
      { what: "a run of the trigger" },
    );
    expect(runs.map(({ inputs }: { inputs: object }) => inputs)).toEqual([{ of: "its own" }]);
  });

  it("lets one tenant make half of the names of metrics", async () => {
    const ids = Array.from({ length: 101 }, (_, nth) => `m${nth}`);
    const steps = ids.map((id, nth) => ({ id, type: "metric_emit", name: id, next: ids[nth + 1] ?? "z" }));
    const runId = await started(
      [{ id: "a", type: "noop", next: "m0" }, ...steps, { id: "z", type: "end" }],
      "measured",
    );
    expect((await outputOf(runId))[0]).toBe("succeeded");
    const page = async () => (await locked.ask({ path: "/metrics" }, locked.bearer("API key", "scrape"))).text;
    const text = await until(
      async () => {
        const now = await page();
        return now.includes('saga_workflow_metrics_dropped_total{reason="names"} 1') && now;
      },
      { what: "the name that is dropped" },
    );
    expect(text.match(/^workflow_m\d+ /gm)).toHaveLength(100);
    // Of whose runs a value is, no series says.
    expect(text).not.toMatch(/tenant/i);
  });
});

describe("the doors of a node", () => {
  const PROXIED = { SAGA_AUTH: "api_key", SAGA_RATE_LIMIT: "1/s,3", SAGA_TRUSTED_PROXIES: "127.0.0.1" };
  const [FLOODED, QUIET] = ["198.51.100.7", "198.51.100.8"];
  let locked: Locked;
  beforeAll(async () => {
    locked = await openLocked(PROXIED);
  });
  afterAll(() => locked?.stop());

  const from = (address: string, headers: Readonly<Record<string, string>> = {}, more: Partial<WireRequest> = {}) =>
    locked.ask({ path: "/api/v1/workflows", ...more, headers: { "x-forwarded-for": address, ...headers } });
  const key = (text: string) => ({ authorization: `Bearer ${text}` });

  /** With which status a hello is refused. Undefined: it is not. */
  async function hello(token: string, address = QUIET): Promise<status | undefined> {
    const metadata = new Metadata();
    metadata.set("x-forwarded-for", address);
    const worker = new RawWorker(`127.0.0.1:${locked.node.grpcPort}`, undefined, { metadata });
    worker.send({ hello: { token, worker_id: "w", service: "shop", max_in_flight: 1 } });
    await until(() => worker.ended || worker.messages.length > 0, { what: "an answer to the hello" });
    worker.cut();
    return worker.error?.code;
  }

  it("count the refused credentials of an address together, whatever kind they are and wherever they come", async () => {
    const good = locked.bearer("API key", "viewer", TENANT);
    expect((await from(FLOODED, key(good))).status).toBe(200);
    for (let nth = 0; nth < 20; nth++) expect((await from(FLOODED, key(`saga_guess_${nth}`))).status).toBe(401);
    const session = JSON.stringify({ api_key: "saga_guess_more" });
    const own = { origin: "http://localhost" };
    const refused = [
      await from(FLOODED, key("saga_guess_more")),
      await from(FLOODED, { cookie: `saga=${"x".repeat(43)}` }),
      await from(FLOODED, own, { method: "POST", path: "/auth/session", body: session }),
    ];
    expect(refused.map(({ status: code }) => code)).toEqual([429, 429, 429]);
    expect(await hello("saga_guess_more", FLOODED)).toBe(status.RESOURCE_EXHAUSTED);
    expect([(await from(QUIET, key("saga_guess_more"))).status, await hello("saga_guess_more")]).toEqual([
      401,
      status.UNAUTHENTICATED,
    ]);
    // One that was accepted not long ago passes, and a token of a dispatch is always looked at.
    expect((await from(FLOODED, key(good))).status).toBe(200);
    const path = `/api/v1/sagas/${TENANT}/actions/a/result`;
    const report = { method: "POST", path, body: JSON.stringify({ result: {} }) };
    for (let nth = 0; nth < 25; nth++)
      expect((await from(FLOODED, { "saga-callback-token": `guess-${nth}` }, report)).status).toBe(401);
  });

  it("take a hello for a request of its credential's rate, and no report and no heartbeat", async () => {
    const worker = locked.bearer("API key", "worker", TENANT);
    const outcomes: (status | undefined)[] = [];
    for (let nth = 0; nth < 12; nth++) outcomes.push(await hello(worker));
    expect(outcomes[0]).toBeUndefined();
    expect(outcomes).toContain(status.RESOURCE_EXHAUSTED);
    for (const what of ["result", "heartbeat"])
      for (let nth = 0; nth < 8; nth++) {
        const path = `/api/v1/sagas/${TENANT}/actions/a/${what}`;
        const body = JSON.stringify(what === "result" ? { result: {} } : {});
        expect([what, (await from(QUIET, key(worker), { method: "POST", path, body })).status]).toEqual([what, 403]);
      }
  });
});
