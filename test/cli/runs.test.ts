// The commands for runs in a pipe, against a service: what they print, as text and as JSON, and how they end.
// @module-tag long
import { describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { begin, saga, useRig } from "./rig.js";

const UUID = /^[0-9a-f-]{36}\n$/;
const NONE = "01980000-0000-7000-8000-000000000000";

describe("saga, for runs,", () => {
  const rig = useRig();
  const startTrip = async (...more: readonly string[]) => (await rig().saga("start", "trip", ...more)).stdout.trim();
  const stateOf = async (id: string) =>
    await rig().api<{ state: string; paused_reason?: string }>("GET", `/sagas/${id}`);
  const untilAsks = (id: string) =>
    until(async () => {
      const { items } = await rig().api<{ items: { state: string; paused_reason?: string }[] }>(
        "GET",
        `/sagas/${id}/children`,
      );
      return items.some(({ paused_reason }) => paused_reason === "signal");
    });

  it("start prints the id alone, and a key starts once", async () => {
    const first = await rig().saga("start", "echo", "--key", "once");
    expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(UUID), stderr: "" });
    const again = await rig().saga("start", "echo", "--key", "once");
    expect([again.code, again.stdout]).toEqual([0, first.stdout]);
    expect(again.stderr).toContain("was there before: nothing was started");
  });

  it("start takes inputs with money, emoji, null and empty lists, from standard input, and waits", async () => {
    const inputs = { say: "🍵 tea", amount: 19.99, none: null, list: [], "a-b": { "": 1 } };
    const { code, stdout } = await saga(
      ["start", "echo", "--inputs", "-", "--wait", "-o", "json"],
      rig().env,
      JSON.stringify(inputs),
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ state: "succeeded", output: { said: inputs } });
  });

  it("start says whose turn it is before others, and by shares", async () => {
    const id = await startTrip("--priority", "1", "--fairness-key", "kunde ü 🍵", "--fairness-weight", "0.5");
    expect(await rig().json("get", id)).toMatchObject({
      ...{ priority: 1, fairness_key: "kunde ü 🍵", fairness_weight: 0.5 },
    });
    const alone = await rig().saga("start", "echo", "--fairness-weight", "2");
    expect(alone).toMatchObject({ code: 2, stderr: expect.stringContaining("is that of a --fairness-key") });
    for (const wrong of ["6", "0", "1.5", "high"])
      expect(await rig().saga("start", "echo", "--priority", wrong)).toMatchObject({
        ...{ code: 2, stdout: "", stderr: expect.stringContaining("--priority") },
      });
  });

  it("start refuses what is no JSON, no object and no file as a wrong use, before it asks the service", async () => {
    const nowhere = { SAGA_URL: "http://127.0.0.1:1" };
    for (const [given, sentence] of [
      ["{", "--inputs is not JSON"],
      ["[1]", "--inputs must be a JSON object"],
      ["@no-such-file.json", "there is no file no-such-file.json"],
    ]) {
      const ended = await saga(["start", "echo", "--inputs", given ?? ""], nowhere);
      expect([ended.code, ended.stdout]).toEqual([2, ""]);
      expect(ended.stderr).toContain(sentence);
    }
  });

  it("start says with 5 what the service refuses, and where", async () => {
    const wrong = await rig().saga("start", "echo", "--inputs", '{"say": 1}');
    expect(wrong).toMatchObject({ code: 5, stdout: "", stderr: expect.stringMatching(/^saga: .*\$\.inputs\.say/s) });
    const none = await rig().saga("start", "none");
    expect(none).toMatchObject({ code: 5, stderr: expect.stringMatching(/^saga: .*none/) });
  });

  it("says with 6 that the service is away, and what to do", async () => {
    const ended = await saga(["list"], { SAGA_URL: "http://127.0.0.1:1" });
    expect(ended).toMatchObject({ code: 6, stdout: "", stderr: expect.stringMatching(/127\.0\.0\.1:1.*--profile\n$/) });
  });

  it("says with 4 that a run has not ended in time, and the run goes on", async () => {
    const ended = await rig().saga("start", "trip", "--wait", "--timeout", "500ms");
    expect([ended.code, ended.stdout]).toEqual([4, ""]);
    const [, id = ""] = /run (\S+) has not ended in time/.exec(ended.stderr) ?? [];
    expect(["running", "paused"]).toContain((await stateOf(id)).state);
    await rig().saga("terminate", id, "--reason", "test");
  });

  it("a run that fails ends start --wait with 1, and shows its error", async () => {
    const command = begin(
      ["start", "trip", "--wait", "--inputs", '{"fail": "card_declined"}', "--business-key", "declined"],
      rig().env,
    );
    const { items } = await until(async () => {
      const found = await rig().api<{ items: { id: string }[] }>("GET", "/sagas?business_key=declined&root_only=true");
      return found.items.length > 0 && found;
    });
    const id = items[0]?.id ?? "";
    await untilAsks(id);
    expect(await rig().saga("signal", id, "go", "--payload", '{"by": "ann"}')).toMatchObject({
      code: 0,
      stdout: `run ${id} has taken go\n`,
    });
    expect(await command.ended).toMatchObject({ code: 1, stdout: expect.stringContaining("card_declined at charge") });
    expect((await rig().saga("get", id, "--wait")).code).toBe(1);
    expect((await rig().saga("get", id)).code).toBe(0);
  });

  it("signal --wait shows the run at its next wait or its end, and query asks about it", async () => {
    const id = await startTrip();
    await untilAsks(id);
    expect(await rig().saga("query", id, "run.workflow_id")).toMatchObject({ code: 0, stdout: "trip\n" });
    expect(await rig().json("query", id, "[1.5, null]")).toMatchObject({ run_id: id, value: [1.5, null] });
    expect(await rig().saga("query", id, "vars.")).toMatchObject({ code: 5, stdout: "" });
    const long = await rig().saga("signal", id, "go", "--wait", "--timeout", "2m");
    expect(long).toMatchObject({ code: 2, stdout: "" });
    const told = await rig().saga("signal", id, "go", "--wait");
    expect(told).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining(id) });
  });

  it("a signal that is not awaited yet is recorded, and none is taken by a run that has ended", async () => {
    const id = await startTrip();
    expect(await rig().json("signal", id, "later")).toMatchObject({ recorded: true, matched: false });
    await rig().saga("cancel", id, "--reason", "enough", "--wait");
    expect(await rig().saga("signal", id, "go")).toMatchObject({ code: 5, stdout: "" });
  });

  it("cancel undoes, and a run that was cancelled ends get --wait with 3", async () => {
    const id = await startTrip();
    await untilAsks(id);
    expect(await rig().saga("cancel", id, "--reason", "enough")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("undoes"),
    });
    expect((await rig().saga("get", id, "--wait")).code).toBe(3);
    expect(await rig().saga("cancel", id)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("nothing had to be done"),
    });
  });

  it("an act with --wait ends as the run does: a run that is cancelled ends cancel --wait with 3", async () => {
    const id = await startTrip();
    await untilAsks(id);
    const ended = await rig().saga("cancel", id, "--reason", "enough", "--wait", "-o", "json");
    expect([ended.code, JSON.parse(ended.stdout).state]).toEqual([3, "cancelled"]);
  });

  it("pause holds a run, explain says who and why, resume lets it go on", async () => {
    const id = await startTrip();
    await untilAsks(id);
    expect((await rig().saga("pause", id, "--reason", "stock-taking")).code).toBe(0);
    expect((await rig().saga("explain", id)).stdout).toMatch(
      /is paused: it .*stock-taking.*\n[\s\S]*You can: .*resume/,
    );
    expect(await rig().json("explain", id)).toMatchObject({ run_id: id, can: expect.arrayContaining(["resume"]) });
    expect((await rig().saga("resume", id)).code).toBe(0);
    expect(await rig().saga("retry", id)).toMatchObject({ code: 5, stdout: "" });
    expect(await rig().saga("terminate", id)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--reason is needed"),
    });
    expect((await rig().saga("terminate", id, "--reason", "test")).code).toBe(0);
  });

  it("rerun prints the id of the new run", async () => {
    const id = (await rig().saga("start", "echo", "--inputs", '{"say": "a"}', "--wait", "-o", "json")).stdout;
    const again = await rig().saga("rerun", JSON.parse(id).id, "--inputs", '{"say": "b"}');
    expect(again.stdout).toMatch(UUID);
    expect(await rig().json("get", again.stdout.trim(), "--wait")).toMatchObject({ output: { said: { say: "b" } } });
  });

  it("list filters by label and state, and shows control characters of keys written out", async () => {
    const key = "evil\u001b[2Jkey";
    await rig().saga("start", "echo", "--wait", "--label", "team=blue", "--label", "size=a=b", "--business-key", key);
    const found = await rig().json<{ items: { business_key: string; labels: object }[]; total: number }>(
      ...["list", "--label", "team=blue", "--state", "succeeded", "--workflow", "echo"],
    );
    expect(found).toMatchObject({ total: 1, items: [{ business_key: key, labels: { team: "blue", size: "a=b" } }] });
    const { stdout } = await rig().saga("list", "--label", "team=blue");
    expect(stdout).toMatch(/^RUN +WORKFLOW +STATE .*\n[0-9a-f-]{36} +echo 1 +succeeded .*evil\\u001b\[2Jkey/);
    expect(stdout).not.toContain("\u001b");
  });

  it("list of nothing prints no table, and an unknown run is refused", async () => {
    expect(await rig().saga("list", "--business-key", "none")).toEqual({
      code: 0,
      stdout: "",
      stderr: "saga: no run matches\n",
    });
    expect(await rig().saga("get", NONE)).toMatchObject({ code: 5, stdout: "" });
  });

  it("watch appends a line an event in a pipe, with the branches, and ends as the run", async () => {
    const id = await startTrip("--inputs", '{"fail": "card_declined"}');
    const command = begin(["watch", id], rig().env);
    await command.shows("step.paused right/ask waits for signal go");
    await rig().saga("signal", id, "go");
    const { code, stdout } = await command.ended;
    expect(code).toBe(1);
    const lines = stdout.split("\n").map((line) => line.replace(/^\S+ /, ""));
    const order = [
      "step.started reserve",
      "step.succeeded left/book",
      "step.failed charge card_declined: as it was asked",
      "step.succeeded book undo",
      "step.succeeded reserve undo",
    ];
    expect(order.map((line) => lines.indexOf(line))).toEqual(
      [...order.map((line) => lines.indexOf(line))].sort((a, b) => a - b),
    );
    expect(order.filter((line) => !lines.includes(line))).toEqual([]);
  });

  it("watch writes one JSON value a line, and the run as the last one", async () => {
    const { stdout: id } = await rig().saga("start", "echo", "--wait", "-o", "json");
    const { code, stdout } = await rig().saga("watch", JSON.parse(id).id, "-o", "json");
    const values = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect([code, values[0].event_type, values.at(-1).state]).toEqual([0, "saga.started", "succeeded"]);
  });

  it("tasks lists what waits for a person, and submit answers it", async () => {
    await rig().api("POST", "/workflows", {
      ...{ id: "ask", name: "Ask", published: true, start: "ok" },
      steps: [
        { id: "ok", type: "manual_approval", assignee: "ann", title: "May I?", next: "done" },
        { id: "done", type: "end", output: "${vars.ok}" },
      ],
    });
    const id = (await rig().saga("start", "ask")).stdout.trim();
    const task = await until(async () => {
      const { items } = await rig().json<{ items: { id: string }[] }>("tasks", "--run", id);
      return items[0];
    });
    expect((await rig().saga("tasks", "--assignee", "ann")).stdout).toContain("May I?");
    expect(await rig().saga("submit", id, task.id)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--approve"),
    });
    expect((await rig().saga("submit", id, task.id, "--reject")).code).toBe(0);
    expect(await rig().json("get", id, "--wait")).toMatchObject({ error: { code: "approval_rejected" } });
    expect((await rig().saga("submit", id, task.id, "--approve")).code).toBe(5);
  });

  it("says what is wrong with an option, what may have been meant, and where the help is", async () => {
    expect(await rig().saga("list", "--worklow", "echo")).toEqual({
      ...{ code: 2, stdout: "" },
      stderr: "saga: list: unknown option '--worklow' (Did you mean --workflow?): see saga list --help\n",
    });
    expect(await rig().saga("list", "--state", "ended")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Allowed choices"),
    });
    expect(await rig().saga("list", "--limit", "many")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("a whole number from 1"),
    });
    expect(await rig().saga("get")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("missing required argument 'run'"),
    });
    expect(await rig().saga("lits")).toMatchObject({
      code: 2,
      stderr: 'saga: there is no command "lits" (did you mean "list"?): see saga --help\n',
    });
    expect(await rig().saga("trigger")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("trigger needs one of list, create"),
    });
  });
});
