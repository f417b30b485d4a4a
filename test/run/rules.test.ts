// Rules in runs, through the store: a decision takes what is published, and a node learns of a rule without a restart.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { publishRule, type RuleDraft, storeRule } from "../../src/store/rules.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
let half: Half;
beforeAll(async () => {
  database = await createTestDatabase();
  half = await startHalf(database);
  await publish(database, "ruled", [
    {
      id: "choose",
      type: "decision",
      rule_id: "way",
      branches: { a: { next: "a" }, b: { next: "b" } },
      on_error: "none",
    },
    { id: "a", type: "end", output: "a" },
    { id: "b", type: "end", output: "b" },
    { id: "none", type: "end", output: "${vars.choose.error.code}" },
  ]);
});
afterAll(async () => {
  await half?.stop();
  await database?.drop();
});

const draft = (rows: readonly JsonObject[], more: Partial<RuleDraft> = {}): RuleDraft => ({
  ...{ ruleId: "way", name: "Way", ruleType: "decision_table", publish: true },
  spec: { hit_policy: "first", rows },
  ...more,
});

async function outcome() {
  const id = await start(half.runtime, "ruled", { inputs: { n: 1 } });
  return until(async () => {
    const [run] = await database.sql`select state from runs where id = ${id} and terminal_at is not null`;
    if (!run) return undefined;
    const rows = await database.sql`
      select event_type, metadata from run_events where run_id = ${id} and event_type in ('rule.evaluated', 'step.succeeded')
      order by seq`;
    const [audit] = rows.filter(({ event_type }) => event_type === "rule.evaluated");
    return { output: rows.at(-1)?.metadata.output, audit: audit?.metadata };
  });
}

it("a rule published elsewhere is known here, and its next version, and that it is gone", async () => {
  expect(await outcome()).toEqual({ output: "not_found", audit: undefined });
  const row = { when: "n == 1", then: { branch: "a" } };
  // By the store alone: this node is told nothing.
  await storeRule(database.sql, draft([row]));
  await until(() => half.catalog.rule("way")?.version === 1);
  expect(await outcome()).toEqual({
    output: "a",
    audit: { rule_id: "way", version: 1, matched_row: 0, used_default: false, rows: [{ index: 0, matched: true }] },
  });
  await storeRule(database.sql, draft([{ when: "true", then: { branch: "b" } }]));
  await until(() => half.catalog.rule("way")?.version === 2);
  expect((await outcome()).output).toBe("b");
  await publishRule(database.sql, "way", 2, false);
  await until(() => half.catalog.rule("way")?.version === 1);
  await publishRule(database.sql, "way", 1, false);
  await until(() => half.catalog.rule("way") === undefined);
  expect((await outcome()).output).toBe("not_found");
});

it("after a refresh what is published counts at once", async () => {
  await storeRule(
    database.sql,
    draft([
      { when: "n > 1", then: { branch: "a" } },
      { when: "n == 1", then: { branch: "b" } },
    ]),
  );
  await half.catalog.refresh();
  expect((await outcome()).output).toBe("b");
});
