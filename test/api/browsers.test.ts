// What a web page must not get: requests that another site makes through a browser, and those of a page that has made its name
// resolve to this machine. Programs that are no browsers notice nothing.
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import type { ApiConfig } from "../../src/api/index.js";
import { insertRun, otherApi, useRig } from "./rig.js";
import { ask, type WireRequest } from "./wire.js";

const rig = useRig();
const PUBLISH: WireRequest = { method: "POST", path: "/api/v1/events", body: '{"topic":"t"}' };

const open: FastifyInstance[] = [];
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

async function listening(access: Partial<ApiConfig["access"]>): Promise<number> {
  const app: FastifyInstance = await otherApi(rig, access);
  open.push(app);
  await app.listen({ port: 0, host: "127.0.0.1" });
  return (app.server.address() as AddressInfo).port;
}

const status = async (port: number, headers: Record<string, string>, request: WireRequest = PUBLISH) =>
  (await ask(port, { ...request, headers: { ...request.headers, ...headers } })).status;

describe("a service that listens on loopback", () => {
  it("answers to loopback names, its public URL and the names that are allowed, with any port", async () => {
    const port = await listening({
      publicUrl: "https://saga.example/base",
      allowedHosts: ["orders.internal", "10.1.0.0/16"],
    });
    for (const host of [
      "localhost",
      "LOCALHOST:1",
      "saga.localhost",
      "127.0.0.1:8080",
      "127.9.9.9",
      "[::1]:80",
      "[::1]",
    ])
      expect([host, await status(port, { host })]).toEqual([host, 202]);
    for (const host of ["saga.example", "saga.example:8443", "saga.example.", "orders.internal:80", "10.1.2.3"])
      expect([host, await status(port, { host })]).toEqual([host, 202]);
  });

  it("refuses a foreign Host with 421 before anything is read, on every route", async () => {
    const port = await listening({});
    for (const host of [
      "evil.example",
      "localhost.evil.example",
      "128.0.0.1",
      "[::2]",
      "local host",
      "localhost@evil.example",
      "a:b:c",
    ]) {
      const { status, json } = await ask(port, { ...PUBLISH, body: "{oops", headers: { host } });
      expect([host, status, json.error]).toEqual([host, 421, "misdirected"]);
    }
    for (const path of ["/healthz", "/metrics", "/docs/", "/openapi.json", "/nothing"])
      expect([path, await status(port, { host: "evil.example" }, { path })]).toEqual([path, 421]);
  });

  it("refuses a request without a Host, but not one of HTTP/1.0", async () => {
    const port = await listening({});
    const missing = await ask(port, "GET /healthz HTTP/1.1\r\n\r\n");
    expect([missing.status, missing.json.error]).toEqual([400, "bad_request"]);
    expect((await ask(port, "GET /healthz HTTP/1.0\r\n\r\n")).status).toBe(200);
  });
});

describe("a service that listens wider", () => {
  it("answers to any name: a container is called by that of its service", async () => {
    const port = await listening({ host: "0.0.0.0" });
    for (const host of ["saga", "saga:8080", "saga.default.svc.cluster.local", "10.42.0.7:8080"])
      expect([host, await status(port, { host })]).toEqual([host, 202]);
  });

  it("answers to the allowed names only, once some are", async () => {
    const port = await listening({ host: "0.0.0.0", allowedHosts: ["saga", "10.42.0.0/16"] });
    for (const host of ["saga:8080", "10.42.0.7:8080", "localhost:8080"])
      expect([host, await status(port, { host })]).toEqual([host, 202]);
    for (const host of ["evil.example", "10.43.0.7"]) expect([host, await status(port, { host })]).toEqual([host, 421]);
  });
});

describe("what a browser says comes from another site", () => {
  it("is 403, reads and malformed bodies included", async () => {
    const port = await listening({});
    const others: readonly Record<string, string>[] = [
      { origin: "https://evil.example" },
      { origin: "http://localhost:3000", host: "localhost:8080" },
      { origin: "https://localhost.evil.example" },
      { origin: "null" },
      { origin: "garbage" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
    ];
    for (const headers of others) {
      const { status, json } = await ask(port, { ...PUBLISH, body: "{oops", headers });
      expect([headers, status, json.error]).toEqual([headers, 403, "forbidden"]);
      expect((await ask(port, { path: "/api/v1/sagas", headers })).status).toBe(403);
    }
  });

  it("is refused before a WebSocket's upgrade", async () => {
    const port = await listening({ allowedOrigins: ["https://console.example"] });
    const id = await insertRun(rig);
    const stream = (origin: string) => status(port, { ...HANDSHAKE, origin }, { path: `/api/v1/sagas/${id}/stream` });
    // Many of them: a refused upgrade leaves no connection behind, or the API would not close.
    for (let nth = 0; nth < 5; nth++) expect(await stream("https://evil.example")).toBe(403);
    expect(await stream("https://console.example")).toBe(101);
    expect(await stream("http://localhost")).toBe(101);
  });

  it("passes where it is the service's own page, under each of its names", async () => {
    const port = await listening({ publicUrl: "https://saga.example" });
    const own: readonly Record<string, string>[] = [
      { origin: "http://localhost:8080", host: "localhost:8080", "sec-fetch-site": "same-origin" },
      { origin: "http://localhost", host: "localhost:80" },
      // A proxy in front of it may end TLS, and may send its own Host.
      { origin: "https://saga.example", host: "saga.example" },
      { origin: "https://saga.example", host: "127.0.0.1:8080", "sec-fetch-site": "same-origin" },
    ];
    for (const headers of own) expect([headers, await status(port, headers)]).toEqual([headers, 202]);
  });

  it("passes where it is a link to a page, or an address that was typed", async () => {
    const port = await listening({});
    const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    expect(await status(port, link, { path: "/docs/" })).toBe(200);
    expect(await status(port, { ...link, "sec-fetch-dest": "iframe" }, { path: "/docs/" })).toBe(403);
    for (const path of ["/api/v1/sagas", "/%61pi/v1/sagas"])
      expect([path, await status(port, link, { path })]).toEqual([path, 403]);
    expect(await status(port, { "sec-fetch-site": "none" }, { path: "/api/v1/sagas" })).toBe(200);
  });

  it("passes where it says nothing: other programs are no browsers", async () => {
    const port = await listening({});
    expect(await status(port, {})).toBe(202);
  });
});

describe("an origin that is allowed", () => {
  const origin = "https://console.example";

  it("gets its answers with CORS headers, errors included", async () => {
    const port = await listening({ allowedOrigins: [origin] });
    const headers = { origin, "sec-fetch-site": "cross-site" };
    const published = await ask(port, { ...PUBLISH, headers });
    expect(published.status).toBe(202);
    const missing = await ask(port, { path: "/api/v1/nothing", headers });
    expect(missing.status).toBe(404);
    for (const { headers } of [published, missing]) {
      expect(headers["access-control-allow-origin"]).toBe(origin);
      expect(headers.vary).toBe("Origin");
      expect(headers["access-control-expose-headers"]).toContain("Location");
    }
  });

  it("gets an answer to its preflight, and others do not", async () => {
    const port = await listening({ allowedOrigins: [origin] });
    const preflight = (origin: string) =>
      ask(port, {
        method: "OPTIONS",
        path: "/api/v1/events",
        headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" },
      });
    const allowed = await preflight(origin);
    expect([allowed.status, allowed.headers["access-control-allow-origin"]]).toEqual([204, origin]);
    expect(allowed.headers["access-control-allow-methods"]).toContain("POST");
    expect(allowed.headers["access-control-allow-headers"]).toMatch(/content-type.*idempotency-key/i);
    const refused = await preflight("https://evil.example");
    expect([refused.status, refused.headers["access-control-allow-origin"]]).toEqual([403, undefined]);
  });

  it("does not make other hosts or other origins allowed", async () => {
    const port = await listening({ allowedOrigins: [origin] });
    expect(await status(port, { origin, host: "evil.example" })).toBe(421);
    for (const other of [
      "http://console.example",
      "https://console.example:8443",
      "https://console.example.evil.example",
    ])
      expect([other, await status(port, { origin: other })]).toEqual([other, 403]);
  });
});

const HANDSHAKE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};
