// API keys over HTTP, with real keys as credentials: what an admin, a narrowed admin and the platform may make, see and revoke; that a key is
// shown once and nowhere else.
import type { FastifyInstance, InjectOptions } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { KeyGrant } from "../../src/access/grants.js";
import { ANYONE } from "../../src/access/index.js";
import { makeApiKey } from "../../src/access/key-maker.js";
import { ApiKeys } from "../../src/access/keys.js";
import { silentLog } from "../harness/database.js";
import { documented } from "./documented.js";
import { NOW, otherApi, type Response, useRig } from "./rig.js";

const KEYS = "/api/v1/api_keys";
const OWN = "0190a000-0000-7000-8000-0000000000aa";
const OTHER = "0190a000-0000-7000-8000-0000000000bb";

const rig = useRig();
let app: FastifyInstance;
let keys: ApiKeys;
/** Made by the command, as the first one is. */
let platform: string;

beforeAll(async () => {
  const { sql } = rig.database;
  keys = new ApiKeys({ sql, log: silentLog, now: () => NOW });
  const apiKeys = { keyRevoked: (id: string) => keys.revoked(id) };
  app = await otherApi(rig, {}, { verifier: { verify: (bearer) => keys.verify(bearer) }, apiKeys });
  platform = await made({ roles: ["platform", "admin"] });
});
afterAll(async () => {
  await app?.close();
  await keys?.stop();
});
beforeEach(() => {
  rig.logLines.length = 0;
});

/** A key as an operator makes it. */
async function made(grant: Partial<KeyGrant>): Promise<string> {
  const asked = { name: "test", roles: ["admin"], ...grant } as KeyGrant;
  return (await makeApiKey(rig.database.sql, ANYONE, asked, { now: NOW, createdBy: "cli" })).key;
}
const idOf = (key: string) => key.split("_")[1] ?? "";

async function call(
  method: InjectOptions["method"],
  url: string,
  key?: string,
  body?: unknown,
  headers = {},
): Promise<Response> {
  const response = await app.inject({
    ...{ method, url },
    ...(body !== undefined && { payload: JSON.stringify(body) }),
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...headers,
    },
  });
  const parsed = response.body === "" ? "" : JSON.parse(response.body);
  const contentType = response.headers["content-type"]?.toString();
  const { statusCode: status } = response;
  if (status !== 401) documented().check({ method: method ?? "GET", path: url, status, contentType, body: parsed });
  return { status, body: parsed, headers: response.headers };
}
const create = (key: string, body: object, headers = {}) =>
  call("POST", KEYS, key, { name: "new", roles: ["viewer"], ...body }, headers);
const revoke = (key: string, id: string) => call("DELETE", `${KEYS}/${id}`, key);
const namesSeen = async (key: string, query = "") =>
  (await call("GET", `${KEYS}?limit=500${query}`, key)).body.items.map(({ id }: { id: string }) => id) as string[];

describe("a new key", () => {
  it("is shown once, and works at once", async () => {
    const admin = await made({ tenantId: OWN });
    const body = { roles: ["viewer", "operator"], workflows: ["a.*"], services: ["s"], secrets: ["x"] };
    const { status, body: answer, headers } = await create(admin, body);
    expect([status, headers["cache-control"]]).toEqual([201, "no-store"]);
    const { id, key, created_at: _, ...rest } = answer;
    expect(rest).toEqual({ name: "new", ...body, tenant_id: OWN, created_by: `key:${idOf(admin)}` });
    expect(key).toMatch(new RegExp(`^saga_${id}_[0-9A-Za-z]{43}$`));
    // It is a viewer's: known, and not an admin's.
    expect((await call("GET", KEYS, key)).status).toBe(403);
    expect((await keys.verify(key)).sub).toBe(id);
    const listed = (await call("GET", KEYS, admin)).body.items.find((item: { id: string }) => item.id === id);
    expect(listed).toEqual({ id, ...rest, created_at: answer.created_at });
  });

  it("is in no line of the log, and in no row", async () => {
    const admin = await made({ tenantId: OWN });
    const { body } = await create(admin, {});
    await revoke(admin, body.id);
    await call("GET", KEYS, `${body.key}x`);
    await call("GET", KEYS, body.key);
    const dump = await rig.database.sql<{ row: string }[]>`select api_keys::text as row from api_keys`;
    const kept = [...rig.logLines, ...dump.map(({ row }) => row)].join("\n");
    expect(kept).toContain(body.id);
    for (const key of [body.key, admin, platform]) expect(kept).not.toContain(key.split("_")[2]);
    expect(rig.logLines.join("\n")).toMatch(/"audit":true.*"API key made"/);
    expect(rig.logLines.join("\n")).toMatch(/"audit":true.*"API key revoked"/);
  });

  it.each(["POST", "GET", "DELETE"] as const)(
    "may be kept by no cache: %s says so, also when it refuses",
    async (method) => {
      const url = method === "DELETE" ? `${KEYS}/0000000000000000` : KEYS;
      for (const key of [await made({ tenantId: OWN }), await made({ tenantId: OWN, roles: ["author"] })])
        expect((await call(method, url, key, method === "POST" ? {} : undefined)).headers["cache-control"]).toBe(
          "no-store",
        );
    },
  );

  it("with an Idempotency-Key is refused, and none is made", async () => {
    const admin = await made({ tenantId: OWN });
    const before = (await namesSeen(admin)).length;
    const { status, body } = await create(admin, {}, { "idempotency-key": "once" });
    expect([status, body.error, body.message]).toEqual([
      400,
      "bad_request",
      expect.stringContaining("Idempotency-Key"),
    ]);
    expect((await namesSeen(admin)).length).toBe(before);
  });

  it("ends with the year 9999 at the latest, where its offset makes its end later", async () => {
    const { status, body } = await create(platform, { tenant_id: OWN, expires_at: "9999-12-31T23:59:59-05:00" });
    expect([status, body.expires_at]).toEqual([201, "9999-12-31T23:59:59.000Z"]);
  });

  it.each<readonly [string, object]>([
    ["name", { name: "" }],
    ["name", { name: "x".repeat(201) }],
    ["name", { name: 7 }],
    ["name", { name: undefined }],
    ["roles", { roles: [] }],
    ["roles", { roles: undefined }],
    ["roles", { roles: "admin" }],
    ["roles", { roles: ["root"] }],
    ["tenant_id", { tenant_id: "shop" }],
    ["tenants", { tenants: ["shop"] }],
    ["workflows", { workflows: "a" }],
    ["workflows", { workflows: ["a*b"] }],
    ["workflows", { workflows: [7] }],
    ["services", { services: [""] }],
    ["secrets", { secrets: Array.from({ length: 101 }, (_, nth) => `s${nth}`) }],
    ["expires_at", { expires_at: "tomorrow" }],
    ["expires_at", { expires_at: 1 }],
    ["expires_at", { expires_at: "2020-01-01T00:00:00Z" }],
  ])("whose %s is %j is refused", async (member, body) => {
    const { status, body: answer } = await create(platform, { tenant_id: OWN, ...body });
    expect([status, JSON.stringify(answer.details)]).toEqual([400, expect.stringContaining(`$.${member}`)]);
  });
});

describe("who may", () => {
  it.each(["viewer", "operator", "author", "worker"] as const)("not make, see or revoke keys: %s", async (role) => {
    const key = await made({ tenantId: OWN, roles: [role] });
    const victim = await made({ tenantId: OWN });
    const statuses = [
      (await create(key, {})).status,
      (await call("GET", KEYS, key)).status,
      (await revoke(key, idOf(victim))).status,
    ];
    expect(statuses).toEqual([403, 403, 403]);
    expect((await call("GET", KEYS, victim)).status).toBe(200);
  });

  it("not do so by platform alone", async () => {
    const key = await made({ roles: ["platform"] });
    expect([(await create(key, { tenant_id: OWN })).status, (await call("GET", KEYS, key)).status]).toEqual([403, 403]);
  });

  it("grant what: an admin what is its own, the platform everything", async () => {
    const admin = await made({ tenantId: OWN });
    const refused = [
      { roles: ["platform"] },
      { roles: ["scrape"] },
      { tenant_id: OTHER },
      { roles: ["worker"], tenants: [OWN] },
    ];
    for (const body of refused) {
      const { status, body: answer } = await create(admin, body);
      expect([body, status, answer.error]).toEqual([body, 403, "forbidden"]);
    }
    expect((await create(admin, { roles: ["platform"] })).body.message).toContain("the role platform may");
    const allowed = [
      { roles: ["platform"] },
      { roles: ["scrape"] },
      { tenant_id: OTHER },
      { roles: ["platform", "worker"], tenants: [OWN] },
    ];
    for (const body of allowed) expect([body, (await create(platform, body)).status]).toEqual([body, 201]);
  });

  it("outlive whom: a key that ends makes none that ends later", async () => {
    const ends = new Date(NOW + 3_600_000).toISOString();
    const admin = await made({ tenantId: OWN, expiresAt: NOW + 3_600_000 });
    expect((await create(admin, {})).body.expires_at).toBe(ends);
    expect((await create(admin, { expires_at: new Date(NOW + 3_600_001).toISOString() })).status).toBe(403);
    expect((await create(admin, { expires_at: ends })).status).toBe(201);
  });
});

describe("a narrowed admin", () => {
  let narrowed: string;
  beforeAll(async () => {
    narrowed = await made({ tenantId: OTHER, workflows: ["billing.*", "order"] });
  });

  it("grants within its narrowing, and no worker", async () => {
    const { body } = await create(narrowed, {});
    expect(body.workflows).toEqual(["billing.*", "order"]);
    expect((await create(narrowed, { workflows: ["shop"] })).status).toBe(403);
    expect((await create(narrowed, { roles: ["worker"], services: ["s"] })).status).toBe(403);
  });

  it("sees and revokes keys within its narrowing, and no others", async () => {
    const within = [["order"], ["billing.eu", "billing.x.*"], [], ["billing.*", "order"]];
    const beyond = [undefined, ["*"], ["orders"], ["billing*"], ["order", "shop"], ["order*"]];
    const make = (workflows?: readonly string[]) =>
      made({ tenantId: OTHER, roles: ["viewer"], ...(workflows && { workflows }) });
    const seen = await Promise.all(within.map(make));
    const unseen = await Promise.all(beyond.map(make));
    unseen.push(await made({ tenantId: OTHER, roles: ["viewer", "worker"], workflows: ["order"] }));
    unseen.push(await made({ tenantId: OWN, roles: ["viewer"], workflows: ["order"] }));
    unseen.push(await made({ roles: ["scrape"], workflows: ["order"] }));
    const listed = await namesSeen(narrowed);
    expect(seen.map((key) => listed.includes(idOf(key)))).toEqual(seen.map(() => true));
    expect(unseen.map((key) => listed.includes(idOf(key)))).toEqual(unseen.map(() => false));
    for (const key of unseen) expect((await revoke(narrowed, idOf(key))).status).toBe(404);
    for (const key of seen) expect((await revoke(narrowed, idOf(key))).status).toBe(204);
    for (const key of unseen) expect(await keys.verify(key)).toBeDefined();
  });

  it("has a total that counts what it sees", async () => {
    const listed = await call("GET", `${KEYS}?limit=500`, narrowed);
    expect(listed.body.total).toBe(listed.body.items.length);
  });
});

describe("a key of another tenant", () => {
  it("does not exist", async () => {
    const admin = await made({ tenantId: OWN });
    const foreign = await made({ tenantId: OTHER });
    const ofPlatform = await made({ roles: ["scrape"] });
    const unknown = await revoke(admin, "0000000000000000");
    for (const key of [foreign, ofPlatform]) {
      const { status, body } = await revoke(admin, idOf(key));
      expect([status, body.message.replace(idOf(key), "ID")]).toEqual([
        404,
        unknown.body.message.replace("0000000000000000", "ID"),
      ]);
    }
    const listed = await namesSeen(admin);
    expect([listed.includes(idOf(foreign)), listed.includes(idOf(ofPlatform)), listed.includes(idOf(admin))]).toEqual([
      false,
      false,
      true,
    ]);
    expect((await call("GET", `${KEYS}?tenant_id=${OTHER}`, admin)).body).toMatchObject({ items: [], total: 0 });
  });

  it("is seen by the platform, which may ask for a tenant's", async () => {
    const [own, other] = [await made({ tenantId: OWN }), await made({ tenantId: OTHER })];
    const all = await namesSeen(platform);
    expect([own, other, platform].every((key) => all.includes(idOf(key)))).toBe(true);
    const ofOther = await namesSeen(platform, `&tenant_id=${OTHER.toUpperCase()}`);
    expect([ofOther.includes(idOf(other)), ofOther.includes(idOf(own)), ofOther.includes(idOf(platform))]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("has cursors of its own", async () => {
    const [own, other] = [await made({ tenantId: OWN }), await made({ tenantId: OTHER })];
    await made({ tenantId: OWN });
    const { next_cursor: cursor } = (await call("GET", `${KEYS}?limit=1`, own)).body;
    expect((await call("GET", `${KEYS}?limit=1&cursor=${encodeURIComponent(cursor)}`, own)).status).toBe(200);
    for (const key of [other, platform])
      expect((await call("GET", `${KEYS}?limit=1&cursor=${encodeURIComponent(cursor)}`, key)).status).toBe(400);
  });
});

describe("a list of keys", () => {
  it("is read to its end by cursors, each key once", async () => {
    const seen: string[] = [];
    const whole = await namesSeen(platform);
    for (let cursor = ""; ; ) {
      const { body } = await call("GET", `${KEYS}?limit=7${cursor}`, platform);
      seen.push(...body.items.map(({ id }: { id: string }) => id));
      if (body.next_cursor === undefined) break;
      cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
    }
    expect(seen).toEqual(whole);
  });
});

describe("a revoked key", () => {
  it("is refused at once by this node, and stays in the list with the time", async () => {
    const [admin, key] = [await made({ tenantId: OWN }), await made({ tenantId: OWN })];
    expect((await call("GET", KEYS, key)).status).toBe(200);
    expect([(await revoke(admin, idOf(key))).status, (await call("GET", KEYS, key)).status]).toEqual([204, 401]);
    const listed = async () =>
      (await call("GET", `${KEYS}?limit=500`, admin)).body.items.find(({ id }: { id: string }) => id === idOf(key));
    const { revoked_at: first } = await listed();
    expect(Date.parse(first)).toBeGreaterThan(0);
    expect((await revoke(admin, idOf(key))).status).toBe(204);
    expect((await listed()).revoked_at).toBe(first);
  });

  it("may revoke itself", async () => {
    const key = await made({ tenantId: OWN });
    expect([(await revoke(key, idOf(key))).status, (await call("GET", KEYS, key)).status]).toEqual([204, 401]);
  });

  it("makes no key where its node has not heard of it yet", async () => {
    const key = await made({ tenantId: OWN });
    await call("GET", KEYS, key);
    await rig.database.sql`update api_keys set revoked_at = now() where id = ${idOf(key)}`;
    expect((await create(key, {})).status).toBe(403);
  });

  it.each(["..", "x".repeat(16).replace("x", "'"), "short", `saga_${"0".repeat(16)}`])(
    "has an id, and %j is none",
    async (id) => {
      expect((await revoke(platform, encodeURIComponent(id))).status).not.toBe(204);
    },
  );
});

describe("with access off", () => {
  it("the first keys are made by anyone who reaches the service", async () => {
    const { status, body } = await rig.call("POST", KEYS, { name: "first", roles: ["platform", "admin"] });
    expect([status, body.created_by]).toEqual([201, "api"]);
    expect((await keys.verify(body.key)).roles).toEqual(new Set(["platform", "admin"]));
    expect((await rig.call("GET", KEYS)).status).toBe(200);
    expect((await rig.call("DELETE", `${KEYS}/${body.id}`)).status).toBe(204);
  });
});
