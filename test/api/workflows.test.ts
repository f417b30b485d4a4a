// Workflow definitions over HTTP: versions, publishing, reading, stats; and the directory that is read at startup.
import { execFileSync } from "node:child_process";
import { constants } from "node:fs";
import { mkdir, mkdtemp, open, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createActor, createMachine } from "xstate";
import { loadDefinitionsDir } from "../../src/api/index.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { compile, insertRun, useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
const post = (document: object) => rig.call("POST", "/api/v1/workflows", document);
const named = (id: string, more: object = {}) => ({ ...WORKFLOW, id, ...more });

describe("versions of a workflow", () => {
  it("a document without a version gets the next one, unless a stored version is equal", async () => {
    const first = await post(named("auto"));
    expect(first.status).toBe(201);
    expect(first.headers.location).toBe("/api/v1/workflows/auto?version=1");
    expect(first.body).toEqual({ ...named("auto"), version: 1, published: false, created_at: expect.any(String) });
    expect(await post(named("auto", { name: "Other" }))).toMatchObject({ status: 201, body: { version: 2 } });
    const { steps, ...rest } = named("auto");
    expect(await post({ steps, ...rest })).toMatchObject({ status: 200, body: { version: 1, published: false } });
    expect(await post(named("auto", { published: true }))).toMatchObject({
      status: 200,
      body: { version: 1, published: true },
    });
    expect((await rig.call("GET", "/api/v1/workflows/auto/versions")).body).toMatchObject({
      total: 2,
      items: [{ version: 2 }, { version: 1 }],
    });
  });

  it("concurrent posts get a version each", async () => {
    const posts = Array.from({ length: 8 }, (_, n) => post(named("rush", { name: `Rush ${n % 4}` })));
    const answers = await Promise.all(posts);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(4);
    expect(new Set(answers.map(({ body }) => body.version))).toEqual(new Set([1, 2, 3, 4]));
  });

  it("a draft may be replaced, under a new definition id", async () => {
    const idOf = async () =>
      (await rig.database.sql`select definition_id from definitions where workflow_id = 'draft'`)[0];
    await post(named("draft", { version: 5 }));
    const before = await idOf();
    expect(await post(named("draft", { version: 5, name: "Better" }))).toMatchObject({
      status: 201,
      body: { name: "Better" },
    });
    expect(await idOf()).not.toEqual(before);
  });

  it("a published version never changes, also after unpublish", async () => {
    await post(named("fixed", { version: 2, published: true }));
    const change = named("fixed", { version: 2, name: "Changed" });
    expect(await post(change)).toMatchObject({ status: 409, body: { error: "conflict" } });
    const unpublished = await rig.call("POST", "/api/v1/workflows/fixed/versions/2/unpublish");
    expect(unpublished).toMatchObject({ status: 200, body: { published: false } });
    expect(await post(change)).toMatchObject({ status: 409 });
    expect(await post(named("fixed", { version: 2 }))).toMatchObject({ status: 200, body: { published: false } });
    expect((await rig.call("GET", "/api/v1/workflows/fixed")).status).toBe(404);
    expect(await rig.call("GET", "/api/v1/workflows/fixed?version=2")).toMatchObject({
      status: 200,
      body: { name: "Orders" },
    });
    const published = await rig.call("POST", "/api/v1/workflows/fixed/versions/2/publish");
    expect(published).toMatchObject({ status: 200, body: { published: true } });
    expect(await rig.call("GET", "/api/v1/workflows/fixed")).toMatchObject({ status: 200, body: { version: 2 } });
  });

  it("the catalog is refreshed after every write", async () => {
    const before = rig.refreshed;
    await post(named("told", { published: true }));
    await rig.call("POST", "/api/v1/workflows/told/versions/1/unpublish");
    expect(rig.refreshed).toBe(before + 2);
  });
});

describe("reading workflows", () => {
  it("a document is returned as it was posted", async () => {
    const odd = { type: "object", properties: { b: {}, a: { const: 1.5 } } };
    const document = {
      steps: WORKFLOW.steps,
      start: "begin",
      name: "Odd",
      id: "odd",
      input_schema: odd,
      created_by: "ann",
    };
    await post(document);
    const { body } = await rig.call("GET", "/api/v1/workflows/odd?version=1");
    expect(body).toEqual({ ...document, version: 1, published: false, created_at: expect.any(String) });
    expect(JSON.stringify(body.input_schema)).toBe(JSON.stringify(odd));
    expect(await post(body)).toMatchObject({ status: 200 });
  });

  it("the list has each workflow once, by its latest published version", async () => {
    for (const more of [{ name: "1", published: true }, { name: "2", published: true }, { name: "3" }])
      await post(named("listed", more));
    const { body } = await rig.call("GET", "/api/v1/workflows?limit=500");
    const found = body.items.filter((item: { id: string }) => item.id === "listed");
    expect(found).toMatchObject([{ version: 2 }]);
    expect(body.total).toBe(body.items.length);
    const first = await rig.call("GET", "/api/v1/workflows?limit=1");
    const second = await rig.call("GET", `/api/v1/workflows?limit=1&cursor=${first.body.next_cursor}`);
    expect([...first.body.items, ...second.body.items]).toEqual(body.items.slice(0, 2));
  });

  it("validation reports every problem and stores nothing", async () => {
    const before = await rig.countRows();
    const good = await rig.call("POST", "/api/v1/workflows/validate", named("valid"));
    expect(good).toMatchObject({ status: 200, body: { valid: true, errors: [], warnings: [] } });
    const bad = await rig.call("POST", "/api/v1/workflows/validate", {
      id: "x y",
      steps: [{ id: "a", type: "nop" }],
      wrong: 1,
    });
    expect(bad).toMatchObject({ status: 200, body: { valid: false } });
    const paths = bad.body.errors.map(({ path }: { path: string }) => path);
    for (const path of ["$.id", "$.name", "$.start", "$.wrong", "$.steps[0].type"]) expect(paths).toContain(path);
    expect(bad.body.errors).toContainEqual({
      path: "$.steps[0].type",
      message: 'there is no step type "nop" in this release (did you mean "noop"?)',
    });
    const calls = named("calls", { steps: [{ id: "begin", type: "action", action: "shop.chrage" }] });
    const warned = await rig.call("POST", "/api/v1/workflows/validate", calls);
    expect(warned.body.warnings).toMatchObject([
      { path: "$.steps[0].action", message: expect.stringContaining('(did you mean "shop.charge"?)') },
    ]);
    expect(await rig.countRows()).toBe(before);
  });

  it("posting and publishing answer with the warnings of validating, and reading does not", async () => {
    const steps = [
      { id: "begin", type: "action", action: "shop.chrage" },
      { id: "lost", type: "noop" },
    ];
    const { body: report } = await rig.call("POST", "/api/v1/workflows/validate", named("warned", { steps }));
    expect(report.warnings.map(({ path }: { path: string }) => path)).toEqual(["$.steps[1]", "$.steps[0].action"]);
    const posted = await post(named("warned", { steps }));
    expect(posted).toMatchObject({ status: 201, body: { warnings: report.warnings } });
    expect(await post(posted.body)).toMatchObject({ status: 200, body: posted.body });
    for (let nth = 0; nth < 2; nth++) {
      const published = await rig.call("POST", "/api/v1/workflows/warned/versions/1/publish");
      expect(published).toMatchObject({ status: 200, body: { published: true, warnings: report.warnings } });
    }
    const silent = [
      await rig.call("GET", "/api/v1/workflows/warned"),
      await rig.call("POST", "/api/v1/workflows/warned/versions/1/unpublish"),
      await post(named("fine")),
    ];
    for (const { body } of silent) expect(body).not.toHaveProperty("warnings");
  });

  it("the machine is a state chart that XState runs to its end", async () => {
    await post(named("charted", { published: true }));
    const { status, body } = await rig.call("GET", "/api/v1/workflows/charted/machine");
    expect(status).toBe(200);
    expect(body.states).toMatchObject({ active: { initial: "begin" }, succeeded: { type: "final" } });
    const actor = createActor(createMachine(body)).start();
    for (const type of ["begin.default", "next", "run.succeeded"]) actor.send({ type });
    expect(actor.getSnapshot().status).toBe("done");
  });
});

describe("stats", () => {
  it("leave out branches and items, whether they have ended or not", async () => {
    await post(named("fans"));
    const root = { workflow_id: "fans", started_at: "2026-01-01T00:00:00.000Z" };
    const id = await insertRun(rig, root);
    const branch = { ...root, parent_run_id: id, family_run_id: id, started_at: "2026-01-02T00:00:00.000Z" };
    await insertRun(rig, branch);
    await insertRun(rig, { ...branch, state: "failed", terminal_at: new Date().toISOString() });
    const { body } = await rig.call("GET", "/api/v1/workflows/fans/stats");
    expect(body).toEqual({ success_rate_24h: null, last_run_at: root.started_at, in_flight: 1 });
  });

  it("show the slots that runs hold, and the runs that wait for one", async () => {
    await post(named("limited"));
    const add = (granted: string | null) => rig.database.sql`
      insert into concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, slot_limit, on_limit, admitted, granted_at)
      values (gen_random_uuid(), 0, 0, gen_random_uuid(), 'workflow:limited', 'k', 1, 'queue', true, ${granted})`;
    for (const granted of ["2026-01-01T00:00:00.000Z", null, null]) await add(granted);
    const { body } = await rig.call("GET", "/api/v1/workflows/limited/stats");
    expect(body).toMatchObject({ concurrency: { held: 1, waiting: 2 } });
    await rig.database.sql`delete from concurrency_tickets`;
  });

  it("count the runs that ended within a day, without cancelled, dry and child runs", async () => {
    await post(named("stats"));
    const url = "/api/v1/workflows/stats/stats";
    expect((await rig.call("GET", url)).body).toEqual({ success_rate_24h: null, last_run_at: null, in_flight: 0 });
    const now = new Date().toISOString();
    const ended = { workflow_id: "stats", terminal_at: now, started_at: "2026-01-01T00:00:00.000Z" };
    for (const state of ["succeeded", "succeeded", "succeeded", "failed", "cancelled"])
      await insertRun(rig, { ...ended, state });
    await insertRun(rig, { ...ended, state: "failed", identity: { dryRun: true } });
    await insertRun(rig, { ...ended, state: "failed", parent_run_id: "0190a000-0000-7000-8000-0000000000aa" });
    await insertRun(rig, { ...ended, state: "failed", terminal_at: "2026-01-01T00:00:00.000Z" });
    await insertRun(rig, { workflow_id: "stats", started_at: "2026-02-01T00:00:00.000Z" });
    expect((await rig.call("GET", url)).body).toEqual({
      success_rate_24h: 0.75,
      last_run_at: "2026-02-01T00:00:00.000Z",
      in_flight: 1,
    });
  });
});

const unasked = (): never => {
  throw new Error("not asked");
};

describe("the definitions directory", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "saga-definitions-"));
  });
  afterAll(() => rm(dir, { recursive: true }));
  const write = (name: string, content: unknown) =>
    writeFile(
      join(dir, name),
      typeof content === "string" || Buffer.isBuffer(content) ? content : JSON.stringify(content),
    );
  const load = () =>
    loadDefinitionsDir(dir, {
      sql: rig.database.sql,
      log: silentLog,
      triggers: { check: () => unasked(), seed: () => unasked() },
      compile,
      catalog: {
        program: () => Promise.reject(new Error("not asked")),
        published: () => Promise.reject(new Error("not asked")),
        stored: () => Promise.reject(new Error("not asked")),
        action: () => undefined,
        actionNames: () => [],
        rule: () => undefined,
        refresh: async () => {},
      },
    });

  it("is stored and published once, by any number of nodes", async () => {
    await write("a.workflow.json", named("filed"));
    const spec = { hit_policy: "first", rows: [{ when: "true", then: { branch: "a" } }] };
    await write("a.rule.json", { rule_id: "filed", name: "Filed", rule_type: "decision_table", spec });
    await write("notes.txt", "not a definition");
    await Promise.all([load(), load(), load()]);
    const { body } = await rig.call("GET", "/api/v1/workflows/filed/versions");
    expect(body).toMatchObject({ total: 1, items: [{ version: 1, published: true }] });
    const rules = await rig.call("GET", "/api/v1/rules/filed/versions");
    expect(rules.body).toMatchObject({ total: 1, items: [{ version: 1, published: true, spec }] });
  });

  it("has no definitions in files that begin with a dot, and reads a byte order mark", async () => {
    await write("._a.workflow.json", "\0\u0005\u0016\u0007 of the file system");
    await write(".hidden.workflow.json", "{");
    await write("marked.workflow.json", `\uFEFF${JSON.stringify(named("marked"))}`);
    await load();
    expect((await rig.call("GET", "/api/v1/workflows/marked")).status).toBe(200);
  });

  it("what is no file stops the startup, and is not waited for", async () => {
    execFileSync("mkfifo", [join(dir, "pipe.rule.json")]);
    await mkdir(join(dir, "folder.workflow.json"));
    await symlink(join(dir, "nowhere"), join(dir, "link.workflow.json"));
    await write("target.workflow.json", named("target"));
    await symlink(join(dir, "target.workflow.json"), join(dir, "linked.workflow.json"));
    const outcome = load().then(
      () => "loaded",
      (error: { problems?: readonly string[] }) => error.problems,
    );
    try {
      // A writer that does not wait gets in where a reader waits for one, and the reader goes on.
      let isAwaited = false;
      const answered = outcome.then(() => true);
      await until(async () => {
        isAwaited = await open(join(dir, "pipe.rule.json"), constants.O_WRONLY | constants.O_NONBLOCK).then(
          (writer) => writer.close().then(() => true),
          () => false,
        );
        return isAwaited || Promise.race([answered, turn(false)]);
      });
      expect([isAwaited, await outcome]).toEqual([
        false,
        [
          "folder.workflow.json: it is not a file",
          expect.stringMatching(/^link\.workflow\.json: ENOENT/),
          "pipe.rule.json: it is not a file",
        ],
      ]);
    } finally {
      for (const name of [
        "pipe.rule.json",
        "folder.workflow.json",
        "link.workflow.json",
        "linked.workflow.json",
        "target.workflow.json",
      ])
        await rm(join(dir, name), { recursive: true });
    }
  });

  it("an invalid file stops the startup with its name and every problem, and nothing is stored", async () => {
    const before = await rig.countRows();
    await write("b.workflow.json", { ...named("filed-2"), stpes: 1, start: 2 });
    await write("c.workflow.json", '{\n  "id": "día🎉",\n}');
    await write("g.workflow.json", "");
    await write("h.workflow.json", Buffer.from('{"id": "h", "name": "Gr\xfc\xdfe"}', "latin1"));
    await write("d.rule.json", { rule_id: "d" });
    await write("f.trigger.json", {});
    await write("e.workflow.json", named("filed-3"));
    const error = await load().then(
      () => "it started",
      (thrown: Error) => thrown.message,
    );
    for (const part of [
      "b.workflow.json: $.stpes",
      "b.workflow.json: $.start",
      "c.workflow.json: is not JSON: see line 3, column 1\n",
      "g.workflow.json: is not JSON: it ends too early\n",
      "h.workflow.json: is not UTF-8",
      "d.rule.json: $.spec is required",
    ]) {
      expect(error).toContain(part);
    }
    expect(await rig.countRows()).toBe(before);
  });
});
