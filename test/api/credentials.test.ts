// Where a request says who asks, over real sockets: the header, and for WebSockets a subprotocol and the query; the cookie of a session from our
// own pages only. A WebSocket ends with its credential, and no credential is in the log.
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import WebSocket, { type ClientOptions } from "ws";
import {
  type BrowserSessions,
  CredentialGuard,
  type DigestVerifier,
  type Principal,
  RateLimit,
  Unauthenticated,
} from "../../src/access/index.js";
import { until } from "../harness/until.js";
import { principalOf } from "../harness/verifier.js";
import { insertRun, NOW, otherApi, useRig } from "./rig.js";
import { ask } from "./wire.js";

const TENANT = "0190a000-0000-7000-8000-0000000000f1";
const rig = useRig();
const clock = { now: NOW };
const ending = new AbortController();
/** Never to be seen in a log line. */
const CANARY = "canary-4c1e";
const SESSION = `${CANARY}-session`;

const viewer = principalOf("ann", { roles: ["viewer"], tenantId: TENANT });
const PRINCIPALS: Readonly<Record<string, Principal>> = {
  [`${CANARY}-token`]: viewer,
  [`${CANARY}-short`]: { ...viewer, expiresAt: NOW + 40 },
  [`${CANARY}-closed`]: { ...viewer, ended: ending.signal },
  [`${CANARY}-spent`]: principalOf("spent", { roles: ["viewer"], tenantId: TENANT }),
};
const known = (principals: Readonly<Record<string, Principal>>): DigestVerifier => ({
  verify: (text) => {
    const principal = principals[text];
    if (!principal) throw new Unauthenticated("unknown to this test");
    return principal;
  },
});
const guard = new CredentialGuard(() => 0);
const sessions: BrowserSessions = {
  ...guard.before(known({ [SESSION]: viewer })),
  open: () => Promise.reject(new Error("no session is opened here")),
  close: async () => {},
};
const rate = new RateLimit({ perSecond: 1, burst: 1 }, () => 0);

let app: FastifyInstance;
let port: number;
let stream: string;
let inspect: string;
beforeAll(async () => {
  app = await otherApi(
    rig,
    {},
    {
      ...{ verifier: guard.before(known(PRINCIPALS)), sessions, rate },
      now: () => clock.now,
    },
  );
  await app.listen({ port: 0, host: "127.0.0.1" });
  port = (app.server.address() as AddressInfo).port;
  const runId = await insertRun(rig, { tenant_id: TENANT });
  stream = `/api/v1/sagas/${runId}/stream`;
  inspect = `/api/v1/sagas/${runId}/inspect`;
});
afterAll(() => app?.close());

const open: WebSocket[] = [];
afterEach(() => {
  for (const socket of open.splice(0)) socket.terminate();
});

interface Handshake {
  readonly socket: WebSocket;
  /** 101 where it is open. */
  readonly status: number;
  readonly protocol: string;
}

function shake(path: string, protocols: string[] = [], headers: ClientOptions["headers"] = {}): Promise<Handshake> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { headers });
  open.push(socket);
  return new Promise((resolve, reject) => {
    socket.once("open", () => resolve({ socket, status: 101, protocol: socket.protocol }));
    socket.once("unexpected-response", (_request, { statusCode = 0 }) =>
      resolve({ socket, status: statusCode, protocol: "" }),
    );
    socket.once("error", reject);
  });
}

const TOKEN = `${CANARY}-token`;
const OWN = () => ({ origin: `http://127.0.0.1:${port}`, cookie: `other=1; saga=${SESSION}` });

describe("a WebSocket", () => {
  it.each(["stream", "inspect"])("takes a token in the header, a subprotocol or the query: %s", async (name) => {
    const path = name === "stream" ? stream : inspect;
    const authorization = `Bearer ${TOKEN}`;
    expect((await shake(path, [], { authorization })).status).toBe(101);
    expect((await shake(`${path}?access_token=${TOKEN}`)).status).toBe(101);
    const { status, protocol } = await shake(path, ["saga.v1", `bearer.${TOKEN}`]);
    expect([status, protocol]).toEqual([101, "saga.v1"]);
  });

  it("is answered with the subprotocol saga.v1 wherever that stands, and never with a token", async () => {
    expect((await shake(stream, [`bearer.${TOKEN}`, "saga.v1"])).protocol).toBe("saga.v1");
    // A client that did not name it gives up: nothing else is answered.
    await expect(shake(stream, [`bearer.${TOKEN}`])).rejects.toThrow("Server sent no subprotocol");
  });

  it("without a credential, or with a wrong one, is 401", async () => {
    for (const handshake of [
      shake(stream),
      shake(stream, ["saga.v1"]),
      shake(stream, ["saga.v1", "bearer."]),
      shake(stream, ["saga.v1", `bearer.${CANARY}-wrong`]),
      shake(`${stream}?access_token=${CANARY}-wrong`),
      shake(stream, [], { authorization: `Bearer ${CANARY}-wrong` }),
    ])
      expect((await handshake).status).toBe(401);
  });

  it("with two credentials is 400", async () => {
    const authorization = `Bearer ${TOKEN}`;
    for (const handshake of [
      shake(`${stream}?access_token=${TOKEN}`, [], { authorization }),
      shake(`${stream}?access_token=${TOKEN}`, ["saga.v1", `bearer.${TOKEN}`]),
      shake(stream, ["saga.v1", `bearer.${TOKEN}`], { authorization }),
      shake(stream, ["saga.v1", `bearer.${TOKEN}`, `bearer.${CANARY}-2`]),
      shake(`${stream}?access_token=${TOKEN}&access_token=${TOKEN}`),
    ])
      expect((await handshake).status).toBe(400);
  });

  it("takes the cookie of a session with our own origin only", async () => {
    expect((await shake(stream, [], OWN())).status).toBe(101);
    expect((await shake(stream, [], { cookie: OWN().cookie })).status).toBe(401);
    // Sec-Fetch-Site is enough for a request of our pages, and not for a WebSocket.
    expect((await shake(stream, [], { cookie: OWN().cookie, "sec-fetch-site": "same-origin" })).status).toBe(401);
    expect((await shake(stream, [], { ...OWN(), origin: "https://evil.example" })).status).toBe(403);
  });

  it("is no request for the limit of its credential", async () => {
    const authorization = `Bearer ${CANARY}-spent`;
    const read = () => ask(port, { path: "/api/v1/sagas", headers: { authorization } });
    expect([(await read()).status, (await read()).status]).toEqual([200, 429]);
    expect((await shake(stream, [], { authorization })).status).toBe(101);
  });

  it("is closed with 1008 when its credential expires", async () => {
    const { socket, status } = await shake(`${stream}?access_token=${CANARY}-short`);
    expect(status).toBe(101);
    let code: number | undefined;
    socket.once("close", (closed) => {
      code = closed;
    });
    clock.now += 40;
    expect(await until(() => code, { what: "the close" })).toBe(1008);
  });

  it("is closed with 1008 when its credential is ended, and opened with it no more", async () => {
    const authorization = `Bearer ${CANARY}-closed`;
    const codes: number[] = [];
    for (const path of [stream, inspect]) {
      const { socket } = await shake(path, [], { authorization });
      socket.once("close", (code) => void codes.push(code));
    }
    ending.abort();
    await until(() => codes.length === 2, { what: "both closes" });
    expect(codes).toEqual([1008, 1008]);
  });
});

describe("another route", () => {
  it("takes no token in its query", async () => {
    for (const path of [`/api/v1/sagas?access_token=${TOKEN}`, `${stream}?access_token=${TOKEN}`])
      expect((await ask(port, { path })).status).toBe(401);
  });

  it("takes the cookie of a session from our own pages, and of reads without an origin", async () => {
    const { cookie, origin } = OWN();
    const status = async (method: string, headers: Record<string, string>) =>
      (
        await ask(port, {
          method,
          path: method === "GET" ? "/api/v1/workflows" : "/api/v1/nothing",
          headers: { cookie, ...headers },
        })
      ).status;
    expect(await status("GET", {})).toBe(200);
    expect(await status("POST", {})).toBe(401);
    expect(await status("POST", { origin, host: `127.0.0.1:${port}` })).toBe(404);
    expect(await status("POST", { "sec-fetch-site": "same-origin" })).toBe(404);
    expect(await status("POST", { "sec-fetch-site": "none" })).toBe(401);
  });
});

describe("the security log", () => {
  const lines = () => rig.logLines.map((line) => JSON.parse(line)).filter(({ audit }) => audit === true);

  it("names who was refused what and from where, and why", async () => {
    const sent = { path: "/api/v1/sagas/start", method: "POST", headers: { authorization: `Bearer ${TOKEN}` } };
    const { json } = await ask(port, sent);
    expect(lines().find(({ request_id: id }) => id === json.request_id)).toMatchObject({
      ...{ level: "warn", status: 403, reason: "the role operator may do this", credential: "user:ann" },
      ...{ address: "127.0.0.1", route: "POST /api/v1/sagas/start" },
    });
    const refused = await ask(port, { ...sent, headers: { authorization: "Basic eDp5" } });
    expect(refused.json.message).not.toContain("bearer");
    expect(lines().find(({ request_id: id }) => id === refused.json.request_id)).toMatchObject({
      ...{ status: 401, reason: "the header Authorization is no bearer", route: "POST /api/v1/sagas/start" },
    });
  });

  it("has no token, nor has any other line", () => {
    expect(lines().length).toBeGreaterThan(10);
    expect(rig.logLines.filter((line) => line.includes(CANARY))).toEqual([]);
  });
});
