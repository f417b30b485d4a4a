// What is accepted as an id can be addressed by it: in the paths of all clients, beside literal parts of paths, and percent-encoded.
import type { AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { compileWorkflow } from "../../machines/index.js";
import { insertRun, useRig, WORKFLOW } from "./rig.js";
import { ask } from "./wire.js";

const rig = useRig();
const RULE = { rule_type: "decision_table", spec: { hit_policy: "first", rows: [{ when: "true", then: {} }] } };
let port = 0;
let paths: readonly string[] = [];
beforeAll(async () => {
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
  paths = Object.keys((await rig.call("GET", "/openapi.json")).body.paths);
});

/** The literal parts of paths that stand where another path has a parameter: [collection, literal]. */
const shadowing = () =>
  paths.flatMap((path) => {
    const parts = path.split("/");
    return parts.flatMap((part, nth) => {
      const before = parts.slice(0, nth).join("/");
      const beside = paths.some((other) => other.startsWith(`${before}/{`));
      return beside && part !== "" && !part.startsWith("{") ? [`${before} ${part}`] : [];
    });
  });

describe("a document that is named like a part of a path", () => {
  it("stands only where ids are UUIDs, or is a workflow or a rule", () => {
    expect([...new Set(shadowing())].sort()).toEqual([
      ...[
        "/api/v1/sagas counts",
        "/api/v1/sagas signal_with_start",
        "/api/v1/sagas start",
        "/api/v1/workflows validate",
      ],
    ]);
  });

  it.each(["validate", "versions", "test", "publish", "machine", "stats"])("%s can be read and used", async (id) => {
    const at = `/api/v1/workflows/${id}`;
    expect((await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, id, version: 1 })).status).toBe(201);
    for (const [method, path] of [
      ["POST", `${at}/versions/1/publish`],
      ["GET", at],
      ["HEAD", at],
      ["GET", `${at}/versions`],
      ["GET", `${at}/machine`],
      ["GET", `${at}/stats`],
      ["GET", `${at}/performance`],
    ] as const)
      expect([method, path, (await rig.call(method, path)).status]).toEqual([method, path, 200]);
    expect((await rig.call("GET", `${at}?version=1`)).body.id).toBe(id);
    expect((await rig.call("POST", `${at}/test`, { mocks: {} })).status).toBe(200);
    const rule = { rule_id: id, name: id, ...RULE, published: true };
    expect((await rig.call("POST", "/api/v1/rules", rule)).status).toBe(201);
    expect((await rig.call("GET", `/api/v1/rules/${id}`)).body.rule_id).toBe(id);
    expect((await rig.call("POST", `/api/v1/rules/${id}/evaluate`, { inputs: {} })).status).toBe(200);
  });

  it("shares its path with what the literal part does, and 405 names the methods of both", async () => {
    expect((await rig.call("POST", "/api/v1/workflows/validate", WORKFLOW)).body.valid).toBe(true);
    const { status, headers } = await ask(port, { method: "DELETE", path: "/api/v1/workflows/validate" });
    expect([status, headers.allow]).toEqual([405, "GET, HEAD, POST"]);
    const counts = await ask(port, { method: "DELETE", path: "/api/v1/sagas/counts" });
    expect([counts.status, counts.headers.allow]).toEqual([405, "GET, HEAD"]);
    expect((await ask(port, { path: "/api/v1/sagas/start" })).headers.allow).toBe("POST");
  });
});

describe("an id", () => {
  it("with a colon is the same, percent-encoded or not", async () => {
    const id = "shop:order.v1";
    expect((await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, id, published: true })).status).toBe(201);
    for (const name of ["shop:order.v1", "shop%3Aorder.v1", "shop%3aorder%2ev1"]) {
      expect((await rig.call("GET", `/api/v1/workflows/${name}`)).body.id).toBe(id);
      expect((await rig.call("GET", `/api/v1/workflows/${name}/stats`)).status).toBe(200);
    }
    const run = await insertRun(rig);
    await rig.call("POST", `/api/v1/sagas/${run}/actions/charge%3A2/heartbeat`);
    expect(rig.asked.at(-1)?.command).toMatchObject({ stepId: "charge:2" });
    await rig.call("POST", `/api/v1/sagas/${run}/signal/paid%3Ain.full`);
    expect(rig.asked.at(-1)?.command).toMatchObject({ name: "paid:in.full" });
  });

  const one = (id: string) => [{ id, type: "noop" }];
  it.each([".", ".."])("%s is refused for whatever has an id, because no URL can name it", async (id) => {
    const refused: readonly [url: string, body: object, path: string][] = [
      ["workflows", { ...WORKFLOW, id }, "$.id"],
      ["workflows", { id: "dots", name: "Dots", start: id, steps: one(id) }, "$.steps[0].id"],
      [
        "workflows",
        { id: "dots", name: "Dots", start: "s", steps: [{ id: "s", type: "wait_for_signal", signal_name: id }] },
        "$.steps[0].signal_name",
      ],
      ["rules", { rule_id: id, name: "Dots", ...RULE }, "$.rule_id"],
      ["triggers", { trigger_type: "cron", workflow_id: id, config: { schedule: "0 3 * * *" } }, "$.workflow_id"],
      ["registry/register", { service: id, actions: [{ action_name: "charge" }] }, "$.service"],
      ["registry/register", [{ service: id, action_name: "charge" }], "$[0].service"],
      ["sagas/start", { workflow_id: "w", labels: { [id]: "x" } }, `$.labels["${id}"]`],
    ];
    for (const [url, body, path] of refused) {
      const { status, body: answer } = await rig.call("POST", `/api/v1/${url}`, body);
      const named = answer.details?.map((each: { path: string }) => each.path);
      expect([url, path, status, named]).toEqual([url, path, 400, expect.arrayContaining([path])]);
    }
  });

  it("of a variable may be anything that a name may be: it stands in no path", () => {
    const steps = [{ id: "s", type: "set_var", name: ".", value: 1 }];
    expect(compileWorkflow({ id: "w", name: "W", start: "s", steps }).problems).toEqual([]);
  });
});

describe("the name of a signal", () => {
  it.each(["a%2Fb", "a b", "x".repeat(200), "%F0%9F%8E%89"])("%s, which no step may await, is 400", async (name) => {
    const run = await insertRun(rig);
    const before = rig.asked.length;
    const { status, body } = await rig.call("POST", `/api/v1/sagas/${run}/signal/${name}`, {});
    expect([status, body.details?.[0].path]).toEqual([400, "$.path.name"]);
    const job = { filter: {}, action: "signal", params: { signal_name: decodeURIComponent(name) } };
    const bulk = await rig.call("POST", "/api/v1/bulk", job);
    expect([bulk.status, bulk.body.details?.[0].path]).toEqual([400, "$.params.signal_name"]);
    expect(rig.asked.length, "nothing was recorded").toBe(before);
  });

  it.each([".", ".."])("%s, which no step may await, is refused in a bulk job too", async (name) => {
    const { status, body } = await rig.call("POST", "/api/v1/bulk", {
      ...{ filter: {}, action: "signal", params: { signal_name: name } },
    });
    expect([status, body.details?.[0].path]).toEqual([400, "$.params.signal_name"]);
  });

  it("of 128 characters is taken", async () => {
    const run = await insertRun(rig);
    expect((await rig.call("POST", `/api/v1/sagas/${run}/signal/${"x".repeat(128)}`, {})).status).toBe(202);
  });
});
