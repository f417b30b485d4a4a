// Bulk jobs over HTTP, on a real node: every act, what is refused before anything begins, progress, refusals, stops, and what a repeat gets.
import { beforeAll, describe, expect, it } from "vitest";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { until } from "../harness/until.js";
import { rowsOf } from "../store/commit-rows.js";
import { type Answer, ended, useNode } from "./rig.js";

/** Slow: a job of `MANY` runs is stopped long before it has acted on all of them. */
const rig = useNode({ SAGA_BULK_PER_SECOND: "25" });
const MANY = 30;

beforeAll(async () => {
  await rig.client.publish("wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await rig.client.publish("echo", [{ id: "out", type: "end", output: "${inputs}" }]);
  await rig.client.publish(
    "fragile",
    [
      { id: "check", type: "assert", condition: "vars.fine", next: "out" },
      { id: "out", type: "end", output: "saved" },
    ],
    { on_failure: "incident" },
  );
  await rig.client.publish("hanging", [{ id: "hang", type: "action", action: "shop.hang" }]);
});

const post = (body: object, key?: string) => rig.ask("POST", "/bulk", body, key);
const read = async (id: string, query = "") => (await rig.ask("GET", `/bulk/${id}${query}`)).body;
const finished = (id: string) => read(id, "?wait_ms=30000");
let groups = 0;

/** Runs that one label finds. */
async function group(workflowId: string, count: number, more: object = {}) {
  const label = `g${groups++}`;
  const ids = await Promise.all(
    Array.from({ length: count }, () => rig.client.start(workflowId, { labels: { group: label }, ...more })),
  );
  const filter = { "label.group": label };
  const untilAll = (state: string) =>
    until(
      async () => {
        const { body } = await rig.ask("GET", `/sagas?label.group=${label}&state=${state}`);
        return body.total === count;
      },
      { what: `${count} runs ${state}` },
    );
  return { ids, filter, untilAll };
}

async function waiting(count: number) {
  const made = await group("wait", count);
  await made.untilAll("paused");
  return made;
}

async function all(body: object) {
  const { status, body: made } = await post(body);
  expect([status, made]).toEqual([202, { bulk_id: expect.any(String), matched: expect.any(Number) }]);
  return finished(made.bulk_id);
}

/** How many runs have which acts in their audit rows. */
async function actsOn(ids: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const rows = await rig.database.sql<{ acts: string; runs: number }[]>`
    select acts, count(*)::int as runs from (
      select string_agg(metadata->>'kind', ' ' order by seq) as acts from run_events
      where run_id = any(${ids}::uuid[]) and event_type = 'log' group by run_id) logged group by acts`;
  return Object.fromEntries(rows.map(({ acts, runs }) => [acts, runs]));
}

describe("a bulk job", () => {
  it("acts as its creator and within its creator's reach, whichever targets it has", async () => {
    const [tenant_id, other] = [uuidv7(), uuidv7()];
    const own = await group("wait", 1, { tenant_id });
    const foreign = await group("wait", 1, { tenant_id: other });
    await Promise.all([own.untilAll("paused"), foreign.untilAll("paused")]);
    const [ownId = "", foreignId = ""] = [...own.ids, ...foreign.ids];
    const { sql } = rig.database;
    const before = await rowsOf(sql, foreignId);
    const actions = ["pause", "resume", "signal", "cancel", "rerun"];
    const params = { signal_name: "other", reason: "all" };
    for (const action of actions) {
      const id = uuidv7();
      const shard = shardOf(id);
      await sql`
        with job as (
          insert into bulk_jobs (id, shard, action, filter, params, state, matched, actor, tenant_id, reach, request_hash)
          values (${id}, ${shard}, ${action}, '{}', ${JSON.stringify(params)}::text::json, 'running', 2, 'user:ann', ${tenant_id},
            ${JSON.stringify({ tenants: [tenant_id] })}::text::json, '')
        )
        insert into bulk_targets (bulk_id, nth, run_id) values (${id}, 1, ${ownId}), (${id}, 2, ${foreignId})`;
      const { refusals, state } = await finished(id);
      expect([action, state, refusals.at(-1)]).toEqual([
        ...[action, "done"],
        { run_id: foreignId, message: `there is no run ${foreignId}` },
      ]);
    }
    expect(await rowsOf(sql, foreignId)).toEqual(before);
    const actors =
      await sql`select distinct actor from run_events where run_id = ${ownId} and metadata->>'kind' is not null`;
    expect(actors).toEqual([{ actor: "user:ann" }]);
    const reruns =
      await sql`select r.tenant_id, s.identity->>'rerunOf' as of from runs r join run_starts s on s.run_id = r.id
      where s.identity->>'rerunOf' is not null and r.tenant_id in (${tenant_id}, ${other})`;
    expect(reruns).toEqual([{ tenant_id, of: ownId }]);
  });

  it("acts once on every run that matches, and counts them", async () => {
    const { ids, filter, untilAll } = await waiting(12);
    const others = await waiting(1);
    const { status, body, headers } = await post({ filter, action: "pause", params: { reason: "look" } });
    expect([status, body.matched]).toEqual([202, 12]);
    expect(headers.get("location")).toBe(`/api/v1/bulk/${body.bulk_id}`);
    expect(await finished(body.bulk_id)).toEqual({
      ...{ bulk_id: body.bulk_id, action: "pause", filter, state: "done", matched: 12, done: 12, refused: 0 },
      ...{ refusals: [], started_at: expect.any(String), ended_at: expect.any(String) },
    });
    expect(await actsOn([...ids, ...others.ids])).toEqual({ pause: 12 });
    expect(await all({ filter, action: "resume" })).toMatchObject({ state: "done", done: 12 });
    expect(await all({ filter, action: "signal", params: { signal_name: "go", payload: { a: 1 } } })).toMatchObject({
      done: 12,
    });
    await untilAll("succeeded");
  });

  it("lists what the runs refuse, with the reason that the act alone has", async () => {
    const { ids, filter } = await waiting(3);
    const job = await all({ filter, action: "retry_step" });
    expect(job).toMatchObject({ state: "done", matched: 3, done: 0, refused: 3 });
    const alone = await rig.ask("POST", `/sagas/${ids[0]}/retry_step`);
    expect(alone.status).toBe(409);
    expect(job.refusals.map(({ run_id }: { run_id: string }) => run_id).sort()).toEqual([...ids].sort());
    for (const { message } of job.refusals) expect(message).toBe(alone.body.message);
    const signalled = await all({ filter, action: "signal", params: { signal_name: "stop" } });
    expect(signalled.refusals[0].message).toBe("no run awaits the signal stop now; it is recorded for a later wait");
    expect((await all({ filter, action: "compensations/skip", params: { ordinal: 7 } })).refusals[0].message).toBe(
      "the undo list of the run has no entry 7",
    );
    expect(await all({ filter, action: "release" })).toMatchObject({ refused: 3 });
  });

  it("retries, skips and fails steps, terminates, cancels and starts again", async () => {
    const stand = async () => {
      const made = await group("fragile", 2, { variables: { fine: false } });
      await made.untilAll("paused");
      return made;
    };
    const retried = await stand();
    expect(
      await all({ filter: retried.filter, action: "retry_step", params: { variables: { fine: true } } }),
    ).toMatchObject({
      done: 2,
    });
    await retried.untilAll("succeeded");
    const skipped = await stand();
    await all({ filter: skipped.filter, action: "skip_step" });
    await skipped.untilAll("succeeded");
    const failed = await stand();
    await all({ filter: failed.filter, action: "fail" });
    await failed.untilAll("failed");
    const terminated = await stand();
    await all({ filter: terminated.filter, action: "terminate", params: { reason: "over" } });
    await terminated.untilAll("cancelled");
    const cancelled = await stand();
    await all({ filter: cancelled.filter, action: "cancel", params: { reason: "enough" } });
    await cancelled.untilAll("cancelled");
    const again = await all({ filter: { ...failed.filter, state: "failed" }, action: "rerun", params: { labels: {} } });
    expect(again).toMatchObject({ matched: 2, done: 2 });
    const rows = await rig.database.sql<{ first: string }[]>`
      select identity->>'rerunOf' as first from run_starts where identity->>'rerunOf' = any(${failed.ids})`;
    expect(rows.map(({ first }) => first).sort()).toEqual([...failed.ids].sort());
  });

  it("of a filter that matches no run is done at once", async () => {
    expect(await all({ filter: { workflow_id: "nothing" }, action: "pause" })).toMatchObject({
      state: "done",
      matched: 0,
    });
  });

  it("keeps the targets that matched when it was created", async () => {
    const { filter } = await waiting(2);
    const before = await all({ filter: { ...filter, state: ["paused"] }, action: "cancel" });
    expect(before).toMatchObject({ matched: 2, done: 2, refused: 0 });
    expect(await all({ filter: { ...filter, state: "paused" }, action: "cancel" })).toMatchObject({ matched: 0 });
  });
});

describe("the filter bulk_id", () => {
  it("finds the runs that the job has changed, for the list, the counts and other jobs", async () => {
    const { ids, filter } = await waiting(3);
    const [byHand = "", ...others] = ids;
    await rig.ask("POST", `/sagas/${byHand}/pause`);
    const paused = await all({ filter, action: "pause" });
    expect(paused, "one was as the act wants it").toMatchObject({ matched: 3, done: 3, refused: 0 });
    const { items, total } = (await rig.ask("GET", `/sagas?bulk_id=${paused.bulk_id}`)).body;
    expect([items.map(({ id }: { id: string }) => id).sort(), total]).toEqual([[...others].sort(), 2]);
    const counts = await rig.ask("GET", `/sagas/counts?bulk_id=${paused.bulk_id}&paused_reason=operator`);
    expect(counts.body.items).toMatchObject([{ workflow_id: "wait", count: 2 }]);
    const resumed = await all({ filter: { bulk_id: paused.bulk_id }, action: "resume" });
    expect(resumed).toMatchObject({ matched: 2, done: 2, refused: 0 });
    expect((await rig.client.run(byHand)).paused_reason).toBe("operator");
    const refusing = await all({ filter, action: "retry_step" });
    expect((await rig.ask("GET", `/sagas?bulk_id=${refusing.bulk_id}`)).body).toMatchObject({ items: [], total: 0 });
    expect((await rig.ask("GET", "/sagas?bulk_id=17")).status).toBe(400);
    await rig.ask("POST", `/sagas/${byHand}/cancel`);
    const cancelled = await all({ filter, action: "cancel" });
    expect(cancelled).toMatchObject({ matched: 3, done: 3 });
    const ended = (await rig.ask("GET", `/sagas?bulk_id=${cancelled.bulk_id}`)).body.items;
    expect(ended.map(({ id }: { id: string }) => id).sort()).toEqual([...others].sort());
  });

  it("leaves out what was rolling back already, which a cancel does not change", async () => {
    const { ids, filter, untilAll } = await group("hanging", 2);
    await until(async () => ids.every((id) => rig.shop.hanging(id).length === 1), { what: "both hang" });
    const [first, second] = ids;
    await rig.ask("POST", `/sagas/${first}/cancel`);
    const cancelled = await all({ filter, action: "cancel" });
    expect(cancelled, "one is as the act wants it").toMatchObject({ matched: 2, done: 2, refused: 0 });
    const { items } = (await rig.ask("GET", `/sagas?bulk_id=${cancelled.bulk_id}`)).body;
    expect(items).toMatchObject([{ id: second, state: "compensating" }]);
    rig.shop.letAllGo();
    await untilAll("cancelled");
  });

  it("leaves out what retention has deleted", async () => {
    const { ids, filter } = await waiting(2);
    const { bulk_id: id } = await all({ filter, action: "cancel" });
    await rig.database.sql`delete from runs where id = ${ids[0] ?? ""}`;
    const { items, total } = (await rig.ask("GET", `/sagas?bulk_id=${id}&count=exact`)).body;
    expect([items.map((run: { id: string }) => run.id), total]).toEqual([[ids[1]], 1]);
  });
});

describe("before anything begins", () => {
  const refused = async (body: unknown, status: number, path?: string): Promise<Answer["body"]> => {
    const before = (await rig.ask("GET", "/bulk")).body.total;
    const answer = await rig.ask("POST", "/bulk", body);
    expect([body, answer.status]).toEqual([body, status]);
    if (path !== undefined) expect(answer.body.details?.[0].path).toBe(path);
    expect((await rig.ask("GET", "/bulk")).body.total).toBe(before);
    return answer.body;
  };

  it("a filter is checked like the list's, as JSON", async () => {
    const bad: readonly (readonly [object, string])[] = [
      [{ color: "red" }, "$.filter.color"],
      [{ state: "asleep" }, "$.filter.state"],
      [{ state: ["paused", 1] }, "$.filter.state"],
      [{ version: "3" }, "$.filter.version"],
      [{ version: 0 }, "$.filter.version"],
      [{ root_only: "true" }, "$.filter.root_only"],
      [{ tenant_id: "acme" }, "$.filter.tenant_id"],
      [{ started_after: "yesterday" }, "$.filter.started_after"],
      [{ "label.team": 1 }, '$.filter["label.team"]'],
      [{ workflow_id: 1 }, "$.filter.workflow_id"],
      [{ sort: "started_at" }, "$.filter.sort"],
      [{ limit: 5 }, "$.filter.limit"],
    ];
    for (const [filter, path] of bad) await refused({ filter, action: "pause" }, 400, path);
    for (const value of [1, true, ["blue"], {}])
      expect((await refused({ filter: { "label.team": value }, action: "pause" }, 400)).message).toBe(
        'the body is not valid: $.filter["label.team"] must be a string',
      );
    const unknown = await refused({ filter: { color: "red" }, action: "pause" }, 400);
    expect(unknown.message).toContain("workflow_id, version, state");
  });

  it("a filter beside the filter is refused, and both are named: it does not act on every run", async () => {
    const beside = { filter: {}, action: "cancel" };
    const { message, details } = await refused({ ...beside, workflow_id: "wait", state: ["paused"] }, 400);
    expect(message).toContain("$.workflow_id is a filter that stands beside $.filter");
    expect(details.map(({ path }: { path: string }) => path)).toEqual(["$.workflow_id", "$.state"]);
    await refused({ ...beside, "label.team": "blue" }, 400, '$["label.team"]');
    await refused({ ...beside, filter: { workflow_id: "nothing" }, root_only: true }, 400, "$.root_only");
    const labels = Object.fromEntries(Array.from({ length: 1_000 }, (_, nth) => [`label.${nth}`, "x"]));
    expect((await refused({ ...beside, ...labels }, 400)).details).toHaveLength(20);
    const { status, headers } = await post({
      filter: { workflow_id: "nothing" },
      action: "cancel",
      state: null,
      note: 7,
    });
    expect([status, headers.get("saga-ignored-fields")]).toEqual([202, "state, note"]);
  });

  it("an action is known, and its params are those of the act", async () => {
    const filter = {};
    await refused({ filter, action: "explode" }, 400, "$.action");
    await refused({ filter }, 400);
    await refused({ action: "pause" }, 400, "$.filter");
    await refused({ filter: [], action: "pause" }, 400, "$.filter");
    await refused({ filter, action: "terminate" }, 400, "$.params");
    await refused({ filter, action: "terminate", params: {} }, 400, "$.params.reason");
    await refused({ filter, action: "pause", params: { reason: 1 } }, 400, "$.params.reason");
    await refused({ filter, action: "retry_step", params: { variables: [] } }, 400, "$.params.variables");
    await refused({ filter, action: "retry_step", params: { variables: JSON.parse('{"__proto__": 1}') } }, 400);
    await refused({ filter, action: "signal", params: {} }, 400, "$.params.signal_name");
    await refused({ filter, action: "signal", params: { signal_name: "user_task.x" } }, 400, "$.params.signal_name");
    await refused({ filter, action: "rerun", params: { version: "latest" } }, 400, "$.params.version");
    await refused({ filter, action: "pause", limit: 100_001 }, 400, "$.limit");
    await refused({ filter, action: "pause", limit: 0 }, 400, "$.limit");
  });

  it("members that an act does not know are ignored, and named", async () => {
    const body = { filter: { workflow_id: "nothing" }, action: "cancel", params: { compensat: false } };
    expect((await post(body)).headers.get("saga-ignored-fields")).toBe("params.compensat");
  });

  it("a filter that matches more than the limit is refused, with a lower bound", async () => {
    const { ids, filter } = await waiting(4);
    const { error, message } = await refused({ filter, action: "cancel", limit: 3 }, 422, "$.filter");
    expect([error, message]).toEqual([
      "unprocessable",
      "the filter matches at least 4 runs, and the limit is 3: narrow it down, or raise the limit (at most 100000)",
    ]);
    for (const id of ids) expect((await rig.client.run(id)).state).toBe("paused");
    expect(await all({ filter, action: "cancel", limit: 4 })).toMatchObject({ matched: 4, done: 4 });
  });
});

describe("an Idempotency-Key", () => {
  it("makes one job of many requests; with another body it is 409", async () => {
    const { filter } = await waiting(3);
    const body = { filter, action: "pause" };
    const answers = await Promise.all(Array.from({ length: 5 }, () => post(body, "bulk-1")));
    const [first] = answers;
    for (const answer of answers) expect([answer.status, answer.body]).toEqual([202, first?.body]);
    await finished(first?.body.bulk_id);
    expect((await post({ ...body, limit: 10_000 }, "bulk-1")).body).toEqual(first?.body);
    const other = await post({ ...body, action: "resume" }, "bulk-1");
    expect([other.status, other.body.error]).toEqual([409, "conflict"]);
    expect((await post(body, "x".repeat(256))).status).toBe(400);
  });
});

describe("reading", () => {
  it("is 404 for a job that is not there, 400 for no id", async () => {
    expect((await rig.ask("GET", `/bulk/${uuidv7()}`)).status).toBe(404);
    expect((await rig.ask("POST", `/bulk/${uuidv7()}/stop`)).status).toBe(404);
    expect((await rig.ask("GET", "/bulk/17")).status).toBe(400);
    expect((await rig.ask("GET", "/bulk?color=red")).status).toBe(400);
  });

  it("lists jobs, newest first, page by page", async () => {
    for (let nth = 0; nth < 3; nth++) await all({ filter: { workflow_id: "nothing" }, action: "pause" });
    const { body: page } = await rig.ask("GET", "/bulk?limit=2");
    expect(page.items).toHaveLength(2);
    const { body: next } = await rig.ask("GET", `/bulk?limit=2&cursor=${page.next_cursor}`);
    const times = [...page.items, ...next.items].map(({ started_at }) => started_at);
    expect(times).toEqual([...times].sort().reverse());
    expect(page.items[0].refusals).toBeUndefined();
  });

  it("with wait_ms answers when more is done, and at the end", async () => {
    const { filter, ids } = await waiting(4);
    const holder = rig.database.session();
    // The job comes to its end when the test lets go of this run.
    const first = await holder.sql.begin(async (transaction) => {
      await transaction`select from runs where id = ${ids.at(-1) ?? ""} for update`;
      const { body } = await post({ filter, action: "pause" });
      return read(body.bulk_id, "?wait_ms=20000&after_done=0");
    });
    await holder.close();
    expect(first).toMatchObject({ state: "running", matched: 4 });
    expect(first.done).toBeGreaterThan(0);
    const last = await read(first.bulk_id, "?wait_ms=20000&after_done=3");
    expect(last.done).toBe(4);
    expect((await finished(first.bulk_id)).state).toBe("done");
    expect((await ended(rig, "echo")).state).toBe("succeeded");
  });
});

describe("a stop", () => {
  it("in the middle begins no more acts, and counts those on their way", async () => {
    const { ids, filter } = await waiting(MANY);
    const { body } = await post({ filter, action: "pause" });
    await read(body.bulk_id, "?wait_ms=20000&after_done=0");
    const stopped = await rig.ask("POST", `/bulk/${body.bulk_id}/stop`);
    expect([stopped.status, stopped.body]).toEqual([202, { bulk_id: body.bulk_id, state: "stopped", changed: true }]);
    const again = await rig.ask("POST", `/bulk/${body.bulk_id}/stop`);
    expect(again.body).toMatchObject({ state: "stopped", changed: false });
    const held = async () => {
      const rows = await rig.database.sql<{ count: number }[]>`
        select count(*)::int as count from runs where id = any(${ids}::uuid[]) and paused_reason = 'operator'`;
      return rows[0]?.count ?? 0;
    };
    await until(async () => (await read(body.bulk_id)).done === (await held()), { what: "what was on its way" });
    const job = await read(body.bulk_id);
    expect(job).toMatchObject({ state: "stopped", matched: MANY, ended_at: expect.any(String) });
    expect(job.done).toBeGreaterThan(0);
    expect(job.done).toBeLessThan(MANY);
    expect(await held()).toBe(job.done);
  });

  it("is taken back: the job goes on with the runs that are left, and acts on none twice", async () => {
    const { ids, filter } = await waiting(MANY);
    const { body } = await post({ filter, action: "pause" });
    await read(body.bulk_id, "?wait_ms=20000&after_done=0");
    await rig.ask("POST", `/bulk/${body.bulk_id}/stop`);
    const resumed = await rig.ask("POST", `/bulk/${body.bulk_id}/resume`);
    expect([resumed.status, resumed.body]).toEqual([202, { bulk_id: body.bulk_id, state: "running", changed: true }]);
    const job = await finished(body.bulk_id);
    expect(job).toMatchObject({ state: "done", matched: MANY, done: MANY, refused: 0, ended_at: expect.any(String) });
    expect(await actsOn(ids)).toEqual({ pause: MANY });
    const again = await rig.ask("POST", `/bulk/${body.bulk_id}/resume`);
    expect(again.body).toEqual({ bulk_id: body.bulk_id, state: "done", changed: false });
    expect((await rig.ask("POST", `/bulk/${uuidv7()}/resume`)).status).toBe(404);
  });

  it("with nothing left to do is done when it is taken back", async () => {
    const { filter } = await waiting(2);
    const { bulk_id: id } = await all({ filter, action: "pause" });
    await rig.database.sql`update bulk_jobs set state = 'stopped' where id = ${id}`;
    expect((await rig.ask("POST", `/bulk/${id}/resume`)).body).toMatchObject({ state: "done", changed: true });
  });

  it("of a job that is done changes nothing", async () => {
    const { bulk_id: id } = await all({ filter: { workflow_id: "nothing" }, action: "pause" });
    expect((await rig.ask("POST", `/bulk/${id}/stop`)).body).toMatchObject({ state: "done", changed: false });
  });
});
