// Membership: what a node learns of a heartbeat, beside which nodes are alive.
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { DatabaseClock } from "../../src/clock.js";
import { uuidv7 } from "../../src/ids.js";
import { Membership, type MembershipOptions } from "../../src/shard/membership.js";
import { heartbeat } from "../../src/store/engine/nodes.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

/** A store whose answers the test chooses. */
function scripted(answers: readonly object[], formats?: MembershipOptions["formats"]) {
  let nth = 0;
  const told: string[] = [];
  const membership = new Membership({
    nodeId: "a",
    sql: (async () => [answers[nth++]]) as unknown as Sql,
    clock: { measure: async () => {} } as unknown as DatabaseClock,
    log: silentLog,
    formats,
    onAlive: (nodeIds) => void told.push(nodeIds.join()),
    onServerChanged: () => void told.push("server changed"),
  });
  return { membership, told };
}

describe("membership", () => {
  it("says when another server answers than before, and not at the first heartbeat", async () => {
    const { membership, told } = scripted(["1", "1", "2", "2"].map((server) => ({ others: [], server })));
    for (let nth = 0; nth < 4; nth++) await membership.beat();
    expect(told).toEqual(["a", "a", "server changed", "a", "a"]);
  });
});

describe("the record format", () => {
  it("is one that all live nodes read, and none that this release only reads: it follows those that come and go", async () => {
    const others = (...formats: number[]) => ({
      server: "1",
      others: formats.map((recordFormat) => ({ nodeId: "b", recordFormat })),
    });
    const { membership } = scripted([others(), others(2, 1), others(2), others(5)], { reads: 4, writes: 3 });
    const seen = [membership.recordFormat];
    for (let nth = 0; nth < 4; nth++) {
      await membership.beat();
      seen.push(membership.recordFormat);
    }
    expect(seen).toEqual([1, 3, 1, 2, 3]);
  });
});

describe("a heartbeat", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it("names the server, which is the same one each time, and the other nodes with the formats they read", async () => {
    const [one, other] = [uuidv7(), uuidv7()];
    const first = await heartbeat(database.sql, { nodeId: one, recordFormat: 2, access: "off", staleSeconds: 5 });
    expect(first.others).toEqual([]);
    const second = await heartbeat(database.sql, { nodeId: other, recordFormat: 1, access: "off", staleSeconds: 5 });
    expect(second).toEqual({ others: [{ nodeId: one, recordFormat: 2, access: "off" }], server: first.server });
  });
});

describe("nodes of different access modes", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());
  afterEach(() => database.sql`delete from nodes`);

  const memberOf = (mode: "on" | "off", sql: Sql = database.sql) =>
    new Membership({
      ...{ nodeId: uuidv7(), sql, log: silentLog, access: { mode, mayDiffer: false } },
      clock: { measure: async () => {} } as unknown as DatabaseClock,
      onAlive: () => {},
    });

  /** A store whose first statement is committed only when the test says so. */
  function held() {
    let commit = () => {};
    const committed = new Promise<void>((resolve) => {
      commit = resolve;
    });
    let [written, isFirst] = [false, true];
    const sql = new Proxy(database.sql, {
      apply(target, self, statement) {
        if (!isFirst) return Reflect.apply(target, self, statement);
        isFirst = false;
        return target.begin(async (transaction) => {
          const rows = await Reflect.apply(transaction, transaction, statement);
          written = true;
          await committed;
          return rows;
        });
      },
    });
    return { sql, commit: () => commit(), written: () => until(() => written, { what: "an uncommitted heartbeat" }) };
  }

  it("that start at the same time do not both live: the one whose heartbeat is committed later sees the other", async () => {
    const late = held();
    const first = memberOf("off");
    const second = memberOf("on", late.sql);
    const starting = second.start().then(
      () => "started",
      (error: Error) => error.message,
    );
    await late.written();
    await first.start();
    late.commit();
    expect(await starting).toContain("access control is on here and off at node");
    const rows = await database.sql`select access from nodes`;
    expect([...rows]).toEqual([{ access: "off" }]);
    await Promise.all([first.stop(), second.stop()]);
  });

  it("do not run side by side, and those of one mode start at the same time", async () => {
    const [one, two] = [memberOf("on"), memberOf("on")];
    await Promise.all([one.start(), two.start()]);
    await expect(memberOf("off").start()).rejects.toThrow("SAGA_AUTH_ROLLOUT=1");
    await Promise.all([one.stop(), two.stop()]);
  });
});
