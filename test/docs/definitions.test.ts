// Definitions in TypeScript and their documents are the same: those of the examples, of the guides and of docs/definitions.md. Whether the blocks
// compile is shown by blocks.test.ts.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { compileWorkflow } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { BLOCKS, type CodeBlock, markOf, placeOf, writeSource } from "./blocks.js";
import { DEFINED, DOCUMENTED, documentPath, sagaOf } from "./definitions.js";

const ROOT = resolve(import.meta.dirname, "../..");
const GUIDES = ["temporal", "step-functions", "camunda", "masstransit"].map((name) => `docs/from-${name}.md`);
const PAGE = "docs/definitions.md";

interface Document {
  readonly steps: readonly { readonly type: string }[];
}

/** The documents that blocks write: each block is a module that exports one saga, or none. */
async function documentsOf(blocks: readonly CodeBlock[]) {
  mkdirSync(join(ROOT, "dist"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, "dist", "docs-definitions-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const written = blocks.map((block) => ({ block, path: writeSource(folder, block) }));
  const exporting = written.filter(({ block: { code } }) => /^export const [\s\S]*\.end\(/m.test(code));
  return Promise.all(
    exporting.map(async ({ block, path }) => {
      const [exported] = Object.values((await import(pathToFileURL(path).href)) as Record<string, unknown>);
      return { block, document: JSON.parse(JSON.stringify(exported)) as Document };
    }),
  );
}

describe("the examples", () => {
  it("have each saga twice: in TypeScript, and the document that it gives", () => {
    expect(DOCUMENTED.length).toBeGreaterThanOrEqual(10);
    expect(DEFINED).toEqual(DOCUMENTED);
  });

  it.each(DOCUMENTED)("%s.workflow.json is what its module gives: run `npm run docs`", async (name) => {
    const document = JSON.parse(readFileSync(documentPath(name), "utf8")) as unknown;
    expect(JSON.stringify(document, null, 2)).toBe(JSON.stringify(await sagaOf(name), null, 2));
  });
});

describe("a guide", () => {
  it.each(GUIDES)("%s shows its saga in TypeScript, and after it the document that this gives", async (page) => {
    const own = BLOCKS.filter((block) => block.page === page && markOf(block, "not run") === undefined);
    const source = own.findIndex((block) => markOf(block, "file") === "order.ts");
    const [shown] = await documentsOf(own.slice(source, source + 1));
    expect(own[source + 1]?.language).toBe("json");
    expect(JSON.stringify(shown?.document, null, 2)).toBe(
      JSON.stringify(JSON.parse(own[source + 1]?.code ?? ""), null, 2),
    );
  });
});

describe(PAGE, () => {
  const blocks = BLOCKS.filter(({ page, language }) => page === PAGE && language === "ts");

  it("shows every step type, in sagas that the service accepts", async () => {
    const shown = await documentsOf(blocks);
    const problems = shown.flatMap(({ block, document }) =>
      compileWorkflow(document).problems.map(({ path, message }) => `${placeOf(block)}: ${path} ${message}`),
    );
    expect(problems).toEqual([]);
    const steps = shown.flatMap(({ document }) => document.steps);
    expect([...STEP_TYPES.keys()].filter((type) => !steps.some((step) => step.type === type))).toEqual([]);
  });

  it("explains errors that the compiler does give", () => {
    const mistakes = readFileSync(join(ROOT, "test/sdk/define/compile-errors.ts"), "utf8");
    const given = [...mistakes.matchAll(/@ts-expect-error (.+)/g)].map(([, message = ""]) => message);
    const [, section = ""] = readFileSync(join(ROOT, PAGE), "utf8").split("\n## What the compiler says\n");
    const explained = [...section.matchAll(/^\| `([^`]+)`/gm)].map(([, message = ""]) =>
      message.replaceAll("\\|", "|"),
    );
    expect(explained.length).toBeGreaterThanOrEqual(8);
    expect(explained.filter((message) => !given.includes(message))).toEqual([]);
  });
});
