// Where SAGA_TEST_BUILT=true, as in the npm scripts, which build first, tests import the modules of the build instead of their sources.
// Workers then load some 1,400 modules in Node's own way, not transformed one by one: 9 to 13 % of the time of a room. Without it, as in
// `npx vitest`, a change of a source needs no build, and traces show the lines of the source.
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { Plugin } from "vitest/config";

const ROOT = resolve(import.meta.dirname, "../..");
const FOLDERS = "(src|machines|bench|examples)/";
const COMPILED = new RegExp(`^${FOLDERS}.*\\.js$`);

/** The npm scripts build first, and set it. */
const BUILT = process.env.SAGA_TEST_BUILT === "true";

/** What vitest leaves to Node. */
export const LEFT_TO_NODE = new RegExp(`/dist/${FOLDERS}`);

/** The packages of the SDK by their names, as examples import them: here they are the modules that the tests themselves import. */
const PACKAGE = /^@saga-orchestrator\/(\w+)(?:\/(\w+))?$/;

function packaged(name: string): string | undefined {
  const [, folder, entry = ""] = PACKAGE.exec(name) ?? [];
  if (folder === undefined) return;
  const [from, file] = BUILT ? ["dist", "index.js"] : ["", "index.ts"];
  return join(ROOT, from, "src/sdk", folder, entry, file);
}

/** Leads the tests' imports to the build. */
export const builtModules: Plugin = {
  name: "built-modules",
  enforce: "pre",
  // Without "development", which vitest adds: packages are tested as they run in production.
  configResolved({ ssr }) {
    if (ssr.resolve) ssr.resolve.conditions = ["node"];
  },
  resolveId(name, importer) {
    if (PACKAGE.test(name)) return packaged(name);
    if (!BUILT || importer === undefined || !name.startsWith(".")) return;
    const path = relative(ROOT, resolve(dirname(importer), name));
    const built = join(ROOT, "dist", path);
    return COMPILED.test(path) && existsSync(built) ? built : undefined;
  },
};
