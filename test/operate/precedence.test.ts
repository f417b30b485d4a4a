// Whose precedence a run has, over HTTP and on a real node: that of its start, of its root, of the first run of a rerun, or of its trigger. The order itself is tested in
// test/dispatch/precedence-queue.test.ts and test/faults/fairness.test.ts.
import { beforeAll, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { ended, useNode } from "./rig.js";

const rig = useNode();
const TURN = { priority: 1, fairness_key: "shop-7", fairness_weight: 2.5 };

beforeAll(async () => {
  await rig.client.publish("leaf", [{ id: "out", type: "end" }]);
  await rig.client.publish("tree", [
    { id: "fork", type: "parallel", branches: { a: { next: "one" } }, next: "join" },
    { id: "one", type: "noop" },
    { id: "join", type: "join", next: "each" },
    { id: "each", type: "foreach", items: "[1]", body: "item", next: "sub" },
    { id: "item", type: "sub_saga", workflow_id: "leaf" },
    { id: "sub", type: "sub_saga", workflow_id: "leaf", next: "spawn" },
    { id: "spawn", type: "spawn_saga", workflow_id: "leaf", next: "out" },
    { id: "out", type: "end", output: "${vars.spawn.run_id}" },
  ]);
});

const runOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}?wait_ms=30000`)).body;
const childrenOf = async (id: string) => (await rig.ask("GET", `/sagas?parent_run_id=${id}`)).body.items;

describe("the precedence of a run", () => {
  it("is that of its root, in every branch, item, sub-saga and spawned run", async () => {
    const root = await ended(rig, "tree", TURN);
    expect(root).toMatchObject(TURN);
    const children = await childrenOf(root.id);
    expect(children.map((run: { parent_step_id: string }) => run.parent_step_id).sort()).toEqual([
      "each",
      "fork",
      "sub",
    ]);
    const grandchildren = (await Promise.all(children.map(({ id }: { id: string }) => childrenOf(id)))).flat();
    expect(grandchildren).toHaveLength(1);
    for (const run of [...children, ...grandchildren, await runOf(root.output)]) expect(run).toMatchObject(TURN);
  });

  it("is that of the first run in a rerun, and in a rerun of it", async () => {
    let last = await ended(rig, "leaf", TURN);
    for (let nth = 0; nth < 2; nth++) {
      const { body } = await rig.ask("POST", `/sagas/${last.id}/rerun`);
      last = await runOf(body.run_id);
      expect(last).toMatchObject(TURN);
    }
  });

  it("is no part of a run that says what is usual, and a repeat may say so or not", async () => {
    const key = { idempotency_key: "usual" };
    const first = await ended(rig, "leaf", { ...key, priority: 3 });
    const again = await rig.ask("POST", "/sagas/start", { workflow_id: "leaf", ...key });
    expect(again.body).toMatchObject({ run_id: first.id, deduplicated: true });
    const other = await rig.ask("POST", "/sagas/start", { workflow_id: "leaf", ...key, priority: 2 });
    expect(other.status).toBe(409);
    const [row] = await rig.database.sql<{ identity: object; record: object }[]>`
      select identity, record from run_starts join runs on runs.id = run_id where run_id = ${first.id}`;
    expect(JSON.stringify(row)).not.toContain("precedence");
    expect(first).not.toHaveProperty("priority");
  });

  it("is that of its trigger, whose config is refused where it is wrong", async () => {
    const config = { schedule: "0 0 1 1 *", ...TURN };
    const create = (changes: object) =>
      rig.ask("POST", "/triggers", { trigger_type: "cron", workflow_id: "leaf", config: { ...config, ...changes } });
    const { status, body } = await create({});
    expect([status, body.config]).toEqual([201, config]);
    const fired = await rig.ask("POST", `/triggers/${body.id}/fire`, {});
    expect(fired.status).toBeLessThan(300);
    const run = await until(async () => (await rig.ask("GET", `/sagas?trigger_id=${body.id}`)).body.items[0]);
    expect(run).toMatchObject({ ...TURN, trigger_id: body.id });
    for (const [changes, path] of [
      [{ priority: 6 }, "$.config.priority"],
      [{ fairness_key: "" }, "$.config.fairness_key"],
      [{ fairness_key: "🙂".repeat(257) }, "$.config.fairness_key"],
      [{ fairness_weight: 0 }, "$.config.fairness_weight"],
      [{ fairness_key: null }, "$.config.fairness_key"],
    ] as const) {
      const refused = await create(changes);
      expect([refused.status, refused.body.details?.[0]?.path]).toEqual([400, path]);
    }
    expect((await create({ fairness_key: "🙂".repeat(256) })).status).toBe(201);
  });
});
