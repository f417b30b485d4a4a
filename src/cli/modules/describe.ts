// A program of its own in the build: loads the modules that it is given and sends the documents that they export. It is started anew for each change, because a
// process keeps a module for good; it checks nothing of a document.
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { kindOf } from "./documents.js";
import type { LoadMessage } from "./loads.js";
import { PLACE } from "./place.js";

/** What the parent gets of one module. */
export interface Described {
  readonly sagaModule: string;
  /** Each with the name of its export. */
  readonly documents: readonly { readonly name: string; readonly text: string }[];
  /** Why it could not be loaded. */
  readonly error?: string;
  /** It is a syntax error whose file is not known here. */
  readonly hasNoPlace?: boolean;
}

async function describe(path: string): Promise<Described> {
  try {
    const exported = await import(pathToFileURL(path).href);
    return { sagaModule: path, documents: documentsIn(exported as Record<string, unknown>) };
  } catch (error) {
    return { sagaModule: path, documents: [], ...wrong(error) };
  }
}

/** What is exported under a name and as the default is one document, with the name. `module.exports` of a CommonJS module is its default export. */
function documentsIn({ default: unnamed, ...named }: Record<string, unknown>): Described["documents"] {
  const text = textIn(unnamed);
  const ofDefault = text === undefined && typeof unnamed === "object" ? Object.entries(unnamed ?? {}) : [];
  const all = [...Object.entries(named), ...ofDefault, ["default", unnamed] as const];
  const values = new Set<unknown>();
  return all.flatMap(([name, value]) => {
    const text = values.has(value) ? undefined : textIn(value);
    values.add(value);
    return text === undefined ? [] : [{ name, text }];
  });
}

/** The JSON of a document, and of what the packages make of one. */
function textIn(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const isMade = "id" in value && typeof (value as { toJSON?: unknown }).toJSON === "function";
  const text: string | undefined = isMade || kindOf(value) ? JSON.stringify(value) : undefined;
  return text !== undefined && kindOf(JSON.parse(text)) ? text : undefined;
}

const NO_LOADER = "TypeScript modules need the package tsx: install without leaving optional packages out";

/** Of this program: its own lines are not the author's. */
const OWN = dirname(fileURLToPath(import.meta.url));

/** What is wrong, and the lines of the project that were under way. */
function wrong(error: unknown): Pick<Described, "error" | "hasNoPlace"> {
  if (!(error instanceof Error)) return { error: String(error) };
  const { message, name, stack = "", code } = error as NodeJS.ErrnoException;
  if (code === "ERR_UNKNOWN_FILE_EXTENSION") return { error: NO_LOADER };
  // Node has the place of a syntax error before the message, for a CommonJS module.
  const [, start] = error instanceof SyntaxError ? (PLACE.exec(stack) ?? []) : [];
  const places = stack
    .split("\n")
    .filter((line) => /^\s+at /.test(line) && !/node:|node_modules/.test(line) && !line.includes(OWN));
  return {
    error: [message || name, ...(start === undefined ? [] : [`    at ${start}`]), ...places.slice(0, 3)].join("\n"),
    ...(error instanceof SyntaxError && start === undefined && { hasNoPlace: true }),
  };
}

function send(message: Described | LoadMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send) process.send(message, undefined, undefined, () => resolve());
    else resolve();
  });
}

// Behind the constants.
const paths = process.argv.slice(2);
for (const path of paths) {
  const described = await describe(path);
  // What the thread of the hooks has said of files arrives in a whole turn of the loop.
  await setImmediate();
  await setImmediate();
  await send(described);
}
// CommonJS modules do not say what they load: these are those that have been.
for (const path of Object.keys(createRequire(import.meta.url).cache)) {
  const loaded: LoadMessage = { sagaLoads: path.replace(/\?.*$/, ""), isCommonJs: true };
  if (!path.includes("node_modules")) await send(loaded);
}
// A module may have started a timer or opened a connection.
process.exit(0);
