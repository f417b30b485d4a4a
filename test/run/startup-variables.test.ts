// Startup variables: what the providers gave a run, its sub-sagas and spawned runs begin with, however deep; its branches and items see
// it as they see every variable.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { readRuns } from "../../src/store/lists/runs.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { allEnd } from "./seen.js";

const GIVEN = { region: "eu", limits: { orders: 7 } };

let database: TestDatabase;
let node: Half;
let asked: (string | undefined)[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  node = await startHalf(database, {
    startupVariables: async ({ tenantId, workflowId }) => {
      asked.push(workflowId);
      return { variables: tenantId === undefined ? {} : GIVEN };
    },
  });
  const output = { vars: "${vars}" };
  await publish(database, "leaf", [{ id: "end", type: "end", output }]);
  await publish(database, "middle", [
    { id: "change", type: "set_var", variables: { region: "mars" }, next: "each" },
    { id: "each", type: "foreach", items: "[1]", body: "sub", save_as: "each", next: "end" },
    { id: "sub", type: "sub_saga", workflow_id: "leaf" },
    { id: "end", type: "end", output: { vars: "${vars}", leaf: "${vars.each[0]}" } },
  ]);
  await publish(database, "top", [
    { id: "fork", type: "parallel", branches: { a: { next: "sub" }, b: { next: "spawn" } }, next: "join" },
    { id: "sub", type: "sub_saga", workflow_id: "middle", next: "join" },
    { id: "spawn", type: "spawn_saga", workflow_id: "middle", next: "join" },
    { id: "join", type: "join" },
  ]);
});
afterAll(async () => {
  await node.stop();
  await database.drop();
});

async function ended(runId: RunId) {
  await allEnd(database.sql, [runId]);
  const view = (await readRuns(database.sql, EVERYTHING, [runId])).get(runId);
  // biome-ignore lint/suspicious/noExplicitAny: the output is read member by member.
  return view?.run as JsonObject & { output: any };
}

const TENANT = "0190a000-0000-7000-8000-0000000000aa";

describe("startup variables", () => {
  it("reach sub-sagas and spawned runs at any depth as the providers gave them, and the providers are asked once", async () => {
    asked = [];
    const top = await ended(
      await start(node.starter, "top", { tenantId: TENANT, variables: { region: "us", own: 1 } }),
    );
    expect(top.variables).toMatchObject({ region: "us", own: 1, limits: { orders: 7 } });
    const { a: middle, b: spawned } = top.output;
    expect(middle.vars).toMatchObject({ region: "mars", limits: { orders: 7 } });
    expect(middle.vars).not.toHaveProperty("own");
    expect(middle.leaf.vars).toEqual(GIVEN);
    const detached = await ended(spawned.run_id);
    expect(detached.output.leaf.vars).toEqual(GIVEN);
    expect(asked).toEqual(["top"]);
  });

  it("are kept once: descendants name the run that has them", async () => {
    const top = await ended(await start(node.starter, "top", { tenantId: TENANT }));
    const rows = await database.sql<{ startup: JsonObject | null; from: string | null }[]>`
      select s.identity->'startup' as startup, s.identity->>'startupFrom' as from
      from runs r join run_starts s on s.run_id = r.id where r.id = ${String(top.id)} or r.root_run_id = ${String(top.id)}`;
    expect(rows.filter(({ startup }) => startup !== null)).toEqual([{ startup: GIVEN, from: null }]);
    expect(rows.filter(({ from }) => from === top.id)).toHaveLength(rows.length - 1);
    expect(rows.length).toBeGreaterThanOrEqual(5);
  });

  it("cost nothing where the providers gave none", async () => {
    const top = await ended(await start(node.starter, "top"));
    expect(top.output.a.leaf.vars).toEqual({});
    const rows = await database.sql<{ identity: JsonObject }[]>`
      select s.identity from runs r join run_starts s on s.run_id = r.id where r.id = ${String(top.id)} or r.root_run_id = ${String(top.id)}`;
    for (const { identity } of rows)
      expect(Object.keys(identity).filter((name) => name.startsWith("startup"))).toEqual([]);
  });
});
