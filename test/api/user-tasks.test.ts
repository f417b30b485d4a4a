// User tasks over HTTP: the lists, the runs under which a task may be submitted, and the translation of the run's answer.
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { defaultAnswer, insertRun, useRig } from "./rig.js";

const rig = useRig();
/** The nth second of an hour. */
const at = (second: number) => new Date(Date.UTC(2026, 10, 20, 0, 0, second)).toISOString();
const FUTURE = "2999-01-01T00:00:00.000Z";
const ELSE = "0190a000-0000-7000-8000-0000000000ff";

/** A run, a branch of it, an item of the branch, and a sub-saga of the run. */
const runs = { root: "", branch: "", item: "", sub: "", other: "" };

beforeAll(async () => {
  const child = (parent: string, branch?: string) =>
    insertRun(rig, { parent_run_id: parent, parent_step_id: "s", ...(branch && { parent_branch_id: branch }) });
  runs.root = await insertRun(rig);
  runs.other = await insertRun(rig);
  runs.branch = await child(runs.root, "left");
  runs.item = await child(runs.branch, "0");
  runs.sub = await child(runs.root);
});
beforeEach(async () => {
  rig.answer = defaultAnswer;
  rig.asked.length = 0;
  await rig.database.sql`delete from user_tasks`;
});

type Seed = { run?: string; second?: number; assignee?: string; due?: string; closed?: string; by?: string };

/** A task as commits would have stored it; with `by` it was submitted. */
async function insertTask({ run = runs.root, second = 0, assignee = "ann", due, closed, by }: Seed): Promise<string> {
  const id = uuidv7();
  const result = by === undefined ? null : '{"approved":true}';
  await rig.database.sql`
    insert into user_tasks (id, run_id, step_id, assignee, due_at, opened_at, closed_at, submitted_at, submitted_by, result)
    values (${id}, ${run}, 'ask', ${assignee}, ${due ?? null}, ${at(second)}, ${closed ?? null},
      ${by === undefined ? null : (closed ?? null)}, ${by ?? null}, ${result}::text::json)`;
  return id;
}

const list = async (url: string) => (await rig.call("GET", url)).body;
const idsOf = async (url: string) => (await list(url)).items.map(({ id }: { id: string }) => id);

describe("lists", () => {
  it("have the members of the interface, and omit those without a value", async () => {
    const id = uuidv7();
    await rig.database.sql`
      insert into user_tasks (id, run_id, step_id, assignee, title, due_at, form_schema, opened_at, closed_at, submitted_at,
        submitted_by, result)
      values (${id}, ${runs.root}, 'ask', 'ann', 'Order 7', ${FUTURE}, '{"type":"object"}', ${at(1)}, ${at(2)}, ${at(2)},
        'bob', '{"approved":true}')`;
    const bare = await insertTask({ second: 3 });
    expect((await list("/api/v1/user_tasks")).items).toEqual([
      {
        ...{ id, run_id: runs.root, step_id: "ask", assignee: "ann", title: "Order 7", status: "submitted" },
        ...{ opened_at: at(1), due_at: FUTURE, form_schema: { type: "object" }, submitted_at: at(2) },
        ...{ submitted_by: "bob", result: { approved: true } },
      },
      { id: bare, run_id: runs.root, step_id: "ask", assignee: "ann", status: "open", opened_at: at(3) },
    ]);
  });

  it("status: open, submitted, or expired, also before a run has acted on the due time", async () => {
    const tasks = {
      open: [await insertTask({ second: 1 }), await insertTask({ second: 2, due: FUTURE })],
      submitted: [
        await insertTask({ second: 3, closed: at(9), by: "bob" }),
        await insertTask({ second: 4, due: at(5), closed: at(4), by: "bob" }),
      ],
      expired: [await insertTask({ second: 5, closed: at(9) }), await insertTask({ second: 6, due: at(7) })],
    };
    for (const [status, ids] of Object.entries(tasks)) {
      const page = await list(`/api/v1/user_tasks?status=${status}`);
      expect(page.items.map((task: { id: string; status: string }) => [task.id, task.status])).toEqual(
        ids.map((id) => [id, status]),
      );
      expect(page.total).toBe(2);
    }
    expect(await idsOf("/api/v1/user_tasks")).toEqual(Object.values(tasks).flat());
  });

  it("assignee and run_id filter together with status; a run's are those of its branches and items too", async () => {
    const own = await insertTask({ second: 1 });
    const branch = await insertTask({ second: 2, run: runs.branch, assignee: "bob" });
    const item = await insertTask({ second: 3, run: runs.item });
    const sub = await insertTask({ second: 4, run: runs.sub });
    await insertTask({ second: 5, run: runs.item, closed: at(9) });
    const open = "status=open";
    expect(await idsOf(`/api/v1/user_tasks?run_id=${runs.root}&${open}`)).toEqual([own, branch, item]);
    expect(await idsOf(`/api/v1/user_tasks?run_id=${runs.branch}&${open}`)).toEqual([branch, item]);
    expect(await idsOf(`/api/v1/user_tasks?run_id=${runs.sub}`)).toEqual([sub]);
    expect(await idsOf(`/api/v1/user_tasks?run_id=${runs.root}&assignee=ann&${open}`)).toEqual([own, item]);
    expect(await idsOf("/api/v1/user_tasks?assignee=nobody")).toEqual([]);
    expect(await idsOf(`/api/v1/sagas/${runs.branch}/user_tasks?limit=2`)).toEqual([branch, item]);
    expect((await rig.call("GET", `/api/v1/sagas/${ELSE}/user_tasks`)).status).toBe(404);
  });

  it("a cursor visits every task once, while older and newer ones are added", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 25; n++) ids.push(await insertTask({ second: 10 + Math.floor(n / 5) }));
    const byTime = (await list("/api/v1/user_tasks?limit=500")).items.map(({ id }: { id: string }) => id);
    expect([...byTime].sort()).toEqual([...ids].sort());
    const seen: string[] = [];
    let cursor = "";
    do {
      const page = await list(`/api/v1/user_tasks?limit=4${cursor && `&cursor=${cursor}`}`);
      seen.push(...page.items.map(({ id }: { id: string }) => id));
      cursor = page.next_cursor ?? "";
      await insertTask({ second: 1 });
    } while (cursor);
    expect(seen).toEqual(byTime);
    expect((await rig.call("GET", "/api/v1/user_tasks?cursor=xyz")).status).toBe(400);
  });
});

describe("submit", () => {
  const url = (runId: string, taskId: string) => `/api/v1/sagas/${runId}/user_task/${taskId}/submit`;

  it("asks the run that waits, and answers with its outcome", async () => {
    const id = await insertTask({});
    const response = await rig.call("POST", url(runs.root, id), { result: { approved: true }, submitted_by: "ann" });
    expect(response.status).toBe(202);
    expect(response.body).toEqual({ task_id: id, submitted_at: "2026-11-21T00:00:00.000Z", matched: true });
    const command = { type: "submit", taskId: id, result: { approved: true }, submittedBy: "ann", actor: "api" };
    expect(rig.asked).toMatchObject([{ runId: runs.root, command }]);
  });

  it.each([
    ["nothing is an empty result", undefined, {}, undefined],
    ["an empty object is one too", {}, {}, undefined],
    ["a result is a result", { result: { n: 1 } }, { n: 1 }, undefined],
    ["without result the whole body is the result", { n: 1 }, { n: 1 }, undefined],
    [
      "submitted_by included, and it names the person",
      { n: 1, submitted_by: "ann" },
      { n: 1, submitted_by: "ann" },
      "ann",
    ],
    ["a submitted_by of another type belongs to the form only", { submitted_by: 7 }, { submitted_by: 7 }, undefined],
  ])("%s", async (_, body, result, submittedBy) => {
    const id = await insertTask({});
    expect((await rig.call("POST", url(runs.root, id), body)).status).toBe(202);
    const command = { type: "submit", taskId: id, result, submittedBy, actor: "api" };
    expect(rig.asked).toEqual([{ runId: runs.root, command, options: { reach: { tenants: "*" } } }]);
  });

  it("unknown members beside a result are ignored, and named", async () => {
    const response = await rig.call("POST", url(runs.root, await insertTask({})), { result: {}, comment: "x" });
    expect(response.headers["saga-ignored-fields"]).toBe("comment");
  });

  it.each([
    ["a result that is not an object", { result: "yes" }, "$.result"],
    ["a submitted_by that is not text", { result: {}, submitted_by: 7 }, "$.submitted_by"],
    ["a list", [], "$"],
  ])("%s is 400", async (_, body, path) => {
    const response = await rig.call("POST", url(runs.root, await insertTask({})), body);
    expect(response).toMatchObject({ status: 400, body: { error: "bad_request", details: [{ path }] } });
    expect(rig.asked).toEqual([]);
  });

  it("a branch's and an item's task can be submitted under every run above it, and the task's run is asked", async () => {
    const id = await insertTask({ run: runs.item });
    for (const runId of [runs.root, runs.branch, runs.item]) {
      expect((await rig.call("POST", url(runId, id), {})).status).toBe(202);
      expect(rig.asked.at(-1)?.runId).toBe(runs.item);
    }
  });

  it("a task that does not exist or belongs to another run is 404, and no run is asked", async () => {
    const [id, sub, branch] = [
      await insertTask({}),
      await insertTask({ run: runs.sub }),
      await insertTask({ run: runs.branch }),
    ];
    for (const [runId, taskId] of [
      [runs.root, ELSE],
      [runs.other, id],
      [runs.root, sub],
      [runs.branch, id],
      [runs.item, branch],
      [ELSE, id],
    ] as const)
      expect(await rig.call("POST", url(runId, taskId), {})).toMatchObject({
        status: 404,
        body: { error: "not_found", message: `the run ${runId} has no user task ${taskId}` },
      });
    expect(rig.asked).toEqual([]);
    expect((await rig.call("POST", url(runs.root, "7"), {})).status).toBe(400);
  });

  it("a refusal is a conflict; a result that does not conform is unprocessable, with the places", async () => {
    const id = await insertTask({});
    rig.answer = () => ({ type: "closed", reason: "the task has expired" });
    expect(await rig.call("POST", url(runs.root, id), {})).toMatchObject({
      status: 409,
      body: { error: "conflict", message: "the task has expired" },
    });
    const problems = ["/approved must be true or false", "/a~1b/0 must be a string", "/n is required"];
    rig.answer = () => ({ type: "unfit", problems });
    expect(await rig.call("POST", url(runs.root, id), {})).toMatchObject({
      status: 422,
      body: {
        error: "unprocessable",
        details: [
          { path: "$.result.approved", message: "must be true or false" },
          { path: '$.result["a/b"][0]', message: "must be a string" },
          { path: "$.result.n", message: "is required" },
        ],
      },
    });
  });
});
