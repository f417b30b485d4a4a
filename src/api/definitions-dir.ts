// Definitions from files, read at startup: stored and published idempotently. An invalid file, or one of a kind that this
// build does not read, stops the startup; the error names the file and every problem.
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "postgres";
import { isObject } from "../../machines/index.js";
import { ANYONE, type Principal } from "../access/index.js";
import { type ErrorDetail, SagaError } from "../errors.js";
import { parseJsonFile } from "../json-text.js";
import type { Logger } from "../log.js";
import type { TriggerRegistrar } from "./deps.js";
import { rules } from "./rules.js";
import type { AnyDraft, Compiling, VersionedResource } from "./versioned.js";
import { workflows } from "./workflows.js";

/** The service cannot start. Lists every problem of every file. */
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
  readonly triggers: Pick<TriggerRegistrar, "check" | "seed">;
  /** Who stores them. With access on it is the platform: what a document does not give to a tenant is its own. Absent: access is off. */
  readonly principal?: Principal;
}

/** A valid document, ready to be stored. */
interface Loaded {
  readonly warnings: readonly ErrorDetail[];
  /** Returns the members of the log line. */
  store(): Promise<Readonly<Record<string, unknown>>>;
}

type Read = (document: unknown, deps: DefinitionsDeps, name: string) => Promise<Loaded>;

/** `<name>.<kind>.json`, stored in this order: a trigger needs its workflow. Each throws with every problem of its document. */
const KINDS: Readonly<Record<string, Read>> = {
  workflow: publishing(workflows),
  rule: publishing(rules),
  trigger: readTrigger,
};

function publishing<Draft extends AnyDraft>(resource: VersionedResource<Draft>): Read {
  return async (document, deps) => {
    const { draft, warnings } = await resource.draftOf(document, deps, "*");
    const store = async () => {
      const { document, stored } = await resource.store(
        deps.sql,
        { ...draft, publish: true },
        deps.principal ?? ANYONE,
      );
      return { ...resource.label(document), stored };
    };
    return { warnings, store };
  };
}

async function readTrigger(document: unknown, { triggers }: DefinitionsDeps, name: string): Promise<Loaded> {
  triggers.check(document);
  const store = async () => {
    const { row, stored } = await triggers.seed(name, document);
    return { trigger_id: row.id, stored };
  };
  return { warnings: [], store };
}

/** Stores nothing unless every file is valid. Safe on many nodes at once. Throws DefinitionsError. */
export async function loadDefinitionsDir(dir: string, deps: DefinitionsDeps): Promise<void> {
  const problems: string[] = [];
  const files: { name: string; loaded: Loaded }[] = [];
  for (const name of await definitionFiles(dir)) {
    try {
      files.push({ name, loaded: await load(dir, name, deps) });
    } catch (error) {
      problems.push(...sentences(name, error));
    }
  }
  if (problems.length > 0) throw new DefinitionsError(problems);
  for (const kind of Object.keys(KINDS)) {
    for (const { name, loaded } of files) if (kindOf(name) === kind) await store(name, loaded, deps);
    await deps.catalog.refresh();
  }
}

const kindOf = (file: string) => file.split(".").at(-2) ?? "";

async function definitionFiles(dir: string): Promise<string[]> {
  try {
    const names = await readdir(dir);
    // What begins with a dot is the file system's or an editor's own: macOS writes `._a.workflow.json` beside a file.
    return names.filter((name) => /^[^.].*\.(workflow|rule|trigger)\.json$/.test(name)).sort();
  } catch (error) {
    throw new DefinitionsError([`${dir} cannot be read: ${error instanceof Error ? error.message : "unknown error"}`]);
  }
}

async function load(dir: string, name: string, deps: DefinitionsDeps): Promise<Loaded> {
  const kind = kindOf(name);
  const loaded = await KINDS[kind]?.(
    parseDocument(await contentOf(join(dir, name))),
    deps,
    name.slice(0, name.indexOf(`.${kind}.`)),
  );
  if (!loaded) throw new Error(`a ${kind} is not read from files`);
  for (const { path, message } of loaded.warnings) deps.log.warn({ file: name, path }, `${kind} warning: ${message}`);
  return loaded;
}

/** Links are followed. A pipe is never opened: it would be waited for without end. */
async function contentOf(path: string): Promise<Buffer> {
  if (!(await stat(path)).isFile()) throw new Error("it is not a file");
  return readFile(path);
}

function parseDocument(content: Buffer): unknown {
  const document = parseJsonFile(content, (key, value) => {
    if (key === "__proto__") throw new Error("it has a member named __proto__");
    return value;
  });
  if (!isObject(document)) throw new Error("it is not a JSON object");
  return document;
}

async function store(name: string, loaded: Loaded, { log }: DefinitionsDeps): Promise<void> {
  try {
    log.info({ file: name, ...(await loaded.store()) }, "definition loaded");
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
