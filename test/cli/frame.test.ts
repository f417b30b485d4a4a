// What the command `saga` is made of, without a service: tables, widths, profiles, completion, differences of lines, trees and contracts, as functions.
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type Edit, edits, hunks } from "../../src/cli/author/line-diff.js";
import { differencesOf } from "../../src/cli/author/rehearsals.js";
import { contractsOf, type Registration } from "../../src/cli/author/types.js";
import { COMMANDS } from "../../src/cli/commands.js";
import { completionScript } from "../../src/cli/frame/completion.js";
import { optionsOf } from "../../src/cli/frame/help.js";
import { parseArguments } from "../../src/cli/frame/parse.js";
import { cut, duration, safe, table, widthOf } from "../../src/cli/frame/text.js";
import type { Run, RunEvent } from "../../src/cli/runs/run.js";
import { stepsOf, treeLines, type Watched } from "../../src/cli/runs/tree.js";
import { TABLE } from "../../src/cli/table.js";
import { loadConfig } from "../../src/config/index.js";
import { inProcess as saga } from "./rig.js";

const home = mkdtempSync(join(tmpdir(), "saga-frame-"));
afterAll(() => rmSync(home, { recursive: true }));

describe("text on a terminal", () => {
  it.each([
    ["tea", 3],
    ["茶", 2],
    ["🍵", 2],
    ["👩‍🚀", 2],
    ["é", 1],
    ["\u001b[31mred\u001b[39m", 3],
  ])("%j takes its columns", (text, width) => {
    expect(widthOf(text)).toBe(width);
  });

  it("is cut between characters, never within one", () => {
    expect([cut("abcdef", 4), cut("茶茶茶", 4), cut("🍵🍵", 4), cut("ab", 2)]).toEqual(["abc…", "茶…", "🍵🍵", "ab"]);
  });

  it("cannot move the cursor, and cannot turn its direction", () => {
    expect(safe("a\u001b[2J\nb\u202ec")).toBe("a\\u001b[2J\\nb\\u202ec");
  });

  it("tables give way in their widest column that may, and never in a whole one", () => {
    const columns = [{ title: "ID" }, { title: "NAME", least: 4 }, { title: "KEY", least: 3 }];
    const rows = [[{ text: "0123456789" }, { text: "a long name of something" }, { text: "key" }]];
    const lines = table(columns, rows, 24);
    expect(lines).toEqual(["ID          NAME     KEY", "0123456789  a long…  key"]);
    expect(table(columns, rows, Number.POSITIVE_INFINITY)[1]).toBe("0123456789  a long name of something  key");
  });

  it.each([
    [850, "850 ms"],
    [4_200, "4.2 s"],
    [200_000, "3 min 20 s"],
    [18_180_000, "5 h 3 min"],
  ])("%d ms are %s", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });
});

const event = (
  seq: number,
  event_type: string,
  step_id?: string,
  metadata?: RunEvent["metadata"],
  attempt = 0,
): RunEvent => ({
  ...{
    id: String(seq),
    run_id: "r",
    seq,
    event_type,
    attempt,
    from_state: "running",
    to_state: "running",
    actor: "coordinator",
  },
  ...(step_id !== undefined && { step_id }),
  ...(metadata && { metadata }),
  recorded_at: new Date(1_000 * seq).toISOString(),
});
const run = (id: string, state: Run["state"], more: Partial<Run> = {}): Run => ({
  ...{ id, workflow_id: "trip", version: 1, definition_id: "d", state, requires_manual_review: false },
  ...{ started_at: new Date(0).toISOString(), last_event_at: new Date(0).toISOString() },
  ...more,
});
const watched = (of: Run, events: readonly RunEvent[], children: readonly Watched[] = [], unlisted = {}): Watched => ({
  run: of,
  events,
  children,
  unlisted,
});
const UNDO = { phase: "compensation" };
const drawing = { now: 60_000, width: 60, paint: (_: string, text: string) => text };

describe("the tree of a run", () => {
  it("has a step once, with its entries, its last attempt, and what it waits for", () => {
    const steps = stepsOf([
      event(1, "step.started", "a"),
      event(2, "step.dispatched", "a", { action: "s.a" }, 1),
      event(3, "step.failed", "a", { code: "busy", message: "", will_retry: true }, 1),
      event(4, "step.dispatched", "a", { action: "s.a" }, 2),
      event(5, "step.succeeded", "a", {}, 2),
      event(6, "step.started", "a"),
      event(7, "step.paused", "a", { awaiting: "signal", name: "go" }),
    ]);
    expect(steps).toMatchObject([{ id: "a", entries: 2, state: "waiting", note: "waits for signal go" }]);
  });

  it("has the branches below their step, and the undo of a branch at its own step", () => {
    const child = run("c", "succeeded", { parent_run_id: "r", parent_step_id: "both", parent_branch_id: "left" });
    const root = watched(
      run("r", "compensating"),
      [
        event(1, "step.started", "both"),
        event(2, "step.succeeded", "both"),
        event(3, "step.started", "book", { ...UNDO, child_run_id: "c" }),
        event(4, "step.succeeded", "book", { ...UNDO, child_run_id: "c" }),
      ],
      [watched(child, [event(1, "step.started", "book"), event(2, "step.succeeded", "book")])],
      { both: 7 },
    );
    expect(treeLines(root, drawing)).toEqual([
      "trip 1  r compensating 1 min 0 s",
      "  ✓ both 1.0 s",
      "    left succeeded",
      "      ✓ book ↩ undone 1.0 s",
      "    and 7 more, not followed one by one",
    ]);
  });

  it("fits the terminal, whatever is in an error", () => {
    const failed = run("r", "failed", {
      error: { code: "x", message: `${"茶".repeat(200)}\u001b[2J` },
      terminal_at: new Date(9).toISOString(),
    });
    const lines = treeLines(
      watched(failed, [event(1, "step.failed", "a", { code: "x", message: "y".repeat(300) })]),
      drawing,
    );
    expect(lines.map(widthOf).every((width) => width <= 60)).toBe(true);
    expect(lines.join("")).not.toContain("\u001b");
  });
});

describe("differences of lines", () => {
  const patched = (all: readonly Edit[], kind: Edit["kind"]) =>
    all.flatMap((each) => (each.kind === kind || each.kind === "same" ? [each.line] : []));

  it.each([
    [[], []],
    [["a"], []],
    [[], ["a"]],
    [
      ["a", "b", "c", "a", "b", "b", "a"],
      ["c", "b", "a", "b", "a", "c"],
    ],
    [
      ["a", "x", "b"],
      ["a", "y", "b"],
    ],
  ])("of %j and %j lead from one to the other", (before, after) => {
    const all = edits(before, after);
    expect([patched(all, "removed"), patched(all, "added")]).toEqual([before, after]);
  });

  it("are the shortest ones, and nothing for the same text", () => {
    const changed = edits([..."abcabba"], [..."cbabac"]).filter(({ kind }) => kind !== "same");
    expect(changed).toHaveLength(5);
    expect(hunks(edits(["a"], ["a"]))).toEqual([]);
  });
});

describe("what a test expects", () => {
  it("names every member that differs, and lets objects have more", () => {
    expect(differencesOf({ a: 1, b: { c: [1, 2] } }, { a: 1, b: { c: [1, 2], d: 3 }, e: 4 }, "output")).toEqual([]);
    expect(differencesOf({ a: 1, b: { c: [1] } }, { a: 2, b: { c: [1, 2] } }, "output")).toEqual([
      "output.a is 2, not 1",
      "output.b.c is [1,2], not [1]",
    ]);
  });
});

describe("the table of commands", () => {
  it("has only commands that load", async () => {
    const loaded = await Promise.all(TABLE.map(async ({ name, load }) => [name, typeof (await load())]));
    expect(loaded.filter(([, kind]) => kind !== "function")).toEqual([]);
  });

  it("has names and options that are unique", () => {
    const names = COMMANDS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const entry of TABLE) {
      const flags = optionsOf(entry).flatMap(({ flags }) => flags.match(/--?[a-z-]+/g) ?? []);
      expect([entry.name, flags.filter((flag, index) => flags.indexOf(flag) !== index)]).toEqual([entry.name, []]);
    }
  });

  it("is read strictly, with options that may be repeated", () => {
    const entry = TABLE.find(({ name }) => name === "list");
    if (!entry) throw new Error("there is no list");
    expect(parseArguments(entry, ["--state", "failed", "--state=paused", "--roots"]).options).toMatchObject({
      state: ["failed", "paused"],
      roots: true,
    });
    expect(() => parseArguments(entry, ["--state", "ended"])).toThrow(/Allowed choices are pending/);
    expect(() => parseArguments(entry, ["more"])).toThrow(/too many arguments/);
  });
});

describe("completion", () => {
  const commands = [
    {
      name: "list",
      summary: "Lists",
      options: [{ flags: "-o, --output <format>", says: "", choices: ["text", "json"] }],
    },
    { name: "trigger list", summary: "It's", options: [{ flags: "--limit <number>", says: "" }] },
    { name: "trigger fire", summary: "Fires", options: [] },
  ];
  /** What bash offers for a line. */
  const offered = (...words: readonly string[]) => {
    const script = `${completionScript("bash", commands)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _saga; echo "\${COMPREPLY[*]}"`;
    return execFileSync("bash", ["-c", script], { encoding: "utf8", cwd: home }).trim();
  };

  it("of bash offers commands, their second words, options and choices", () => {
    expect(offered("saga", "")).toBe("list trigger");
    expect(offered("saga", "tr")).toBe("trigger");
    expect(offered("saga", "trigger", "")).toBe("list fire");
    expect(offered("saga", "trigger", "list", "--")).toBe("--help --limit");
    expect(offered("saga", "list", "-o", "j")).toBe("json");
  });

  it("of the command itself is a script that bash takes, and names every command for zsh and fish", async () => {
    const { code, stdout } = await saga(["completion", "bash"], {});
    expect(code).toBe(0);
    execFileSync("bash", ["-n"], { input: stdout });
    expect((await saga(["completion", "zsh"], {})).stdout).toMatch(/^#compdef saga\n/);
    const fish = (await saga(["completion", "fish"], {})).stdout;
    const isMissing = ({ name }: { readonly name: string }) => !fish.includes(`-a '${name.split(" ").at(-1)}'`);
    expect(COMMANDS.filter(isMissing).map(({ name }) => name)).toEqual([]);
    expect(await saga(["completion", "tcsh"], {})).toMatchObject({ code: 2 });
  });
});

describe("profiles", () => {
  const path = join(home, "saga", "config.json");
  const env = { XDG_CONFIG_HOME: home };

  it("are made with mode 0600, from a token on standard input, and never show it", async () => {
    const made = await saga(["profile", "set", "prod", "--url", "http://127.0.0.1:1/"], env, "s3cret\n");
    expect(made).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "profile prod is http://127.0.0.1:1, the current one\n",
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(path, "utf8")).profiles.prod).toEqual({
      url: "http://127.0.0.1:1",
      token: "s3cret",
    });
    expect(readdirSync(dirname(path))).toEqual(["config.json"]);
    const listed = await saga(["profile", "list", "-o", "json"], env);
    expect(JSON.parse(listed.stdout)).toEqual([
      { name: "prod", url: "http://127.0.0.1:1", has_token: true, current: true },
    ]);
    expect(listed.stdout).not.toContain("s3cret");
  });

  it("say where a command goes, and --profile goes before SAGA_URL", async () => {
    expect((await saga(["list"], env)).stderr).toContain("http://127.0.0.1:1/");
    expect((await saga(["--profile", "prod", "list"], { ...env, SAGA_URL: "http://127.0.0.1:2" })).stderr).toContain(
      "127.0.0.1:1/",
    );
    expect((await saga(["list"], { ...env, SAGA_URL: "http://127.0.0.1:2" })).stderr).toContain("127.0.0.1:2/");
    expect(await saga(["list", "--profile", "none"], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there are prod"),
    });
  });

  it("are refused with credentials in the address, and with a token of several words", async () => {
    expect((await saga(["profile", "set", "a", "--url", "http://a:b@127.0.0.1"], env, "")).code).toBe(2);
    expect((await saga(["profile", "set", "a", "--url", "ftp://127.0.0.1"], env, "")).code).toBe(2);
    expect((await saga(["profile", "set", "a", "--url", "http://127.0.0.1"], env, "two words")).code).toBe(2);
    expect((await saga(["profile", "set", "a", "--token", "x", "--url", "http://127.0.0.1"], env, "")).code).toBe(2);
  });

  it("in a file that others can read, or that is none, are refused with a sentence", async () => {
    const other = join(home, "other");
    mkdirSync(join(other, "saga"), { recursive: true });
    const file = join(other, "saga", "config.json");
    writeFileSync(file, '{"profiles": {}}');
    chmodSync(file, 0o644);
    expect(await saga(["profile", "list"], { XDG_CONFIG_HOME: other })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("chmod 600"),
    });
    writeFileSync(file, "{");
    chmodSync(file, 0o600);
    expect(await saga(["list"], { XDG_CONFIG_HOME: other })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("it is not JSON"),
    });
  });

  it("and the settings of the command are no misspelt settings of the service", () => {
    const { warnings } = loadConfig({
      SAGA_URL: "http://127.0.0.1:8080",
      SAGA_TOKEN: "x",
      SAGA_TOKEN_FILE: "y",
      SAGA_URI: "z",
    });
    expect(warnings.filter((line) => line.startsWith("SAGA_"))).toEqual([
      expect.stringContaining("SAGA_URI"),
      expect.stringContaining("SAGA_AUTH is off"),
    ]);
  });
});

describe("contracts of actions", () => {
  const registration = (service: string, action_name: string, more: Partial<Registration> = {}): Registration => ({
    ...{ service, action_name, version: 1, compensable: false, input_schema: {}, output_schema: {}, deprecated: false },
    ...{ dry_run_supported: false, ...more },
  });

  it("are a module, whatever the names and texts are", () => {
    const schema = { type: "object", properties: { "a-b": {}, __proto__: null, class: { const: "\u2028" } } };
    const source = contractsOf([
      registration("a-b", "delete", { input_schema: schema, description: "ends */ here", version: 2 }),
      registration("a-b", "delete", { deprecated: true }),
      registration("a:b", "1st", { compensable: true, default_retry: { max_attempts: 3 }, default_timeout_ms: 5 }),
    ]);
    const made: unknown[] = [];
    const program = source.replace(/^import .*$/m, "").replaceAll("export const", "const");
    new Function("defineAction", `${program}; return [aB, aB_2];`)((options: unknown) => made.push(options));
    expect(made).toMatchObject([
      { service: "a-b", name: "delete", version: 2, input: { properties: { class: { const: "\u2028" } } } },
      { service: "a-b", name: "delete", deprecated: true },
      { service: "a:b", name: "1st", compensable: true, retry: { maxAttempts: 3 }, timeoutMs: 5 },
    ]);
    expect(source).toContain("  delete_: defineAction(");
    expect(source).toContain("  delete_v1: defineAction(");
  });
});
