// Documents of workflows and rules, from JSON files and from modules that export them. What is in them is not checked here.
import { existsSync } from "node:fs";
import { extname, resolve } from "node:path";
import { projectEnvironment } from "../../config/dev.js";
import { EXIT, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, jsonFile } from "../frame/input.js";
import { kindOf, NO_DOCUMENT } from "../modules/documents.js";
import { readModules } from "../modules/modules.js";

export interface Loaded {
  readonly kind: "workflow" | "rule";
  readonly id: string;
  readonly document: JsonObject;
  /** The file, and behind `#` the export of a module. */
  readonly from: string;
}

export interface LoadedFiles {
  readonly documents: readonly Loaded[];
  /** The files that it is made of: to watch them. */
  readonly files: readonly string[];
}

/** A module that cannot be loaded. */
export class LoadFailure extends Failure {
  constructor(
    message: string,
    /** That it has loaded, as far as it came. */
    readonly files: readonly string[],
  ) {
    super(message, EXIT.failed);
  }
}

/** What loading needs of a command. */
export type Loader = Pick<Context, "terminal" | "signal" | "goOn">;

const MODULES = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];

export const isModule = (path: string): boolean => MODULES.includes(extname(path));

/** Or the id of what is published: that has no such ending, and a file that exists is one. */
export const isFile = (what: string): boolean => isModule(what) || what.endsWith(".json") || existsSync(what);

/** Of all files, in their order. Throws Failure. */
export async function load(paths: readonly string[], loader: Loader): Promise<LoadedFiles> {
  const modules = await readAll(paths.filter(isModule), loader);
  const documents: Loaded[] = [];
  for (const path of paths) {
    const read = modules.read.get(path) ?? [{ from: path, document: await jsonFile(path) }];
    for (const { from, document } of read) documents.push(...known(document, from, loader));
  }
  return { documents, files: [...new Set([...paths.map((path) => resolve(path)), ...modules.files])] };
}

/** A trigger is no definition, so it has no versions, and is left out. */
function known(document: unknown, from: string, { terminal }: Loader): readonly Loaded[] {
  const kind = kindOf(document);
  if (kind === undefined) throw new Failure(`${from} ${NO_DOCUMENT}`, EXIT.failed);
  if (kind === "trigger") {
    terminal.note(`saga: ${from} is a trigger, and is left out: saga trigger create --document makes one of it`);
    return [];
  }
  const { id, rule_id: rule } = document as JsonObject;
  return [{ kind, id: String(kind === "rule" ? rule : id), document: document as JsonObject, from }];
}

interface Read {
  readonly from: string;
  readonly document: unknown;
}

/** A module runs as any program of its author does: with all rights. What it prints is no result of the command. */
async function readAll(paths: readonly string[], loader: Loader) {
  const read = new Map<string, readonly Read[]>();
  if (paths.length === 0) return { read, files: [] };
  const onLine = (line: string) => loader.terminal.note(line);
  const options = { folder: resolve("."), env: projectEnvironment(), onLine };
  const { modules, loads } = await readModules(paths, options, loader.signal);
  loader.goOn();
  for (const [path, { documents, error }] of modules) {
    const problem =
      error !== undefined
        ? `cannot be loaded: ${error}`
        : documents.length === 0
          ? 'exports no saga: it exports what saga("id", ...) gives, and ends with .end(...)'
          : undefined;
    if (problem !== undefined)
      throw new LoadFailure(`${path} ${problem}`, [...paths.map((each) => resolve(each)), ...loads.files]);
    read.set(
      path,
      documents.map(({ name, text }) => ({ from: `${path}#${name}`, document: JSON.parse(text) as unknown })),
    );
  }
  return { read, files: loads.files };
}
