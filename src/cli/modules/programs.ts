// How a process is started that has code of the project: with which arguments and environment of node. They are started by child.ts alone.
//
// All commands load TypeScript by tsx, in such a process. Node 20 strips no types, and a worker is a program of many modules that needs a loader anyway. A bundle by
// esbuild, as the second way, had other paths (`import.meta.url`), other traces and other rules for CommonJS, and a file beside the module while it was loaded.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Env } from "../../config/index.js";
import { packageRoot } from "../../config/package.js";

/** A file of the bundles of this package. */
export const built = (...path: string[]) => join(packageRoot(), "dist", "service", ...path);
const imported = (path: string) => ["--import", pathToFileURL(path).href];

/** The child ends with its parent. */
export const TETHERED: readonly string[] = imported(built("cli", "modules", "tether.js"));

/** tsx is an optional package of this one. Without it only JavaScript can be loaded. */
function loader(): readonly string[] {
  try {
    return imported(createRequire(import.meta.url).resolve("tsx"));
  } catch {
    return [];
  }
}

/** A file of the project, in whichever form of JavaScript or TypeScript it is. The loader comes before what watches it. */
export const projectArguments = (file: string, ...args: readonly string[]): readonly string[] => [
  ...TETHERED,
  ...loader(),
  ...imported(built("cli", "modules", "loads.js")),
  "--enable-source-maps",
  file,
  ...args,
];

export const describeArguments = (modules: readonly string[]): readonly string[] =>
  projectArguments(built("cli", "modules", "describe.js"), ...modules);

/** The loader keeps no files in the temporary folder, and takes the tsconfig.json of the module, not that of the working directory. */
export function loaderEnvironment(env: Env, config: string | undefined): Env {
  return { TSX_DISABLE_CACHE: "1", ...(config !== undefined && { TSX_TSCONFIG_PATH: config }), ...env };
}

/** The nearest tsconfig.json above a file. */
export function configOf(file: string): string | undefined {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const path = join(folder, "tsconfig.json");
    if (existsSync(path)) return path;
    if (folder === dirname(folder)) return undefined;
  }
}
