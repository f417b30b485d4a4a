// API keys against a real store: good ones, every way to be refused, revocation on all nodes, and what holds while the store is away. The clock
// is the test's; the poll is asked for.
import { randomBytes } from "node:crypto";
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Unauthenticated } from "../../src/access/index.js";
import { makeKey } from "../../src/access/key-text.js";
import { ApiKeys, type ApiKeysOptions } from "../../src/access/keys.js";
import { SagaError } from "../../src/errors.js";
import { noteUse } from "../../src/store/engine/api-keys.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { insertKey, type NewKey, revokeKey } from "../../src/store/lists/api-keys.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { counted } from "./counted.js";

const NOW = 1_790_000_000_000;
const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const EVERYONE = { tenants: "*" } as const;

let database: TestDatabase;
let sql: Sql;
let now = NOW;
let elapsed = 0;
const opened: ApiKeys[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  sql = database.sql;
});
afterAll(() => database?.drop());
beforeEach(() => {
  now = NOW;
  elapsed = 0;
});
afterEach(async () => {
  for (const keys of opened.splice(0)) await keys.stop();
});

/** The keys as one node knows them. */
function node(more: Partial<ApiKeysOptions> = {}): ApiKeys {
  const keys = new ApiKeys({ sql, log: silentLog, now: () => now, elapsed: () => elapsed, ...more });
  opened.push(keys);
  return keys;
}

async function made(more: Partial<NewKey> = {}): Promise<{ readonly id: string; readonly key: string }> {
  const { id, key, secretHash } = makeKey();
  await insertKey(sql, {
    id,
    secretHash,
    name: "test",
    roles: ["viewer"],
    tenantId: TENANT,
    createdBy: "cli",
    ...more,
  });
  return { id, key };
}

/** The subject, the reason of the refusal, or the status of an answer that is neither. */
async function outcome(keys: ApiKeys, bearer: string): Promise<string | number> {
  try {
    return (await keys.verify(bearer)).sub;
  } catch (error) {
    if (error instanceof Unauthenticated) return error.reason;
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

describe("a key", () => {
  it("has its prefix, an id and a secret of 256 bits, and no two are the same", () => {
    const keys = Array.from({ length: 1_000 }, makeKey);
    for (const { key } of keys) expect(key).toMatch(/^saga_[0-9A-Za-z]{16}_[0-9A-Za-z]{43}$/);
    expect(62n ** 43n > 2n ** 256n).toBe(true);
    expect(new Set(keys.flatMap(({ id, key }) => [id, key.split("_")[2]])).size).toBe(2_000);
    // Every sign occurs about as often as every other.
    const signs = new Map<string, number>();
    for (const { key } of keys) for (const sign of key.slice(22)) signs.set(sign, (signs.get(sign) ?? 0) + 1);
    expect([signs.size, Math.min(...signs.values()) > 500, Math.max(...signs.values()) < 900]).toEqual([
      62,
      true,
      true,
    ]);
  });

  it("is a principal with what was granted", async () => {
    const expiresAt = new Date(NOW + 1_000);
    const lists = { workflows: ["billing.*"], services: ["shop"], secrets: ["*"] };
    const { id, key } = await made({ ...lists, expiresAt, roles: ["author", "worker", "root"] });
    const principal = await node().verify(key);
    expect(principal).toMatchObject({
      kind: "key",
      sub: id,
      actor: `key:${id}`,
      tenantId: TENANT,
      expiresAt: NOW + 1_000,
    });
    expect([...principal.roles]).toEqual(["author", "worker"]);
    expect(principal.workflows?.texts).toEqual(["billing.*"]);
    expect([principal.services.texts, principal.secrets.texts]).toEqual([["shop"], ["*"]]);
  });

  it("of the platform may serve some tenants only", async () => {
    const { key } = await made({ tenantId: undefined, roles: ["platform", "worker"], tenants: [TENANT] });
    const { tenantId, tenants, workflows, services } = await node().verify(key);
    expect([tenantId, tenants, workflows, services.texts]).toEqual([undefined, [TENANT], undefined, []]);
  });

  it("is known at once when it was verified before", async () => {
    const { key } = await made();
    const { sql: pool, count } = counted(sql);
    const keys = node({ sql: pool });
    const first = await keys.verify(key);
    const asked = count();
    expect([keys.verify(key), count()]).toEqual([first, asked]);
  });

  it("of thousands of requests at once is looked for in one statement", async () => {
    const { id, key } = await made();
    const { sql: pool, count } = counted(sql);
    const keys = node({ sql: pool });
    const outcomes = await Promise.all(Array.from({ length: 3_000 }, () => outcome(keys, key)));
    expect([new Set(outcomes), count()]).toEqual([new Set([id]), 1]);
  });
});

describe("what is no key is refused:", () => {
  let good: { readonly id: string; readonly key: string };
  beforeAll(async () => {
    good = await made();
  });

  it.each<readonly [string, (key: string, id: string) => string, string]>([
    ["nothing", () => "", "malformed key"],
    ["the prefix", () => "saga_", "malformed key"],
    ["the id alone", (_, id) => `saga_${id}`, "malformed key"],
    ["an empty secret", (_, id) => `saga_${id}_`, "malformed key"],
    ["another prefix", (key) => key.replace("saga_", "SAGA_"), "malformed key"],
    ["something before it", (key) => ` ${key}`, "malformed key"],
    ["something behind it", (key) => `${key}\n`, "malformed key"],
    ["one sign less", (key) => key.slice(0, -1), "malformed key"],
    ["one sign more", (key) => `${key}a`, "malformed key"],
    ["a sign that is none of the 62", (key) => `${key.slice(0, -1)}-`, "malformed key"],
    ["a statement as its id", (key) => `saga_' or true --____${key.slice(21)}`, "malformed key"],
    ["megabytes", (key) => key.repeat(50_000), "malformed key"],
    [
      "its hash as its secret",
      (_, id) => `saga_${id}_${randomBytes(32).toString("hex").slice(0, 43)}`,
      "wrong secret of a key",
    ],
    ["another last sign", (key) => key.slice(0, -1) + (key.endsWith("0") ? "1" : "0"), "wrong secret of a key"],
    ["its secret in other letters", (key) => key.slice(0, 22) + key.slice(22).toLowerCase(), "wrong secret of a key"],
    ["another id", (key) => `saga_0000000000000000${key.slice(21)}`, "unknown key"],
  ])("%s", async (_, change, reason) => {
    expect(await outcome(node(), change(good.key, good.id))).toBe(reason);
  });

  it("the secret of another key", async () => {
    const other = await made();
    expect(await outcome(node(), `${good.key.slice(0, 22)}${other.key.slice(22)}`)).toBe("wrong secret of a key");
  });
});

describe("thousands of wrong keys", () => {
  it("ask the store in few statements, one at a time, and never again", async () => {
    const { sql: pool, count } = counted(sql);
    const keys = node({ sql: pool });
    const wrong = Array.from({ length: 2_000 }, () => makeKey().key);
    const all = () => Promise.all(wrong.map((key) => outcome(keys, key)));
    expect(new Set(await all())).toEqual(new Set(["unknown key"]));
    const asked = count();
    expect(asked).toBeLessThanOrEqual(10);
    expect(new Set(await all())).toEqual(new Set(["unknown key"]));
    expect(count()).toBe(asked);
  });

  it("beyond a bound are 503, and a key that was verified passes", async () => {
    const { id, key } = await made();
    const keys = node();
    await keys.verify(key);
    const wrong = Array.from({ length: 5_000 }, () => outcome(keys, makeKey().key));
    expect(await outcome(keys, key)).toBe(id);
    const outcomes = await Promise.all(wrong);
    expect(new Set(outcomes)).toEqual(new Set(["unknown key", 503]));
    expect(outcomes.filter((each) => each === "unknown key")).toHaveLength(2_000);
  });

  it("with the id of a good one ask the store once", async () => {
    const { key } = await made();
    const { sql: pool, count } = counted(sql);
    const keys = node({ sql: pool });
    for (let nth = 0; nth < 1_000; nth++)
      expect(await outcome(keys, key.slice(0, 22) + makeKey().key.slice(22))).toBe("wrong secret of a key");
    expect(count()).toBe(1);
  });
});

describe("the end of a key", () => {
  it("is its expiry, to the millisecond", async () => {
    const { id, key } = await made({ expiresAt: new Date(NOW + 500) });
    const keys = node();
    now = NOW + 499;
    expect(await outcome(keys, key)).toBe(id);
    now = NOW + 500;
    expect(await outcome(keys, key)).toBe("expired key");
    expect(await outcome(node(), key)).toBe("expired key");
  });

  it("is heard on every node within 5 s, without Redis and without notifications", async () => {
    const { id, key } = await made();
    const nodes = [node({ elapsed: undefined }), node({ elapsed: undefined }), node({ elapsed: undefined })];
    for (const each of nodes) each.start();
    const ended = await Promise.all(nodes.map(async (each) => (await each.verify(key)).ended));
    let heard = 0;
    for (const signal of ended) signal?.addEventListener("abort", () => heard++);
    await revokeKey(sql, id, EVERYONE);
    const revokedAt = performance.now();
    await until(() => heard === nodes.length, { what: "the end on each node" });
    expect(performance.now() - revokedAt).toBeLessThan(5_000);
    for (const each of nodes) expect(await outcome(each, key)).toBe("revoked key");
  });

  it("is heard at once on the node that revoked it", async () => {
    const { id, key } = await made();
    const keys = node();
    const { ended } = await keys.verify(key);
    keys.revoked(id);
    expect([ended?.aborted, await outcome(keys, key)]).toEqual([true, "revoked key"]);
  });

  it("is heard, too, if the key is deleted", async () => {
    const { id, key } = await made();
    const keys = node();
    const { ended } = await keys.verify(key);
    await sql`delete from api_keys where id = ${id}`;
    await keys.refresh();
    expect([ended?.aborted, await outcome(keys, key)]).toEqual([true, "revoked key"]);
    expect(await outcome(node(), key)).toBe("unknown key");
  });

  it("is not missed by a node whose poll fails: after 5 s it asks again", async () => {
    const { id, key } = await made();
    const keys = node();
    expect(await outcome(keys, key)).toBe(id);
    await revokeKey(sql, id, EVERYONE);
    elapsed = 4_999;
    expect(await outcome(keys, key)).toBe(id);
    elapsed = 5_000;
    expect(await outcome(keys, key)).toBe("revoked key");
  });

  it("is for good: a revoked key costs no further statement", async () => {
    const { id, key } = await made();
    await revokeKey(sql, id, EVERYONE);
    const { sql: pool, count } = counted(sql);
    const keys = node({ sql: pool });
    expect(await outcome(keys, key)).toBe("revoked key");
    elapsed = 60_000;
    await keys.refresh();
    expect([await outcome(keys, key), count()]).toEqual(["revoked key", 1]);
  });
});

describe("while the store", () => {
  it("is away, a key that it confirmed within 5 s is good, and every other one is 503", async () => {
    const { id, key } = await made();
    const other = await made();
    let pool = sql;
    const away = openDatabase("postgres://postgres@127.0.0.1:1/postgres", {
      max: 1,
      applicationName: "saga-test",
      log: silentLog,
    });
    const following = new Proxy((() => {}) as unknown as Sql, {
      apply: (_, __, parameters) => Reflect.apply(pool, undefined, parameters),
      get: (_, name) => Reflect.get(pool, name),
    });
    try {
      const keys = node({ sql: following });
      expect(await outcome(keys, key)).toBe(id);
      pool = away.sql;
      elapsed = 4_999;
      expect([await outcome(keys, key), await outcome(keys, other.key)]).toEqual([id, 503]);
      elapsed = 5_000;
      expect(await outcome(keys, key)).toBe(503);
      await expect(keys.refresh()).rejects.toThrow();
      pool = sql;
      expect([await outcome(keys, key), await outcome(keys, other.key)]).toEqual([id, other.id]);
    } finally {
      await away.close();
    }
  });

  it("hangs, a key is not waited for without end", async () => {
    const { id, key } = await made();
    const keys = node({ answeredWithinMs: 100 });
    const blocking = database.session();
    try {
      await blocking.sql.begin(async (transaction) => {
        await transaction`lock table api_keys in access exclusive mode`;
        expect(await outcome(keys, key)).toBe(503);
      });
    } finally {
      await blocking.close();
    }
    await until(async () => (await outcome(keys, key)) === id, { what: "the answer" });
  });
});

describe("what a node keeps", () => {
  it("is bounded, and what listens for the end of its key hears it all the same", async () => {
    const keys = node({ mostKept: 10 });
    const watched = await made();
    const { ended } = await keys.verify(watched.key);
    let heard = false;
    ended?.addEventListener("abort", () => {
      heard = true;
    });
    for (let nth = 0; nth < 30; nth++) await keys.verify((await made()).key);
    const { kept } = keys as unknown as { kept: Map<string, unknown> };
    expect([kept.size, kept.has(watched.id)]).toEqual([10, true]);
    await revokeKey(sql, watched.id, EVERYONE);
    await keys.refresh();
    expect(heard).toBe(true);
  });

  it("does not count for a key that it has forgotten: the store is asked again", async () => {
    const keys = node({ mostKept: 1 });
    const { id, key } = await made();
    await keys.verify(key);
    await keys.verify((await made()).key);
    await revokeKey(sql, id, EVERYONE);
    expect(await outcome(keys, key)).toBe("revoked key");
  });

  it("is neither a key nor a secret", async () => {
    const { key } = await made();
    const keys = node();
    await keys.verify(key);
    const { inspect } = await import("node:util");
    expect(inspect(keys, { depth: 12, showHidden: true })).not.toContain(key.slice(22));
  });
});

describe("last_used_at", () => {
  const lastUse = async (id: string) =>
    (await sql<{ last_used_at: Date | null }[]>`select last_used_at from api_keys where id = ${id}`)[0]?.last_used_at;

  it("is written by the poll, at most once a minute, whatever the number of nodes", async () => {
    const { id, key } = await made();
    const { sql: pool, count } = counted(sql);
    const [one, other] = [node({ sql: pool }), node()];
    for (const each of [one, other]) await each.verify(key);
    expect(await lastUse(id)).toBeNull();
    await one.refresh();
    const first = await lastUse(id);
    expect(first).toBeInstanceOf(Date);
    // Another node writes nothing, either, until the minute of the database is over.
    const seconds = (ago: number) => sql`update api_keys set last_used_at = now() - make_interval(secs => ${ago})`;
    for (const [ago, isWritten] of [
      [50, false],
      [60, true],
    ] as const) {
      await seconds(ago);
      const before = await lastUse(id);
      await noteUse(sql, [id]);
      expect([ago, (await lastUse(id))?.getTime() !== before?.getTime()]).toEqual([ago, isWritten]);
    }
    await sql`update api_keys set last_used_at = ${first as Date} where id = ${id}`;
    await other.refresh();
    elapsed = 59_999;
    for (const each of [one, other]) {
      await each.verify(key);
      await each.refresh();
    }
    expect(await lastUse(id)).toEqual(first);
    const asked = count();
    await one.verify(key);
    await one.refresh();
    // The poll itself.
    expect(count() - asked).toBe(1);
    await sql`update api_keys set last_used_at = last_used_at - interval '1 minute' where id = ${id}`;
    elapsed = 61_000;
    await one.refresh();
    await one.verify(key);
    await one.refresh();
    expect((await lastUse(id))?.getTime()).toBeGreaterThanOrEqual(first?.getTime() ?? Number.NaN);
  });

  it("is not that of a refusal", async () => {
    const { id, key } = await made();
    const keys = node();
    await outcome(keys, key.slice(0, 22) + makeKey().key.slice(22));
    await keys.refresh();
    expect(await lastUse(id)).toBeNull();
  });
});
