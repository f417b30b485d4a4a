// The registrations in the memory of a node: a refresh reads what has changed, and only that. And for whom names exist.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isFor, StoreCatalog } from "../../src/catalog/catalog.js";
import { Registrations } from "../../src/catalog/registrations.js";
import { uuidv7 } from "../../src/ids.js";
import { workflowVersions } from "../../src/store/lists/definitions.js";
import { type Registrant, type Registration, register } from "../../src/store/lists/registry.js";
import { ruleVersions } from "../../src/store/lists/rules.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
});
afterAll(async () => {
  await database.drop();
});

const action = (service: string, action_name: string, more: Partial<Registration> = {}): Registration => ({
  ...{ service, action_name, version: 1, transport: "grpc" as const, input_schema: {}, output_schema: {} },
  ...{ compensable: false, deprecated: false, dry_run_supported: false },
  ...more,
});

describe("a refresh of the registrations", () => {
  it("reads no registration that is as it was", async () => {
    const registrations = new Registrations(database.sql);
    await register(database.sql, [action("shop", "pay"), action("shop", "ship")]);
    await registrations.refresh();
    const before = registrations.action("shop", "pay", undefined, "*");
    expect(before).toMatchObject({ service: "shop", name: "pay", version: 1 });
    await register(database.sql, [action("shop", "ship", { compensable: true }), action("shop", "bill")]);
    await registrations.refresh();
    expect(registrations.action("shop", "pay", undefined, "*")).toBe(before);
    expect(registrations.action("shop", "ship", undefined, "*")).toMatchObject({ compensable: true });
    expect([...registrations.names("*")].sort()).toEqual(["shop.bill", "shop.pay", "shop.ship"]);
  });

  it("gives a time of 60 days", async () => {
    const registrations = new Registrations(database.sql);
    const ms = 60 * 86_400_000;
    await register(database.sql, [action("slow", "build", { default_timeout_ms: ms })]);
    await registrations.refresh();
    expect(registrations.action("slow", "build", undefined, "*")?.defaultTimeoutMs).toBe(ms);
  });

  it("gives the newest version that is not deprecated, and the version that is asked for", async () => {
    const registrations = new Registrations(database.sql);
    const versions = [1, 3, 2].map((version) => action("post", "send", { version, deprecated: version === 3 }));
    await register(database.sql, versions);
    await registrations.refresh();
    expect(registrations.action("post", "send", undefined, "*")).toMatchObject({ version: 2 });
    expect(registrations.action("post", "send", 3, "*")).toMatchObject({ version: 3, deprecated: true });
    await register(database.sql, [action("post", "send", { version: 3 })]);
    await registrations.refresh();
    expect(registrations.action("post", "send", undefined, "*")).toMatchObject({ version: 3, deprecated: false });
    expect(registrations.action("post", "send", 1, "*")).toMatchObject({ version: 1 });
  });

  it("finds each of 400 registrations at once when it is answered, and reads no other again", async () => {
    const catalog = new StoreCatalog(database.sql, silentLog, new FairScheduler());
    await register(database.sql, [action("calm", "act")]);
    await catalog.refresh();
    const before = catalog.action("calm", "act", undefined, "*");
    const known = Array.from({ length: 400 }, async (_, n) => {
      await register(database.sql, [action("busy", `act${n}`)]);
      await catalog.refresh();
      return catalog.action("busy", `act${n}`, undefined, "*") !== undefined;
    });
    expect((await Promise.all(known)).filter(Boolean)).toHaveLength(400);
    expect(catalog.action("calm", "act", undefined, "*")).toBe(before);
  });

  it("forgets what is gone", async () => {
    const registrations = new Registrations(database.sql);
    await register(
      database.sql,
      [1, 2].map((version) => action("old", "act", { version })),
    );
    await registrations.refresh();
    await database.sql`delete from actions where service = 'old' and version = 2`;
    await registrations.refresh();
    expect(registrations.action("old", "act", undefined, "*")).toMatchObject({ version: 1 });
    await database.sql`delete from actions where service = 'old'`;
    await registrations.refresh();
    expect(registrations.action("old", "act", undefined, "*")).toBeUndefined();
    expect([...registrations.names("*")]).not.toContain("old.act");
  });
});

describe("whose registrations are", () => {
  const [A, B, C] = [uuidv7(), uuidv7(), uuidv7()];
  const by = (tenantId: string | null): Registrant => ({
    ...{ tenantId, readdresses: true },
    changes: (owner) => owner === tenantId,
  });
  const catalogs = async () => {
    const all = [true, false].map((owned) => new StoreCatalog(database.sql, silentLog, new FairScheduler(), owned));
    for (const catalog of all) await catalog.refresh();
    return all as [StoreCatalog, StoreCatalog];
  };
  const RUNS_OF = { nobody: [], a: [A], b: [B], c: [C], platform: "*" } as const;
  const knownTo = (catalog: StoreCatalog, service: string, version?: number) =>
    Object.entries(RUNS_OF).flatMap(([who, tenants]) =>
      catalog.action(service, "act", version, tenants) ? [who] : [],
    );

  it("an action is known to its owner, to who has registered it as it is, and the platform's to all", async () => {
    await register(database.sql, [action("of-a", "act")], by(A));
    await register(database.sql, [action("of-a", "act")], by(B));
    await register(database.sql, [action("of-all", "act")], by(null));
    const [owned, free] = await catalogs();
    expect(knownTo(owned, "of-a")).toEqual(["a", "b", "platform"]);
    expect(knownTo(owned, "of-all")).toEqual(Object.keys(RUNS_OF));
    expect([...owned.actionNames([C])].filter((name) => name.startsWith("of-"))).toEqual(["of-all.act"]);
    expect(knownTo(free, "of-a")).toEqual(Object.keys(RUNS_OF));
  });

  it("the newest version is that of those that are known, and what goes to its owner by HTTP is known to the owner alone", async () => {
    await register(database.sql, [action("steps", "act")], by(A));
    await register(database.sql, [action("steps", "act")], by(B));
    await register(database.sql, [action("steps", "act", { version: 2 })], by(A));
    const [owned] = await catalogs();
    expect(owned.action("steps", "act", undefined, [A])).toMatchObject({ version: 2 });
    expect(owned.action("steps", "act", undefined, [B])).toMatchObject({ version: 1 });
    expect(knownTo(owned, "steps", 2)).toEqual(["a", "platform"]);
    const address = "https://a.example";
    await register(database.sql, [action("steps", "act", { transport: "http", address })], by(A));
    await owned.refresh();
    expect(knownTo(owned, "steps", 1)).toEqual(["a", "platform"]);
  });

  it("a node learns at once that an action is known to another tenant", async () => {
    await register(database.sql, [action("late", "act")], by(A));
    const [owned] = await catalogs();
    expect(knownTo(owned, "late")).toEqual(["a", "platform"]);
    await register(database.sql, [action("late", "act")], by(B));
    await owned.refresh();
    expect(knownTo(owned, "late")).toEqual(["a", "b", "platform"]);
  });
});

describe("whose workflows and rules are", () => {
  const [A, B] = [uuidv7(), uuidv7()];
  const claim = (tenantId: string | null) => ({ tenantId, exclusive: true });
  const spec = { hit_policy: "first", rows: [{ when: "true", then: {} }] };

  it("runs of a tenant may be of its own and of the platform's, with access off of all", async () => {
    for (const [key, owner] of [
      ["w-a", A],
      ["w-all", null],
    ] as const) {
      const document = { id: key, name: key, start: "on", steps: [{ id: "on", type: "noop" }] };
      await workflowVersions.store(database.sql, { key, name: key, publish: true, document }, claim(owner));
      await ruleVersions.store(
        database.sql,
        { key, name: key, publish: true, ruleType: "decision_table", spec },
        claim(owner),
      );
    }
    for (const owned of [true, false]) {
      const catalog = new StoreCatalog(database.sql, silentLog, new FairScheduler(), owned);
      await catalog.refresh();
      const usable = async (key: string, tenantId: string | undefined) => {
        const found = await catalog.published(key);
        return [
          found !== undefined && isFor(found, tenantId),
          await catalog.stored(key, undefined, tenantId),
          catalog.rule(key, tenantId === undefined ? [] : [tenantId]) !== undefined,
        ];
      };
      for (const tenantId of [A, B, undefined]) {
        const expected = !owned || tenantId === A;
        expect(await usable("w-a", tenantId)).toEqual([expected, expected, expected]);
        expect(await usable("w-all", tenantId)).toEqual([true, true, true]);
      }
    }
  });

  it("a node learns that a rule has been given to a tenant, and compiles it no second time", async () => {
    await ruleVersions.store(
      database.sql,
      { key: "r-given", name: "r", publish: true, ruleType: "decision_table", spec },
      claim(null),
    );
    const catalog = new StoreCatalog(database.sql, silentLog, new FairScheduler(), true);
    await catalog.refresh();
    const before = catalog.rule("r-given", [B]);
    await database.sql`update rules set tenant_id = ${A} where rule_id = 'r-given'`;
    await catalog.refresh();
    expect([catalog.rule("r-given", [B]), catalog.rule("r-given", [A])]).toEqual([undefined, before]);
    expect(catalog.rule("r-given", [A])).toBe(before);
  });
});
