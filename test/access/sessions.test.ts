// Sessions against a real store: what they may do, and everything that ends them, on this node and on another. The clock is the test's; the poll
// is asked for.
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Patterns, type Principal, Unauthenticated } from "../../src/access/index.js";
import { makeKey } from "../../src/access/key-text.js";
import { LONGEST_SESSION_MS, Sessions, type SessionsOptions } from "../../src/access/sessions.js";
import { SagaError } from "../../src/errors.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { insertKey, revokeKey } from "../../src/store/lists/api-keys.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { principalOf } from "../harness/verifier.js";

const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const EVERYONE = { tenants: "*" } as const;
const HOUR = 3_600_000;
const ann = principalOf("ann", {
  ...{ roles: ["author", "worker"], tenantId: TENANT, workflows: ["billing.*"] },
  ...{ services: ["shop"], secrets: ["stripe"] },
});

let database: TestDatabase;
let sql: Sql;
let now: number;
let elapsed: number;
const opened: Sessions[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  sql = database.sql;
});
afterAll(() => database?.drop());
beforeEach(() => {
  // The store ends sessions by its own clock.
  now = Date.now();
  elapsed = 0;
});
afterEach(async () => {
  for (const sessions of opened.splice(0)) await sessions.stop();
});

/** The sessions as one node knows them. */
function node(more: Partial<SessionsOptions> = {}): Sessions {
  const sessions = new Sessions({ sql, log: silentLog, now: () => now, elapsed: () => elapsed, ...more });
  opened.push(sessions);
  return sessions;
}

/** The subject, the reason of the refusal, or the status of an answer that is neither. */
async function outcome(sessions: Sessions, id: string): Promise<string | number> {
  try {
    return (await sessions.verify(id)).sub;
  } catch (error) {
    if (error instanceof Unauthenticated) return error.reason;
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

async function keyHolder(expiresAt?: number): Promise<Principal> {
  const { id, secretHash } = makeKey();
  const end = expiresAt === undefined ? {} : { expiresAt };
  const row = { id, secretHash, name: "test", roles: ["viewer"], tenantId: TENANT, createdBy: "cli" };
  await insertKey(sql, { ...row, ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }) });
  return { ...principalOf(id, { roles: ["viewer"], tenantId: TENANT }), kind: "key", actor: `key:${id}`, ...end };
}

const GONE = "no such session, or it has ended";

describe("a session", () => {
  it("acts as the credential that it was opened for, with its rights, on every node", async () => {
    const { id } = await node().open(ann);
    const { ended, expiresAt, ...rights } = await node().verify(id);
    const { services, secrets, workflows, ...rest } = ann;
    expect(rights).toEqual({
      ...{ ...rest, kind: "session", services: new Patterns(["shop"]), secrets: new Patterns(["stripe"]) },
      workflows: new Patterns(["billing.*"]),
    });
    expect([services, secrets, workflows].every(Boolean)).toBe(true);
    expect(ended?.aborted).toBe(false);
    expect(Math.abs((expiresAt ?? 0) - now - LONGEST_SESSION_MS)).toBeLessThan(1_000);
  });

  it("is known to the store by the hash of its id only", async () => {
    const { id } = await node().open(ann);
    const rows = await sql`select * from sessions`;
    expect(JSON.stringify(rows)).not.toContain(id);
  });

  it("is refused where there is none of its id, without asking if it is no id", async () => {
    const sessions = node({ sql: undefined as never });
    for (const wrong of ["", "a", "saga_id_secret", "a".repeat(44), `${"a".repeat(42)}'`])
      expect([wrong, await outcome(sessions, wrong)]).toEqual([wrong, "malformed session"]);
    expect(await outcome(node(), "a".repeat(43))).toBe(GONE);
  });

  it("ends at its logout: at once on its node, by the poll on others, with its streams", async () => {
    const [here, there] = [node(), node()];
    const { id } = await here.open(ann);
    const { ended } = await there.verify(id);
    await here.close(id);
    expect(await outcome(here, id)).toBe(GONE);
    expect(ended?.aborted).toBe(false);
    await there.refresh();
    expect(ended?.aborted).toBe(true);
    expect(await outcome(there, id)).toBe(GONE);
  });

  it("ends within five seconds on a node whose poll fails", async () => {
    const [here, there] = [node(), node()];
    const { id } = await here.open(ann);
    await there.verify(id);
    await here.close(id);
    elapsed = 4_999;
    expect(await outcome(there, id)).toBe("ann");
    elapsed = 5_000;
    expect(await outcome(there, id)).toBe(GONE);
  });

  it("ends after half an hour without a request, on nodes that keep it as well", async () => {
    const sessions = node();
    const { id } = await sessions.open(ann);
    await sessions.refresh();
    await sql`update sessions set seen_at = now() - interval '31 minutes' where actor = 'user:ann'`;
    await sessions.refresh();
    expect(await outcome(sessions, id)).toBe(GONE);
    expect(await outcome(node(), id)).toBe(GONE);
  });

  it("that was idle for too long stays ended, also where a request before it was not written in time", async () => {
    const sessions = node();
    const { id } = await sessions.open(ann);
    await sessions.refresh();
    await sessions.verify(id);
    await sql`update sessions set seen_at = now() - interval '31 minutes' where actor = 'user:ann'`;
    elapsed += 60_000;
    await sessions.refresh();
    expect(await outcome(sessions, id)).toBe(GONE);
  });

  it("goes on while requests come, which is written once a minute", async () => {
    const sessions = node();
    const { id } = await sessions.open(ann);
    const seen = async () => {
      const [row] = await sql<{ late: number }[]>`
        select extract(epoch from now() - seen_at)::float8 as late from sessions order by created_at desc limit 1`;
      return row?.late ?? 0;
    };
    const pass = () => sql`update sessions set seen_at = now() - interval '20 minutes'`;
    await pass();
    await sessions.refresh();
    expect(await seen()).toBeLessThan(60);
    await pass();
    await sessions.verify(id);
    elapsed += 59_999;
    await sessions.refresh();
    expect(await seen()).toBeGreaterThan(1_000);
    elapsed += 1;
    await sessions.refresh();
    expect(await seen()).toBeLessThan(60);
  });

  it("ends after twelve hours whatever comes", async () => {
    const sessions = node();
    const { id } = await sessions.open(ann);
    now += 12 * HOUR - 1;
    expect(await outcome(sessions, id)).toBe("ann");
    now += 1;
    expect(await outcome(sessions, id)).toBe("expired session");
  });

  it("of an API key ends when the key expires", async () => {
    const sessions = node();
    const { id } = await sessions.open(await keyHolder(now + HOUR));
    now += HOUR;
    expect(await outcome(sessions, id)).toBe("expired session");
  });

  it("of an API key ends when the key is revoked, on every node, with its streams", async () => {
    const [here, there] = [node(), node()];
    const holder = await keyHolder();
    const { id, principal } = await here.open(holder);
    expect(principal).toMatchObject({ kind: "session", sub: holder.sub, actor: `key:${holder.sub}` });
    const { ended } = await there.verify(id);
    await revokeKey(sql, holder.sub, EVERYONE);
    for (const sessions of [here, there]) await sessions.refresh();
    expect(ended?.aborted).toBe(true);
    expect([await outcome(here, id), await outcome(there, id)]).toEqual([GONE, GONE]);
  });

  it("is the oldest of an actor's that ends when there are more than a hundred", async () => {
    const sessions = node();
    const bob = principalOf("bob", { roles: ["viewer"], tenantId: TENANT });
    const { id: first } = await sessions.open(bob);
    await sql`update sessions set created_at = now() - interval '1 hour' where actor = 'user:bob'`;
    const { id: second } = await sessions.open(bob);
    for (let nth = 2; nth <= 100; nth++) await sessions.open(bob);
    await sessions.refresh();
    expect([await outcome(sessions, first), await outcome(sessions, second)]).toEqual([GONE, "bob"]);
  });

  it("that is over is deleted", async () => {
    await node().open(principalOf("eve", { roles: ["viewer"], tenantId: TENANT }));
    await sql`update sessions set expires_at = now() - interval '1 second' where actor = 'user:eve'`;
    await node().refresh();
    expect(await sql`select from sessions where actor = 'user:eve'`).toHaveLength(0);
  });
});

describe("while the store is away", () => {
  it("a session is good for five seconds, then it is 503", async () => {
    const { sql: own, close } = openDatabase(database.url, { max: 1, applicationName: "sessions", log: silentLog });
    const sessions = node({ sql: own });
    const { id } = await sessions.open(ann);
    await close();
    elapsed = 4_999;
    expect(await outcome(sessions, id)).toBe("ann");
    elapsed = 5_000;
    expect(await outcome(sessions, id)).toBe(503);
  });

  it("a statement that hangs is 503 in time", async () => {
    const { id } = await node().open(ann);
    const hanging = (() => new Promise(() => {})) as unknown as Sql;
    expect(await outcome(node({ sql: hanging, answeredWithinMs: 1 }), id)).toBe(503);
  });
});
