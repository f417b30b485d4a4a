// What modules of a project export, read by a child (describe.ts). Nothing is kept of a module but what it has exported, and which files it has loaded.
import { relative, resolve, sep } from "node:path";
import type { Env } from "../../config/index.js";
import { within } from "../../sdk/timer.js";
import { Child, endText } from "./child.js";
import type { Described } from "./describe.js";
import type { LoadMessage } from "./loads.js";
import { placeOfSyntaxError } from "./place.js";
import { built, configOf, describeArguments, loaderEnvironment } from "./programs.js";

/** A module that waits for something when it is imported would be waited for without end. */
const WITHIN_MS = 60_000;

export interface Exported {
  /** By the path of the module, as it was given. */
  readonly modules: ReadonlyMap<string, Described>;
  readonly loads: Loads;
}

export interface ModulesOptions {
  /** Paths are relative to it, and it is the working directory of the modules. */
  readonly folder: string;
  readonly env: Env;
  /** What the modules print. */
  onLine(line: string): void;
}

/** Never rejects: each module has its documents or its error. When `signal` is aborted, what is missing has an error. */
export async function readModules(
  paths: readonly string[],
  options: ModulesOptions,
  signal: AbortSignal,
): Promise<Exported> {
  const { folder } = options;
  const exported = { modules: new Map<string, Described>(), loads: new Loads(folder) };
  // The loader has one tsconfig.json for a process.
  const groups = new Map<string | undefined, string[]>();
  for (const path of paths) {
    const config = configOf(resolve(folder, path));
    groups.set(config, [...(groups.get(config) ?? []), path]);
  }
  for (const [config, group] of groups) await readGroup(group, config, exported, options, signal);
  return exported;
}

async function readGroup(
  paths: readonly string[],
  config: string | undefined,
  { modules, loads }: { readonly modules: Map<string, Described>; readonly loads: Loads },
  { folder, env, onLine }: ModulesOptions,
  signal: AbortSignal,
): Promise<void> {
  const given = new Map(paths.map((path) => [resolve(folder, path), path]));
  const child = new Child({
    args: describeArguments([...given.keys()]),
    env: loaderEnvironment(env, config),
    ...{ cwd: folder, onLine },
    onMessage: (message) => {
      if (loads.take(message)) return;
      const path = given.get((message as Partial<Described>).sagaModule ?? "");
      if (path !== undefined) modules.set(path, message as Described);
    },
  });
  const abort = within(signal, WITHIN_MS);
  const kill = () => child.kill();
  abort.addEventListener("abort", kill, { once: true });
  if (abort.aborted) kill();
  const end = await child.ended;
  abort.removeEventListener("abort", kill);
  const reason = abort.aborted
    ? `it has not been loaded within ${WITHIN_MS / 1_000} s`
    : `its process ended with ${endText(end)}`;
  for (const path of paths) {
    const described = modules.get(path) ?? { sagaModule: path, documents: [], error: reason };
    const place = described.hasNoPlace ? await placeOfSyntaxError(loads.files) : undefined;
    modules.set(path, place === undefined ? described : { ...described, error: `${described.error}\n    at ${place}` });
  }
}

/** The files of the project that a process has loaded. */
export class Loads {
  private readonly paths = new Set<string>();
  private isCommonJs = false;

  constructor(private readonly folder: string) {}

  /** True: the message is one of these. */
  take(message: unknown): boolean {
    if (typeof message !== "object" || message === null || !("sagaLoads" in message)) return false;
    const { sagaLoads, isCommonJs } = message as LoadMessage;
    const path = relative(this.folder, sagaLoads).split(sep).join("/");
    this.paths.add(path);
    if (isCommonJs && !path.startsWith("..")) this.isCommonJs = true;
    return true;
  }

  /** Absolute paths, of files beyond the folder, too. */
  get files(): readonly string[] {
    const own = built();
    return [...this.paths].map((path) => resolve(this.folder, path)).filter((path) => !path.startsWith(own));
  }

  /** Whether one of the files is loaded. CommonJS modules do not say beforehand what else they load: with them it may be any source. */
  has(changed: ReadonlySet<string>): boolean {
    return [...changed].some((path) => this.paths.has(path) || (this.isCommonJs && SOURCE.test(path)));
  }
}

/** What a program may load. */
export const SOURCE = /\.(?:[cm]?[jt]sx?|json|node|wasm)$/;
