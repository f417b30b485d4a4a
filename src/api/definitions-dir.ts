// Definitions from files, at the start: stored and published idempotently. A broken file stops the start with its name and
// every problem; a file of a kind that this build does not read is refused, not passed over.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "postgres";
import { isObject } from "../../machines/index.js";
import { SagaError } from "../errors.js";
import type { Logger } from "../log.js";
import { storeDefinition } from "../store/definitions.js";
import { storeRule } from "../store/rules.js";
import { ruleDraftOf } from "./rules.js";
import { type Compiling, draftOf } from "./workflows.js";

/** The start cannot go on. Lists every problem of every file. */
export class DefinitionsError extends Error {
  override readonly name = "DefinitionsError";
  constructor(readonly problems: readonly string[]) {
    super(
      `The definitions directory has ${problems.length} problem(s):\n${problems.map((line) => `  - ${line}`).join("\n")}`,
    );
  }
}

export interface DefinitionsDeps extends Compiling {
  readonly sql: Sql;
  readonly log: Logger;
}

/** A sound file, ready to be stored. */
interface Sound {
  readonly doubts: readonly { readonly path: string; readonly message: string }[];
  /** What is said of it in the log. */
  store(): Promise<Readonly<Record<string, unknown>>>;
}

/** `<name>.<kind>.json`. Each throws with every problem of its document. */
const KINDS: Readonly<Record<string, (document: unknown, deps: DefinitionsDeps) => Sound>> = {
  workflow(document, deps) {
    const { draft, warnings } = draftOf(document, deps);
    return {
      doubts: warnings,
      async store() {
        const { definition, stored } = await storeDefinition(deps.sql, { ...draft, publish: true });
        return { workflow_id: definition.workflowId, version: definition.version, stored };
      },
    };
  },
  rule(document, { sql }) {
    const { draft, warnings } = ruleDraftOf(document);
    return {
      doubts: warnings,
      async store() {
        const { rule, stored } = await storeRule(sql, { ...draft, publish: true });
        return { rule_id: rule.ruleId, version: rule.version, stored };
      },
    };
  },
};

/** Nothing is stored unless every file is valid. Safe on many nodes at once. Throws DefinitionsError. */
export async function loadDefinitionsDir(dir: string, deps: DefinitionsDeps): Promise<void> {
  const problems: string[] = [];
  const files: { name: string; sound: Sound }[] = [];
  for (const name of await definitionFiles(dir)) {
    try {
      files.push({ name, sound: await readSound(dir, name, deps) });
    } catch (error) {
      problems.push(...sentences(name, error));
    }
  }
  if (problems.length > 0) throw new DefinitionsError(problems);
  for (const { name, sound } of files) await store(name, sound, deps);
  await deps.catalog.refresh();
}

async function definitionFiles(dir: string): Promise<string[]> {
  try {
    const names = await readdir(dir);
    return names.filter((name) => /\.(workflow|rule|trigger)\.json$/.test(name)).sort();
  } catch (error) {
    throw new DefinitionsError([`${dir} cannot be read: ${error instanceof Error ? error.message : "unknown"}`]);
  }
}

async function readSound(dir: string, name: string, deps: DefinitionsDeps): Promise<Sound> {
  const kind = name.split(".").at(-2) ?? "";
  const read = KINDS[kind];
  if (!read) throw new Error(`this build reads no ${kind} files yet; remove it from the directory`);
  const sound = read(parseDocument(await readFile(join(dir, name), "utf8")), deps);
  for (const { path, message } of sound.doubts)
    deps.log.warn({ file: name, path }, `a ${kind} definition is doubtful: ${message}`);
  return sound;
}

function parseDocument(text: string): unknown {
  const document: unknown = JSON.parse(text, (key, value) => {
    if (key === "__proto__") throw new Error("it has a member named __proto__");
    return value;
  });
  if (!isObject(document)) throw new Error("it is no JSON object");
  return document;
}

async function store(name: string, sound: Sound, { log }: DefinitionsDeps): Promise<void> {
  try {
    log.info({ file: name, ...(await sound.store()) }, "a definition was loaded");
  } catch (error) {
    if (error instanceof SagaError) throw new DefinitionsError(sentences(name, error));
    throw error;
  }
}

function sentences(file: string, error: unknown): string[] {
  if (error instanceof SagaError && error.details?.length) {
    return error.details.map(({ path, message }) => `${file}: ${path} ${message}`);
  }
  return [`${file}: ${error instanceof Error ? error.message : "cannot be read"}`];
}
