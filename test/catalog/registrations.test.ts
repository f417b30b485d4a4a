// The registrations in the memory of a node: a refresh reads what has changed, and only that.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreCatalog } from "../../src/catalog/catalog.js";
import { Registrations } from "../../src/catalog/registrations.js";
import { type Registration, register } from "../../src/store/lists/registry.js";
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
    const before = registrations.action("shop", "pay");
    expect(before).toMatchObject({ service: "shop", name: "pay", version: 1 });
    await register(database.sql, [action("shop", "ship", { compensable: true }), action("shop", "bill")]);
    await registrations.refresh();
    expect(registrations.action("shop", "pay")).toBe(before);
    expect(registrations.action("shop", "ship")).toMatchObject({ compensable: true });
    expect([...registrations.names()].sort()).toEqual(["shop.bill", "shop.pay", "shop.ship"]);
  });

  it("gives a time of 60 days", async () => {
    const registrations = new Registrations(database.sql);
    const ms = 60 * 86_400_000;
    await register(database.sql, [action("slow", "build", { default_timeout_ms: ms })]);
    await registrations.refresh();
    expect(registrations.action("slow", "build")?.defaultTimeoutMs).toBe(ms);
  });

  it("gives the newest version that is not deprecated, and the version that is asked for", async () => {
    const registrations = new Registrations(database.sql);
    const versions = [1, 3, 2].map((version) => action("post", "send", { version, deprecated: version === 3 }));
    await register(database.sql, versions);
    await registrations.refresh();
    expect(registrations.action("post", "send")).toMatchObject({ version: 2 });
    expect(registrations.action("post", "send", 3)).toMatchObject({ version: 3, deprecated: true });
    await register(database.sql, [action("post", "send", { version: 3 })]);
    await registrations.refresh();
    expect(registrations.action("post", "send")).toMatchObject({ version: 3, deprecated: false });
    expect(registrations.action("post", "send", 1)).toMatchObject({ version: 1 });
  });

  it("finds each of 400 registrations at once when it is answered, and reads no other again", async () => {
    const catalog = new StoreCatalog(database.sql, silentLog, new FairScheduler());
    await register(database.sql, [action("calm", "act")]);
    await catalog.refresh();
    const before = catalog.action("calm", "act");
    const known = Array.from({ length: 400 }, async (_, n) => {
      await register(database.sql, [action("busy", `act${n}`)]);
      await catalog.refresh();
      return catalog.action("busy", `act${n}`) !== undefined;
    });
    expect((await Promise.all(known)).filter(Boolean)).toHaveLength(400);
    expect(catalog.action("calm", "act")).toBe(before);
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
    expect(registrations.action("old", "act")).toMatchObject({ version: 1 });
    await database.sql`delete from actions where service = 'old'`;
    await registrations.refresh();
    expect(registrations.action("old", "act")).toBeUndefined();
    expect([...registrations.names()]).not.toContain("old.act");
  });
});
