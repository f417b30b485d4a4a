// Sessions of browsers over real sockets: an API key that is exchanged, a login at a real issuer, the rules of the cookie, and everything that is
// refused on the way.
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { Bearers } from "../../src/access/bearers.js";
import { CredentialGuard, RateLimit, type Verifier } from "../../src/access/index.js";
import { makeKey } from "../../src/access/key-text.js";
import { OidcLogin } from "../../src/access/oidc.js";
import { Sessions } from "../../src/access/sessions.js";
import type { OidcAddresses } from "../../src/config/index.js";
import { insertKey, revokeKey } from "../../src/store/lists/api-keys.js";
import { silentLog } from "../harness/database.js";
import { makeSigningKey } from "../harness/issuer.js";
import { CLIENT, OidcIssuer } from "../harness/oidc-issuer.js";
import { otherApi, useRig } from "./rig.js";
import { ask, type WireAnswer } from "./wire.js";

const TENANT = "0190a000-0000-7000-8000-0000000000f1";
const rig = useRig();
/** Never to be seen in a log line. */
const secrets: string[] = [];

let app: FastifyInstance;
let port: number;
let bearers: Bearers;
let sessions: Sessions;
let issuer: OidcIssuer;
let guard: CredentialGuard;

beforeAll(async () => {
  issuer = await OidcIssuer.open();
  const { sql } = rig.database;
  bearers = await Bearers.open({ apiKeys: true, sql, log: silentLog, now: Date.now });
  sessions = new Sessions({ sql, log: silentLog, now: Date.now });
  guard = new CredentialGuard();
  app = await otherApi(rig, {}, { ...doors(), login: login() });
  await app.listen({ port: 0, host: "127.0.0.1" });
  port = (app.server.address() as AddressInfo).port;
});
afterAll(async () => {
  await app?.close();
  await issuer?.close();
  await bearers?.stop();
  await sessions?.stop();
});
beforeEach(() => {
  issuer.claims = { roles: ["operator"], tenant_id: TENANT };
  issuer.metadata = {};
  issuer.signedWith = issuer.key;
  issuer.isAway = false;
});

function doors() {
  const { verify } = guard.before(sessions);
  const guarded: Verifier = guard.before(bearers);
  const open = (...asked: Parameters<Sessions["open"]>) => sessions.open(...asked);
  return { verifier: guarded, sessions: { verify, open, close: (id: string) => sessions.close(id) }, now: Date.now };
}

const REDIRECT = "http://127.0.0.1:8080/auth/callback";

function login(clientSecret: string = CLIENT.secret, addresses: OidcAddresses = {}): OidcLogin {
  const claims = {
    roles: "roles",
    tenantId: "tenant_id",
    tenants: "tenants",
    workflows: "workflows",
    services: "services",
    secrets: "secrets",
  };
  const settings = { issuer: issuer.name, clientId: CLIENT.id, clientSecret, claims, addresses };
  return new OidcLogin({ ...settings, redirectUri: () => REDIRECT, secret: "of all nodes", log: silentLog });
}

async function newKey(roles: readonly string[] = ["viewer"], tenantId: string | undefined = TENANT) {
  const { id, key, secretHash } = makeKey();
  await insertKey(rig.database.sql, {
    id,
    secretHash,
    name: "test",
    roles,
    createdBy: "cli",
    ...(tenantId && { tenantId }),
  });
  secrets.push(key);
  return { id, key };
}

const own = () => ({ origin: `http://localhost:${port}`, host: `localhost:${port}` });

interface Cookie {
  readonly value: string;
  readonly attributes: readonly string[];
}

/** What the answer sets, by name. */
function cookiesOf({ headers }: WireAnswer): Readonly<Record<string, Cookie>> {
  const lines = (headers["set-cookie"] ?? "").split("\n").filter(Boolean);
  return Object.fromEntries(
    lines.map((line) => {
      const [pair = "", ...attributes] = line.split("; ");
      const [name = "", value = ""] = pair.split("=");
      if (value !== "") secrets.push(value);
      return [name, { value, attributes: attributes.sort() }];
    }),
  );
}

const exchange = (key: string, headers: Record<string, string> = {}) =>
  ask(port, {
    method: "POST",
    path: "/auth/session",
    body: JSON.stringify({ api_key: key }),
    headers: { ...own(), ...headers },
  });

async function sessionOf(key: string): Promise<string> {
  const { saga } = cookiesOf(await exchange(key));
  if (!saga) throw new Error("no session was opened");
  return `saga=${saga.value}`;
}

const read = (cookie: string, path = "/auth/session") => ask(port, { path, headers: { cookie } });

describe("an API key", () => {
  it("is exchanged for a session that may do what the key may, and acts as it", async () => {
    const { id, key } = await newKey();
    const answer = await exchange(key);
    expect([answer.status, answer.headers["cache-control"]]).toEqual([200, "no-store"]);
    expect(answer.json).toMatchObject({ kind: "session", sub: id, roles: ["viewer"], tenant_id: TENANT });
    expect(answer.text).not.toContain(key);
    const { saga } = cookiesOf(answer);
    expect(saga?.attributes).toEqual(["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Strict"]);
    const cookie = `saga=${saga?.value}`;
    expect((await read(cookie)).json).toEqual(answer.json);
    expect((await read(cookie, "/api/v1/workflows")).status).toBe(200);
    expect((await read(cookie, "/api/v1/cluster")).status).toBe(403);
  });

  it("is exchanged for our own origin only", async () => {
    const { key } = await newKey();
    const without = await ask(port, { method: "POST", path: "/auth/session", body: JSON.stringify({ api_key: key }) });
    expect([without.status, without.headers["set-cookie"]]).toEqual([403, undefined]);
    expect((await exchange(key, { origin: "https://evil.example" })).status).toBe(403);
  });

  it("that is wrong is 401 like any refused credential, and counts as one", async () => {
    const before = await exchange("saga_wrong_wrong");
    expect([before.status, before.headers["www-authenticate"], before.json.message]).toEqual([
      ...[401, "Bearer", "a valid credential is needed"],
    ]);
    const one = new CredentialGuard();
    const other = await otherApi(rig, {}, { ...doors(), verifier: one.before(bearers) });
    const payload = (nth: number) => ({ api_key: `saga_wrong${nth}_wrong` });
    const headers = { origin: "http://localhost", host: "localhost" };
    const guess = (nth: number) =>
      other.inject({ method: "POST", url: "/auth/session", headers, payload: payload(nth) });
    for (let nth = 0; nth < 20; nth++) expect((await guess(nth)).statusCode).toBe(401);
    expect((await guess(20)).statusCode).toBe(429);
    await other.close();
  });

  it("opens no more sessions than it may ask", async () => {
    const { key } = await newKey();
    const rate = new RateLimit({ perSecond: 1, burst: 2 }, () => 0);
    const other = await otherApi(rig, {}, { ...doors(), rate });
    const headers = { origin: "http://localhost", host: "localhost" };
    const open = () => other.inject({ method: "POST", url: "/auth/session", headers, payload: { api_key: key } });
    const answers = [await open(), await open(), await open()];
    for (const { cookies } of answers) secrets.push(...cookies.map(({ value }) => value));
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 429]);
    expect([answers[2]?.headers["retry-after"], answers[2]?.cookies]).toEqual(["1", []]);
    await other.close();
  });

  it("with neither a tenant nor the platform's role opens no session", async () => {
    const { key } = await newKey(["viewer"], "");
    expect((await exchange(key)).status).toBe(403);
  });

  it("that is revoked ends its session, with its streams", async () => {
    const { id, key } = await newKey();
    const cookie = await sessionOf(key);
    await revokeKey(rig.database.sql, id, { tenants: "*" });
    await sessions.refresh();
    expect((await read(cookie)).status).toBe(401);
  });
});

describe("a session", () => {
  it("is another one after each login, and the one before is closed", async () => {
    const { key } = await newKey();
    const cookie = await sessionOf(key);
    const { saga } = cookiesOf(await exchange(key, { cookie }));
    expect(`saga=${saga?.value}`).not.toBe(cookie);
    expect([(await read(cookie)).status, (await read(`saga=${saga?.value}`)).status]).toEqual([401, 200]);
  });

  it("is closed by a logout of our own page, and by no other", async () => {
    const cookie = await sessionOf((await newKey()).key);
    const logout = (headers: Record<string, string>) =>
      ask(port, { method: "POST", path: "/auth/logout", headers: { cookie, "content-length": "0", ...headers } });
    expect((await logout({})).status).toBe(401);
    expect((await logout({ "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect((await read(cookie)).status).toBe(200);
    const answer = await logout(own());
    expect([answer.status, answer.headers["cache-control"]]).toEqual([204, "no-store"]);
    expect(cookiesOf(answer).saga).toMatchObject({ value: "" });
    expect((await read(cookie)).status).toBe(401);
  });

  it("is closed by a logout of our own page that has a bearer beside it, too, and by no other", async () => {
    const { key } = await newKey();
    const cookie = await sessionOf(key);
    const headers = { cookie, authorization: `Bearer ${key}`, "content-length": "0" };
    const logout = (more: Record<string, string>) =>
      ask(port, { method: "POST", path: "/auth/logout", headers: { ...headers, ...more } });
    expect([(await logout({})).status, (await read(cookie)).status]).toEqual([204, 200]);
    const answer = await logout(own());
    expect([answer.status, cookiesOf(answer).saga?.value, (await read(cookie)).status]).toEqual([204, "", 401]);
  });

  it("is refused nothing by a bearer beside it: the bearer decides", async () => {
    const cookie = await sessionOf((await newKey()).key);
    const wrong = await ask(port, { path: "/auth/session", headers: { cookie, authorization: "Bearer saga_x_y" } });
    expect(wrong.status).toBe(401);
  });

  it("has a cookie that needs TLS, where the service is reached by another machine", async () => {
    const other = await otherApi(rig, { publicUrl: "https://saga.example" }, doors());
    const { key } = await newKey();
    const headers = { origin: "https://saga.example", host: "saga.example" };
    const { cookies, statusCode } = await other.inject({
      method: "POST",
      url: "/auth/session",
      headers,
      payload: { api_key: key },
    });
    expect(statusCode).toBe(200);
    expect(cookies).toEqual([
      expect.objectContaining({ name: "__Host-saga", path: "/", secure: true, httpOnly: true, sameSite: "Strict" }),
    ]);
    expect(cookies[0]).not.toHaveProperty("domain");
    secrets.push(String(cookies[0]?.value));
    await other.close();
  });
});

const ROUTES = [
  ["POST", "/auth/session"],
  ["GET", "/auth/session"],
  ["POST", "/auth/logout"],
  ["GET", "/auth/login"],
  ["GET", "/auth/callback"],
] as const;

describe("every route of sessions", () => {
  it("refuses an idempotency key, which would keep its answer", async () => {
    const cookie = await sessionOf((await newKey()).key);
    for (const [method, path] of ROUTES) {
      const headers = { ...own(), cookie, "content-length": "0", "idempotency-key": "k" };
      expect([path, (await ask(port, { method, path, headers })).status]).toEqual([path, 400]);
    }
  });

  it.each(ROUTES)("may be kept by no cache, whatever refuses it: %s %s", async (method, path) => {
    const refused: readonly Record<string, string>[] = [
      {},
      { "sec-fetch-site": "cross-site" },
      { host: "evil.example" },
    ];
    for (const headers of refused) {
      const answer = await ask(port, { method, path, headers: { ...headers, "content-length": "0" } });
      expect([answer.status, answer.headers["cache-control"]]).toEqual([expect.any(Number), "no-store"]);
    }
  });

  it("never lets another site read with credentials", async () => {
    const other = await otherApi(rig, { allowedOrigins: ["https://app.example"] }, doors());
    for (const method of ["GET", "OPTIONS"] as const) {
      const headers = { origin: "https://app.example", "access-control-request-method": "GET" };
      const answer = await other.inject({ method, url: "/auth/session", headers });
      // A preflight has no credential, and needs none.
      expect([method, answer.statusCode]).toEqual([method, method === "GET" ? 401 : 204]);
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined();
    }
    await other.close();
  });
});

describe("without access control", () => {
  it("anyone may do everything, and no session is needed", async () => {
    const answer = await rig.call("GET", "/auth/session");
    expect([answer.status, answer.body.kind]).toEqual([200, "anyone"]);
    const headers = { origin: "http://localhost", host: "localhost" };
    expect((await rig.call("POST", "/auth/session", { api_key: "saga_a_b" }, headers)).status).toBe(501);
    expect((await rig.call("GET", "/auth/login")).status).toBe(501);
  });
});

interface Arrived {
  readonly query: string;
  readonly cookie: string;
}

/** As a browser does it: to the issuer, and back with the cookie. */
async function loginAt(next?: string): Promise<Arrived> {
  const path = `/auth/login${next === undefined ? "" : `?next=${encodeURIComponent(next)}`}`;
  const begun = await ask(port, {
    path,
    headers: { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
  });
  expect([begun.status, begun.headers["cache-control"]]).toEqual([302, "no-store"]);
  const kept = cookiesOf(begun)["saga-login"];
  expect(kept?.attributes).toEqual(["HttpOnly", "Max-Age=600", "Path=/", "SameSite=Lax"]);
  const at = await fetch(begun.headers.location ?? "", { redirect: "manual" });
  const back = at.headers.get("location") ?? "";
  expect(back.startsWith(`${REDIRECT}?`)).toBe(true);
  return { query: new URL(back).search, cookie: `saga-login=${kept?.value}` };
}

const callback = ({ query, cookie }: Arrived) => ask(port, { path: `/auth/callback${query}`, headers: { cookie } });

describe("a login at the issuer", () => {
  it("opens a session with the rights of the ID token, by a page that goes on by itself", async () => {
    issuer.claims = { ...issuer.claims, workflows: ["billing.*"], secrets: ["stripe"] };
    const answer = await callback(await loginAt("/console/runs?state=failed&x=1"));
    expect([answer.status, answer.headers["content-type"], answer.headers["cache-control"]]).toEqual([
      ...[200, "text/html; charset=utf-8", "no-store"],
    ]);
    expect(answer.text).toContain('http-equiv="refresh" content="0;url=/console/runs?state=failed&#38;x=1"');
    expect(answer.headers.location).toBeUndefined();
    const { saga, "saga-login": login } = cookiesOf(answer);
    expect(login?.value).toBe("");
    expect((await read(`saga=${saga?.value}`)).json).toMatchObject({
      ...{
        kind: "session",
        sub: "ann",
        roles: ["operator"],
        tenant_id: TENANT,
        workflows: ["billing.*"],
        secrets: ["stripe"],
      },
    });
  });

  it("goes on to the console, if it is not said where", async () => {
    expect((await callback(await loginAt())).text).toContain("0;url=/console");
  });

  it("goes on to paths of this service only", async () => {
    for (const next of [
      "https://evil.example",
      "//evil.example",
      "/\\evil.example",
      "/.//evil.example",
      "console",
      "javascript:alert(1)",
      "/\t/evil.example",
    ]) {
      const answer = await ask(port, { path: `/auth/login?next=${encodeURIComponent(next)}` });
      expect([next, answer.status]).toEqual([next, 400]);
    }
  });

  it("is good once, and in the browser that began it", async () => {
    const arrived = await loginAt();
    expect((await callback({ ...arrived, cookie: "other=1" })).status).toBe(401);
    expect((await callback({ ...arrived, cookie: (await loginAt()).cookie })).status).toBe(401);
    expect((await callback({ ...arrived, cookie: `${arrived.cookie.slice(0, -4)}AAAA` })).status).toBe(401);
    expect((await callback(arrived)).status).toBe(200);
    expect((await callback(arrived)).status).toBe(401);
  });

  it("asks the issuer once, however often its callback comes, and not at all for an address that failed too often", async () => {
    let now = 0;
    const one = new CredentialGuard(() => now);
    const other = await otherApi(rig, {}, { ...doors(), login: one.beforeLogin(login()) });
    const begin = async () => {
      const { headers, cookies } = await other.inject({ url: "/auth/login", headers: { host: "localhost" } });
      const state = new URL(String(headers.location)).searchParams.get("state");
      return { state, cookie: `saga-login=${cookies[0]?.value}` };
    };
    const guess = async ({ state, cookie }: Awaited<ReturnType<typeof begin>>, code: string) =>
      (
        await other.inject({
          url: `/auth/callback?code=${code}&state=${state}`,
          headers: { host: "localhost", cookie },
        })
      ).statusCode;
    const [before, begun] = [issuer.asked, await begin()];
    const statuses: number[] = [];
    for (let nth = 0; nth < 40; nth++) statuses.push(await guess(begun, `guess-${nth}`));
    expect(statuses).toEqual([...Array(20).fill(401), ...Array(20).fill(429)]);
    expect(issuer.asked - before).toBe(1);
    const logins = await Promise.all(Array.from({ length: 25 }, begin));
    for (const [nth, one] of logins.entries()) expect(await guess(one, `more-${nth}`)).toBe(429);
    expect(issuer.asked - before).toBe(1);
    now += 60_000;
    expect(await guess(logins[0] as (typeof logins)[0], "later")).toBe(401);
    expect(issuer.asked - before).toBe(2);
    await other.close();
  });

  it("is counted against its address only if a login of that browser began: any page can link to the callback", async () => {
    const one = new CredentialGuard(() => 0);
    const other = await otherApi(rig, {}, { ...doors(), login: one.beforeLogin(login()) });
    const come = async (nth: number, cookie?: string) =>
      (
        await other.inject({
          url: `/auth/callback?state=${nth}`,
          headers: { host: "localhost", ...(cookie && { cookie }) },
        })
      ).statusCode;
    for (let nth = 0; nth < 25; nth++) expect(await come(nth)).toBe(401);
    for (let nth = 0; nth < 20; nth++) expect(await come(nth, "saga-login=guess")).toBe(401);
    expect(await come(20, "saga-login=guess")).toBe(429);
    await other.close();
  });

  it("may come back to another node", async () => {
    const other = await otherApi(rig, {}, { ...doors(), login: login() });
    const { query, cookie } = await loginAt();
    const answer = await other.inject({ url: `/auth/callback${query}`, headers: { cookie } });
    expect(answer.statusCode).toBe(200);
    await other.close();
  });

  it.each([
    [
      "was signed by another key",
      () => makeSigningKey("first").then((key) => void Object.assign(issuer, { signedWith: key })),
    ],
    ["is for another client", () => void Object.assign(issuer, { claims: { ...issuer.claims, aud: "other" } })],
    ["has another nonce", () => void Object.assign(issuer, { claims: { ...issuer.claims, nonce: "other" } })],
    [
      "is of another issuer",
      () => void Object.assign(issuer, { claims: { ...issuer.claims, iss: "https://other.example" } }),
    ],
    [
      "has expired",
      () => void Object.assign(issuer, { claims: { ...issuer.claims, exp: Math.floor(Date.now() / 1000) - 60 } }),
    ],
    [
      "is issued in the future",
      () => void Object.assign(issuer, { claims: { ...issuer.claims, iat: Math.floor(Date.now() / 1000) + 120 } }),
    ],
    [
      "has rights that cannot be read",
      () => void Object.assign(issuer, { claims: { ...issuer.claims, workflows: "all" } }),
    ],
    [
      "is of a tenant that is none",
      () => void Object.assign(issuer, { claims: { ...issuer.claims, tenant_id: "acme" } }),
    ],
  ])("is refused where the ID token %s", async (_what, change) => {
    await change();
    const answer = await callback(await loginAt());
    expect([answer.status, answer.json.error]).toEqual([401, "unauthorized"]);
    expect(cookiesOf(answer).saga).toBeUndefined();
  });

  it("is refused where the issuer refuses it", async () => {
    const { cookie } = await loginAt();
    expect((await callback({ cookie, query: "?error=access_denied" })).status).toBe(401);
  });

  it("of someone without a tenant is 403", async () => {
    issuer.claims = { roles: ["admin"] };
    expect((await callback(await loginAt())).status).toBe(403);
  });

  it("is 503 while the issuer is away, and works once it is back", async () => {
    const arrived = await loginAt();
    issuer.isAway = true;
    const answer = await callback(arrived);
    expect([answer.status, answer.headers["retry-after"]]).toEqual([503, "1"]);
    const unknown = await otherApi(rig, {}, { ...doors(), login: login() });
    expect((await unknown.inject("/auth/login")).statusCode).toBe(503);
    issuer.isAway = false;
    expect((await unknown.inject("/auth/login")).statusCode).toBe(302);
    await unknown.close();
  });

  it("is 503 where the issuer refuses this service, and is no fault of the person", async () => {
    const other = await otherApi(rig, {}, { ...doors(), login: login("another secret") });
    const { query, cookie } = await loginAt();
    expect((await other.inject({ url: `/auth/callback${query}`, headers: { cookie } })).statusCode).toBe(503);
    await other.close();
  });

  it("is good for ten minutes", async () => {
    const [late, soon] = [await loginAt(), await loginAt()];
    const began = Date.now();
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const at = async (seconds: number, arrived: Arrived) => {
      vi.setSystemTime(began + seconds * 1_000);
      return (await callback(arrived)).status;
    };
    expect([await at(590, soon), await at(610, late)]).toEqual([200, 401]);
  });

  it.each([
    ["that is redirected", { moved: true }],
    ["of over 256 KiB", { metadata: { padding: "x".repeat(300 * 1_024) } }],
  ])("takes no answer of the issuer %s", async (_what, answers) => {
    Object.assign(issuer, answers);
    onTestFinished(() => void Object.assign(issuer, { moved: false }));
    const other = await otherApi(rig, {}, { ...doors(), login: login() });
    expect((await other.inject("/auth/login")).statusCode).toBe(503);
    await other.close();
  });

  it("takes them on another origin where they are set by hand, whatever the discovery names", async () => {
    const elsewhere = issuer.name.replace("127.0.0.1", "localhost");
    const addresses = {
      ...{ authorization_endpoint: `${elsewhere}/authorize`, token_endpoint: `${elsewhere}/token` },
      jwks_uri: `${elsewhere}/keys`,
    };
    issuer.metadata = { ...addresses, token_endpoint: "http://127.0.0.1:1/" };
    const began = await login(CLIENT.secret, addresses).begin("/console");
    expect(began.url.startsWith(`${elsewhere}/authorize?`)).toBe(true);
    const { headers } = await fetch(began.url, { redirect: "manual" });
    const { search } = new URL(headers.get("location") ?? "");
    await expect(login(CLIENT.secret, addresses).finish(search, began.kept)).resolves.toMatchObject({
      next: "/console",
    });
  });

  it.each(["authorization_endpoint", "token_endpoint", "jwks_uri"])("takes no %s on another origin", async (name) => {
    issuer.metadata = { [name]: "http://127.0.0.1:1/" };
    const other = await otherApi(rig, {}, { ...doors(), login: login() });
    expect((await other.inject("/auth/login")).statusCode).toBe(503);
    await other.close();
  });
});

describe("the log", () => {
  it("has no key, no session and no login", () => {
    expect(secrets.length).toBeGreaterThan(10);
    const said = rig.logLines.join("\n");
    for (const what of ["session opened", "session closed"]) expect(said).toContain(`"msg":"${what}"`);
    expect(secrets.filter((secret) => said.includes(secret))).toEqual([]);
    expect(said).toContain("login: it began too long ago, or elsewhere");
  });
});
