// Triggers over HTTP: their checks, statuses and shapes, and the definitions directory. What fires is in test/trigger.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { useRig } from "./rig.js";

const rig = useRig();
const URL = "/api/v1/triggers";
const NOWHERE = "0190a000-0000-7000-8000-0000000000ff";
const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);

const cron = (more: JsonObject = {}, config: JsonObject = {}) => ({
  ...{ trigger_type: "cron", workflow_id: "billing", ...more },
  config: { schedule: "30 2 * * 1-5", ...config },
});
const transition = (config: JsonObject = {}) => ({
  ...{ trigger_type: "record_transition", workflow_id: "billing" },
  config: { record_type: "invoice", from_state: "open", to_state: "paid", ...config },
});
const post = (document: unknown, headers = {}) => rig.call("POST", URL, document as object, headers);

beforeAll(async () => {
  const steps = [{ id: "n", type: "noop" }];
  await rig.call("POST", "/api/v1/workflows", { id: "billing", name: "Billing", start: "n", steps, published: true });
  await rig.call("POST", "/api/v1/workflows", { id: "draft", name: "Draft", start: "n", steps });
});
beforeEach(async () => {
  await rig.database.sql`delete from triggers`;
});

describe("create", () => {
  it("answers 201 with the trigger and its place, and get answers the same", async () => {
    const { status, body, headers } = await post(cron());
    expect(status).toBe(201);
    expect(body).toEqual({
      ...cron(),
      ...{ id: UUID, enabled: true, created_at: TIME, created_by: "api", next_fire_at: TIME },
      in_words: "At 02:30 on Monday to Friday, UTC",
    });
    expect(headers.location).toBe(`${URL}/${body.id}`);
    expect(await rig.call("GET", `${URL}/${body.id}`)).toMatchObject({ status: 200, body });
  });

  it("takes a $schema, for editors", async () => {
    expect((await post(cron({ $schema: "https://example.com/trigger.json" }))).status).toBe(201);
    expect((await post(cron({ $schema: 7 }))).body.details).toMatchObject([{ path: '$["$schema"]' }]);
  });

  it("a disabled trigger and a record_transition trigger have no next tick", async () => {
    expect((await post(cron({ enabled: false }))).body).not.toHaveProperty("next_fire_at");
    expect((await post(transition())).body).not.toHaveProperty("next_fire_at");
  });

  it.each([
    ["an unknown type", { trigger_type: "cronn", workflow_id: "billing", config: {} }, "$.trigger_type"],
    ["no config", { trigger_type: "cron", workflow_id: "billing" }, "$.config"],
    ["an unknown member", { ...cron(), owner: "x" }, "$.owner"],
    ["an unknown member of the config", cron({}, { timezone: "CET" }), "$.config.timezone"],
    ["a zone that there is not", cron({}, { time_zone: "Europe/Wien" }), "$.config.time_zone"],
    ["a zone that is an offset", cron({}, { time_zone: "+02:00" }), "$.config.time_zone"],
    ["a zone that is no text", cron({}, { time_zone: 2 }), "$.config.time_zone"],
    ["a start that is no time", cron({}, { start_at: "tomorrow" }), "$.config.start_at"],
    ["an end that is a number", cron({}, { end_at: 1_800_000_000_000 }), "$.config.end_at"],
    [
      "an end before the first tick",
      cron({}, { schedule: "0 0 1 1 *", start_at: "2027-02-01T00:00:00Z", end_at: "2027-12-31T23:00:00Z" }),
      "$.config.end_at",
    ],
    ["a jitter of more than an hour", cron({}, { jitter_ms: 3_600_001 }), "$.config.jitter_ms"],
    ["a schedule that is none", cron({}, { schedule: "every day" }), "$.config.schedule"],
    ["a schedule that never fires", cron({}, { schedule: "0 0 31 2 *" }), "$.config.schedule"],
    ["an unknown policy", cron({}, { overlap_policy: "queue" }), "$.config.overlap_policy"],
    ["a window that is no number", cron({}, { catchup_window_ms: "1h" }), "$.config.catchup_window_ms"],
    ["a mapping that does not compile", transition({ input_mapping: { a: "${record." } }), "$.config.input_mapping"],
    [
      "a missing state",
      { ...transition(), config: { record_type: "invoice", from_state: "open" } },
      "$.config.to_state",
    ],
    ["a tenant that is no UUID", cron({ tenant_id: "acme" }), "$.tenant_id"],
    ["a document that is no object", [1], "$"],
  ])("%s is 400 invalid_config with its place", async (_, document, path) => {
    const { status, body } = await post(document);
    expect([status, body.error]).toEqual([400, "invalid_config"]);
    expect(body.details.map((detail: { path: string }) => detail.path)).toContain(path);
  });

  it("lists every problem at once", async () => {
    const { body } = await post({ ...cron({ version: 0 }, { catchup: "all", inputs: 1 }), extra: 1 });
    expect(body.details.map((detail: { path: string }) => detail.path).sort()).toEqual([
      "$.config.catchup",
      "$.config.inputs",
      "$.extra",
      "$.version",
    ]);
  });

  it.each([
    ["an unknown workflow", { workflow_id: "nowhere" }, 404],
    ["an unknown version", { version: 9 }, 404],
    ["a known version", { version: 1 }, 201],
    ["a workflow that is not published yet", { workflow_id: "draft" }, 201],
  ])("%s: %j is %i", async (_, more, status) => {
    expect((await post(cron(more))).status).toBe(status);
  });

  it("a repeat of the key gets the first trigger, and another body is 409", async () => {
    const key = { "idempotency-key": uuidv7() };
    const [first, second] = [await post(cron(), key), await post(cron(), key)];
    expect(second).toMatchObject({ status: 201, body: { id: first.body.id } });
    expect((await post(cron({ enabled: false }), key)).status).toBe(409);
    expect((await rig.call("GET", URL)).body.total).toBe(1);
  });
});

describe("list", () => {
  it("has the triggers in the order of their creation, by type, state and workflow", async () => {
    const ids: string[] = [];
    for (const document of [cron(), transition(), cron({ enabled: false, workflow_id: "draft" })])
      ids.push((await post(document)).body.id);
    const listed = async (query: string) =>
      (await rig.call("GET", `${URL}?${query}`)).body.items.map((item: { id: string }) => ids.indexOf(item.id));
    expect(await listed("")).toEqual([0, 1, 2]);
    expect(await listed("type=cron")).toEqual([0, 2]);
    expect(await listed("enabled=false")).toEqual([2]);
    expect(await listed("enabled=true&type=record_transition")).toEqual([1]);
    expect(await listed("workflow_id=draft")).toEqual([2]);
    const page = await rig.call("GET", `${URL}?limit=2`);
    expect(page.body).toMatchObject({ total: 3, next_cursor: expect.any(String) });
    expect(await listed(`cursor=${page.body.next_cursor}`)).toEqual([2]);
  });

  it.each(["type=timer", "enabled=yes", "owner=x"])("?%s is 400", async (query) => {
    expect((await rig.call("GET", `${URL}?${query}`)).status).toBe(400);
  });
});

describe("delete", () => {
  it("is 204, and then 404", async () => {
    const { body } = await post(cron());
    expect(await rig.call("DELETE", `${URL}/${body.id}`)).toMatchObject({ status: 204, body: "" });
    expect((await rig.call("DELETE", `${URL}/${body.id}`)).status).toBe(404);
    expect((await rig.call("GET", `${URL}/${body.id}`)).status).toBe(404);
  });

  it.each(["", "/fire", "/fires", "/next"])(
    "of a trigger that is not there, like its %s, is 404; a bad id is 400",
    async (part) => {
      const method = part === "" ? "DELETE" : part === "/fire" ? "POST" : "GET";
      expect((await rig.call(method, `${URL}/${NOWHERE}${part}`)).status).toBe(404);
      expect((await rig.call(method, `${URL}/x${part}`)).status).toBe(400);
    },
  );
});

describe("change", () => {
  it("disables and enables, and replaces the config", async () => {
    const { body } = await post(cron());
    const patch = (change: object) => rig.call("PATCH", `${URL}/${body.id}`, change);
    expect((await patch({ enabled: false })).body).not.toHaveProperty("next_fire_at");
    expect((await patch({ enabled: true })).body.next_fire_at).toBe(body.next_fire_at);
    const config = { schedule: "0 0 1 1 *" };
    expect(await patch({ config })).toMatchObject({
      status: 200,
      body: { config, next_fire_at: expect.stringContaining("-01-01T00:00") },
    });
  });

  it.each([
    [{ config: { schedule: "x" } }, "invalid_config"],
    [{ config: { record_type: "invoice" } }, "invalid_config"],
    [{ enabled: "yes" }, "bad_request"],
  ])("%j is 400 %s", async (change, error) => {
    const { body } = await post(cron());
    expect(await rig.call("PATCH", `${URL}/${body.id}`, change)).toMatchObject({ status: 400, body: { error } });
  });
});

describe("a pause", () => {
  const patch = (id: string, change: object) => rig.call("PATCH", `${URL}/${id}`, change);
  const paused = async (id: string) => (await rig.call("GET", `${URL}/${id}`)).body.paused;

  it("says who disabled the trigger, when and why, in the item and in the list, until it is enabled", async () => {
    const { body } = await post(cron());
    expect(body).not.toHaveProperty("paused");
    const reason = 'the "Lager" is counted 📦, O\'Neill says';
    const changed = await patch(body.id, { enabled: false, reason });
    expect(changed).toMatchObject({
      status: 200,
      body: { enabled: false, paused: { since: TIME, by: "api", reason } },
    });
    expect(await paused(body.id)).toEqual(changed.body.paused);
    expect((await rig.call("GET", URL)).body.items).toMatchObject([{ paused: changed.body.paused }]);
    expect((await patch(body.id, { config: { schedule: "0 5 * * *" } })).body.paused).toEqual(changed.body.paused);
    expect((await patch(body.id, { enabled: true })).body).not.toHaveProperty("paused");
    expect((await patch(body.id, { enabled: false })).body.paused).toEqual({ since: TIME, by: "api" });
  });

  it("without a reason of a disabled trigger changes nothing, with one it says the new one", async () => {
    const { body } = await post(cron());
    const first = (await patch(body.id, { enabled: false, reason: "one" })).body.paused;
    await rig.database.sql`update triggers set paused_at = paused_at - interval '1 hour', paused_by = 'user:ann'`;
    const since = new Date(Date.parse(first.since) - 3_600_000).toISOString();
    for (const change of [{}, { enabled: false }, { enabled: false, reason: null }, { enabled: false, reason: "" }])
      expect((await patch(body.id, change)).body.paused).toEqual({ since, by: "user:ann", reason: "one" });
    expect((await patch(body.id, { enabled: false, reason: "two" })).body.paused).toEqual({
      ...{ since, by: "api", reason: "two" },
    });
  });

  it("is not made up for a trigger that was created disabled, nor by a repeat of its creation", async () => {
    const { body } = await post(cron({ enabled: false }));
    expect((await patch(body.id, { enabled: false })).body).not.toHaveProperty("paused");
    expect((await patch(body.id, { enabled: false, reason: "not yet" })).body.paused.reason).toBe("not yet");
    const key = { "idempotency-key": uuidv7() };
    const { body: made } = await post(cron(), key);
    await patch(made.id, { enabled: false, reason: "later" });
    expect((await post(cron(), key)).body, "as it was created").toEqual(made);
    expect((await paused(made.id)).reason).toBe("later");
  });

  it("takes a reason with enabled: false alone, of 2000 characters at most", async () => {
    const { body } = await post(cron());
    for (const change of [
      { reason: "x" },
      { enabled: true, reason: "x" },
      { config: { schedule: "0 5 * * *" }, reason: "x" },
    ])
      expect(await patch(body.id, change)).toMatchObject({ status: 400, body: { details: [{ path: "$.reason" }] } });
    expect((await patch(body.id, { enabled: false, reason: "é".repeat(2_001) })).status).toBe(400);
    expect((await patch(body.id, { enabled: false, reason: 1 })).status).toBe(400);
    expect(await paused(body.id)).toBeUndefined();
    expect((await patch(body.id, { enabled: false, reason: "é".repeat(2_000) })).status).toBe(200);
  });

  it("and its end at the same time leave one of the two", async () => {
    const { body } = await post(cron());
    for (let nth = 0; nth < 5; nth++) {
      await Promise.all([
        patch(body.id, { enabled: false, reason: "x" }),
        patch(body.id, { enabled: true }),
        patch(body.id, { config: { schedule: `${nth} 5 * * *` } }),
      ]);
      const { body: now } = await rig.call("GET", `${URL}/${body.id}`);
      expect([now.enabled, "paused" in now, "next_fire_at" in now]).toEqual([now.enabled, !now.enabled, now.enabled]);
      expect(now.config.schedule).toBe(`${nth} 5 * * *`);
    }
  });
});

describe("a schedule in words", () => {
  it("is in the item and in the list, follows the config, and is not taken from a document", async () => {
    const { body } = await post(cron({}, { time_zone: "Europe/Vienna" }));
    expect(body.in_words).toBe("At 02:30 on Monday to Friday, Europe/Vienna");
    const { body: changed } = await rig.call("PATCH", `${URL}/${body.id}`, { config: { schedule: "*/5 * * * *" } });
    expect(changed.in_words).toBe("Every 5 minutes, UTC");
    expect((await rig.call("GET", URL)).body.items).toMatchObject([{ in_words: changed.in_words }]);
    expect((await post(transition())).body).not.toHaveProperty("in_words");
    for (const member of ["in_words", "paused"])
      expect((await post(cron({ [member]: "x" }))).body.details).toMatchObject([{ path: `$.${member}` }]);
  });
});

describe("backfill", () => {
  const range = { from: "2023-03-01T02:30:00Z", to: "2023-03-03T02:30:00+00:00" };
  const backfill = (id: string, body: object) => rig.call("POST", `${URL}/${id}/backfill`, body);

  it("answers 202 with the ticks that it fires, and a repeat fires none; a dry run fires none at all", async () => {
    const { body } = await post(cron({ enabled: false }));
    const items = [1, 2, 3].map((day) => ({ fire_id: UUID, scheduled_at: `2023-03-0${day}T02:30:00.000Z` }));
    const looked = await backfill(body.id, { ...range, dry_run: true });
    expect(looked).toMatchObject({ status: 202, body: { ticks: 3, fired: 3, dry_run: true, items } });
    expect((await rig.call("GET", `${URL}/${body.id}/fires`)).body.total).toBe(0);
    const fired = await backfill(body.id, range);
    expect(fired).toMatchObject({ status: 202, body: { ticks: 3, fired: 3, items: looked.body.items } });
    expect((await backfill(body.id, range)).body).toEqual({ ticks: 3, fired: 0, items: [] });
    const fires = (await rig.call("GET", `${URL}/${body.id}/fires`)).body;
    expect(fires).toMatchObject({
      total: 3,
      items: [{ backfilled: true }, { backfilled: true }, { backfilled: true }],
    });
  });

  it("goes up to now without an end", async () => {
    const { body } = await post(cron({}, { schedule: "0 0 1 1 *" }));
    const { ticks, fired } = (await backfill(body.id, { from: "2020-06-01T00:00:00Z", dry_run: true })).body;
    expect([ticks, fired]).toEqual([3, 3]);
  });

  it.each([
    [{}, 400, "$.from"],
    [{ ...range, from: "yesterday" }, 400, "$.from"],
    [{ ...range, to: 5 }, 400, "$.to"],
    [{ ...range, to: "2023-02-28T00:00:00Z" }, 400, "$.to"],
    [{ ...range, to: "2999-01-01T00:00:00Z" }, 400, "$.to"],
    [{ ...range, dry_run: "no" }, 400, "$.dry_run"],
    [{ ...range, from: "0001-01-01T00:00:00Z" }, 422, "$.to"],
  ])("of %j is %i at %s", async (body, status, path) => {
    const { body: trigger } = await post(cron());
    expect(await backfill(trigger.id, body)).toMatchObject({ status, body: { details: [{ path }] } });
    expect((await rig.call("GET", `${URL}/${trigger.id}/fires`)).body.total).toBe(0);
  });

  it("of a record_transition trigger is 400", async () => {
    const { body } = await post(transition());
    expect((await backfill(body.id, range)).status).toBe(400);
  });
});

describe("fire now", () => {
  it("starts a run of the trigger, enabled or not, and lists the fire", async () => {
    const { body } = await post(cron({ enabled: false }, { inputs: { region: "eu" } }));
    rig.started.length = 0;
    const fired = await rig.call("POST", `${URL}/${body.id}/fire`);
    expect(fired).toMatchObject({ status: 202, body: { fire_id: UUID, run_id: UUID } });
    expect(rig.started).toMatchObject([
      {
        workflowId: "billing",
        triggerId: body.id,
        actor: `trigger:${body.id}`,
        runId: fired.body.run_id,
        inputs: { region: "eu" },
      },
    ]);
    const row = {
      id: fired.body.fire_id,
      trigger_id: body.id,
      workflow_id: "billing",
      resulting_run_id: fired.body.run_id,
    };
    expect((await rig.call("GET", `${URL}/${body.id}/fires`)).body).toMatchObject({ total: 1, items: [row] });
  });

  it("a repeat of the key gets the first fire, and another payload is 409", async () => {
    const { body } = await post(transition());
    const key = { "idempotency-key": "again" };
    const payload = (n: number) => ({ record_type: "a", from_state: "b", to_state: "c", record: { n } });
    const fire = (n: number) => rig.call("POST", `${URL}/${body.id}/fire`, { payload: payload(n) }, key);
    expect((await fire(1)).body).toEqual((await fire(1)).body);
    expect(await fire(2)).toMatchObject({ status: 409, body: { error: "conflict" } });
    expect((await rig.call("GET", `${URL}/${body.id}/fires`)).body.total).toBe(1);
  });

  it("a record_transition trigger maps the payload that it is given", async () => {
    const { body } = await post(transition({ input_mapping: { id: "${record.id}" } }));
    rig.started.length = 0;
    const payload = { record_type: "invoice", from_state: "open", to_state: "paid", record: { id: "inv-7" } };
    expect((await rig.call("POST", `${URL}/${body.id}/fire`, { payload })).status).toBe(202);
    expect(rig.started).toMatchObject([{ inputs: { id: "inv-7" } }]);
    expect((await rig.call("POST", `${URL}/${body.id}/fire`, { payload: 1 })).status).toBe(400);
  });
});

describe("next", () => {
  it("lists the next ticks of a cron trigger", async () => {
    const { body } = await post(cron({}, { schedule: "0 0 29 2 *" }));
    const { status, body: next } = await rig.call("GET", `${URL}/${body.id}/next?count=2`);
    expect([status, next.items]).toEqual([200, ["2024-02-29T00:00:00.000Z", "2028-02-29T00:00:00.000Z"]]);
  });

  it("lists those of a zone, between its start and its end, later by its jitter", async () => {
    const times = { start_at: "2027-03-27T00:00:00+01:00", end_at: "2027-03-29T23:00:00Z" };
    const zoned = { schedule: "30 2 * * *", time_zone: "Europe/Vienna", ...times };
    const { body } = await post(cron({}, zoned));
    expect(body.config).toMatchObject(zoned);
    const next = async (id: string) => (await rig.call("GET", `/api/v1/triggers/${id}/next`)).body.items;
    const ticks = ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z", "2027-03-29T00:30:00.000Z"];
    expect(await next(body.id)).toEqual(ticks);
    expect(body.next_fire_at).toBe(ticks[0]);
    const delays = new Set<number>();
    for (let nth = 0; nth < 5; nth++) {
      const { body: late } = await post(cron({}, { ...zoned, jitter_ms: 600_000 }));
      const items: string[] = await next(late.id);
      const [delay = -1, ...others] = items.map((item, tick) => Date.parse(item) - Date.parse(ticks[tick] ?? ""));
      expect(others, "the same for each tick").toEqual([delay, delay]);
      expect(delay >= 0 && delay <= 600_000).toBe(true);
      expect(late.next_fire_at).toBe(items[0]);
      delays.add(delay);
    }
    expect(delays.size, "each has its own").toBeGreaterThan(1);
  });

  it("of a record_transition trigger is 400", async () => {
    const { body } = await post(transition());
    expect((await rig.call("GET", `${URL}/${body.id}/next`)).status).toBe(400);
  });
});

describe("the definitions directory", () => {
  it("stores a trigger once under the id of its file, follows the file, and leaves `enabled` to operators", async () => {
    const dir = await mkdtemp(join(tmpdir(), "saga-triggers-"));
    try {
      const write = (document: unknown) => writeFile(join(dir, "nightly.trigger.json"), JSON.stringify(document));
      await write(cron());
      await Promise.all([rig.loadDefinitions(dir), rig.loadDefinitions(dir)]);
      const { body } = await rig.call("GET", URL);
      expect(body).toMatchObject({ total: 1, items: [{ created_by: "file:nightly", enabled: true }] });
      const { id } = body.items[0];
      await rig.call("PATCH", `${URL}/${id}`, { enabled: false });
      await write(cron({}, { schedule: "0 5 * * *" }));
      await rig.loadDefinitions(dir);
      expect((await rig.call("GET", `${URL}/${id}`)).body).toMatchObject({
        enabled: false,
        config: { schedule: "0 5 * * *" },
      });
      await write(cron({}, { schedule: "x" }));
      await expect(rig.loadDefinitions(dir)).rejects.toThrow("nightly.trigger.json: $.config.schedule");
      await write(cron({ workflow_id: "nowhere" }));
      await expect(rig.loadDefinitions(dir)).rejects.toThrow("nightly.trigger.json: there is no workflow nowhere");
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
