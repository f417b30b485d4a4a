// Every code block of the README and of docs/ is compiled, run or read, or says why not. Whether a command does what its page says is shown by
// the tests of the pages (readme, security, runbook, testing).
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { compileRule, compileWorkflow, isObject, type JsonObject, readTrigger } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { BLOCKS, blocksIn, type CodeBlock, markOf, placeOf, writeSource } from "./blocks.js";

const ROOT = resolve(import.meta.dirname, "../..");

/** Tests read the blocks of these languages from the pages and run them. */
const RUN_BY_TESTS: readonly (readonly [page: string, language: string, marks: RegExp])[] = [
  ["README.md", "sh", /^run$/],
  ["docs/security.md", "sh", /^run$/],
  ["docs/tutorials/approval.md", "sh", /^run$/],
  ["docs/tutorials/first-test.md", "sh", /^run$/],
  ["docs/tutorials/first-undo.md", "sh", /^run$/],
  ["docs/tutorials/worker-elsewhere.md", "sh", /^run$/],
  ["docs/tutorials/worker-elsewhere.md", "python", /^file$/],
  ["docs/runbook.md", "sh", /^$/],
  ["docs/testing.md", "sh", /^$/],
  ["docs/getting-started.md", "sh", /^$/],
  ["docs/testing.md", "js", /^file$/],
  // With what the page introduced before: test/sdk/client/guide.test.ts.
  ["docs/client.md", "ts", /^$/],
];

/** Blocks of other languages say why nothing checks them. Those of none, and text, are output, or lines of a reference. */
const LANGUAGES = ["", "text", "sh", "ts", "js", "json", "ini", "http", "mermaid"];

const MIN_REASON = 10;
const hasReason = (block: CodeBlock) => (markOf(block, "not run") ?? "").length >= MIN_REASON;

const of = (language: string) => BLOCKS.filter((block) => block.language === language);
const kindsOf = ({ marks }: CodeBlock) => marks.map(({ kind }) => kind).join(" ");

const isRunByTest = (block: CodeBlock) =>
  RUN_BY_TESTS.some(
    ([page, language, marks]) => page === block.page && language === block.language && marks.test(kindsOf(block)),
  );

describe("the code blocks of the README and of docs/", () => {
  it("say why, where they are neither compiled nor run", () => {
    expect(BLOCKS.length).toBeGreaterThan(100);
    const others = BLOCKS.filter(({ language }) => !LANGUAGES.includes(language));
    const unsaid = [...of("sh"), ...of("js"), ...others].filter((block) => !isRunByTest(block) && !hasReason(block));
    expect(unsaid.map(placeOf)).toEqual([]);
  });

  it("have no reason where they are run", () => {
    expect(BLOCKS.filter((block) => isRunByTest(block) && markOf(block, "not run") !== undefined).map(placeOf)).toEqual(
      [],
    );
  });

  it("are commands that a shell can read", () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-blocks-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const blocks = of("sh");
    for (const [nth, { code }] of blocks.entries()) writeFileSync(join(folder, `${nth}`), code);
    // One shell asks for all of them: to begin one from here takes ten times as long.
    const readAll = 'for block in *; do bash -n "$block" || echo "$block"; done';
    const { stdout, stderr, status } = spawnSync("bash", ["-c", readAll], { cwd: folder, encoding: "utf8" });
    const wrong = stdout.split("\n").filter((nth) => nth !== "");
    expect(
      wrong.map((nth) => placeOf(blocks[Number(nth)] as CodeBlock)),
      stderr,
    ).toEqual([]);
    expect(status).toBe(0);
  });

  it("run programs that `npm start` has compiled: a reader has started the service before", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(scripts.start).toMatch(/^npm run -s compile:service && /);
    const compiled = ["service", ...scripts["compile:service"].split(" ").slice(2)];
    const programs = of("sh").flatMap((block) =>
      [...block.code.matchAll(/\bnode (?:-\S+ )*dist\/(\w+)\//g)].map(([, room = ""]) => ({
        at: placeOf(block),
        room,
      })),
    );
    expect(programs.length).toBeGreaterThan(3);
    expect(programs.filter(({ room }) => !compiled.includes(room))).toEqual([]);
  });

  it("are JSON, and definitions compile", () => {
    const wrong = of("json").flatMap((block) => problemsOf(block).map((problem) => `${placeOf(block)}: ${problem}`));
    expect(wrong).toEqual([]);
  });

  it("compile under strict TypeScript, as what imports the packages", { tags: "long" }, async () => {
    const folder = join(ROOT, "dist", "docs-blocks");
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const sources = of("ts").filter((block) => !hasReason(block) && !isRunByTest(block));
    const places = new Map(sources.map((block) => [writeSource(folder, block), placeOf(block)]));
    // Were nothing checked, this would be no error.
    writeFileSync(join(folder, "planted.ts"), 'export const planted: number = "text";\n');
    const compilerOptions = {
      ...{ composite: false, declaration: false, emitDeclarationOnly: false, noEmit: true, noUnusedLocals: false },
      ...{ rootDir: "../..", tsBuildInfoFile: null },
    };
    const project = {
      extends: "../../tsconfig.json",
      compilerOptions,
      include: ["**/*.ts"],
      exclude: [],
      references: [],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(project));
    const tsc = promisify(execFile)(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder], { cwd: folder });
    const { stdout } = await tsc.catch((error: { stdout: string }) => error);
    const named = stdout.replaceAll(/^\S+?(?=\()/gm, (path) => `${places.get(join(folder, path)) ?? ""} ${path}`);
    expect(named.trim()).toMatch(/^\S* ?planted\.ts\(1,14\): error TS2322: .*$/);
  });
});

function problemsOf(block: CodeBlock): readonly string[] {
  if (markOf(block, "lines") !== undefined)
    return block.code
      .trim()
      .split("\n")
      .flatMap((line) => problemsIn(line));
  return problemsIn(block.code);
}

function problemsIn(text: string): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return [`is not JSON: ${(error as Error).message}`];
  }
  return isObject(value) ? problemsOfDocument(value) : [];
}

/** A document is known by its members. Lists of steps are rehearsed by docs.test.ts. */
function problemsOfDocument(document: JsonObject): readonly string[] {
  const said = (problems: readonly { path: string; message: string }[]) =>
    problems.map(({ path, message }) => `${path} ${message}`);
  if ("steps" in document && "start" in document) return said(compileWorkflow(document).problems);
  if ("rule_type" in document) return said(compileRule(document).problems);
  if ("trigger_type" in document) return said(readTrigger(document).problems);
  if ("id" in document && typeof document.type === "string" && STEP_TYPES.has(document.type))
    return said(problemsOfStep(document));
  if ("concurrency" in document) return said(compileWorkflow({ ...AROUND(NOTHING), ...document }).problems);
  return [];
}

const NOTHING: JsonObject = { id: "nothing", type: "noop" };
const AROUND = (step: JsonObject, ...others: readonly JsonObject[]) => ({
  id: "w",
  name: "W",
  start: String(step.id),
  steps: [step, ...others],
});

/** A step alone: the steps that it names are there. */
function problemsOfStep(step: JsonObject) {
  const { problems } = compileWorkflow(AROUND(step));
  const named = problems.flatMap(({ message }) => /^there is no step "([^"]+)"/.exec(message)?.[1] ?? []);
  const others = [...new Set(named)].map((id) => ({ ...NOTHING, id }));
  return compileWorkflow(AROUND(step, ...others)).problems;
}

describe("these tests see", () => {
  const block = (markdown: string) => blocksIn("docs/x.md", markdown)[0] as CodeBlock;

  it("what a page says of a block", () => {
    const found = block("text\n\n<!-- given:\ndeclare const a: number;\n-->\n<!-- file: a.ts -->\n\n```ts\na;\n```\n");
    expect(found).toMatchObject({ language: "ts", code: "a;\n", line: 9 });
    expect([markOf(found, "given"), markOf(found, "file")]).toEqual(["declare const a: number;", "a.ts"]);
  });

  it("a block in a list, without its indentation", () => {
    expect(block("1. text\n\n   ```sh\n   ls\n   ```\n")).toMatchObject({ code: "ls\n", marks: [] });
  });

  it.each([
    ["what is no JSON", '{ "a": 1, }', "is not JSON"],
    [
      "a workflow that goes nowhere",
      '{"id":"w","name":"W","start":"a","steps":[{"id":"a","type":"noop","next":"b"}]}',
      "$.steps",
    ],
    ["a step with an attribute too many", '{ "id": "a", "type": "noop", "nothing": 1 }', "nothing"],
    ["a rule without rows", '{ "rule_id": "r", "name": "R", "rule_type": "decision_table", "spec": {} }', "$.spec"],
    ["a trigger without a schedule", '{ "trigger_type": "cron", "workflow_id": "w", "config": {} }', "schedule"],
  ])("%s", (_what, text, problem) => {
    expect(problemsIn(text).join("\n")).toContain(problem);
  });
});
