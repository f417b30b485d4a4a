// What a project has for `saga dev`: its saga.config.json, the files of its definitions, its worker. It reads names and the configuration, and no code.
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, extname, join, relative, resolve, sep } from "node:path";
import { parseJsonFile } from "../../json-text.js";
import { matcherOf } from "./globs.js";

export const CONFIG_FILE = "saga.config.json";
const DEFINITIONS = ["workflows/**"];
const WORKERS = ["worker.ts", "worker.js"];
const MEMBERS = ["$schema", "definitions", "worker"];

/** More folders and files than a project of sagas has: beyond, the rest is not watched, and a line says so. */
const MOST_FOLDERS = 2_000;
const MOST_FILES = 20_000;

const MODULES = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];
const NO_DEFINITION = /(?:^|\/)\.|\.d\.[cm]?ts$|\.(?:test|spec)\.[cm]?[jt]s$/;
/** Built, installed or kept by tools. What begins with a dot is left out, too. */
const LEFT_OUT = new Set(["node_modules", "dist"]);

export interface Project {
  readonly folder: string;
  /** As saga.config.json has them, or the defaults: for messages. */
  readonly patterns: readonly string[];
  /** Paths of files, relative to the folder. */
  readonly definitions: readonly string[];
  /** Undefined: there is none. */
  readonly worker: string | undefined;
  /** What was looked for. */
  readonly workers: readonly string[];
  readonly isDefinition: (path: string) => boolean;
}

/** saga.config.json is wrong: the message says where, and what it may have. */
export class ProjectError extends Error {
  override readonly name = "ProjectError";
}

interface Settings {
  readonly definitions?: readonly string[];
  readonly worker?: string;
}

/** Throws ProjectError. */
export async function readProject(folder: string): Promise<Project> {
  const settings = await readSettings(folder);
  const patterns = settings.definitions ?? DEFINITIONS;
  const matches = matcherOf(patterns);
  const isDefinition = (path: string) =>
    matches(path) && !NO_DEFINITION.test(path) && (isModule(path) || extname(path) === ".json");
  const { files } = await filesIn(folder, settings);
  const workers = settings.worker === undefined ? WORKERS : [settings.worker];
  const worker = workers.find((path) => existsSync(join(folder, path)));
  return { folder, patterns, definitions: files.filter(isDefinition), worker, workers, isDefinition };
}

export const isModule = (path: string): boolean => MODULES.includes(extname(path));

async function readSettings(folder: string): Promise<Settings> {
  const bytes = await readFile(join(folder, CONFIG_FILE)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new ProjectError(`${CONFIG_FILE} cannot be read (${error.code})`);
  });
  if (bytes === undefined) return {};
  let value: unknown;
  try {
    value = parseJsonFile(bytes);
  } catch (error) {
    throw new ProjectError(`${CONFIG_FILE} ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ProjectError(`${CONFIG_FILE} must be a JSON object with definitions and worker`);
  const unknown = Object.keys(value).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined)
    throw new ProjectError(`${CONFIG_FILE} has an unknown member "${unknown}": it may have definitions and worker`);
  const { definitions, worker } = value as Record<string, unknown>;
  return {
    ...(definitions !== undefined && { definitions: patternsIn(definitions) }),
    ...(worker !== undefined && { worker: pathIn(worker, "worker", folder) }),
  };
}

function patternsIn(value: unknown): readonly string[] {
  const list = Array.isArray(value) ? value : [value];
  if (
    list.length === 0 ||
    !list.every((item) => typeof item === "string" && item !== "" && !/^\/|(?:^|\/)\.\.(?:\/|$)/.test(item))
  )
    throw new ProjectError(
      `definitions in ${CONFIG_FILE} must be a pattern such as "workflows/**", or a list of them, below its folder`,
    );
  return list;
}

function pathIn(value: unknown, name: string, folder: string): string {
  const path = typeof value === "string" && value !== "" ? relative(folder, resolve(folder, value)) : "..";
  if (path === "" || path.startsWith(".."))
    throw new ProjectError(
      `${name} in ${CONFIG_FILE} must be the path of a file below its folder, such as "worker.ts"`,
    );
  return path.split(sep).join("/");
}

export interface Found {
  /** Relative, with slashes; the project's own folder is "". */
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** There are more than are listed. */
  readonly isCut: boolean;
}

/** The folders that are watched, and the files in them. A folder that is left out is not, unless a configured path is in it. */
export async function filesIn(folder: string, { definitions, worker }: Settings = {}): Promise<Found> {
  const named = [...(definitions ?? []), ...(worker === undefined ? [] : [worker])].map((path) =>
    path.replace(/^\.\//, ""),
  );
  const isLeftOut = (path: string) => {
    const name = basename(path);
    return (name.startsWith(".") || LEFT_OUT.has(name)) && !named.some((one) => one.startsWith(`${path}/`));
  };
  const folders = [""];
  const files: string[] = [];
  for (let next = 0; next < folders.length; next++) {
    const at = folders[next] ?? "";
    const entries = await readdir(join(folder, at), { withFileTypes: true }).catch(() => []);
    for (const entry of entries.sort((left, right) => (left.name < right.name ? -1 : 1))) {
      const path = at === "" ? entry.name : `${at}/${entry.name}`;
      if (entry.isDirectory()) {
        if (!isLeftOut(path)) folders.push(path);
      } else if (!entry.name.startsWith(".")) files.push(path);
      if (folders.length > MOST_FOLDERS || files.length > MOST_FILES) return { folders, files, isCut: true };
    }
  }
  return { folders, files, isCut: false };
}

/** As the watch needs them, without a whole project. Settings that cannot be read leave nothing extra. */
export async function watchedIn(folder: string): Promise<Found> {
  return filesIn(folder, await readSettings(folder).catch(() => ({})));
}
