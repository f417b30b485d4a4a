// The definitions of the examples: each saga is written in TypeScript, `order.ts`, and its document is beside it, `order.workflow.json`. `npm run docs`
// writes the documents, and a test compares them.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { pathToFileURL } from "node:url";
import type { Saga } from "@saga-orchestrator/define";
import { packageRoot } from "../../src/config/package.js";

const EXAMPLES = join(packageRoot(), "examples");
/** Where these modules are: in a folder of their own once they are compiled. */
const MODULES = join(import.meta.dirname, "../../examples");

const files = readdirSync(EXAMPLES, { recursive: true, encoding: "utf8" })
  .map((path) => path.split(sep).join("/"))
  .sort();

/** The documents that there are, as paths from the root of the repository without their endings. */
export const DOCUMENTED: readonly string[] = files
  .filter((path) => path.endsWith(".workflow.json"))
  .map((path) => `examples/${path.replace(/\.workflow\.json$/, "")}`);

/** And the modules that write a saga. */
export const DEFINED: readonly string[] = files
  .filter(
    (path) => path.endsWith(".ts") && /^export const \w+ = saga\(/m.test(readFileSync(join(EXAMPLES, path), "utf8")),
  )
  .map((path) => `examples/${path.replace(/\.ts$/, "")}`);

export const documentPath = (name: string): string => join(packageRoot(), `${name}.workflow.json`);

/** The one saga that a module exports. Throws Error if it exports none, or several. */
export async function sagaOf(name: string): Promise<Saga> {
  const path = join(MODULES, relative("examples", `${name}.js`));
  const exported = Object.values((await import(pathToFileURL(path).href)) as Record<string, unknown>);
  const sagas = exported.filter((value) => typeof value === "object" && value !== null && "toJSON" in value);
  if (sagas.length !== 1) throw new Error(`${name}.ts exports ${sagas.length} sagas: it must export one`);
  return sagas[0] as Saga;
}
