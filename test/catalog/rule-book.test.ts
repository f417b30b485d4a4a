// The rules in the memory of a node: a refresh reads what has changed, and what is compiled is bounded by its weight.
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RuleBook } from "../../src/catalog/rule-book.js";
import { ruleVersions } from "../../src/store/lists/rules.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
});
afterAll(() => database.drop());

function publish(key: string, note = "") {
  const spec = { hit_policy: "first", rows: [{ when: "true", then: { note } }] };
  return ruleVersions.store(database.sql, { key, name: key, ruleType: "decision_table", publish: true, spec });
}

/** The sessions of the database, and how many rows were read over them. */
function counting(): { readonly sql: Sql; rows(): number } {
  let rows = 0;
  const counted = (statement: PromiseLike<readonly unknown[]>) => {
    void statement.then((result) => {
      rows += result.length;
    });
    return statement;
  };
  const sql = new Proxy(database.sql, {
    // A statement is a template; other calls quote a name.
    apply: (target, _, [first, ...rest]) =>
      Array.isArray(first?.raw)
        ? counted(target(first, ...rest) as unknown as PromiseLike<readonly unknown[]>)
        : target(first, ...rest),
    get: (target, name) =>
      name === "unsafe"
        ? (...call: Parameters<Sql["unsafe"]>) => counted(target.unsafe(...call))
        : Reflect.get(target, name),
  });
  return { sql, rows: () => rows };
}

describe("the rule book", () => {
  it("reads nothing but the state of the table while no rule changes, and then the new rule only", async () => {
    for (let nth = 0; nth < 20; nth++) await publish(`rule${nth}`);
    const { sql, rows } = counting();
    const book = new RuleBook(sql, silentLog);
    await book.refresh();
    const before = [rows(), book.rule("rule3", "*")];
    await book.refresh();
    expect(rows()).toBe((before[0] as number) + 1);
    await publish("rule7", "other");
    await book.refresh();
    expect(rows()).toBe((before[0] as number) + 1 + 1 + 20 + 1);
    expect(book.rule("rule3", "*")).toBe(before[1]);
    expect(book.rule("rule7", "*")).toMatchObject({ version: 2 });
  });

  it("forgets a rule that is published no longer", async () => {
    await publish("gone");
    const book = new RuleBook(database.sql, silentLog);
    await book.refresh();
    expect(book.rule("gone", "*")).toMatchObject({ version: 1 });
    await ruleVersions.publish(database.sql, "gone", 1, false);
    await book.refresh();
    expect(book.rule("gone", "*")).toBeUndefined();
  });

  it("keeps no more compiled rules than their weight allows, and gives each that is asked for", async () => {
    const keys = Array.from({ length: 12 }, (_, nth) => `heavy${nth}`);
    for (const key of keys) await publish(key, "x".repeat(10_000));
    const book = new RuleBook(database.sql, silentLog, 50_000);
    await book.refresh();
    const first = book.rule("heavy0", "*");
    for (const key of [...keys, ...keys]) {
      expect(book.rule(key, "*")).toMatchObject({ ruleId: key });
      expect(book.compiledChars).toBeLessThanOrEqual(50_000);
    }
    expect(book.rule("heavy0", "*")).not.toBe(first);
    expect(book.rule("heavy11", "*")).toBe(book.rule("heavy11", "*"));
  });
});
