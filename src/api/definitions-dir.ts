// Definitions from files, at the start: stored and published idempotently. A broken file stops the start with its name and
// every problem; files of other kinds than workflows are refused, not passed over.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "postgres";
import { isObject } from "../../machines/index.js";
import { SagaError } from "../errors.js";
import type { Logger } from "../log.js";
import { type Draft, storeDefinition } from "../store/definitions.js";
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

/** Nothing is stored unless every file is valid. Safe on many nodes at once. Throws DefinitionsError. */
export async function loadDefinitionsDir(dir: string, deps: DefinitionsDeps): Promise<void> {
  const problems: string[] = [];
  const drafts: { file: string; draft: Draft }[] = [];
  for (const file of await definitionFiles(dir)) {
    try {
      drafts.push({ file, draft: await readDraft(dir, file, deps) });
    } catch (error) {
      problems.push(...sentences(file, error));
    }
  }
  if (problems.length > 0) throw new DefinitionsError(problems);
  for (const { file, draft } of drafts) await store(file, draft, deps);
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

async function readDraft(dir: string, file: string, deps: DefinitionsDeps): Promise<Draft> {
  const kind = file.split(".").at(-2);
  if (kind !== "workflow") throw new Error(`this build reads no ${kind} files yet; remove it from the directory`);
  const document = parseDocument(await readFile(join(dir, file), "utf8"));
  const { draft, warnings } = draftOf(document, deps);
  for (const { path, message } of warnings)
    deps.log.warn({ file, path }, `a workflow definition is doubtful: ${message}`);
  return { ...draft, publish: true };
}

function parseDocument(text: string): unknown {
  const document: unknown = JSON.parse(text, (key, value) => {
    if (key === "__proto__") throw new Error("it has a member named __proto__");
    return value;
  });
  if (!isObject(document)) throw new Error("it is no JSON object");
  return document;
}

async function store(file: string, draft: Draft, { sql, log }: DefinitionsDeps): Promise<void> {
  try {
    const { definition, stored } = await storeDefinition(sql, draft);
    log.info(
      { file, workflow_id: definition.workflowId, version: definition.version, stored },
      "a workflow was loaded",
    );
  } catch (error) {
    if (error instanceof SagaError) throw new DefinitionsError(sentences(file, error));
    throw error;
  }
}

function sentences(file: string, error: unknown): string[] {
  if (error instanceof SagaError && error.details?.length) {
    return error.details.map(({ path, message }) => `${file}: ${path} ${message}`);
  }
  return [`${file}: ${error instanceof Error ? error.message : "cannot be read"}`];
}
