// Rules in runs, through the store: a decision uses the published rule, and a node learns of a rule without a restart.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { type RuleDraft, ruleVersions } from "../../src/store/lists/rules.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";

let database: TestDatabase;
let half: Half;
beforeAll(async () => {
  // The catalog refreshes itself every two seconds of this fake clock.
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
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
  vi.useRealTimers();
});

/** The version that this node finds at one of its own refreshes. One that has begun before the change does not see it. */
async function learns(version: number | undefined): Promise<void> {
  await until(() => {
    vi.advanceTimersByTime(2_000);
    return half.catalog.rule("way", "*")?.version === version;
  });
}

const draft = (rows: readonly JsonObject[], more: Partial<RuleDraft> = {}): RuleDraft => ({
  ...{ key: "way", name: "Way", ruleType: "decision_table", publish: true },
  spec: { hit_policy: "first", rows },
  ...more,
});

async function outcome() {
  const id = await start(half.starter, "ruled", { inputs: { n: 1 } });
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

describe("rules in runs", () => {
  it("a node learns of a rule published elsewhere, of its next version, and of its removal", async () => {
    expect(await outcome()).toEqual({ output: "not_found", audit: undefined });
    const row = { when: "n == 1", then: { branch: "a" } };
    // Only through the store: no message reaches this node.
    await ruleVersions.store(database.sql, draft([row]));
    await learns(1);
    expect(await outcome()).toEqual({
      output: "a",
      audit: { rule_id: "way", version: 1, matched_row: 0, used_default: false, rows: [{ index: 0, matched: true }] },
    });
    await ruleVersions.store(database.sql, draft([{ when: "true", then: { branch: "b" } }]));
    await learns(2);
    expect((await outcome()).output).toBe("b");
    await ruleVersions.publish(database.sql, "way", 2, false);
    await learns(1);
    await ruleVersions.publish(database.sql, "way", 1, false);
    await learns(undefined);
    expect((await outcome()).output).toBe("not_found");
  });

  it("a refresh makes a published rule known at once", async () => {
    await ruleVersions.store(
      database.sql,
      draft([
        { when: "n > 1", then: { branch: "a" } },
        { when: "n == 1", then: { branch: "b" } },
      ]),
    );
    await half.catalog.refresh();
    expect((await outcome()).output).toBe("b");
  });
});
