// The conventions of the wire, on a real socket: methods, slashes, upgrades, encodings, and the envelope of every refusal.
import type { AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { documented } from "./documented.js";
import { insertRun, useRig, WORKFLOW } from "./rig.js";
import { ask, askInTurn, bytesOf, type WireRequest } from "./wire.js";

const rig = useRig();
const ID = "0190a000-0000-7000-8000-0000000000aa";
const START = "/api/v1/sagas/start";
let port = 0;
beforeAll(async () => {
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
});

const WEBSOCKET = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

describe("a known path with another method", () => {
  it.each([
    ["DELETE", "/api/v1/sagas", "GET, HEAD"],
    ["GET", START, "POST"],
    ["PUT", `/api/v1/sagas/${ID}`, "DELETE, GET, HEAD"],
    ["GET", `/api/v1/sagas/${ID}/cancel`, "POST"],
    ["POST", `/api/v1/sagas/${ID}/children/counts`, "GET, HEAD"],
    ["POST", "/api/v1/workflows/orders/performance", "GET, HEAD"],
    ["DELETE", "/api/v1/cluster", "GET, HEAD"],
    ["POST", "/healthz", "GET, HEAD"],
    ["DELETE", "/api/v1/workflows", "GET, HEAD, POST"],
    ["TRACE", "/api/v1/sagas", "GET, HEAD"],
    ["PROPFIND", "/api/v1/sagas", "GET, HEAD"],
  ])("%s %s is 405 and names the others in Allow", async (method, path, allow) => {
    const { status, headers, json } = await ask(port, { method, path });
    expect([status, headers.allow, json.error]).toEqual([405, allow, "method_not_allowed"]);
  });

  it("is refused before its body is looked at", async () => {
    const headers = { "content-type": "text/csv" };
    const { status } = await ask(port, { method: "PUT", path: "/api/v1/sagas", body: "a,b", headers });
    expect(status).toBe(405);
  });

  it("is 404 where the path is unknown, whatever the method and the body", async () => {
    for (const method of ["GET", "POST", "DELETE", "TRACE"]) {
      const body = method === "POST" ? "{oops" : undefined;
      const { status, json } = await ask(port, { method, path: "/api/v1/saga", body });
      expect([method, status, json.error]).toEqual([method, 404, "not_found"]);
    }
  });
});

describe("a trailing slash", () => {
  it("is ignored", async () => {
    const see = async (request: WireRequest) => (await ask(port, request)).status;
    expect(await see({ path: "/api/v1/sagas/" })).toBe(200);
    expect(await see({ path: "/healthz/" })).toBe(200);
    expect(await see({ method: "POST", path: `${START}/`, body: '{"workflow_id":"w"}' })).toBe(202);
    expect(await see({ path: "/docs/" })).toBe(200);
    expect(await see({ path: `/api/v1/sagas/${ID}/stream/` })).toBe(426);
  });
});

describe("an upgrade", () => {
  it("that Java's HTTP client asks for changes nothing", async () => {
    const h2c = { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAEAAEAAAAIAAAAB" };
    const body = '{"workflow_id":"java"}';
    // One connection: what follows an ignored upgrade is read as the requests that it is.
    const answers = await askInTurn(port, [
      { method: "POST", path: START, body, headers: h2c },
      { path: "/api/v1/sagas", headers: h2c },
      { path: "/healthz" },
    ]);
    expect(answers.map(({ status }) => status)).toEqual([202, 200, 200]);
    expect(rig.started.at(-1)?.workflowId).toBe("java");
  });

  it("of a route that is no WebSocket is answered as if it had not been asked for", async () => {
    expect((await ask(port, { path: "/healthz", headers: WEBSOCKET })).status).toBe(200);
    expect((await ask(port, { path: "/api/v1/nothing", headers: WEBSOCKET })).status).toBe(404);
    const posted = await ask(port, { method: "POST", path: START, body: '{"workflow_id":"w"}', headers: WEBSOCKET });
    expect(posted.status).toBe(202);
    expect((await ask(port, { path: `/api/v1/sagas/${ID}/stream`, headers: { upgrade: "h2c" } })).status).toBe(426);
  });

  it("of a WebSocket's route is made, with a slash at its end too", async () => {
    const id = await insertRun(rig, { state: "succeeded", terminal_at: new Date().toISOString() });
    for (const path of [`/api/v1/sagas/${id}/stream`, `/api/v1/sagas/${id}/stream/?after_seq=0`]) {
      expect((await ask(port, { path, headers: WEBSOCKET })).status).toBe(101);
    }
  });

  it("that is no valid handshake is refused with the envelope", async () => {
    const id = await insertRun(rig);
    const path = `/api/v1/sagas/${id}/stream`;
    const versions = await ask(port, { path, headers: { ...WEBSOCKET, "sec-websocket-version": "7" } });
    expect([versions.status, versions.json.error]).toEqual([400, "bad_request"]);
    const keys = await ask(port, { path, headers: { ...WEBSOCKET, "sec-websocket-key": "x" } });
    expect([keys.status, keys.json.error]).toEqual([400, "bad_request"]);
  });

  it("that is refused says that its connection is closed: no request may follow over it", async () => {
    const answer = await ask(port, { path: `/api/v1/sagas/${ID}/stream`, headers: WEBSOCKET });
    expect([answer.status, answer.headers.connection]).toEqual([404, "close"]);
  });

  it("that a WebSocket's route is not asked for is 426", async () => {
    const { status, headers, json } = await ask(port, { path: `/api/v1/sagas/${ID}/stream` });
    expect([status, json.error, headers.upgrade]).toEqual([426, "upgrade_required", "websocket"]);
  });
});

describe("a body with a Content-Encoding", () => {
  it("is 415, and is not taken for one that is malformed", async () => {
    for (const encoding of ["gzip", "br", "x-unknown", "identity, gzip"]) {
      const headers = { "content-encoding": encoding };
      const { status, json } = await ask(port, { method: "POST", path: START, body: '{"workflow_id":"w"}', headers });
      expect([encoding, status, json.error]).toEqual([encoding, 415, "bad_request"]);
      expect(json.message).toContain("Content-Encoding");
    }
  });

  it("of identity, or on a request without a body, is fine", async () => {
    const headers = { "content-encoding": "identity" };
    const started = await ask(port, { method: "POST", path: START, body: '{"workflow_id":"w"}', headers });
    expect(started.status).toBe(202);
    expect((await ask(port, { path: "/api/v1/sagas", headers: { "content-encoding": "gzip" } })).status).toBe(200);
  });
});

const refusals: readonly [what: string, bytes: string, status: number][] = [
  ["bytes that are not HTTP", "HELLO\r\n\r\n", 400],
  ["headers that are too large", bytesOf({ path: "/", headers: { long: "x".repeat(70_000) } }), 431],
  ["no Host", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 400],
  ["a malformed URL", bytesOf({ path: "/api/v1/sagas/%zz" }), 400],
  ["an unknown expectation", bytesOf({ path: "/healthz", headers: { expect: "miracles" } }), 417],
  ["an unknown method", "BREW /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
  ["a path that is too long", bytesOf({ path: `/api/v1/sagas/${"a".repeat(600)}` }), 400],
  [
    "a body of text",
    bytesOf({
      method: "POST",
      path: START,
      body: "x",
      headers: { "content-type": "text/plain" },
    }),
    415,
  ],
];

describe("every refusal", () => {
  it.each(refusals)("of %s has the envelope", async (_what, bytes, status) => {
    const answer = await ask(port, bytes);
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual({
      error: expect.any(String),
      message: expect.any(String),
      request_id: expect.any(String),
      ...(answer.json.details && { details: expect.any(Array) }),
    });
  });

  it.each([
    ["a request line", { path: `/api/v1/sagas?q=${"x".repeat(70_000)}` }],
    ["a header", { path: "/api/v1/sagas", headers: { long: "x".repeat(70_000) } }],
    [
      "headers, all of them together,",
      {
        path: "/api/v1/sagas",
        headers: Object.fromEntries(Array.from({ length: 100 }, (_, nth) => [`h${nth}`, "x".repeat(700)])),
      },
    ],
  ])("of %s that is too large names both, line and headers, whose bound is one", async (_what, request) => {
    const { status, json } = await ask(port, request);
    expect([status, json.error, json.message]).toEqual([
      ...[431, "bad_request", "the request line and its headers are too large"],
    ]);
  });

  it("of a path names the path", async () => {
    const { json } = await ask(port, bytesOf({ path: `/api/v1/sagas/${"a".repeat(600)}` }));
    expect(json.message).toBe("a segment of the path is longer than 512 characters: ids have up to 128");
  });

  it("is at most 64 KiB, and says that it was cut", async () => {
    const steps = Array.from({ length: 900 }, (_, nth) => ({
      id: `s${nth}`,
      type: "x".repeat(1000),
      next: "y".repeat(1000),
    }));
    const body = JSON.stringify({ ...WORKFLOW, steps });
    const { status, text, json } = await ask(port, { method: "POST", path: "/api/v1/workflows", body });
    expect([status, json.error, json.details_truncated]).toEqual([400, "invalid_config", true]);
    expect(json.details.length).toBeGreaterThan(10);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(64 * 1024);
  });
});

describe("unknown members of a body", () => {
  it("are named in as much of a header as every client can read", async () => {
    const members = Object.fromEntries(Array.from({ length: 50 }, (_, nth) => [`${nth}${"\u{1F600}".repeat(90)}`, 1]));
    const body = JSON.stringify({ workflow_id: "w", later: 1, ...members });
    const { status, headers } = await ask(port, { method: "POST", path: START, body });
    expect(status).toBe(202);
    const named = headers["saga-ignored-fields"] ?? "";
    expect(named.split(", ")).toContain("0%F0%9F%98%80".concat("%F0%9F%98%80".repeat(89)));
    expect(named).toMatch(/, \.\.\.$/);
    expect(named.length).toBeLessThanOrEqual(4096);
  });

  it("are cut between characters", async () => {
    const body = JSON.stringify({ workflow_id: "w", [`x${"\u{1F600}".repeat(150)}`]: 1 });
    const { status, headers } = await ask(port, { method: "POST", path: START, body });
    expect([status, headers["saga-ignored-fields"]]).toEqual([202, `x${"%F0%9F%98%80".repeat(99)}`]);
  });
});

describe("an unknown query parameter", () => {
  it("is 400 and lists the known ones", async () => {
    const { status, json } = await ask(port, { path: "/api/v1/sagas?stat=running" });
    expect([status, json.error]).toEqual([400, "bad_request"]);
    expect(json.message).toMatch(/stat\b.*workflow_id.*cursor/s);
    expect(json.details).toEqual([{ path: "$.query.stat", message: expect.stringContaining("unknown") }]);
  });

  it("is refused on routes without any, too, and on commands", async () => {
    for (const [method, path] of [
      ["GET", "/healthz?deep=1"],
      ["GET", `/api/v1/sagas/${ID}?x=1`],
      ["POST", `${START}?dry=1`],
      ["POST", `/api/v1/sagas/${ID}/cancel?resaon=x`],
    ] as const) {
      const body = method === "POST" ? '{"workflow_id":"w"}' : undefined;
      expect([path, (await ask(port, { method, path, body })).status]).toEqual([path, 400]);
    }
  });
});

describe("every operation", () => {
  const WEBSOCKETS = ["/api/v1/sagas/{id}/stream", "/api/v1/sagas/{id}/inspect"];
  /** They take what an issuer adds, or pages of the service only: see auth.test.ts. */
  const OF_BROWSERS = ["/auth/callback", "/auth/session"];
  /** The least body that is valid, where that is not {}: a query is checked after the body. */
  const LEAST: Readonly<Record<string, object>> = {
    [START]: { workflow_id: "w" },
    "/api/v1/sagas/signal_with_start": { workflow_id: "w", business_key: "b", signal: { name: "s" } },
    "/api/v1/sagas/{run_id}/actions/{step_id}/result": { result: {} },
    "/api/v1/sagas/{id}/query": { expression: "vars" },
    "/api/v1/sagas/{id}/terminate": { reason: "r" },
    "/api/v1/sagas/{id}/migrate": { version: 2 },
    "/api/v1/sagas/{id}/fork": { step: "s" },
    "/api/v1/workflows/{wf_id}/migrations/check": { version: 2 },
    "/api/v1/bulk": { filter: {}, action: "pause" },
    "/api/v1/events": { topic: "t" },
    "/api/v1/triggers/{id}/backfill": { from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z" },
    "/api/v1/workflows/{wf_id}/test": { mocks: {} },
    "/api/v1/rules/{rule_id}/evaluate": { inputs: {} },
    "/api/v1/api_keys": { name: "n", roles: ["viewer"] },
    "/api/v1/registry/register": { service: "s", actions: [{ action_name: "a" }] },
  };
  const operations = documented().operations.map((name) => {
    const [method = "", path = ""] = name.split(" ");
    const place = path
      .replace("api_keys/{id}", `api_keys/${"a".repeat(16)}`)
      .replace(/\{(id|run_id|task_id|tenant_id)\}/g, ID)
      .replace("{version}", "1")
      .replace(/\{\w+\}/g, "x");
    return [name, { method, place, path }] as const;
  });

  it.each(operations)("%s keeps the conventions", async (_, { method, place, path }) => {
    const see = (request: Partial<WireRequest>) => ask(port, { method, path: place, ...request });
    const other = await see({ method: "PUT" });
    expect([other.status, other.headers.allow?.split(", ")]).toEqual([405, expect.arrayContaining([method])]);
    if (WEBSOCKETS.includes(path) || OF_BROWSERS.includes(path)) return;
    const body = method === "GET" || method === "DELETE" ? undefined : JSON.stringify(LEAST[path] ?? {});
    const unknown = await see({ path: `${place}?color=red`, body });
    expect([unknown.status, unknown.json.details]).toMatchObject([400, [{ path: "$.query.color" }]]);
    expect((await see({ path: `${place}/?color=red`, body })).json.details).toEqual(unknown.json.details);
    if (body === undefined) return;
    expect((await see({ body: '"a text"' })).status).toBe(path.endsWith("/validate") ? 200 : 400);
    expect((await see({ body: "{}", headers: { "content-encoding": "gzip" } })).status).toBe(415);
    expect((await see({ body: "{oops" })).json.error).toBe("bad_request");
  });
});

describe("every answer", () => {
  const PROTECTS: readonly [name: string, value: string][] = [
    ["x-content-type-options", "nosniff"],
    ["x-frame-options", "DENY"],
    ["content-security-policy", "frame-ancestors 'none'"],
    ["referrer-policy", "no-referrer"],
  ];

  it("says that it is what it says, is not to be framed, and is no referrer", async () => {
    const paths = ["/api/v1/sagas", "/api/v1/nothing", "/docs/"].map((path) => bytesOf({ path }));
    for (const bytes of [...paths, ...refusals.map(([, bytes]) => bytes)]) {
      const { headers } = await ask(port, bytes);
      // A page adds to the policy.
      for (const [name, value] of PROTECTS)
        expect([bytes.slice(0, 50), headers[name]]).toEqual([bytes.slice(0, 50), expect.stringContaining(value)]);
    }
  });
});
