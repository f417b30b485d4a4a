// Every command once, in the process of the test and against one service: what it prints and how it ends. All that they do is in the long form:
// runs, authoring, operating, keys, terminal, dev and their like.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ArchiveFolder } from "../../src/archive/writer.js";
import { COMMANDS } from "../../src/cli/commands.js";
import { until } from "../harness/until.js";
import { type Ended, inProcess, RUN_HERE, saga, useRig } from "./rig.js";

const ORDER = resolve(import.meta.dirname, "../../examples/quick-start/order.workflow.json");
const ID = /^[0-9a-f-]{36}\n$/;

const home = mkdtempSync(join(tmpdir(), "saga-commands-"));
afterAll(() => rmSync(home, { recursive: true }));
const file = (name: string, content: unknown) => {
  const path = join(home, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
};

describe("saga, in one process,", () => {
  const rig = useRig();
  const env = () => ({ ...rig().env, DATABASE_URL: rig().database.url, XDG_CONFIG_HOME: home });
  const run = (...args: readonly string[]) => inProcess(args, env());
  /** Its one JSON value, and no line beside it. */
  const json = async <T = Readonly<Record<string, unknown>>>(...args: readonly string[]) => {
    const { stdout, stderr } = await run(...args, "-o", "json");
    if (stdout === "") throw new Error(`saga ${args.join(" ")}: ${stderr}`);
    return JSON.parse(stdout) as T;
  };
  const ok = (stdout: string | RegExp): Ended => ({
    ...{ code: 0, stderr: "" },
    stdout: typeof stdout === "string" ? stdout : expect.stringMatching(stdout),
  });
  const untilItWaits = (id: string) =>
    until(async () => {
      const { items } = await rig().api<{ items: { paused_reason?: string }[] }>("GET", `/sagas/${id}/children`);
      return items.some(({ paused_reason: reason }) => reason === "signal");
    });
  const startTrip = async () => {
    const id = (await run("start", "trip")).stdout.trim();
    await untilItWaits(id);
    return id;
  };

  it("start, get, list, watch and rerun show runs", async () => {
    expect(await run("start", "echo")).toEqual(ok(ID));
    const inputs = '{"say": "🍵", "money": 19.99, "none": null, "list": []}';
    const started = await json<{ id: string }>("start", "echo", "--inputs", inputs, "--wait", "--label", "a=b");
    expect(started).toMatchObject({ state: "succeeded", output: { said: JSON.parse(inputs) } });
    expect(await run("get", started.id, "--wait")).toEqual(ok(/succeeded/));
    expect(await run("list", "--label", "a=b")).toEqual(ok(/^RUN .*\n\S+ +echo 1 +succeeded/));
    const watched = await run("watch", started.id, "-o", "json");
    expect(JSON.parse(watched.stdout.trim().split("\n").at(-1) ?? "")).toMatchObject({ state: "succeeded" });
    expect(await run("rerun", started.id)).toEqual(ok(ID));
    const forked = await run("fork", started.id, "done", "--inputs", inputs);
    expect(forked).toEqual(ok(ID));
    expect(await run("list", "--forked-from", started.id)).toEqual(ok(/^RUN .*\n\S+ +echo 1 /));
    expect(await run("fork", started.id, "done", "--assume-effects")).toEqual(ok(ID));
    expect(await run("fork", started.id, "nowhere")).toMatchObject({ code: 5 });
  });

  it("signal, explain, pause, resume, cancel and what is refused act on a run", async () => {
    const id = await startTrip();
    expect(await run("pause", id)).toMatchObject({ code: 0 });
    expect(await run("explain", id)).toEqual(ok(/is paused/));
    expect(await run("resume", id)).toMatchObject({ code: 0 });
    await untilItWaits(id);
    expect(await run("query", id, "run.workflow_id")).toEqual(ok("trip\n"));
    expect(await run("query", id, "vars.")).toMatchObject({ code: 5, stdout: "" });
    expect(await run("signal", id, "go")).toEqual(ok(`run ${id} has taken go\n`));
    expect(await run("get", id, "--wait")).toEqual(ok(/succeeded/));
    // There is no incident, no quarantine, and it has ended.
    for (const act of ["retry", "skip", "fail", "release"]) expect(await run(act, id)).toMatchObject({ code: 5 });
    const other = await startTrip();
    expect(await run("cancel", other)).toEqual(ok(/undoes/));
    expect((await run("get", other, "--wait")).code).toBe(3);
    const last = await startTrip();
    expect(await run("terminate", last)).toMatchObject({ code: 2, stdout: "" });
    expect(await run("terminate", last, "--reason", "test")).toMatchObject({ code: 0 });
  });

  it("tasks and submit are for people", async () => {
    await rig().api("POST", "/workflows", {
      ...{ id: "ask", name: "Ask", published: true, start: "ok" },
      steps: [
        { id: "ok", type: "manual_approval", assignee: "ann", title: "May I?", next: "done" },
        { id: "done", type: "end" },
      ],
    });
    const id = (await run("start", "ask")).stdout.trim();
    const task = await until(async () => (await json<{ items: { id: string }[] }>("tasks", "--run", id)).items[0]);
    expect(await run("submit", id, task.id, "--approve")).toMatchObject({ code: 0 });
    expect((await run("get", id, "--wait")).code).toBe(0);
  });

  it("publish, diff, graph, convert, import, check, test, rule eval and types pull are for authors", async () => {
    const path = file("order.json", { id: "a", name: "A", start: "z", steps: [{ id: "z", type: "end" }] });
    expect(await run("diff", path)).toMatchObject({ code: 1 });
    expect(await run("publish", path)).toEqual(ok("workflow a 1 is published\n"));
    expect(await run("diff", path)).toMatchObject({ code: 0, stdout: "" });
    expect(await run("graph", path)).toEqual(ok(/^stateDiagram-v2\n/));
    expect(await run("convert", path)).toEqual(ok(/^export const a = saga\("a", \{ name: "A" \}\)$/m));
    expect(await run("convert", "a")).toEqual(ok(/^ {2}\.end\(undefined, \{ id: "z" \}\);$/m));
    const machine = file("m.asl.json", { StartAt: "A", States: { A: { Type: "Succeed" } } });
    expect(await run("import", machine)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ {2}"id": "m",$/m) });
    expect(await run("check", path)).toMatchObject({ code: 0, stdout: "" });
    const tests = file("a.saga-test.json", { workflow: "order.json", tests: [{ name: "ends" }] });
    expect(await run("test", tests)).toEqual(ok(/1 passed, 0 failed\n$/));
    const row = { when: "kg > 30", then: { by: "freight" } };
    const rule = { rule_id: "r", name: "R", rule_type: "decision_table", spec: { hit_policy: "first", rows: [row] } };
    const evaluated = await run("rule", "eval", file("rule.json", rule), "--inputs", '{"kg": 31}');
    expect(evaluated).toMatchObject({ code: 0, stdout: '{"by":"freight"}\n' });
    expect(await run("types", "pull")).toEqual(ok(/^export const shop = \{$/m));
    // A module is loaded in a process of its own, as by every other command.
    const text =
      'export const order = { id: "m", name: "M", start: "z", steps: [{ id: "z", type: "end" as string }] };';
    expect(await json("graph", file("order.ts", text))).toMatchObject([{ id: "m" }]);
    const { id } = await json<{ id: string }>("start", "a", "--wait");
    expect(await run("test", "--from-run", id)).toEqual(ok(/"state": "succeeded"/));
  });

  it("trigger, workers, bulk, migrate, doctor and bench are for operators", async () => {
    const { stdout } = await run("trigger", "create", "echo", "--cron", "0 3 1 1 *");
    const id = stdout.trim();
    expect(await run("trigger", "list")).toEqual(ok(new RegExp(`^${id} +echo`, "m")));
    const words = "At 03:00 on the 1st of the month in January, UTC";
    expect(await run("trigger", "get", id)).toEqual(ok(new RegExp(`^cron \\S+ {2}enabled\n {2}when {4}${words}\n`)));
    const past = ["--from", "2024-01-01T03:00:00Z", "--to", "2025-01-01T03:00:00Z"];
    const ticks = "2024-01-01T03:00:00.000Z\n2025-01-01T03:00:00.000Z\n";
    const fires = (how: string) => ({ ...ok(ticks), stderr: `saga: ${how} 2 of 2 ticks; 0 were fired before\n` });
    expect(await run("trigger", "backfill", id, ...past, "--dry-run")).toEqual(fires("would fire"));
    expect(await run("trigger", "backfill", id, ...past)).toEqual(fires("fires"));
    expect(await json("trigger", "backfill", id, ...past)).toEqual({ ticks: 2, fired: 0, items: [] });
    expect(await run("trigger", "fires", id)).toEqual(ok(/2025-01-01T03:00:00.000Z \(backfilled\)/));
    expect(await run("trigger", "backfill", id)).toMatchObject({ code: 2, stderr: expect.stringContaining("--from") });
    expect(await run("trigger", "fire", id)).toEqual(ok(ID));
    expect(await run("trigger", "fires", id)).toEqual(ok(/^FIRED/));
    const why = ["--reason", "the stock is counted"];
    expect(await run("trigger", "disable", id, ...why)).toEqual(ok(`trigger ${id} is disabled\n`));
    expect(await run("trigger", "get", id)).toEqual(ok(/\n {2}paused {2}since \S+ by api: the stock is counted\n/));
    expect(await run("trigger", "list")).toEqual(ok(/the stock is counted/));
    expect(await run("trigger", "enable", id)).toEqual(ok(`trigger ${id} is enabled\n`));
    expect(await run("trigger", "delete", id)).toMatchObject({ code: 0 });
    expect((await run("workers")).code).toBe(0);

    const trip = await startTrip();
    const bulk = ["bulk", "run", "pause", "--workflow", "trip", "--roots", "--state", "running,paused"];
    expect(await run(...bulk)).toMatchObject({ code: 2, stderr: expect.stringContaining("--confirm 1") });
    const [job = ""] = (await run(...bulk, "--confirm", "1")).stdout.split(" ");
    expect(await run("bulk", "list")).toEqual(ok(new RegExp(job)));
    expect(await json("bulk", "get", job)).toMatchObject({ matched: 1, done: 1 });
    for (const act of ["stop", "resume"]) expect((await run("bulk", act, job)).code).toBe(0);
    expect(await run("migrate", "run", trip, "--to", "9", "--check")).toMatchObject({ code: 5 });
    expect(await run("migrate", "all", "trip", "--to", "1", "--check")).toMatchObject({ code: 0 });
    expect(await run("terminate", trip, "--reason", "test")).toMatchObject({ code: 0 });

    const looked = await json<{ name: string; state: string }[]>("doctor");
    expect(looked.filter(({ name }) => name === "service" || name === "database").map(({ state }) => state)).toEqual([
      "ok",
      "ok",
    ]);
    expect(await json("bench", "--runs", "5", "--concurrency", "2")).toMatchObject({ runs: 5, succeeded: 5 });
  });

  it("doctor tells a credential that counts for nothing, and a name that the service does not know, from a service that is well", async () => {
    let ready = 200;
    const server = createServer(({ url }, response) => {
      response.writeHead(url === "/readyz" ? ready : 401, { "content-type": "application/json" });
      response.end('{"error":"unauthorized","message":"the credential is not accepted"}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const settings = { SAGA_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
    try {
      const revoked = await inProcess(["doctor"], settings);
      expect([revoked.code, revoked.stdout]).toEqual([1, expect.stringMatching(/^bad +access +the credential/m)]);
      ready = 421;
      const unknown = await inProcess(["doctor"], settings);
      expect([unknown.code, unknown.stdout]).toEqual([1, expect.stringMatching(/^bad +service .*SAGA_ALLOWED_HOSTS/m)]);
    } finally {
      server.close();
    }
  });

  it("mcp answers on standard input", async () => {
    const ping = `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })}\n`;
    expect(await inProcess(["mcp"], env(), ping)).toEqual(ok('{"jsonrpc":"2.0","id":1,"result":{}}\n'));
  });

  it("profile and completion are for the command itself", async () => {
    const made = await inProcess(["profile", "set", "prod", "--url", rig().url], env(), "s3cret\n");
    expect(made).toMatchObject({ code: 0, stdout: "" });
    expect(await run("profile", "use", "prod")).toMatchObject({ code: 0 });
    expect(await json("profile", "list")).toMatchObject([{ name: "prod", current: true, has_token: true }]);
    expect(await run("profile", "remove", "prod")).toMatchObject({ code: 0 });
    expect(await run("completion", "bash")).toEqual(ok(/_saga/));
  });

  it("key, signing-secret and tenant adopt work on the database and the settings", async () => {
    const made = await run("key", "create", "--name", "first", "--roles", "platform,admin");
    expect(made).toEqual(ok(/^saga_[0-9A-Za-z]{16}_/));
    const [, id = ""] = made.stdout.split("_");
    expect(await run("key", "list")).toEqual(ok(new RegExp(`^${id} +first`, "m")));
    expect(await run("key", "revoke", id)).toEqual(ok(`${id}\n`));
    const settings = { SAGA_SIGNING_SECRET: "0123456789abcdef0123456789abcdef" };
    expect(await inProcess(["signing-secret", "payments"], settings)).toEqual(ok(/^whsec_/));
    expect(await run("tenant", "adopt", "no uuid")).toMatchObject({ code: 2, stdout: "" });
  });

  it("conformance and dev say in one sentence what is wrong", async () => {
    expect(await run("conformance")).toMatchObject({ code: 2, stdout: "" });
    file("saga.config.json", "{");
    // It takes the folder that it is in.
    expect(await saga(["dev"], {}, "", home)).toMatchObject({
      ...{ code: 2, stdout: "" },
      stderr: expect.stringMatching(/^saga: saga\.config\.json is not JSON/),
    });
    RUN_HERE.add("dev");
  });

  it("archive list, show and verify read a folder, and need no service", async () => {
    const folder = join(home, "archive");
    const id = "01900000-0000-7000-8000-00000000000a";
    const at = "2026-11-30T00:00:00.000Z";
    const shown = {
      id,
      workflow_id: "tea",
      version: 1,
      state: "succeeded",
      started_at: at,
      terminal_at: at,
      output: "🍵",
    };
    const manifest = await new ArchiveFolder(folder).write({ holds: "runs", at: new Date(at) }, async (sink) => {
      const of = { run: id, root: id, tenant_id: null };
      await sink.add({ ...of, kind: "run", data: shown });
      await sink.add({ ...of, kind: "event", data: { run_id: id, seq: 1, event_type: "saga.started" } });
    });
    const path = `2026-11-30/${manifest?.file}`;
    const here = { SAGA_ARCHIVE_DIR: folder };
    const archive = (...args: readonly string[]) => inProcess(["archive", ...args], here);
    expect(await archive("list")).toEqual(ok(new RegExp(`^FILE .*\\n${path} `)));
    expect(JSON.parse((await archive("list", "-o", "json")).stdout)).toEqual({ items: [{ path, ...manifest }] });
    expect(await archive("list", "--tenant", id)).toMatchObject({ code: 0, stdout: "" });
    expect(await archive("show", id, "--events")).toEqual(
      ok(/^tea 1 .*succeeded[\s\S]*🍵[\s\S]*archived[\s\S]*saga\.started/),
    );
    const whole = JSON.parse((await archive("show", id.toUpperCase(), "--all", "-o", "json")).stdout);
    const lists = { events: [{ seq: 1 }], signals: [], undo: [], user_tasks: [] };
    expect(whole).toMatchObject({ ...shown, archived: true, archive_file: path, ...lists });
    expect(await archive("show", id.replace("a", "b"))).toMatchObject({ code: 1, stdout: "" });
    expect(await archive("show", "tea")).toMatchObject({ code: 2, stdout: "" });
    expect(await archive("verify")).toEqual(ok("1 files, 0 faults\n"));
    appendFileSync(join(folder, path), "\n");
    const changed = await archive("verify");
    expect(changed).toMatchObject({ code: 1, stderr: "" });
    expect(changed.stdout).toMatch(/bytes, and was written with/);
    expect(await inProcess(["archive", "list"], {})).toMatchObject({ code: 2, stdout: "" });
    expect(await archive("list", "--dir", join(home, "nowhere"))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/cannot be read \(ENOENT\)/),
    });
  });

  it("tenant keys and tenant destroy-keys need encryption, and name the tenant twice", async () => {
    const tenant = "0190a000-0000-7000-8000-0000000000f1";
    const off = { code: 1, stdout: "", stderr: expect.stringContaining("encryption at rest is off") };
    expect(await run("tenant", "keys", tenant)).toMatchObject(off);
    expect(await run("tenant", "destroy-keys", tenant, "--confirm", tenant)).toMatchObject(off);
    for (const confirm of [[], ["--confirm", "yes"]])
      expect(await run("tenant", "destroy-keys", tenant, ...confirm)).toMatchObject({
        ...{ code: 2, stdout: "" },
        stderr: expect.stringContaining(`--confirm ${tenant}`),
      });
  });

  it("leaves no command out", () => {
    const isRun = (name: string) => [...RUN_HERE].some((line) => line === name || line.startsWith(`${name} `));
    expect(COMMANDS.map(({ name }) => name).filter((name) => !isRun(name))).toEqual([]);
  });

  it("says that a service is away, and that an option is unknown", async () => {
    expect(await inProcess(["list"], { SAGA_URL: "http://127.0.0.1:1" })).toMatchObject({ code: 6, stdout: "" });
    expect(await run("list", "--worklow", "echo")).toMatchObject({
      ...{ code: 2, stdout: "" },
      stderr: expect.stringContaining("Did you mean --workflow?"),
    });
    expect(await inProcess(["graph", ORDER], { SAGA_URL: "http://127.0.0.1:1" })).toEqual(ok(/reserve/));
  });
});
