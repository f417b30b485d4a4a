// Definitions that an earlier release has stored stay readable: whatever the real build of release 0.6 accepts, this one compiles. The
// documents are the examples of the documentation and of `examples`, each with random small edits.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { compileWorkflow, type Json, type JsonObject } from "../../machines/index.js";
import { packageRoot } from "../../src/config/package.js";
import { cases, firstSeed } from "../harness/long.js";
import { buildOf, RELEASE_0_6 } from "../harness/old-build.js";

const EDITS = cases(50, 100);

type Compile = (document: unknown) => { readonly problems: readonly object[] };
let earlier: Compile;
beforeAll(async () => {
  const folder = await buildOf(RELEASE_0_6);
  const machines = (await import(join(folder, "dist", "machines", "index.js"))) as { compileWorkflow: Compile };
  earlier = machines.compileWorkflow;
}, 120_000);

const root = packageRoot();
const files = readdirSync(join(root, "examples"), { recursive: true, encoding: "utf8" });
const documents: JsonObject[] = [
  ...files
    .filter((name) => name.endsWith(".workflow.json"))
    .map((name) => JSON.parse(readFileSync(join(root, "examples", name), "utf8")) as JsonObject),
  ...[...readFileSync(join(root, "docs", "steps.md"), "utf8").matchAll(/^```json\n(\[[\s\S]*?)^```/gm)].map(
    ([, text = ""]) => {
      const steps = JSON.parse(text) as JsonObject[];
      return { id: "example", name: String(steps[0]?.type), start: steps[0]?.id ?? "", steps };
    },
  ),
];

/** A generator of numbers below a bound, the same for the same seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** One edit somewhere in the document: a member gone, or a value replaced by another one of the document. */
function edit(document: JsonObject, below: (bound: number) => number): JsonObject {
  const copy = structuredClone(document) as Record<string, Json>;
  const places: [Record<string, Json>, string][] = [];
  const walk = (value: Json | undefined) => {
    if (typeof value !== "object" || value === null) return;
    for (const key of Object.keys(value)) {
      places.push([value as Record<string, Json>, key]);
      walk((value as Record<string, Json>)[key]);
    }
  };
  walk(copy);
  const any = () => places[below(places.length)] as [Record<string, Json>, string];
  const [[holder, key], [donor, other]] = [any(), any()];
  if (below(2) === 0 && !Array.isArray(holder)) delete holder[key];
  else holder[key] = structuredClone(donor[other] as Json);
  return copy;
}

describe("a definition that release 0.6 has stored", () => {
  it.each(documents.map((document, nth) => [`${nth} ${String(document.name)}`, document] as const))(
    "compiles here: %s, and its edits",
    (_, document) => {
      const seed = firstSeed();
      const below = numbers(seed);
      let accepted = 0;
      for (let nth = 0; nth < EDITS; nth++) {
        const edited = nth === 0 ? document : edit(below(3) === 0 ? edit(document, below) : document, below);
        if (earlier(edited).problems.length > 0) continue;
        accepted++;
        const { program, problems } = compileWorkflow(edited, { limits: null });
        if (!program) throw new Error(`SEED=${seed}: ${JSON.stringify(problems)} in ${JSON.stringify(edited)}`);
      }
      expect(accepted).toBeGreaterThan(0);
    },
  );
});
