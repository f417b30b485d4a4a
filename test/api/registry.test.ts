// The action registry over HTTP.
import { describe, expect, it } from "vitest";
import { stateOf } from "../../src/store/engine/table-state.js";
import { useRig } from "./rig.js";

const rig = useRig({ amqp: true });
const register = (body: unknown) => rig.call("POST", "/api/v1/registry/register", body);
const list = async (query: string) =>
  (await rig.call("GET", `/api/v1/registry/actions?${query}`)).body.items.map(
    (item: { service: string; action_name: string; version: number }) =>
      `${item.service}.${item.action_name}@${item.version}`,
  );

describe("the action registry", () => {
  it("a registration is completed, and repeating it changes nothing", async () => {
    const body = {
      service: "pay",
      service_version: "1.2",
      actions: [{ action_name: "charge" }, { action_name: "ask", transport: "" }],
    };
    const first = await register(body);
    expect(first.status).toBe(200);
    expect(first.body.registered).toBe(2);
    expect(first.body.actions[0]).toEqual({
      id: expect.any(String),
      service: "pay",
      action_name: "charge",
      version: 1,
      compensable: false,
      input_schema: {},
      output_schema: {},
      deprecated: false,
      registered_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      service_version: "1.2",
      dry_run_supported: false,
      transport: "grpc",
    });
    expect((await register(body)).body).toEqual(first.body);
    expect((await register(first.body.actions)).body).toEqual(first.body);
    expect(rig.refreshed).toBe(3);
  });

  it("an upsert replaces everything except the id and the registration time", async () => {
    const full = {
      service: "ship",
      action_name: "send",
      version: 2,
      description: "Sends a parcel",
      category: "Logistics",
      compensable: true,
      input_schema: { $schema: "http://json-schema.org/draft-07/schema#", type: "object" },
      output_schema: { properties: { b: {}, a: {} } },
      error_codes: ["lost"],
      default_retry: { max_attempts: -1, initial_backoff_ms: 10, jitter: false },
      default_timeout_ms: 1000,
      deprecated: true,
      service_version: "9",
      dry_run_supported: true,
      license_group: "gold",
      transport: "http",
      address: "https://ship.example/send",
    };
    const first = (await register([full])).body.actions[0];
    expect(first).toEqual({ ...full, id: first.id, registered_at: first.registered_at });
    const plain = { service: "ship", action_name: "send", version: 2, transport: "rmq", address: "parcels" };
    const second = (await register([plain])).body.actions[0];
    expect(second).toMatchObject({ id: first.id, registered_at: first.registered_at, ...plain });
    expect(second).not.toHaveProperty("description");
    expect(second).not.toHaveProperty("default_retry");
  });

  it("the times of an action are at most ten years, as those of a step are", async () => {
    const DAY_MS = 86_400_000;
    const timed = (ms: number) => ({
      ...{ service: "slow", action_name: "build", default_timeout_ms: ms },
      default_retry: { max_attempts: 2, initial_backoff_ms: ms, max_backoff_ms: ms },
    });
    const register1 = async (ms: number) => {
      const { status, body } = await register([timed(ms)]);
      expect([status, body.details], `${ms / DAY_MS} days`).toEqual([200, undefined]);
      return body;
    };
    for (const days of [24, 25, 60, 3_660]) {
      const { actions, changed } = await register1(days * DAY_MS);
      expect(actions[0]).toMatchObject(timed(days * DAY_MS));
      expect(changed.map(({ members }: { members: string[] }) => members)).toEqual(
        days === 24 ? [] : [["default_retry", "default_timeout_ms"]],
      );
      const listed = await rig.call("GET", "/api/v1/registry/actions?service=slow");
      expect(listed.body.items).toEqual(actions);
      expect((await register1(days * DAY_MS)).changed).toEqual([]);
    }
    const { details } = (await register([timed(3_660 * DAY_MS + 1)])).body;
    expect(details.map(({ path }: { path: string }) => path)).toContain("$[0].default_timeout_ms");
  });

  it("registering a version anew answers what differs, and a difference that runs rely on is logged as a warning", async () => {
    const register1 = (more: object) =>
      register({ service: "anew", actions: [{ action_name: "a", ...more }, { action_name: "b" }] });
    expect((await register1({ output_schema: { type: "object", required: ["x"] } })).body.changed).toEqual([]);
    // Another order of keys is no difference.
    expect((await register1({ output_schema: { required: ["x"], type: "object" } })).body.changed).toEqual([]);
    rig.logLines.length = 0;
    const moved = { transport: "http", address: "https://anew.example/a", input_schema: { type: "object" } };
    const change = { service: "anew", action_name: "a", version: 1 };
    expect((await register1(moved)).body.changed).toEqual([
      { ...change, members: ["input_schema", "output_schema", "transport", "address"] },
    ]);
    const lines = () => rig.logLines.map((line) => JSON.parse(line)).filter(({ action }) => action === "anew.a@1");
    expect(lines()).toMatchObject([
      {
        level: "warn",
        members: ["input_schema", "output_schema", "transport", "address"],
        msg: expect.stringContaining("changed"),
      },
    ]);
    rig.logLines.length = 0;
    expect((await register1({ ...moved, description: "d" })).body.changed).toEqual([
      { ...change, members: ["description"] },
    ]);
    expect(lines()).toMatchObject([{ level: "info", members: ["description"] }]);
    expect((await register([{ service: "anew", action_name: "a", version: 2 }])).body.changed).toEqual([]);
  });

  it("only_missing leaves what is registered as it is, and answers with what was not", async () => {
    const given = { service: "lost", only_missing: true };
    await register({ service: "lost", actions: [{ action_name: "a", description: "by hand" }] });
    const before = await stateOf(rig.database.sql, "actions");
    const actions = [{ action_name: "a" }, { action_name: "b" }];
    expect((await register({ ...given, actions: actions.slice(0, 1) })).body).toEqual({
      ...{ registered: 0, actions: [], changed: [] },
    });
    expect(await stateOf(rig.database.sql, "actions")).toBe(before);
    const { body } = await register({ ...given, actions });
    expect(body).toMatchObject({ registered: 1, actions: [{ action_name: "b" }], changed: [] });
    const stored = (await rig.call("GET", "/api/v1/registry/actions?service=lost")).body.items;
    expect(stored.map(({ description }: { description?: string }) => description ?? "none").sort()).toEqual([
      ...["by hand", "none"],
    ]);
    expect((await register({ ...given, only_missing: "yes", actions })).status).toBe(400);
  });

  it("services can register the same actions at the same time", async () => {
    const names = Array.from({ length: 40 }, (_, n) => ({ action_name: `a${n}` }));
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        register({ service: "crowd", actions: n % 2 ? names : [...names].reverse() }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect((await rig.call("GET", "/api/v1/registry/actions?service=crowd")).body.total).toBe(40);
  });

  it("the list filters, and searches text literally", async () => {
    await register({
      service: "find",
      actions: [
        { action_name: "one", description: "100% SURE", category: "c_1" },
        { action_name: "one", version: 2, category: "c-1" },
        { action_name: "two", description: "100 percent" },
      ],
    });
    expect(await list("service=find")).toEqual(["find.one@1", "find.one@2", "find.two@1"]);
    expect(await list("service=find&category=c_1")).toEqual(["find.one@1"]);
    expect(await list("service=find&search=100%25%20sure")).toEqual(["find.one@1"]);
    expect(await list("service=find&search=C_1")).toEqual(["find.one@1"]);
    expect(await list("service=find&search=TWO")).toEqual(["find.two@1"]);
    expect(await list("service=find&search=")).toHaveLength(3);
    expect(await list("service=find&search=%27%20or%20true")).toEqual([]);
    const page = (await rig.call("GET", "/api/v1/registry/actions?service=find&limit=2")).body;
    expect(page).toMatchObject({ total: 3, limit: 2, offset: 0 });
    expect(await list(`service=find&cursor=${page.next_cursor}`)).toEqual(["find.two@1"]);
  });

  it("a message is weighed as a whole before its schemas are checked", async () => {
    const properties = Object.fromEntries(Array.from({ length: 700 }, (_, n) => [`p${n}`, {}]));
    const registerMany = (service: string, count: number) =>
      rig.call("POST", "/api/v1/registry/register", {
        service,
        actions: Array.from({ length: count }, (_, n) => ({ action_name: `a${n}`, input_schema: { properties } })),
      });
    const heavy = await registerMany("heavy", 60);
    expect(heavy.status).toBe(400);
    expect(heavy.body.message).toMatch(/^the schemas up to \$\.actions\[56\] have over 40000 objects/);
    expect((await rig.call("GET", "/api/v1/registry/actions?service=heavy")).body.total).toBe(0);
    expect(await registerMany("light", 3)).toMatchObject({ status: 200, body: { registered: 3 } });
  });

  it("unknown members are ignored and named", async () => {
    const response = await register({
      service: "new",
      actions: [{ action_name: "a", colour: 1, default_retry: { max_attempts: 1, initial_backoff_ms: 0, x: 1 } }],
      more: 1,
    });
    expect(response.status).toBe(200);
    expect(response.headers["saga-ignored-fields"]).toBe("actions[0].colour, actions[0].default_retry.x, more");
  });
});
