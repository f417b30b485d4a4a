// `saga conformance`: workers that keep the protocol pass, and a worker that breaks one rule is told which. Workers in other languages are in
// languages.test.ts.
// @module-tag both
// @waits
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { CASES, type Report, runConformance } from "../../src/conformance/index.js";

const ROOT = packageRoot();
const built = (name: string) => join(ROOT, "dist", "test", "conformance", `${name}.js`);
const SDK = [process.execPath, built("worker")] as const;

/** The worker that breaks a rule, judged by cases. */
const judged = (rule: string, only: readonly string[]) =>
  runConformance({ command: [process.execPath, built("broken-worker")], env: { ...process.env, BROKEN: rule }, only });

const failures = ({ cases }: Report) => cases.filter(({ verdict }) => verdict === "failed");

describe.concurrent("the conformance", () => {
  it("is kept by the SDK's worker in every case", { tags: "long" }, async () => {
    const report = await runConformance({ command: [...SDK], env: process.env });
    expect(failures(report)).toEqual([]);
    expect(report.cases.filter(({ verdict }) => verdict === "passed")).toHaveLength(CASES.length);
  });

  it("is kept by a small worker that breaks nothing", { tags: "long" }, async () => {
    const report = await judged(
      "",
      CASES.map(({ name }) => name),
    );
    expect(failures(report)).toEqual([]);
    const left = report.cases.filter(({ verdict }) => verdict === "not_applicable").map(({ name }) => name);
    expect(left).toEqual(["credit-change", "batches"]);
  });

  // Each has a process of its own, for a second or more.
  it.each([
    ["registration", "undo_echo is not registered in version 1: it has echo@1, fail@1, slow@1"],
    ["hello", 'worker_id is "a worker", which does not match ^[A-Za-z0-9_.:-]{1,128}$'],
    ["credential", "the stream has the credential, the registration has no header Authorization"],
    ["credit", /^4 steps of 1000 ms took 4\d\d\d ms with a credit of 4: they wait for each other$/],
    ["credit-change", "a second Credit came before the first was answered"],
    ["result", "the answer has attempt 1, its step has 3"],
    ["inputs", /^a step of echo got the result .*, not the result .*emoji/],
    ["failure", "the failure has retryable true, not false"],
    ["unknown-action", /the worker has ended \(exit code 1\)\. It printed nothing\.$/],
    ["undo", /^a step of undo_echo got the result .*"undone":.*, not the result/],
    ["late-step", "a step whose deadline had passed was executed"],
    ["duplicates", 'a step that came again got {"executions":2}, and at first {"executions":1}'],
    ["reconnect-after-end", "in_flight of the next hello lacks a step that is still being executed"],
    ["reconnect-after-cut", /the worker has ended \(exit code 1\)/],
    ["newer-service", /the worker has ended \(exit code 1\)\. It printed: .*unknown message/s],
    ["stop", "it ended without Drain (exit code 143)"],
    ["heartbeats", /^\d+ ms passed without a heartbeat, with a heartbeat timeout of 1500 ms$/],
    ["cancel", /^a step of slow had no answer within 10000 ms$/],
    [
      "deadline",
      "slow went on after its deadline by timeout_ms, on a clock that is an hour slow: 800 ms had been left",
    ],
    ["resend", "an answer without Recorded was sent once within 5 s"],
    ["reconnect-after-silence", "no new stream came within 30 s"],
    ["registered-again", "a new stream came, and no registration"],
  ])("a worker that breaks %s is told so, and what was seen", { tags: "long" }, async (rule, seen) => {
    const [failed, ...others] = failures(await judged(rule, [rule]));
    expect(failed).toMatchObject({ name: rule, seen: seen instanceof RegExp ? expect.stringMatching(seen) : seen });
    expect(failed?.section).toMatch(/^docs\/protocol\.md#/);
    expect(failed?.advice).toMatch(/\.$/);
    expect(others).toEqual([]);
  });

  it("reports a program that cannot be started, and ends", async () => {
    const report = await runConformance({ command: ["/no/such/program"], env: process.env });
    const [first] = failures(report);
    expect(first?.seen).toMatch(/the worker has ended \(it could not be started: spawn \/no\/such\/program ENOENT\)/);
    expect(report.conforms).toBe(false);
    expect(report.cases.at(-1)).toMatchObject({ verdict: "not_applicable", seen: "no stream has said hello" });
  });
});

describe("saga conformance", () => {
  const saga = (...args: string[]) =>
    new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      const main = join(ROOT, "dist", "service", "cli", "main.js");
      execFile(process.execPath, [main, "conformance", ...args], { cwd: ROOT }, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      );
    });

  it("prints a line for each case, and ends with 0", async () => {
    const { code, stdout } = await saga("--only", "result,undo", "--", ...SDK);
    expect(stdout).toMatch(
      /^ok {6}result .* s\nok {6}undo .* s\nThe worker conforms: 2 passed, 0 failed, 0 not applicable in \d+ s\n$/,
    );
    expect(code).toBe(0);
  });

  it("writes the report as JSON, and ends with 1 if a case failed", async () => {
    const quiet = "process.exit(3)";
    const { code, stdout } = await saga("-o", "json", "--only", "result", "--", process.execPath, "-e", quiet);
    const report = JSON.parse(stdout) as Report;
    expect(report).toMatchObject({ conforms: false, cases: [{ name: "result", verdict: "failed" }] });
    expect(report.cases[0]?.seen).toMatch(/the worker has ended \(exit code 3\)/);
    expect(code).toBe(1);
  });

  it.each([
    [["--only", "nothing", "--wait"], 'conformance: there is no case "nothing": see saga conformance --help'],
    [[], "conformance: give the program of a worker after --, or --wait: see saga conformance --help"],
  ])("refuses %j in one sentence", async (args, sentence) => {
    expect(await saga(...args)).toEqual({ code: 2, stdout: "", stderr: `saga: ${sentence}\n` });
  });
});

describe("docs/protocol.md", () => {
  const text = readFileSync(join(ROOT, "docs", "protocol.md"), "utf8");

  it("has exactly the cases, with their rules", () => {
    const rows = [...text.matchAll(/^\| `([a-z-]+)` \| (.+?) \| \[.*\]\(#([a-z-]+)\) \|$/gm)];
    const documented = rows.map(([, name, rule, section]) => ({ name, rule, section }));
    expect(documented).toEqual(CASES.map(({ name, rule, section }) => ({ name, rule, section })));
  });

  it("has every section that a case names", () => {
    const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, "")
        .replaceAll(" ", "-"),
    );
    for (const { section } of CASES) expect(headings).toContain(section);
  });
});
