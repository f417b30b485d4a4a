// Filters of runs by what went wrong and by why they are paused, and the counts that take the same filters.
import { describe, expect, it } from "vitest";
import { countEnds } from "../../src/store/end-counts.js";
import { insertRun, useRig } from "./rig.js";

const rig = useRig();
const TENANT = "0a000000-0000-4000-8000-000000000000";
const call = (url: string) => rig.call("GET", `/api/v1/sagas${url}`);
const idsOf = async (query: string): Promise<string[]> =>
  (await call(`?sort=started_at&${query}`)).body.items.map(({ id }: { id: string }) => id);

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const failed = (workflow: string, code: string, seed: object = {}) =>
  insertRun(rig, {
    ...{ workflow_id: workflow, state: "failed", terminal_at: at(1) },
    ...{ record: { ending: { to: "failed", reason: code, error: { code, message: code } } }, ...seed },
  });
const paused = (workflow: string, reason: string, seed: object = {}) =>
  insertRun(rig, { workflow_id: workflow, state: "paused", paused_reason: reason, ...seed });

describe("the filter", () => {
  it("error_code finds the runs that ended with the code, and no others", async () => {
    const declined = [await failed("codes", "card_declined"), await failed("codes", "card_declined")];
    await failed("codes", "card_declined_later");
    const succeeded = { state: "succeeded", terminal_at: at(2) };
    await failed("codes", "card_declined", succeeded);
    await failed("codes", "card_declined", { state: "compensating", terminal_at: null });
    expect((await idsOf("error_code=card_declined")).sort()).toEqual(declined.sort());
    expect(await idsOf("error_code=card")).toEqual([]);
    expect((await call("?error_code=card_declined")).body.items[0].error.code).toBe("card_declined");
  });

  it("error_code finds the runs that stand at an incident with the code, and no other waits", async () => {
    const wait = (code: string) => ({ wait: { kind: "incident", attempts: 1, error: { code, message: code } } });
    const [forward, undo] = [
      await paused("standing", "incident", { record: wait("carrier_down") }),
      await paused("standing", "incident", { state: "compensating", record: wait("carrier_down") }),
    ];
    await paused("standing", "incident", { record: wait("other") });
    await paused("standing", "retry", { record: { wait: { kind: "backoff", error: { code: "carrier_down" } } } });
    const ended = await failed("standing", "carrier_down");
    const all = "workflow_id=standing&error_code=carrier_down";
    expect((await idsOf(all)).sort()).toEqual([forward, undo, ended].sort());
    expect((await idsOf(`${all}&incident=true`)).sort()).toEqual([forward, undo].sort());
    expect(await idsOf(`${all}&incident=false`)).toEqual([ended]);
    expect(await idsOf(`${all}&state=compensating`)).toEqual([undo]);
    expect(await idsOf(`${all}&paused_reason=retry`)).toEqual([]);
    const counts = (await call(`/counts?${all}&incident=true`)).body.items;
    expect(counts.map(({ state, count }: { state: string; count: number }) => [state, count])).toEqual([
      ["compensating", 1],
      ["paused", 1],
    ]);
  });

  it("paused_reason finds waits and exceptions, together and with other filters", async () => {
    const signal = await paused("pauses", "signal", { started_at: at(1) });
    const incident = await paused("pauses", "incident", { started_at: at(2), tenant_id: TENANT });
    const operator = await paused("pauses", "operator", { started_at: at(3) });
    expect(await idsOf("workflow_id=pauses&paused_reason=signal")).toEqual([signal]);
    expect(await idsOf("workflow_id=pauses&paused_reason=operator&paused_reason=signal")).toEqual([signal, operator]);
    expect(await idsOf("workflow_id=pauses&paused_reason=incident,signal")).toEqual([signal, incident]);
    expect(await idsOf(`paused_reason=incident&tenant_id=${TENANT}`)).toEqual([incident]);
    expect(await idsOf("paused_reason=signal&state=running")).toEqual([]);
    expect(await idsOf("paused_reason=signal&error_code=x")).toEqual([]);
  });

  it("incident finds the runs that stand at one, until they go on, or all others", async () => {
    const [there, other] = [await paused("incidents", "incident"), await paused("incidents", "timer")];
    expect(await idsOf("workflow_id=incidents&incident=true")).toEqual([there]);
    expect(await idsOf("workflow_id=incidents&incident=false")).toEqual([other]);
    await rig.database.sql`update runs set state = 'running', paused_reason = null where id = ${there}`;
    expect(await idsOf("workflow_id=incidents&incident=true")).toEqual([]);
    await rig.database.sql`update runs set state = 'paused', paused_reason = 'incident' where id = ${other}`;
    expect(await idsOf("workflow_id=incidents&incident=true")).toEqual([other]);
    await rig.database.sql`update runs set state = 'cancelled', terminal_at = now() where id = ${other}`;
    expect(await idsOf("workflow_id=incidents&incident=true")).toEqual([]);
  });

  it("incident_in finds those of whole families, however deep, and no others", async () => {
    const root = await paused("families", "children");
    const below = { parent_run_id: root, root_run_id: root, parent_step_id: "fork" };
    const branch = await paused("families", "incident", { ...below, started_at: at(1) });
    const deep = await paused("families", "incident", { ...below, parent_run_id: branch, started_at: at(2) });
    await paused("families", "signal", below);
    const other = await paused("families", "incident", { started_at: at(3) });
    expect(await idsOf(`incident_in=${root}`)).toEqual([branch, deep]);
    expect(await idsOf(`incident_in=${root},${other}`)).toEqual([branch, deep, other]);
    expect(await idsOf(`incident_in=${root}&incident_in=${other}&root_only=true`)).toEqual([other]);
    expect(await idsOf(`incident_in=${root}&incident=false`)).toEqual([]);
    expect(await idsOf(`incident_in=${root}&state=compensating`)).toEqual([]);
    const counts = (await call(`/counts?incident_in=${root}`)).body.items;
    expect(counts).toEqual([expect.objectContaining({ paused_reason: "incident", count: 2 })]);
    expect((await call("?incident_in=nonsense")).body.message).toContain("must be a UUID");
  });

  it.each(["error_code=same", "paused_reason=operator,timer", "incident=true"])(
    "%s is paged by a cursor, while runs begin",
    async (filter) => {
      const workflow = filter.replace(/\W/g, "-");
      const make = (second: number) =>
        filter.startsWith("error")
          ? failed(workflow, "same", { started_at: at(second) })
          : paused(workflow, filter.includes("incident") ? "incident" : (["operator", "timer"][second % 2] ?? ""), {
              started_at: at(second),
            });
      const ids: string[] = [];
      for (let second = 0; second < 5; second++) ids.unshift(await make(second));
      const seen: string[] = [];
      for (let cursor = ""; ; ) {
        const { body } = await call(`?workflow_id=${workflow}&${filter}&limit=2${cursor && `&cursor=${cursor}`}`);
        seen.push(...body.items.map(({ id }: { id: string }) => id));
        if (!body.next_cursor) break;
        cursor = body.next_cursor;
        await make(50);
      }
      expect(seen).toEqual(ids);
    },
  );

  it.each([
    ...["error_code=", `error_code=${"x".repeat(257)}`, "error_code=a&error_code=b", "incident=1", "incident="],
    ...["paused_reason=", "paused_reason=sleepy", "paused_reason=signal,sleepy", "error=x", "incidents=true"],
  ])("%s is 400, for the list and for the counts", async (query) => {
    for (const list of ["", "/counts"])
      expect([list, (await call(`${list}?${query}`)).body.details[0].path]).toEqual([
        list,
        expect.stringMatching(/^\$\.query\./),
      ]);
  });
});

describe("the counts of runs", () => {
  it("are by workflow, version, state and reason of a pause, kept or not", async () => {
    await failed("counted", "x");
    await failed("counted", "y", { version: 2 });
    await failed("counted", "y", { version: 2, tenant_id: TENANT });
    await paused("counted", "timer");
    await paused("counted", "signal", { tenant_id: TENANT });
    await insertRun(rig, { workflow_id: "counted", parent_run_id: TENANT });
    const of = async (query: string) => (await call(`/counts?workflow_id=counted&${query}`)).body;
    const kind = (version: number, state: string, count: number, paused_reason?: string) => ({
      ...{ workflow_id: "counted", version, state, ...(paused_reason && { paused_reason }), count },
    });
    const check = async () => {
      const [running, signal] = [kind(1, "running", 1), kind(1, "paused", 1, "signal")];
      const rest = [kind(1, "failed", 1), signal, kind(1, "paused", 1, "timer"), running, kind(2, "failed", 2)];
      expect(await of("")).toEqual({ items: [...rest].sort(byKind) });
      expect(await of("state=failed")).toEqual({ items: [kind(1, "failed", 1), kind(2, "failed", 2)] });
      expect(await of("version=2")).toEqual({ items: [kind(2, "failed", 2)] });
      expect(await of(`tenant_id=${TENANT}`)).toEqual({ items: [signal, kind(2, "failed", 1)] });
      expect(await of("root_only=true&state=running")).toEqual({ items: [] });
      expect(await of("error_code=y&count=exact")).toEqual({ items: [kind(2, "failed", 2)] });
      expect(await of("paused_reason=signal")).toEqual({ items: [signal] });
      expect(await of("label.team=none")).toEqual({ items: [] });
    };
    await check();
    await countEnds(rig.database.sql);
    await check();
  });

  it.each(["limit=5", "cursor=x", "sort=started_at", "count=all", "color=red", "version=0", "state=lost", "label.=x"])(
    "with %s are 400",
    async (query) => {
      const { status, body } = await call(`/counts?${query}`);
      expect([status, body.error]).toEqual([400, "bad_request"]);
    },
  );

  it("have no other method", async () => {
    expect((await rig.call("POST", "/api/v1/sagas/counts", {})).status).toBe(405);
  });
});

const byKind = (one: object, other: object) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1);
