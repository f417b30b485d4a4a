// Public documents of other systems: each is imported, and what is imported is rehearsed and compared with the interpreter. The documents are not part of
// this repository (README.md beside this file says which they are): SAGA_TEST_IMPORT_CORPUS names a folder that has them. What the pages say of them is
// compared with the table in pages.test.ts.
// @module-tag alone
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { describe, expect, it } from "vitest";
import {
  checkWorkflow,
  dialectOf,
  type Imported,
  importWorkflow,
  isObject,
  type Json,
  type JsonObject,
} from "../../machines/index.js";
import { execute, type Script } from "./interpreter.js";
import { comparedEnd, comparedRun, rehearse, tasksOf } from "./rehearsed.js";

const FOLDER = process.env.SAGA_TEST_IMPORT_CORPUS;
const TABLE = join(import.meta.dirname, "corpus.txt");
/** Runs of one document. */
const MOST_RUNS = 4;

interface Found {
  readonly file: string;
  readonly document: JsonObject;
}

/** A file of Conductor may have a list of workflows. Those whose name says that they are invalid are not for importers. */
function documentsIn(folder: string): readonly Found[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => name.split(sep).join("/"));
  return files
    .filter((name) => /\.json5?$/.test(name) && !/invalid/.test(name))
    .sort()
    .flatMap((file) => {
      const json = parsed(readFileSync(join(folder, file), "utf8"));
      const list = Array.isArray(json) ? json : [json];
      return list.flatMap((document: Json, index) =>
        isObject(document) && dialectOf(document)
          ? [{ file: list.length > 1 ? `${file}#${index}` : file, document }]
          : [],
      );
    });
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}

/** Inputs that lead to the rules of Choice states: each variable gets a constant that it is compared with. */
function inputsFor(document: JsonObject): readonly JsonObject[] {
  const inputs: Record<string, Json>[] = [{}, { a: 1 }];
  const all: Record<string, Json> = {};
  const visit = (value: Json): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (!isObject(value)) return;
    const [, constant] =
      Object.entries(value).find(
        ([name, each]) => /^(String|Numeric|Boolean|Timestamp)\w+$/.test(name) && typeof each !== "object",
      ) ?? [];
    const names = /^\$((?:\.\w+)+)$/.exec(String(value.Variable))?.[1]?.slice(1).split(".");
    if (constant !== undefined && names) {
      const one = {};
      for (const root of [one, all]) set(root, names, constant);
      inputs.push(one);
    }
    Object.values(value).forEach(visit);
  };
  visit(document);
  return [...inputs, all];
}

function set(root: Record<string, Json>, names: readonly string[], value: Json): void {
  let at = root;
  for (const name of names.slice(0, -1)) {
    const inner = at[name];
    at[name] = isObject(inner) ? inner : {};
    at = at[name] as Record<string, Json>;
  }
  at[names.at(-1) ?? ""] = value;
}

/** All tasks succeed, all fail, and each fails alone. */
function scriptsFor(imported: Imported): readonly Script[] {
  const tasks = [...new Set(tasksOf(imported.workflow).values())];
  const failing = (names: readonly string[]): Script =>
    Object.fromEntries(names.map((name) => [name, [{ error: "Boom" }]]));
  return [{}, failing(tasks), ...tasks.map((task) => failing([task]))];
}

/** How many runs have ended as the interpreter's; a difference throws. */
function compareRuns(imported: Imported, { file, document }: Found): number {
  const pairs = inputsFor(document).flatMap((input) => scriptsFor(imported).map((script) => ({ input, script })));
  let compared = 0;
  for (const { input, script } of pairs.slice(0, MOST_RUNS)) {
    const wanted = ended(document, input, script);
    if (wanted === undefined) continue;
    const about = `${file} with ${JSON.stringify({ input, script })}`;
    expect(comparedRun(rehearse(imported, input, script)), about).toEqual(comparedEnd(wanted));
    compared++;
  }
  return compared;
}

/** Undefined: it goes on for ever with this input, such as a poll whose answer never comes. */
function ended(document: JsonObject, input: JsonObject, script: Script) {
  try {
    return execute(document, input, script);
  } catch (error) {
    if ((error as Error).message !== "the machine does not end") throw error;
    return undefined;
  }
}

/** A workflow of Conductor ends in a rehearsal, with the likely answers from outside. */
function rehearseOnce(imported: Imported, file: string): number {
  const { state, left } = rehearse(imported, {}, {});
  expect(left, file).toBeUndefined();
  expect(["succeeded", "failed", "cancelled"], file).toContain(state);
  return 1;
}

function lineOf(found: Found): string {
  const imported = importWorkflow(found.document, { name: "public" });
  if (!imported) throw new Error(`${found.file} has no dialect`);
  const { dialect, workflow, findings, faithful } = imported;
  const invalid = checkWorkflow(workflow).filter(({ code }) => code === "invalid");
  expect(invalid, found.file).toEqual([]);
  const [repository = "", ...path] = found.file.split("/");
  const name = `${dialect} ${repository.replace("+", "/")} ${path.join("/")}`;
  if (!faithful) {
    const whats = findings.filter(({ weight }) => weight === "refused").map(({ what, why }) => `${what}: ${why}`);
    // What a script or a path says stays in its document.
    return `refused ${name} | ${[...new Set(whats)]
      .join(" | ")
      .replace(/`[^`]*`/g, "…")
      .replace(/\s+/g, " ")}`;
  }
  const runs = dialect === "asl" ? compareRuns(imported, found) : rehearseOnce(imported, found.file);
  return `imported ${name} | ${runs} runs`;
}

describe.skipIf(FOLDER === undefined)("public documents", () => {
  it("are imported or refused with a reason, and what is imported ends as the source says", {
    timeout: 1_800_000,
  }, async () => {
    const lines = documentsIn(FOLDER ?? "").map(lineOf);
    await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot(TABLE);
  });
});
