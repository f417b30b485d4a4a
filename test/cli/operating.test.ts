// The commands for operators against a service: triggers, workers, bulk jobs, migrations, doctor, and the tools of `saga mcp`.
// @module-tag long
import { describe, expect, inject, it } from "vitest";
import { until } from "../harness/until.js";
import { begin, ECHO, saga, useRig } from "./rig.js";

describe("saga, for operators,", () => {
  const rig = useRig();

  it("trigger creates, shows, fires, disables and deletes a schedule", async () => {
    const id = (
      await rig().saga("trigger", "create", "echo", "--cron", "30 2 * * 1", "--inputs", '{"say": "tick"}', "--disabled")
    ).stdout.trim();
    expect((await rig().saga("trigger", "list", "--workflow", "echo")).stdout).toMatch(
      new RegExp(`^${id} +echo +30 2 \\* \\* 1 +disabled`, "m"),
    );
    expect(await rig().saga("trigger", "enable", id)).toMatchObject({ code: 0, stdout: `trigger ${id} is enabled\n` });
    expect((await rig().saga("trigger", "get", id)).stdout).toMatch(/ {2}next +\d{4}-/);
    const run = (await rig().saga("trigger", "fire", id)).stdout.trim();
    expect(await rig().json("get", run, "--wait")).toMatchObject({ output: { said: { say: "tick" } } });
    expect((await rig().saga("trigger", "fires", id)).stdout).toContain(run);
    expect((await rig().saga("trigger", "delete", id)).code).toBe(0);
    expect((await rig().saga("trigger", "get", id)).code).toBe(5);
    expect((await rig().saga("trigger", "create", "echo")).code).toBe(2);
    expect(await rig().saga("trigger", "create", "echo", "--cron", "never")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("schedule"),
    });
  });

  it("workers lists those that are connected, and what no worker serves", async () => {
    await rig().api("POST", "/registry/register", { service: "ghost", actions: [{ action_name: "haunt" }] });
    const workflow = {
      id: "ghostly",
      name: "G",
      published: true,
      start: "a",
      steps: [{ id: "a", type: "action", action: "ghost.haunt", inputs: {} }],
    };
    await rig().api("POST", "/workflows", workflow);
    const id = (await rig().saga("start", "ghostly")).stdout.trim();
    const { stdout } = await until(async () => {
      const ended = await rig().saga("workers");
      return ended.stdout.includes("unserved") && ended;
    });
    expect(stdout).toMatch(/unserved: 1 calls of ghost\.haunt@1 \(grpc\) wait for a worker/);
    expect(await rig().json("doctor")).toContainEqual({
      name: "unserved",
      state: "bad",
      says: expect.stringContaining("ghost.haunt@1"),
    });
    expect((await rig().saga("explain", id)).stdout).toContain("waits for a worker that serves ghost.haunt@1");
    await rig().saga("terminate", id, "--reason", "test");
    const trip = (await rig().saga("start", "trip")).stdout.trim();
    await until(async () =>
      (await rig().saga("workers", "--service", "shop")).stdout.match(/^WORKER +SERVICE.*\nhttp:\S+ +shop/),
    );
    await rig().saga("terminate", trip, "--reason", "test");
  });

  it("bulk in a pipe asks for the number that it has shown, and the job is listed with its refusals", async () => {
    await rig().saga("start", "echo", "--wait", "--label", "bulk=a");
    const args = ["bulk", "run", "pause", "--label", "bulk=a"];
    expect(await rig().saga(...args)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("--confirm 1"),
    });
    expect(await rig().saga(...args, "--confirm", "2")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("nothing was done"),
    });
    const ended = await rig().saga(...args, "--confirm", "1");
    expect([ended.code, ended.stdout]).toEqual([
      1,
      expect.stringMatching(/pause {2}done: 0 of 1 done, 1 refused\n {2}\S+ /),
    ]);
    const [id = ""] = ended.stdout.split(" ");
    expect((await rig().saga("bulk", "list")).stdout).toContain(id);
    expect(await rig().json("bulk", "get", id)).toMatchObject({ refused: 1 });
    expect(await rig().saga("bulk", "stop", id)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("nothing had to be done"),
    });
    expect(await rig().saga("bulk", "run", "pause", "--label", "bulk=none")).toMatchObject({
      code: 0,
      stdout: "no run matches: nothing was done\n",
    });
    expect((await rig().saga("bulk", "run", "explode", "--label", "bulk=a", "--confirm", "1")).code).toBe(5);
  });

  it("migrate looks first, and moves one run or all of a workflow", async () => {
    const ask = { id: "ask", type: "wait_for_signal", signal_name: "go", next: "done" };
    const workflow = (said: number) => ({
      ...ECHO,
      id: "moving",
      published: true,
      start: "ask",
      steps: [ask, { id: "done", type: "end", output: { said } }],
    });
    await rig().api("POST", "/workflows", workflow(1));
    const ids = await Promise.all([1, 2].map(async () => (await rig().saga("start", "moving")).stdout.trim()));
    await rig().api("POST", "/workflows", workflow(2));
    const [first = "", second = ""] = ids;
    await until(async () => (await rig().api<{ state: string }>("GET", `/sagas/${second}`)).state === "paused");
    expect(await rig().saga("migrate", "run", first, "--to", "2", "--check")).toMatchObject({
      code: 0,
      stdout: "it can be moved\n",
    });
    expect(await rig().saga("migrate", "run", first, "--to", "2")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("of version 2 now"),
    });
    expect(await rig().saga("migrate", "run", first, "--to", "9")).toMatchObject({ code: 5 });
    expect(await rig().json("migrate", "all", "moving", "--to", "2", "--check")).toMatchObject({
      matched: 1,
      movable: 1,
    });
    const moved = await rig().saga("migrate", "all", "moving", "--to", "2", "--confirm", "2");
    expect([moved.code, moved.stdout]).toEqual([0, expect.stringContaining("2 of 2 done")]);
    expect(await rig().api("GET", `/sagas/${second}`)).toMatchObject({ version: 2 });
  });

  it("doctor looks at the service and its database, and says with 1 what is bad", async () => {
    const good = await saga(["doctor", "-o", "json"], { ...rig().env, DATABASE_URL: rig().database.url });
    const findings = JSON.parse(good.stdout) as { name: string; state: string; says: string }[];
    const stateOf = (name: string) => findings.find((finding) => finding.name === name)?.state;
    const sound = ["service", "nodes", "shards", "database", "tables", "primary", "settings", "sessions", "db clock"];
    expect(sound.map(stateOf)).toEqual(sound.map(() => "ok"));
    // The server of the tests is not ours: it may be off there.
    const [server] = await rig().database.sql<{ vacuums: boolean; durable: boolean; standbys: number }[]>`
      select current_setting('autovacuum') = 'on' as vacuums, (select count(*)::int from pg_stat_replication) as standbys,
        current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' as durable`;
    expect(["autovacuum", "durability", "standby"].map(stateOf)).toEqual([
      ...[server?.vacuums ? "ok" : "bad", server?.durable ? "ok" : "bad"],
      server?.standbys ? "ok" : "warning",
    ]);
    expect(["redis", "rabbitmq"].map(stateOf)).toEqual(["skipped", "skipped"]);
    const password = "s3cret";
    const bad = await saga(["doctor"], {
      ...{ SAGA_URL: "http://127.0.0.1:1", DATABASE_URL: `postgres://a:${password}@127.0.0.1:1/x` },
      ...{ REDIS_URL: `redis://:${password}@127.0.0.1:1`, AMQP_URL: `amqp://a:${password}@127.0.0.1:1` },
    });
    expect([bad.code, bad.stdout.includes(password), bad.stderr]).toEqual([1, false, ""]);
    expect(bad.stdout.match(/^bad +(service|database|redis|rabbitmq)/gm)).toHaveLength(4);
  });

  it.runIf(inject("redisUrl") !== "" && inject("amqpUrl") !== "")(
    "doctor names the versions of Redis and RabbitMQ",
    async () => {
      const env = { ...rig().env, REDIS_URL: inject("redisUrl"), AMQP_URL: inject("amqpUrl") };
      const { stdout } = await saga(["doctor"], env);
      expect(stdout).toMatch(/^ok +redis +Redis \d/m);
      expect(stdout).toMatch(/^ok +rabbitmq +RabbitMQ \d/m);
    },
  );

  it("mcp serves tools that read, and acts only if it is told", async () => {
    const message = (id: number, method: string, params = {}) =>
      `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
    const talk = async (args: readonly string[], ...lines: readonly string[]) => {
      const { code, stdout, stderr } = await saga(["mcp", ...args], rig().env, lines.join(""));
      expect([code, stderr]).toEqual([0, ""]);
      return stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    };
    const call = (id: number, name: string, given: object) => message(id, "tools/call", { name, arguments: given });
    const [hello, list, runs, refused, unknown, broken] = await talk(
      [],
      message(1, "initialize", { protocolVersion: "2025-03-26", capabilities: {} }),
      `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`,
      message(2, "tools/list"),
      call(3, "list_runs", { workflow_id: "echo" }),
      call(4, "start_run", { workflow_id: "echo" }),
      message(5, "resources/list"),
      "{\n",
    );
    expect(hello.result).toMatchObject({
      protocolVersion: "2025-03-26",
      serverInfo: { name: "saga" },
      capabilities: { tools: {} },
    });
    expect(list.result.tools.every((tool: { annotations: object }) => "readOnlyHint" in tool.annotations)).toBe(true);
    expect(list.result.tools.map(({ name }: { name: string }) => name)).not.toContain("start_run");
    expect(JSON.parse(runs.result.content[0].text).items).toBeInstanceOf(Array);
    expect([refused.error.code, unknown.error.code, broken.error.code]).toEqual([-32602, -32601, -32700]);

    const [started, wrong] = await talk(
      ["--allow-acts"],
      call(1, "start_run", { workflow_id: "echo", inputs: { say: "a" } }),
      call(2, "get_run", { run_id: "none" }),
    );
    const { run_id } = JSON.parse(started.result.content[0].text);
    expect(await rig().json("get", run_id, "--wait")).toMatchObject({ state: "succeeded" });
    expect(wrong.result).toMatchObject({ isError: true });
  });

  it("mcp ends with 130 at Ctrl-C", async () => {
    const command = begin(["mcp"], rig().env);
    command.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })}\n`);
    await command.shows('"result":{}');
    command.child.kill("SIGINT");
    expect((await command.ended).code).toBe(130);
  });
});
