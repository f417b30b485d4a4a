// The example keeps its promises: the books make every effect once and none after its undo, the audit finds errors in them, and
// the demo ends with balanced books in spite of kills. It runs the compiled demo (`dist`).
// @module-tag both
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from "vitest";
import { audit } from "../../examples/order-fulfilment/audit.js";
import * as books from "../../examples/order-fulfilment/books.js";
import { makeOrders, SCENARIO_NAMES, SCENARIOS } from "../../examples/order-fulfilment/scenarios.js";
import { compileWorkflow } from "../../machines/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DEMO = `${ROOT}/dist/examples/order-fulfilment/run.js`;

describe("the books", { tags: "short" }, () => {
  let database: TestDatabase;
  let sql: Sql;
  const order = { orderId: "o-1", scenario: "plain", sku: books.TEAPOT.sku, quantity: 2, amountCents: 7_800 };
  const stock = { key: "k:reserve", orderId: "o-1", item: order.sku, amount: 2 };
  const charge = { key: "k:charge", orderId: "o-1", amount: 7_800 };
  const refund = { key: "k:charge:undo", forwardKey: "k:charge", orderId: "o-1" };

  beforeAll(async () => {
    database = await createTestDatabase({ migrated: false });
    sql = database.sql;
  });
  afterAll(() => database.drop());
  beforeEach(async () => {
    await books.openBooks(sql, 10);
    await books.placeOrder(sql, order);
  });
  afterEach(() => sql`drop schema shop cascade`);

  async function fulfil(): Promise<void> {
    await books.reserveStock(sql, stock);
    await books.chargeCard(sql, charge);
    await books.sendNotice(sql, { key: "k:notify", orderId: "o-1", amount: 1 });
  }

  async function violations(ends?: ReadonlyMap<string, boolean>): Promise<readonly string[]> {
    return (await audit(sql, ends)).violations;
  }

  it("charge once for repeated and concurrent requests with the same key", async () => {
    const results = await Promise.all(Array.from({ length: 8 }, () => books.chargeCard(sql, charge)));
    expect(results.filter((result) => result === "made")).toHaveLength(1);
    expect(results.filter((result) => result === "made before")).toHaveLength(7);
    expect((await audit(sql)).money).toMatchObject({ chargedCents: 7_800, tillCents: 7_800 });
  });

  it("refund the charged amount, once", async () => {
    await books.chargeCard(sql, charge);
    const results = await Promise.all(Array.from({ length: 8 }, () => books.refundCard(sql, refund)));
    expect(results.filter((result) => result === "undone")).toHaveLength(1);
    expect((await audit(sql)).money).toMatchObject({ refundedCents: 7_800, tillCents: 0 });
    expect(await violations()).toEqual([]);
  });

  it("refuse a charge after its refund", async () => {
    expect(await books.refundCard(sql, refund)).toBe("nothing");
    expect(await books.chargeCard(sql, charge)).toBe("refused");
    const read = await audit(sql);
    expect(read).toMatchObject({ money: { chargedCents: 0, tillCents: 0 }, turnedAway: 1, violations: [] });
    expect(read.orders.get("o-1")?.outcome).toBe("undone");
  });

  it("end without the charge, in either order of a charge and its refund", async () => {
    const keys = Array.from({ length: 25 }, (_, nth) => `race-${nth}`);
    await Promise.all(
      keys.flatMap((key) => [
        books.chargeCard(sql, { ...charge, key }),
        books.refundCard(sql, { ...refund, key: `${key}:undo`, forwardKey: key }),
      ]),
    );
    expect((await audit(sql)).money.tillCents).toBe(0);
  });

  it("reserve no more than the stock", async () => {
    expect(await books.reserveStock(sql, { ...stock, amount: 11 })).toBe("short");
    expect(await books.reserveStock(sql, { ...stock, item: books.UNICORN.sku })).toBe("short");
    expect((await audit(sql)).stock).toMatchObject({ reserved: 0, onHand: 30 });
  });

  it("balance after a fulfilled order and after an undone one", async () => {
    await fulfil();
    expect((await audit(sql)).orders.get("o-1")?.outcome).toBe("fulfilled");
    expect(await violations(new Map([["o-1", true]]))).toEqual([]);
    await books.retractNotice(sql, { key: "k:notify:undo", forwardKey: "k:notify", orderId: "o-1" });
    await books.refundCard(sql, refund);
    await books.releaseStock(sql, { key: "k:reserve:undo", forwardKey: "k:reserve", orderId: "o-1" });
    expect((await audit(sql)).orders.get("o-1")?.outcome).toBe("undone");
    expect(await violations(new Map([["o-1", false]]))).toEqual([]);
  });

  const cooked: [string, (sql: Sql) => Promise<unknown>, RegExp][] = [
    [
      "an order charged twice",
      (sql) => books.chargeCard(sql, { ...charge, key: "another key" }),
      /o-1 .*charged 2 times/,
    ],
    ["an order half undone", (sql) => books.refundCard(sql, refund), /o-1 .*neither fulfilled nor undone.*paid 0\.00/],
    [
      "money that is missing",
      (sql) => sql`update shop.till set balance_cents = balance_cents - 1`,
      /till holds 77\.99/,
    ],
    [
      "stock that is missing",
      (sql) => sql`update shop.stock set on_hand = 0 where sku = 'teapot'`,
      /0 teapot\(s\) on hand/,
    ],
    [
      "a refund of another sum than the charge",
      (sql) => sql`insert into shop.refunds (forward_key, key, order_id, amount) values ('k:charge', 'x', 'o-1', 1)`,
      /returned 1 of 7800/,
    ],
    [
      "a charge without an order",
      (sql) => books.chargeCard(sql, { ...charge, key: "stranger", orderId: "o-2" }),
      /o-2 is in shop\.charges, but was never placed/,
    ],
  ];
  it.each(cooked)("show %s", async (_name, cook, violation) => {
    await fulfil();
    expect(await violations()).toEqual([]);
    await cook(sql);
    expect(await violations()).toContainEqual(expect.stringMatching(violation));
  });

  it("show a run whose end contradicts its order", async () => {
    await fulfil();
    expect(await violations(new Map([["o-1", false]]))).toContainEqual(expect.stringMatching(/its run failed, but/));
  });
});

describe("the workflow", { tags: "short" }, () => {
  it("is valid without warnings", () => {
    const path = `${ROOT}/examples/order-fulfilment/order-fulfilment.workflow.json`;
    const { problems, warnings } = compileWorkflow(JSON.parse(readFileSync(path, "utf8")));
    expect({ problems, warnings }).toEqual({ problems: [], warnings: [] });
  });

  it("meets every scenario in a batch of sixty, the same ones each time", () => {
    const orders = makeOrders(60);
    expect(new Set(orders.map(({ scenario }) => scenario))).toEqual(new Set(SCENARIO_NAMES));
    expect(makeOrders(60)).toEqual(orders);
    expect(SCENARIO_NAMES.reduce((sum, name) => sum + SCENARIOS[name].share, 0)).toBe(100);
  });
});

interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly tenant_id?: string;
  readonly services?: readonly string[];
}

describe("the demo", () => {
  const running = new Set<ChildProcess>();
  afterAll(() => {
    for (const child of running) child.kill("SIGKILL");
  });

  interface Demo {
    readonly process: ChildProcess;
    readonly output: () => string;
    readonly ended: Promise<number | NodeJS.Signals>;
  }

  function run(options: readonly string[], env: Readonly<Record<string, string>> = {}): Demo {
    const { PATH = "", HOME = "" } = process.env;
    const child = spawn(process.execPath, [DEMO, ...options], { env: { PATH, HOME, ...env } });
    running.add(child);
    let text = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
    }
    const ended = new Promise<number | NodeJS.Signals>((resolve) => {
      child.once("close", (code, signal) => {
        running.delete(child);
        resolve(code ?? signal ?? 1);
      });
    });
    return { process: child, output: () => text, ended };
  }

  function childrenOf(parent: number): number[] {
    const lines = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
    return lines
      .map((line) => line.trim().split(/\s+/).map(Number))
      .flatMap(([pid, of]) => (of === parent ? [pid!] : []));
  }

  function isAlive(pid: number): boolean {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  }

  interface Kills {
    readonly orders: number;
    readonly nodes: number;
    readonly kills: number;
  }

  async function endsAlthoughNodesAreKilled({ orders, nodes, kills }: Kills, ...options: string[]): Promise<void> {
    const killed = ["--orders", String(orders), "--kill-service", String(kills), "--kill-worker", "1"];
    // Killed nodes leave their sessions open for a moment. With a Postgres of its own, they are not missing elsewhere.
    const demo = run([...killed, ...options], { SAGA_WORKERS: String(nodes) });
    const code = await demo.ended;
    expect(demo.output()).toContain(`The books balance: ${orders} orders`);
    expect(demo.output()).toContain(`the service was killed ${kills} time(s), and the worker was killed 1 time(s)`);
    expect(code).toBe(0);
  }

  const redis = inject("redisUrl");
  it(
    `ends with balanced books on nodes that are killed${redis && ", over Redis"}`,
    { tags: "long", timeout: 360_000 },
    () => endsAlthoughNodesAreKilled({ orders: 24, nodes: 2, kills: 2 }, ...(redis && ["--redis", redis])),
  );

  it("removes its processes and its database when it is interrupted", { tags: "long", timeout: 120_000 }, async () => {
    const { sql, drop } = await createTestDatabase({ migrated: false });
    const demo = run(["--orders", "200"], { DATABASE_URL: inject("databaseUrl") });
    await until(() => /[1-9]\d*\/200 orders in/.test(demo.output()));
    const mine = `order_fulfilment_%_${demo.process.pid}`;
    const databases = () => sql`select datname from pg_database where datname like ${mine}`;
    expect(await databases()).toHaveLength(1);
    const children = childrenOf(demo.process.pid ?? 0);
    expect(children).toHaveLength(2);
    demo.process.kill("SIGINT");
    expect(await demo.ended).toBe(130);
    expect(await databases()).toHaveLength(0);
    expect(children.filter(isAlive)).toEqual([]);
    await drop();
  });

  it("ends with balanced books on its own Postgres, opens the console, and leaves its runs and its worker there until it is interrupted", {
    tags: "long",
    timeout: 240_000,
  }, async () => {
    const bin = mkdtempSync(join(tmpdir(), "saga-demo-"));
    onTestFinished(() => rmSync(bin, { recursive: true }));
    const opened = join(bin, "opened");
    const opener = join(bin, process.platform === "darwin" ? "open" : "xdg-open");
    writeFileSync(opener, `#!/bin/sh\necho "$1" > ${opened}\n`, { mode: 0o755 });
    const PATH = `${bin}:${process.env.PATH}`;
    const demo = run(["--orders", "30", "--open"], { PATH });
    await until(() => demo.output().includes("Still running until Ctrl-C"), { what: "the books", within: 120_000 });
    expect(demo.output()).toContain("The books balance: 30 orders");
    // Nothing was killed, so each order ends as its scenario demands.
    const fulfilled = makeOrders(30).filter(({ scenario }) => SCENARIOS[scenario].end === "fulfilled").length;
    expect(demo.output()).toContain(
      `${fulfilled} fulfilled, ${30 - fulfilled} completely undone, no effect made twice.`,
    );
    expect(demo.output()).toMatch(/late {3}\d+ effect\(s\) arrived after their undo and were refused/);
    const [, address = ""] = /^The console: (\S+)$/m.exec(demo.output()) ?? [];
    await until(() => readFileSync(opened, "utf8").trim() === address, { what: "the address in the browser" });
    expect((await fetch(address)).status).toBe(200);
    const read = async (path: string) =>
      (await (await fetch(new URL(`/api/v1${path}`, address))).json()) as { items: unknown[] };
    expect((await read("/sagas?limit=100")).items).toHaveLength(30);
    await until(async () => (await read("/workers")).items.length > 0, { what: "the worker" });
    demo.process.kill("SIGINT");
    expect(await demo.ended).toBe(0);
  });

  it("with --auth makes keys that may do what they are for, publishes, works and starts runs with them, and its books balance", {
    tags: "long",
    timeout: 240_000,
  }, async () => {
    const demo = run(["--orders", "24", "--auth", "--kill-service", "1", "--stay"]);
    await until(() => demo.output().includes("Still running until Ctrl-C"), { what: "the books", within: 120_000 });
    expect(demo.output()).toContain("The books balance: 24 orders");
    expect(demo.output()).toContain("Access control is on (SAGA_AUTH=api_key).");
    expect(demo.output()).toContain("A start without a key is answered 401, and one with the worker's key 403.");
    const [, address = ""] = /^ {2}API +(\S+)$/m.exec(demo.output()) ?? [];
    const [, key = ""] = /^ {2}key +(saga_\S+)/m.exec(demo.output()) ?? [];
    const ask = (path: string, headers = {}) => fetch(new URL(`/api/v1${path}`, address), { headers });
    const read = async <T>(path: string) =>
      (await (await ask(path, { authorization: `Bearer ${key}` })).json()) as { items: readonly T[] };
    expect((await ask("/sagas")).status).toBe(401);

    const keys = (await read<ApiKey>("/api_keys")).items;
    const [tenant] = keys.map(({ tenant_id: of }) => of);
    const grants = keys.map(({ name, roles, services }) => [name, roles, services]);
    expect(grants.sort()).toEqual([
      ["admin", ["admin"], undefined],
      ["author", ["author"], undefined],
      ["operator", ["operator"], undefined],
      ["worker", ["worker"], ["shop"]],
    ]);
    const idOf = (name: string) => keys.find((each) => each.name === name)?.id;
    const runs = (await read<{ id: string; tenant_id?: string }>("/sagas?limit=100")).items;
    expect(runs).toHaveLength(24);
    expect(new Set(runs.map(({ tenant_id: of }) => of))).toEqual(new Set([tenant]));
    const [started] = (await read<{ actor: string }>(`/sagas/${runs[0]?.id}/events`)).items;
    expect(started?.actor).toBe(`key:${idOf("operator")}`);
    const published = await ask("/workflows/order-fulfilment", { authorization: `Bearer ${key}` });
    expect(await published.json()).toMatchObject({ created_by: `key:${idOf("author")}` });
    await until(async () => (await read("/workers")).items.length > 0, { what: "the worker" });
    demo.process.kill("SIGINT");
    expect(await demo.ended).toBe(0);
  });

  it("refuses invalid options and prints the valid ones", async () => {
    const demo = run(["--orders", "many"]);
    expect(await demo.ended).toBe(2);
    expect(demo.output()).toMatch(/--orders must be a whole number[\s\S]*--kill-service N/);
  });
});
