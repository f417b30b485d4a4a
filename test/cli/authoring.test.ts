// The commands for authors, against a service and without one: publish, diff, graph, convert, test, rule eval and types pull.
// @module-tag long
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { begin, ECHO, saga, TRIP, useRig } from "./rig.js";

const ORDER = resolve(import.meta.dirname, "../../examples/quick-start/order.workflow.json");

const home = mkdtempSync(join(tmpdir(), "saga-author-"));
afterAll(() => rmSync(home, { recursive: true }));

const file = (name: string, content: unknown): string => {
  const path = join(home, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
};

/** As `define` makes it: a value with an id and `toJSON`. The types go away, and a module of the author's is taken in. */
const MODULE = `import { NAME } from "./name.js";
interface Step { readonly id: string }
const steps: Step[] = [{ id: "done", type: "end", output: "\${inputs}" } as Step];
export const typed = { id: "typed", toJSON: () => ({ id: "typed", name: NAME, start: "done", steps }) };
export default typed;
export const other = 7;
`;

const RULE = {
  rule_id: "shipping",
  name: "How to ship",
  rule_type: "decision_table",
  spec: {
    hit_policy: "first",
    rows: [{ when: "weight > 30", then: { branch: "freight" } }],
    default_output: { branch: "parcel" },
  },
};

describe("saga, for authors,", () => {
  const rig = useRig();

  it("publish publishes a file once, and diff says whether it is what is published", async () => {
    const path = file("echo2.json", { ...ECHO, id: "echo2" });
    expect(await rig().saga("diff", path)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("--- workflow echo2 (not published)"),
    });
    expect(await rig().saga("publish", path)).toEqual({
      code: 0,
      stdout: "workflow echo2 1 is published\n",
      stderr: "",
    });
    expect(await rig().saga("publish", path)).toMatchObject({ code: 0, stdout: "workflow echo2 1 is unchanged\n" });
    expect(await rig().saga("diff", path)).toMatchObject({ code: 0, stdout: "" });
    const changed = file("echo2.json", {
      steps: ECHO.steps,
      start: "done",
      name: "Another",
      id: "echo2",
      input_schema: ECHO.input_schema,
    });
    const { code, stdout } = await rig().saga("diff", changed);
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^-\s+"name": "An echo",\n\+\s+"name": "Another",$/m)]);
    expect(await rig().json("publish", changed)).toMatchObject([{ id: "echo2", version: 2, result: "published" }]);
  });

  it("publish stores nothing if one of the files is wrong, and says where", async () => {
    const good = file("good.json", { ...ECHO, id: "good" });
    const bad = file("bad.json", { ...ECHO, id: "bad", start: "nowhere" });
    const { code, stderr } = await rig().saga("publish", good, bad);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^saga: nothing was published:\n {2}.*bad\.json: \$\.start /),
    ]);
    expect(await rig().saga("start", "good")).toMatchObject({ code: 5 });
    expect(await rig().saga("publish", good, "--dry-run")).toMatchObject({
      code: 0,
      stdout: "workflow good is valid\n",
    });
    expect(await rig().saga("start", "good")).toMatchObject({ code: 5 });
  });

  it("publish takes a TypeScript module that exports sagas, and leaves no file beside it", async () => {
    const folder = join(home, "typed");
    mkdirSync(folder);
    writeFileSync(join(folder, "name.ts"), `export const NAME: string = "Typed";\n`);
    writeFileSync(join(folder, "saga.ts"), MODULE);
    expect(await rig().saga("publish", join(folder, "saga.ts"))).toEqual({
      code: 0,
      stdout: "workflow typed 1 is published\n",
      stderr: "",
    });
    expect(await rig().json("start", "typed", "--inputs", '{"a": 1}', "--wait")).toMatchObject({ output: { a: 1 } });
    expect(readdirSync(folder)).toEqual(["name.ts", "saga.ts"]);
  });

  it("graph draws a file without a service, and a published version", async () => {
    const away = await saga(["graph", ORDER], { SAGA_URL: "http://127.0.0.1:1" });
    expect(away).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^stateDiagram-v2\n[\s\S]*reserve/),
      stderr: "",
    });
    const published = await rig().saga("graph", "trip");
    expect(published.stdout).toBe((await saga(["graph", file("trip.json", TRIP)], {})).stdout);
    expect(await rig().saga("graph", "none")).toMatchObject({ code: 5, stdout: "" });
  });

  it("rule eval evaluates a file and a published rule alike", async () => {
    const path = file("rule.json", RULE);
    expect(await rig().saga("publish", path)).toMatchObject({ code: 0, stdout: "rule shipping 1 is published\n" });
    expect(await rig().saga("diff", path)).toMatchObject({ code: 0 });
    for (const what of [path, "shipping"]) {
      expect(await rig().saga("rule", "eval", what, "--inputs", '{"weight": 31}')).toMatchObject({
        code: 0,
        stdout: '{"branch":"freight"}\n',
      });
      expect(await rig().json("rule", "eval", what, "--inputs", '{"weight": 1}')).toMatchObject({
        output: { branch: "parcel" },
        audit: { used_default: true },
      });
    }
    expect((await rig().saga("rule", "eval", path)).code).toBe(1);
  });

  it("import writes a state machine and workflows of Conductor, and refuses what has no equivalent unless it takes a part", async () => {
    const machine = file("pay.asl.json", { StartAt: "A", States: { A: { Type: "Pass", End: true } } });
    const { code, stdout, stderr } = await saga(["import", machine], {});
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { id: "pay", start: "input" }]);
    expect(stderr).toBe("1 workflows: 1 written, 1 with the same meaning\n");
    const flow = (name: string, type: string) => ({
      name,
      version: 1,
      tasks: [{ name: "t", taskReferenceName: "t", type }],
    });
    const flows = file("flows.json", [flow("one", "NOOP"), flow("two", "LLM_CHAT_COMPLETE")]);
    const [out, report] = [join(home, "imported"), join(home, "report.json")];
    expect((await saga(["import", flows], {})).code).toBe(2);
    const parted = await saga(["import", flows, "--out", out, "--report", report], {});
    expect([parted.code, parted.stdout, readdirSync(out)]).toEqual([1, "", ["one.workflow.json"]]);
    expect(JSON.parse(readFileSync(report, "utf8"))).toMatchObject([
      { id: "one", dialect: "conductor", written: true, findings: [] },
      {
        id: "two",
        written: false,
        findings: [{ pointer: "/tasks/0/type", weight: "refused", what: "LLM_CHAT_COMPLETE" }],
      },
    ]);
    expect((await saga(["import", flows, "--out", out, "--partial"], {})).code).toBe(1);
    expect(readdirSync(out)).toEqual(["one.workflow.json", "two.workflow.json"]);
    const imported = readdirSync(out).map((name) => join(out, name));
    expect((await saga(["check", ...imported], {})).code).toBe(0);
  });

  it("import says what is no document of another system, and what is not valid there", async () => {
    const rule = file("rule.json", RULE);
    expect(await saga(["import", rule], {})).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is neither a state machine"),
    });
    const machine = file("lost.asl.json", { StartAt: "A", States: { A: { Type: "Pass", Next: "Nowhere" } } });
    expect(await saga(["import", machine, "--from", "conductor"], {})).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is of the dialect asl"),
    });
    expect(await saga(["import", machine, "--partial", "--id", "x"], {})).toMatchObject({
      ...{ code: 1, stdout: "" },
      stderr: expect.stringContaining('there is no step "Nowhere"'),
    });
    expect(await saga(["import", machine, "--id", "no id"], {})).toMatchObject({ code: 1, stdout: "" });
  });

  it("convert writes a file, or what is published, as a module of define, and says why if it cannot", async () => {
    const out = join(home, "order.ts");
    expect(await rig().saga("convert", ORDER, "--out", out)).toMatchObject({ code: 0, stdout: `${out} is written\n` });
    expect(readFileSync(out, "utf8")).toMatch(/^export const order = saga\("order", \{[\s\S]*\n {2}\.end\(/m);
    const { code, stdout } = await rig().saga("convert", "trip");
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^export const trip = /m)]);
    expect(await rig().saga("convert", "nothing-of-the-kind")).toMatchObject({ code: 5 });
    expect(await rig().saga("convert", file("rule.json", RULE))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is no workflow: $.id must be a string"),
    });
  });

  it("types pull writes the registered actions, of one service if asked", async () => {
    const out = join(home, "actions.ts");
    expect(await rig().saga("types", "pull", "--service", "shop", "--out", out)).toMatchObject({
      code: 0,
      stdout: `${out}: 3 actions\n`,
    });
    const source = readFileSync(out, "utf8");
    expect(source).toMatch(/export const shop = \{\n {2}charge: defineAction\(\{[\s\S]*compensable: true/);
    expect(await rig().saga("types", "pull", "--service", "none")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("start a worker first"),
    });
  });

  it("test --from-run makes a test of a run with branches and a rollback, which passes, and fails for another workflow", async () => {
    const id = (await rig().saga("start", "trip", "--inputs", '{"fail": "card_declined"}')).stdout.trim();
    await until(async () => {
      const { items } = await rig().api<{ items: { paused_reason?: string }[] }>("GET", `/sagas/${id}/children`);
      return items.some(({ paused_reason }) => paused_reason === "signal");
    });
    expect((await rig().saga("test", "--from-run", id)).code).toBe(5);
    await rig().saga("signal", id, "go", "--payload", '{"by": "ann"}');
    await rig().saga("get", id, "--wait");
    const path = join(home, "trip.saga-test.json");
    expect(await rig().saga("test", "--from-run", id, "--out", path)).toEqual({
      code: 0,
      stdout: `${path}: saga test ${path}\n`,
      stderr: "",
    });
    const made = JSON.parse(readFileSync(path, "utf8"));
    expect(made.tests[0]).toMatchObject({
      inputs: { fail: "card_declined" },
      mocks: {
        ask: [{ output: { by: "ann" } }],
        charge: [{ error: { code: "card_declined" } }],
        "book~undo": [{ output: { action: "release" } }],
      },
      expect: { state: "failed", error: { code: "card_declined", step_id: "charge" } },
    });
    expect(await saga(["test"], {}, "", home)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("1 passed, 0 failed\n"),
    });
    const another = structuredClone(made);
    another.tests[0].expect.undone = ["reserve"];
    const failing = await saga(["test", file("another.json", another), "-o", "json"], {});
    expect(failing.code).toBe(1);
    expect(JSON.parse(failing.stdout)).toMatchObject({
      failed: 1,
      tests: [{ problems: [expect.stringMatching(/^undone is \["book","reserve"\], not/)] }],
    });
    expect((await rig().saga("test", "--from-run", id, "--out", path)).code).toBe(2);
  });

  it("test --from-run takes an output that the audit log has cut from its variable, and says so", async () => {
    const big = {
      ...ECHO,
      id: "big",
      start: "ask",
      steps: [
        { id: "ask", type: "wait_for_signal", signal_name: "go", next: "done" },
        { id: "done", type: "end", output: { got: "${size(vars.ask.text)}" } },
      ],
    };
    await rig().saga("publish", file("big.json", big));
    const id = (await rig().saga("start", "big")).stdout.trim();
    const payload = file("payload.json", { text: "x".repeat(100_000) });
    await rig().saga("signal", id, "go", "--payload", `@${payload}`);
    await rig().saga("get", id, "--wait");
    const { stdout, stderr } = await rig().saga("test", "--from-run", id);
    expect(stderr).toContain("saga: missing: the output of ask was taken from its variable");
    expect(JSON.parse(stdout).tests[0].mocks.ask[0].output.text).toHaveLength(100_000);
    expect((await saga(["test", file("big-test.json", stdout)], {})).code).toBe(0);
  });

  it("test --watch runs again at every change, also of a module, and Ctrl-C ends it", async () => {
    const folder = join(home, "watched");
    mkdirSync(folder);
    const write = (state: string) =>
      writeFileSync(
        join(folder, "a.saga-test.json"),
        JSON.stringify({ workflow: "a.ts#typed", tests: [{ name: "ends", expect: { state } }] }),
      );
    writeFileSync(join(folder, "a.ts"), MODULE.replace('import { NAME } from "./name.js";', 'const NAME = "A";'));
    write("succeeded");
    const command = begin(["test", "--watch"], {}, { cwd: folder });
    await command.shows("1 passed, 0 failed");
    await until(() => command.stderr.includes("waiting for a change"));
    write("failed");
    await command.shows('state is "succeeded", not "failed"');
    await until(() => command.stderr.split("waiting for a change").length === 3);
    writeFileSync(join(folder, "a.ts"), "export const typed = ;");
    await command.shows("cannot be loaded");
    command.child.kill("SIGINT");
    expect((await command.ended).code).toBe(130);
    expect(readdirSync(folder).sort()).toEqual(["a.saga-test.json", "a.ts"]);
  });

  it("test refuses a file with a misspelt member, and one without tests", async () => {
    expect(
      await saga(["test", file("x.json", { workflow: ORDER, tests: [{ name: "a", mock: {} }] })], {}),
    ).toMatchObject({ code: 1, stderr: expect.stringContaining("$.tests[0].mock is unknown") });
    expect(await saga(["test", file("x.json", { workflow: ORDER, tests: [] })], {})).toMatchObject({ code: 1 });
    expect(await saga(["test"], {}, "", mkdtempSync(join(home, "empty-")))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no file *.saga-test.json"),
    });
  });
});
