// Between the runs of two tenants nothing crosses: a step that names another tenant's workflow, rule, run or action does what it does with a name that
// nobody has, from the first check of its definition to the last audit row of its run. And a bulk job acts on the runs of its tenant alone.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { ACTS } from "../faults/helping.js";
import { until } from "../harness/until.js";
import { OTHER, TENANT } from "./access-rig.js";
import { type Answer, shapeOf, TwoTenants } from "./tenant-rig.js";

/** What a step may name. */
interface Names {
  readonly workflow: string;
  readonly rule: string;
  readonly run: string;
  readonly service: string;
}

let two: TwoTenants;
let theirs: Names;
const nobodys = (): Names => ({ workflow: "no.flow", rule: "no.rule", run: uuidv7(), service: "no-shop" });

beforeAll(async () => {
  two = await TwoTenants.open();
  const end = { id: "end", type: "end", output: {} };
  await two.publish("their.flow", [end], {}, two.theirs);
  const spec = { hit_policy: "first", rows: [{ when: "true", then: { branch: "a" } }] };
  const rule = { rule_id: "their.rule", name: "r", rule_type: "decision_table", version: 1, published: true, spec };
  await two.ask(two.theirs, "POST", "/rules", rule);
  const actions = [{ action_name: "act", input_schema: { type: "object", required: ["n"] } }];
  await two.ask(two.theirs, "POST", "/registry/register", { service: "their-shop", actions });
  const run = await two.rested(two.theirs, "waits");
  theirs = { workflow: "their.flow", rule: "their.rule", run, service: "their-shop" };
});
afterAll(() => two?.stop());

const step = (type: string, more: object) => ({ id: "one", type, ...more, next: "end" });
/** A step of each type that may name what does not exist, by what it names. */
const STEPS: Readonly<Record<string, (names: Names) => object>> = {
  sub_saga: ({ workflow }) => step("sub_saga", { workflow_id: workflow }),
  spawn_saga: ({ workflow }) => step("spawn_saga", { workflow_id: workflow }),
  decision: ({ rule }) => step("decision", { rule_id: rule, branches: { a: { next: "end" } } }),
  emit_signal: ({ run }) => step("emit_signal", { run_id: run, signal_name: "go" }),
  cancel: ({ run }) => step("cancel", { run_id: run }),
};
/** Where the name is known only when the run is there. */
const COMPUTED: Readonly<Record<string, (names: Names) => object>> = {
  "sub_saga, computed": () => step("sub_saga", { workflow_id: "${inputs.workflow}" }),
  "spawn_saga, computed": () => step("spawn_saga", { workflow_id: "${inputs.workflow}", idempotency_key: "k" }),
  "decision, computed": () => step("decision", { rule_id: "${inputs.rule}", branches: { a: { next: "end" } } }),
  "emit_signal, computed": () => step("emit_signal", { run_id: "${inputs.run}", signal_name: "go" }),
  "cancel, computed": () => step("cancel", { run_id: "${inputs.run}" }),
};
const CASES = Object.entries({ ...STEPS, ...COMPUTED });
/** Its secrets: test/egress/secrets.test.ts. */
const ELSEWHERE = ["http_request"];

let made = 0;
const flowOf = (one: object) => ({
  ...{ id: `meets.${++made}`, name: "meets", start: "one", version: 1, published: true },
  steps: [one, { id: "end", type: "end", output: {} }],
});

/** Without what differs between any two names. */
function shown(answer: Answer, names: Names, workflow: string) {
  const { status, text } = shapeOf(answer);
  const known = [workflow, ...Object.values(names)];
  return { status, text: known.reduce((left, name) => left.replaceAll(name, "…"), text) };
}

/** All that the tenant is told of a definition with this step, and of its run. */
async function toldOf(bearer: string, one: object, names: Names) {
  const document = flowOf(one);
  const { id } = document;
  const send = async (method: string, path: string, body?: object) =>
    shown(await two.send(bearer, method, path, body), names, id);
  const checked = [await send("POST", "/workflows/validate", document), await send("POST", "/workflows", document)];
  const rehearsed = await send("POST", `/workflows/${id}/test`, { inputs: names, mocks: {} });
  const run = await two.start(bearer, id, { inputs: names });
  const state = async () => (await two.ask(bearer, "GET", `/sagas/${run}`)).state as string;
  await until(async () => ["succeeded", "failed"].includes(await state()), { what: "the end of the run" });
  const parts = ["", "/events", "/children", "/undo", "/explain"];
  const seen = [];
  for (const part of parts) seen.push(await send("GET", `/sagas/${run}${part}`));
  return { state: await state(), told: [...checked, rehearsed, ...seen] };
}

describe("a step that names another tenant's", () => {
  it("is tried for each type that knows the error not_found", () => {
    const naming = [...STEP_TYPES.values()].filter(({ errors = "" }) => errors.includes("not_found"));
    expect(naming.map(({ name }) => name).sort()).toEqual([...Object.keys(STEPS), ...ELSEWHERE].sort());
  });

  const asNothing = async (_: string, stepOf: (names: Names) => object) => {
    const none = nobodys();
    const rows = await two.rows();
    const its = await toldOf(two.own, stepOf(theirs), theirs);
    expect(its).toEqual(await toldOf(two.own, stepOf(none), none));
    expect(its.state).toBe("failed");
    expect(its.told.map(({ text }) => text).join()).toContain("not_found");
    expect(await two.rows()).toEqual(rows);
  };
  it.each(Object.entries(STEPS))("does as with what nobody has: %s", asNothing);
  it.each(Object.entries(COMPUTED))("does as with what nobody has: %s", { tags: "long" }, asNothing);

  it.each(CASES)("does it for that tenant itself: %s", { tags: "long" }, async (name, stepOf) => {
    const run = await two.rested(two.theirs, "waits");
    const names = { ...theirs, run };
    expect((await toldOf(two.theirs, stepOf(names), names)).state, name).toBe("succeeded");
  });

  it("calls an action as if its service were not registered", async () => {
    const call = ({ service }: Names) => step("action", { action: `${service}.act`, inputs: { text: 1 } });
    const none = nobodys();
    const rows = await two.rows();
    const its = await toldOf(two.own, call(theirs), theirs);
    expect(its).toEqual(await toldOf(two.own, call(none), none));
    expect(its.told.map(({ text }) => text).join()).toContain("no action ….act is registered");
    expect(await two.rows()).toEqual(rows);
    const own = await toldOf(two.theirs, call(theirs), theirs);
    expect(own.told.map(({ text }) => text).join()).toContain("schema_mismatch");
  });
});

const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8"));
const BULK_ACTIONS = paths["/api/v1/bulk"].post.requestBody.content["application/json"].schema.properties.action
  .enum as readonly string[];

describe("a bulk job of another tenant", () => {
  const PARAMS: Readonly<Record<string, object>> = { ...ACTS, signal: { signal_name: "go" } };
  const filters = (run: string) => [
    { business_key: "theirs" },
    { workflow_id: "waits" },
    { tenant_id: TENANT },
    { incident_in: [run] },
    { q: run },
    { "label.of": "theirs" },
  ];
  const done = async (bulk: string) => {
    await until(async () => (await two.ask(two.own, "GET", `/bulk/${bulk}`)).state === "done");
    return two.ask(two.own, "GET", `/bulk/${bulk}`);
  };

  it.each(BULK_ACTIONS)("finds no run to %s, by whatever filter", { tags: "long" }, async (action) => {
    const more = { business_key: "theirs", labels: { of: "theirs" } };
    const runs = [];
    for (const workflow of ["waits", "breaks", "stuck", "asks", "ends"])
      runs.push(await two.rested(two.theirs, workflow, more));
    const rows = await two.rows();
    for (const filter of filters(runs[1] as string)) {
      const body = { filter, action, ...(PARAMS[action] && { params: PARAMS[action] }) };
      const { bulk_id: bulk, matched } = await two.ask(two.own, "POST", "/bulk", body);
      expect([filter, matched]).toEqual([filter, 0]);
      expect(await done(bulk)).toMatchObject({ matched: 0, done: 0, refused: 0, refusals: [] });
    }
    expect(await two.rows()).toEqual(rows);
  });

  it("acts on the runs of its own that match, and on no others", async () => {
    const key = { business_key: uuidv7() };
    await two.rested(two.theirs, "waits", key);
    const own = await two.rested(two.own, "waits", key);
    const rows = await two.rows();
    const { bulk_id: bulk, matched } = await two.ask(two.own, "POST", "/bulk", {
      filter: key,
      action: "terminate",
      params: { reason: "no" },
    });
    expect([matched, await done(bulk)]).toEqual([1, expect.objectContaining({ done: 1, tenant_id: OTHER })]);
    expect((await two.ask(two.own, "GET", `/sagas/${own}`)).state).toBe("cancelled");
    expect(await two.rows()).toEqual(rows);
  });

  it("is answered as one that does not exist, and goes on", async () => {
    const { bulk_id: bulk } = await two.ask(two.theirs, "POST", "/bulk", {
      filter: { business_key: "none" },
      action: "pause",
    });
    const rows = await two.rows();
    for (const [method, path] of [
      ["GET", ""],
      ["POST", "/stop"],
      ["POST", "/resume"],
    ] as const) {
      const its = await two.send(two.own, method, `/bulk/${bulk}${path}`);
      expect(shapeOf(its)).toEqual(shapeOf(await two.send(two.own, method, `/bulk/${uuidv7()}${path}`)));
      expect(its.status).toBe(404);
    }
    expect(await two.rows()).toEqual(rows);
  });
});
