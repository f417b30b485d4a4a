// Webhooks: what is delivered, how it is signed, and what becomes of one that is not. Rows in a real outbox, a real receiver.
// @module-tag both
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { type CourierLimits, WebhookCourier, type WebhookCourierOptions } from "../../src/dispatch/webhook/courier.js";
import { Guard, publicOrListed } from "../../src/egress/guard.js";
import type { Secrets } from "../../src/egress/secrets.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics, type Metrics } from "../../src/metrics/index.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Asked, Site, secretsOf } from "./requests-rig.js";

const WHSEC = `whsec_${Buffer.from("a key of thirty-two bytes length").toString("base64")}`;
const SIGNING = JSON.stringify({ "@webhook": WHSEC });

/** How long a healthy receiver takes for its answer. */
const ANSWERS_MS = 50;

let database: TestDatabase;
let site: Site;
let metrics: Metrics;
const couriers: WebhookCourier[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
});
beforeEach(async () => {
  await database.sql`delete from outbox`;
  site = await Site.open();
  metrics = createMetrics();
});
afterEach(async () => {
  for (const courier of couriers.splice(0)) await courier.stop(0);
  await site.close();
});
afterAll(() => database.drop());

/** Any name is one of this machine. */
const guard = new Guard({
  ...{ admits: publicOrListed(["127.0.0.1"]), connectMs: 1_000 },
  resolve: async () => [{ address: "127.0.0.1", family: 4 }],
});

function open(
  limits: Partial<CourierLimits> = {},
  secrets: Secrets = secretsOf(),
  userOf?: WebhookCourierOptions["userOf"],
): WebhookCourier {
  const courier = new WebhookCourier({
    ...{ sql: database.sql, log: silentLog, metrics, guard, secrets, userOf, now: () => Date.now(), limits },
  });
  couriers.push(courier);
  return courier;
}

/** Due when a claim would make it due, so that whatever puts it off is seen. */
async function post(more: JsonObject = {}, emittedAt = Date.now()): Promise<string> {
  const id = uuidv7();
  const message = { type: "order.made", timestamp: new Date(emittedAt).toISOString(), data: { n: 1, of: "ü" } };
  const payload = JSON.stringify({ url: `${site.url}/hook`, headers: {}, message, ...more });
  await database.sql`
    insert into outbox (id, run_id, shard, kind, payload, due_at)
    values (${id}, ${uuidv7()}, 1, 'webhook', ${payload}::text::json, now() + interval '30 s')`;
  return id;
}

async function postMany(count: number, url: string): Promise<string[]> {
  const ids = Array.from({ length: count }, () => uuidv7());
  const message = { type: "order.made", timestamp: new Date().toISOString(), data: { n: 1 } };
  await database.sql`
    insert into outbox (id, run_id, shard, kind, payload, due_at)
    select id, id, 1, 'webhook', ${JSON.stringify({ url, headers: {}, message })}::text::json, now() + interval '30 s'
    from unnest(${ids}::uuid[]) as id`;
  return ids;
}

/** Milliseconds until it is due; undefined: it is no longer owed. By a clock that is read after the row: a claim seen in it is past. */
async function dueIn(id: string): Promise<number | undefined> {
  const [row] = await database.sql<{ ms: number }[]>`
    select (extract(epoch from due_at - clock_timestamp()) * 1000)::int as ms from outbox where id = ${id}`;
  return row?.ms;
}

const gone = (id: string) => until(async () => (await dueIn(id)) === undefined, { what: "the row's removal" });
/** A claim makes a row due in 30 s, and an attempt is waited for only as long as it cannot come near that by itself. */
const [CLAIMED_MS, PATIENCE_MS] = [30_000, 15_000];
/** The attempt is over, and the row is due at another time than a claim makes it. */
const putOff = (id: string) =>
  until(
    async () => {
      const ms = await dueIn(id);
      return ms !== undefined && (ms < CLAIMED_MS - PATIENCE_MS || ms > CLAIMED_MS) ? { ms } : undefined;
    },
    { within: PATIENCE_MS, what: "the row being put off" },
  );
const counted = async (outcome: string) =>
  (await metrics.webhooks.get()).values.find(({ labels }) => labels.outcome === outcome)?.value ?? 0;

const verified = (secret: string | Uint8Array, { body, headers }: Asked, raw = false) =>
  new Webhook(secret, raw ? { format: "raw" } : undefined).verify(body, headers as Record<string, string>);

describe("a webhook", { tags: "short" }, () => {
  it("is a POST of type, timestamp and data, under its row's id, and gone when it is answered", async () => {
    const id = await post({ headers: { "x-tenant": "eu" } });
    open().carry(id);
    await gone(id);
    const [asked] = site.asked;
    expect(asked).toMatchObject({ method: "POST", path: "/hook" });
    expect(asked?.headers).toMatchObject({ "content-type": "application/json", "x-tenant": "eu", "webhook-id": id });
    expect(JSON.parse(asked?.body ?? "")).toMatchObject({ type: "order.made", data: { n: 1, of: "ü" } });
    expect(asked?.headers).not.toHaveProperty("webhook-signature");
    expect(await counted("delivered")).toBe(1);
  });

  it("is signed as the Standard Webhooks library expects it, with the secret it names or the service's own", async () => {
    const own = { header: "authorization", line: "", value: "a secret that is plain text" };
    const courier = open({}, secretsOf({ own }, SIGNING));
    const ids = [await post(), await post({ secret_ref: "own" })];
    for (const id of ids) courier.carry(id);
    for (const id of ids) await gone(id);
    const of = (id?: string) => site.asked.find(({ headers }) => headers["webhook-id"] === id) as Asked;
    expect(verified(WHSEC, of(ids[0]))).toMatchObject({ type: "order.made" });
    expect(verified(own.value, of(ids[1]), true)).toMatchObject({ type: "order.made" });
    expect(() => verified(WHSEC, of(ids[1]))).toThrow("No matching signature");
    const forged = { ...of(ids[0]), body: of(ids[0]).body.replace("1", "2") };
    expect(() => verified(WHSEC, forged)).toThrow("No matching signature");
  });

  it("is signed with the new and the old secret while one replaces the other, and else with the one derived for webhooks", async () => {
    const old = "the secret that is replaced";
    const both = open({}, secretsOf({}, JSON.stringify({ "@webhook": [WHSEC, old] })));
    const derived = open({}, secretsOf({}, "0123456789abcdef0123456789abcdef"));
    const ids = [await post(), await post()] as const;
    both.carry(ids[0]);
    derived.carry(ids[1]);
    for (const id of ids) await gone(id);
    const of = (id: string) => site.asked.find(({ headers }) => headers["webhook-id"] === id) as Asked;
    expect(verified(WHSEC, of(ids[0]))).toMatchObject({ type: "order.made" });
    expect(verified(old, of(ids[0]), true)).toMatchObject({ type: "order.made" });
    // As OpenSSL derives it.
    expect(verified("whsec_PqA0EbMF/kBma4UYDt1lmScHNE0YRXO/eGll1/ROlos=", of(ids[1]))).toBeDefined();
  });

  it("is not signed where the setting has secrets of services only", async () => {
    const id = await post();
    open({}, secretsOf({}, JSON.stringify({ payments: WHSEC }))).carry(id);
    await gone(id);
    expect(site.asked[0]?.headers).not.toHaveProperty("webhook-signature");
  });

  it("is delivered whatever else its receiver has to say", async () => {
    site.answer = (_, response) => {
      const more = () => response.write("a".repeat(10_000), () => !response.destroyed && setImmediate(more));
      more();
    };
    const id = await post();
    open().carry(id);
    await gone(id);
    expect([site.asked.length, await counted("delivered")]).toEqual([1, 1]);
  });

  it("is delivered, once, to a receiver that sends interim responses before its answer", async () => {
    site.answer = (_, response) => {
      response.writeContinue();
      response.writeEarlyHints({ link: "</style.css>; rel=preload" });
      response.writeHead(204).end();
    };
    const id = await post();
    open().carry(id);
    await gone(id);
    expect([site.asked.length, await counted("delivered")]).toEqual([1, 1]);
  });

  it("is not signed for a host that its secret is not for, nor with one that is no signing key", async () => {
    const value = { header: "authorization", line: "", value: "a secret that is plain text" };
    const elsewhere = { ...value, hosts: ["hooks.example"] };
    const bearer = { ...value, use: "bearer" as const };
    const ids = [await post({ secret_ref: "elsewhere" }), await post({ secret_ref: "bearer" })];
    const courier = open({}, secretsOf({ elsewhere, bearer }, SIGNING));
    for (const id of ids) courier.carry(id);
    for (const id of ids) await putOff(id);
    expect(site.asked).toEqual([]);
  });

  it("is not sent over http beyond loopback with a secret", async () => {
    const own = { header: "authorization", line: "", value: "a secret that is plain text" };
    const url = site.url.replace("127.0.0.1", "hooks.example");
    const courier = open({}, secretsOf({ own }, WHSEC));
    const [id, unnamed] = [await post({ secret_ref: "own", url }), await post({ url })];
    for (const each of [id, unnamed]) courier.carry(each);
    await putOff(id);
    await gone(unnamed);
    expect(site.asked.map(({ headers }) => headers["webhook-id"])).toEqual([unnamed]);
  });

  it("is not sent where its secret is another tenant's, and is sent where it is its run's", async () => {
    const [mine, other] = [uuidv7(), uuidv7()];
    const own = { header: "authorization", line: "", value: "a secret that is plain text", tenants: [mine] };
    const userOf = (tenantId: string) => async () => ({ tenantId, definitionOwner: null, workflowId: "orders" });
    const foreign = await post({ secret_ref: "own" });
    open({}, secretsOf({ own }, SIGNING), userOf(other)).carry(foreign);
    await putOff(foreign);
    expect(site.asked).toEqual([]);
    const id = await post({ secret_ref: "own" });
    open({}, secretsOf({ own }, SIGNING), userOf(mine)).carry(id);
    await gone(id);
    expect(site.asked).toHaveLength(1);
  });

  it("is not sent unsigned when its secret is missing", async () => {
    const id = await post({ secret_ref: "none" });
    open({}, secretsOf({}, SIGNING)).carry(id);
    await putOff(id);
    expect(site.asked).toEqual([]);
  });

  it("that is carried twice at once is sent once", async () => {
    const id = await post();
    const courier = open();
    courier.carry(id);
    courier.carry(id);
    await gone(id);
    courier.carry(id);
    await courier.stop(1_000);
    expect(site.asked.length).toBe(1);
  });
});

describe("one that is not taken", { tags: "short" }, () => {
  it.each([404, 500, 302])("with %i is put off, and sent again under the same id, newly signed", async (status) => {
    const id = await post();
    const courier = open({ backoffMs: 100_000 }, secretsOf({}, SIGNING));
    site.answer = (_, response) => response.writeHead(status, { location: "/" }).end();
    courier.carry(id);
    const { ms } = await putOff(id);
    expect([ms > 50_000 - PATIENCE_MS, ms <= 100_000, await counted("put_off")]).toEqual([true, true, 1]);
    site.answer = (_, response) => response.end();
    courier.carry(id);
    await gone(id);
    expect(site.asked.map(({ headers }) => headers["webhook-id"])).toEqual([id, id]);
    for (const asked of site.asked) verified(WHSEC, asked);
  });

  it("waits longer from time to time, up to a bound", async () => {
    const courier = open({ backoffMs: 100_000, backoffMaxMs: 900_000 });
    site.answer = (_, response) => response.writeHead(500).end();
    const delayAt = async (tries: number) => {
      const id = await post();
      await database.sql`update outbox set tries = ${tries} where id = ${id}`;
      courier.carry(id);
      return (await putOff(id)).ms;
    };
    for (const [tries, least, most] of [
      [0, 50_000, 100_000],
      [2, 200_000, 400_000],
      [5, 450_000, 900_000],
      [1_000, 450_000, 900_000],
    ] as const) {
      const ms = await delayAt(tries);
      expect([tries, ms > least - PATIENCE_MS && ms <= most], String(ms)).toEqual([tries, true]);
    }
  });

  it("comes again no sooner than its receiver asks", async () => {
    site.answer = (_, response) => response.writeHead(429, { "retry-after": "600" }).end();
    const id = await post();
    open().carry(id);
    const { ms } = await putOff(id);
    expect(ms > 600_000 - PATIENCE_MS && ms <= 600_000).toBe(true);
  });

  it.each([
    ["hangs", () => {}, "http://127.0.0.1"],
    ["cuts the connection", (_: Asked, response: { destroy(): void }) => response.destroy(), "http://127.0.0.1"],
    ["may not be reached", undefined, "http://127.0.0.2"],
  ])("because its receiver %s is put off as well", async (_, answer, host) => {
    if (answer) site.answer = answer;
    const id = await post({ url: `${host}:${site.port}/` });
    open({ attemptMs: 1_000 }).carry(id);
    await putOff(id);
    expect(site.asked.length).toBe(answer ? 1 : 0);
  });

  it("for a day is given up, but not before an attempt", async () => {
    site.answer = (_, response) => response.writeHead(500).end();
    const courier = open();
    const [young, old] = [await post({}, Date.now() - 86_000_000), await post({}, Date.now() - 87_000_000)];
    courier.carry(young);
    courier.carry(old);
    await gone(old);
    await putOff(young);
    expect([site.asked.length, await counted("given_up")]).toEqual([2, 1]);
  });

  it("because its receiver wants no more is given up at once", async () => {
    site.answer = (_, response) => response.writeHead(410).end();
    const id = await post();
    open().carry(id);
    await gone(id);
    expect([await counted("given_up"), await counted("delivered")]).toEqual([1, 0]);
  });
});

describe("many", () => {
  it("go so many at once, and no more of them to one host", { tags: "short" }, async () => {
    let [now, most] = [0, 0];
    const held: (() => void)[] = [];
    site.answer = (_, response) => {
      most = Math.max(most, ++now);
      held.push(() => {
        now--;
        response.end();
      });
    };
    const courier = open({ underWay: 8, underWayPerHost: 3 });
    const ids = await Promise.all(Array.from({ length: 8 }, () => post()));
    for (const id of ids) courier.carry(id);
    await until(() => held.length === 3);
    expect(await Promise.all(ids.map(dueIn))).not.toContain(undefined);
    await until(async () => {
      for (const go of held.splice(0)) go();
      return (await counted("delivered")) === 8;
    });
    expect([most, site.asked.length, await counted("put_off")]).toEqual([3, 8, 0]);
  });

  it("to a healthy receiver are all delivered at their first attempt beside receivers that hang", async () => {
    const hanging = [await Site.open(() => {}), await Site.open(() => {})];
    site.answer = (_, response) => setTimeout(() => response.end(), ANSWERS_MS);
    const [each, count] = [long(30, 60), long(100, 300)];
    const stuck = (await Promise.all(hanging.map(({ url }) => postMany(each, `${url}/hook`)))).flat();
    const ids = await postMany(count, `${site.url}/hook`);
    // No webhook of the hanging receivers is put off meanwhile: what is put off was a healthy one.
    const courier = open({ queuedMs: 600_000, attemptMs: 600_000 });
    const began = performance.now();
    for (const id of [...stuck, ...ids]) courier.carry(id);
    await until(async () => (await counted("delivered")) === count, { within: long(50_000, 300_000) });
    console.info(`${count} webhooks beside ${stuck.length} that hang: ${Math.round(performance.now() - began)} ms`);
    expect([site.asked.length, await counted("put_off")]).toEqual([count, 0]);
    await courier.stop(0);
    for (const one of hanging) await one.close();
  });

  it("that wait too long for their host are put off, each for its own time", { tags: "short" }, async () => {
    const held: (() => void)[] = [];
    site.answer = (_, response) => held.push(() => response.end());
    const courier = open({ underWayPerHost: 1, queuedMs: 0, backoffMs: 600_000 });
    const [first, second] = [await post(), await post()];
    courier.carry(first);
    courier.carry(second);
    await until(() => held.length === 1);
    held[0]?.();
    const { ms } = await putOff(second);
    expect(ms).toBeGreaterThan(300_000 - PATIENCE_MS);
    await gone(first);
    expect(site.asked).toHaveLength(1);
  });

  it("wait in a line of a bound; what is over it stays in its row", { tags: "short" }, async () => {
    let finish: (() => void) | undefined;
    site.answer = (_, response) => {
      finish = () => response.end();
    };
    const courier = open({ underWay: 1, waiting: 1 });
    const ids = [await post(), await post(), await post()] as const;
    for (const id of ids) courier.carry(id);
    await until(() => finish !== undefined);
    site.answer = (_, response) => response.end();
    finish?.();
    await gone(ids[0]);
    await gone(ids[1]);
    await courier.stop(1_000);
    expect([site.asked.length, typeof (await dueIn(ids[2]))]).toEqual([2, "number"]);
  });

  it("under way at a stop get their grace, and are owed still when it is over", { tags: "short" }, async () => {
    let finish = () => {};
    site.answer = ({ headers }, response) => {
      if (headers["webhook-id"] === first) finish = () => response.end();
    };
    const [first, second] = [await post(), await post()];
    const courier = open();
    courier.carry(first);
    courier.carry(second);
    await until(() => site.asked.length === 2);
    const stopped = courier.stop(600_000);
    finish();
    await gone(first);
    await courier.stop(0);
    await stopped;
    expect([await dueIn(first), typeof (await dueIn(second))]).toEqual([undefined, "number"]);
  });
});
