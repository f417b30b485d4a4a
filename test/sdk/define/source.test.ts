// `sourceOf`: what it prints is TypeScript that compiles, and that writes the same document: the examples, what tests of this room define, and
// random documents.
// @module-tag both
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { sourceOf } from "../../../src/sdk/define/index.js";
import { LONG, long } from "../../harness/long.js";
import { documents, type StepDocument } from "../../machines/definitions.js";
import { families, layOut } from "../../machines/families.js";
import { compile } from "./compiler.js";
import { blocks, calls, everything, lists } from "./every-step.js";
import { STEP_TYPES } from "./machine.js";
import { order } from "./order.js";

const ROOT = resolve(import.meta.dirname, "../../..");
const RANDOM = long(30, 300);

type Document = { readonly id: string; readonly steps: readonly { readonly id: string }[] };

const EXAMPLES = readdirSync(join(ROOT, "examples"), { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".workflow.json"))
  .map((path) => JSON.parse(readFileSync(join(ROOT, "examples", path), "utf8")) as Document);

/** Members that the service allows these steps to have, and that define does not. */
const IDLE: Readonly<Record<string, readonly string[]>> = {
  error: ["compensation", "on_undo_failure", "when"],
  end: ["compensation", "on_error", "on_failure", "when"],
  parallel: ["on_error"],
};

/** Without what no chain has: an edge to the join behind all branches, and members that mean nothing. The generator takes any for any step. */
function plainly(step: StepDocument) {
  const isJoin = (to: unknown) => step.type !== "parallel" && String(to).endsWith("-join");
  const left = Object.entries(step).filter(
    ([name, value]) =>
      !(IDLE[step.type] ?? []).includes(name) &&
      !(name === "save_as" && STEP_TYPES.get(step.type)?.output === undefined) &&
      !((name === "next" || name === "on_error") && isJoin(value)),
  );
  return Object.fromEntries(left);
}

const of = (steps: readonly { readonly id: string }[], more: object = {}) =>
  ({ id: "random-one", name: "Random", start: steps[0]?.id, ...more, steps }) as Document;

/** The order of steps does not count. */
const known = ({ steps, ...head }: Document) => ({
  ...head,
  steps: Object.fromEntries(steps.map((step) => [step.id, step])),
});

const isChain = (source: string) => !source.includes("fromDocument(");

const asJson = (value: unknown) => JSON.parse(JSON.stringify(value)) as Document;

const ONE_HANDLER = of([
  { id: "ask", type: "action", action: "a.b", on_error: "failed", next: "pay" },
  { id: "pay", type: "action", action: "a.c", on_error: "failed" },
  { id: "failed", type: "error", code: "failed" },
] as never);

const NASTY = ["`", "\\", "${", "$${x}", "a`${1}`b", "line\nbreak\r\n", "\u2028", "*/", "__proto__", "${'}'} ${\"`\"}"];
const NASTY_OUTPUT = Object.fromEntries(NASTY.map((text) => [text, [text, `${text} \${inputs["\`"]}`]]));

const SEED = Math.trunc(Math.random() * 2 ** 31);

const DOCUMENTS = {
  examples: EXAMPLES,
  everyStep: [order, everything(), lists(), calls(), blocks()].map(asJson),
  oneHandler: [ONE_HANDLER],
  texts: NASTY.map((name) =>
    of([{ id: "e", type: "end", output: NASTY_OUTPUT } as never], { name, description: name }),
  ),
  graphs: fc
    .sample(documents, { numRuns: RANDOM, seed: SEED })
    .map(({ steps, head }) => asJson(of(steps.map(plainly) as never, head))),
  nestings: fc
    .sample(families, { numRuns: RANDOM, seed: SEED })
    .map(({ root }) => asJson(of(layOut(root).map(plainly) as never))),
};

/** What the module of each document exports, once one of the tests has asked. */
let exported: Promise<ReadonlyMap<Document, Document>> | undefined;

async function written(some: readonly Document[]): Promise<readonly Document[]> {
  exported ??= exportsOf(Object.values(DOCUMENTS).flat());
  const all = await exported;
  return some.map((document) => all.get(document) as Document);
}

async function exportsOf(all: readonly Document[]): Promise<ReadonlyMap<Document, Document>> {
  const named = all.map((document, index) => [`source-${index}.ts`, sourceOf(document)] as const);
  if (LONG) await expectTypes(named);
  const folder = mkdtempSync(join(ROOT, "dist", "sources-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, source] of named) writeFileSync(join(folder, name), source);
  const modules = named.map(([name]) => import(pathToFileURL(join(folder, name)).href));
  const made = (await Promise.all(modules)).map((module: object) => asJson(Object.values(module)[0]));
  return new Map(all.map((document, index) => [document, made[index] as Document]));
}

/** In the long form: the compiler needs four seconds for all sources, in one program. */
async function expectTypes(named: readonly (readonly [string, string])[]): Promise<void> {
  const told = await compile(
    Object.fromEntries([...named, ["planted.ts", 'export const planted: number = "text";\n']]),
  );
  const wrong = [...new Set([...told.matchAll(/source-(\d+)\.ts/g)].map(([, index]) => named[Number(index)]?.[1]))];
  expect(told.trim(), `seed ${SEED}\n${wrong.join("\n")}`).toMatch(/^\S*planted\.ts\(1,14\): error TS2322: .*$/);
}

describe("the source of a document", () => {
  it.each([
    ["each example", "examples"],
    ["sagas with every step type and nearly every attribute", "everyStep"],
    ["a saga that goes to one handler from two steps", "oneHandler"],
  ] as const)("of %s is a chain, which writes the document, and compiles in the long form", async (_, group) => {
    const all = DOCUMENTS[group];
    expect(all.map(sourceOf).filter((source) => !isChain(source))).toEqual([]);
    expect((await written(all)).map(known)).toEqual(all.map(known));
  });

  it("says why a document is no chain, and has it as it is", () => {
    const ends = { id: "e", type: "end" };
    const asks = { id: "ask", type: "decision", expression: "1", branches: { default: { next: "e" } }, next: "e" };
    const cases = [
      [[ends, { id: "alone", type: "noop" }], "nothing leads to the step alone"],
      [[asks, ends], "ask has a next that is never taken: it has a default"],
      [[{ id: "c", type: "action", action: "ship" }], "no contract has the name ship"],
      [[{ id: "v", type: "set_var", name: "x", value: 1, variables: { y: 2 } }], "v sets variables in two ways"],
      [[{ id: "f", type: "error", when: "true" }], "the error f has when, which define does not let it have"],
      [[{ id: "f", type: "error", on_error: "continue" }], "the error f goes on, which define does not let it do"],
      [
        [{ id: "d", type: "switch", cases: [{ when: "true", next: "e" }], default: null, next: "e" }, ends],
        "d has a default that is null: leave it out",
      ],
      [[{ ...ends, when: "true" }], "the end e has when, which define does not let it have"],
      [[{ id: "n", type: "noop", title: null }], "n has a title that is null: leave it out"],
      [[{ id: "w", type: "switch", cases: 5 }], ""],
      [
        [{ id: "a\nexport const planted = 1;", type: "noop" }],
        'the id "a\\nexport const planted = 1;" of a step must match',
      ],
    ] as const;
    for (const [steps, why] of cases) {
      const source = sourceOf(of(steps));
      expect(source).toContain(`\n// Not a chain of steps, because ${why}`);
      expect(source).toMatch(/^import .*\n\n\/\/ .*\nexport const randomOne = fromDocument\(\{/);
    }
    expect(() => sourceOf({ id: "x" })).toThrow("$.name must be a string");
  });

  it("of texts is what they say: nothing in them becomes code or an expression", async () => {
    expect((await written(DOCUMENTS.texts)).map(known)).toEqual(DOCUMENTS.texts.map(known));
  });

  it("of random documents writes the document: 60 of them; 600 in the long form, where it compiles", async () => {
    const { graphs, nestings } = DOCUMENTS;
    const all = [...graphs, ...nestings];
    const made = await written(all);
    for (const [index, document] of all.entries())
      expect(known(made[index] as Document), `seed ${SEED}, document ${index}\n${sourceOf(document)}`).toEqual(
        known(document),
      );
    const chainsIn = (some: readonly Document[]) => some.map(sourceOf).filter(isChain).length;
    const figures = `chains: ${chainsIn(graphs)} of ${RANDOM} graphs, ${chainsIn(nestings)} of ${RANDOM} nestings`;
    console.log(`${figures} (seed ${SEED})`);
    expect(chainsIn(all)).toBeGreaterThan(RANDOM / 20);
  });
});
