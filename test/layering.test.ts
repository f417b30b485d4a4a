// The layers of the design, read from the imports: an upward arrow fails, a sideways one has to be listed here.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");

/** Rooms and files of `src`, by layer. A room that is not here has no place yet: give it one. */
const LAYERS: Readonly<Record<string, number>> = {
  config: 1,
  errors: 1,
  clock: 1,
  ids: 1,
  log: 1,
  metrics: 1,
  pressure: 1,
  store: 2,
  bus: 2,
  egress: 2,
  run: 3,
  shard: 3,
  api: 4,
  feed: 4,
  dispatch: 4,
  trigger: 4,
  inspect: 4,
  cluster: 5,
  main: 5,
};

/** Arrows within a layer, and why each is there. */
const SIDEWAYS: readonly string[] = [
  "api -> feed", // the run stream's route hands its socket to the feed
  "main -> cluster", // the composition root starts the primary or the node
];

/** What `machines` may import besides itself. re2js: `matches` in linear time. */
const PURE_PACKAGES = /^(xstate|re2js|@bufbuild\/(cel|protobuf)(\/.*)?)$/;

interface Arrow {
  readonly from: string;
  readonly to: string;
}

const sources = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name).split(sep).join("/"))
    .filter((path) => path.endsWith(".ts"))
    .sort();

const IMPORT =
  /(?:^|[\s;}])(?:import|export)\s[^"';]*?from\s*["']([^"']+)["']|(?:^|[\s;(])import\s*\(?\s*["']([^"']+)["']/gm;

/** A relative import becomes a path from the root, with .ts; a package stays as it is. */
function arrows(files: readonly string[], read = (path: string) => readFileSync(join(ROOT, path), "utf8")): Arrow[] {
  return files.flatMap((from) =>
    [...read(from).matchAll(IMPORT)].map(([, fromClause, bare]) => {
      const target = fromClause ?? bare ?? "";
      if (!target.startsWith(".")) return { from, to: target };
      const path = relative(ROOT, resolve(ROOT, dirname(from), target))
        .split(sep)
        .join("/");
      return { from, to: path.replace(/\.js$/, ".ts") };
    }),
  );
}

const room = (path: string) => path.split("/")[1]?.replace(/\.ts$/, "") ?? "";
const show = ({ from, to }: Arrow) => `${from} -> ${to}`;

function wrongInMachines(found: readonly Arrow[]): string[] {
  return found.filter(({ to }) => !to.startsWith("machines/") && !PURE_PACKAGES.test(to)).map(show);
}

function wrongInShell(found: readonly Arrow[]): string[] {
  return found
    .filter(({ from, to }) => {
      if (to.startsWith("machines/")) return to !== "machines/index.ts";
      if (!to.startsWith("src/")) return /^(test|bench|examples)\//.test(to) || to.startsWith("../");
      if (room(from) === room(to)) return false;
      const [above, below] = [LAYERS[room(from)], LAYERS[room(to)]];
      if (above === undefined || below === undefined) return true;
      return above === below ? above !== 1 && !SIDEWAYS.includes(`${room(from)} -> ${room(to)}`) : above < below;
    })
    .map(show);
}

/** What `testing` rehearses with: the machine itself, and the service's own check of JSON Schemas. */
const REHEARSED_WITH = ["machines/index.ts", "src/run/schemas.ts"];

/** The SDK goes to users: of this service it may know the worker protocol alone. */
function wrongInSdk(found: readonly Arrow[]): string[] {
  return found
    .filter(({ to }) => /^(src|machines|test|bench|examples)\//.test(to) && !to.startsWith("src/sdk/"))
    .filter(({ from, to }) => !(from.startsWith("src/sdk/testing/") && REHEARSED_WITH.includes(to)))
    .map(show);
}

/** Comments may speak of the clock. */
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");

function impurities(text: string): string[] {
  return withoutComments(text).match(/Date\.now|new Date\(\s*\)|Math\.random|performance\.now|\bcrypto\b/g) ?? [];
}

const isSdk = (path: string) => path.startsWith("src/sdk/");
const machines = sources("machines");
const shell = sources("src").filter((path) => !isSdk(path));
const sdk = sources("src").filter(isSdk);

describe("layers", () => {
  it("machines imports xstate, CEL and itself", () => {
    expect(machines.length).toBeGreaterThan(0);
    expect(wrongInMachines(arrows(machines))).toEqual([]);
  });

  it("machines knows neither the clock nor chance", () => {
    const found = machines.flatMap((path) =>
      impurities(readFileSync(join(ROOT, path), "utf8")).map((text) => `${path}: ${text}`),
    );
    expect(found).toEqual([]);
  });

  it("every room of src has a layer", () => {
    expect([...new Set(shell.map(room))].filter((name) => LAYERS[name] === undefined)).toEqual([]);
  });

  it("src points downward, and into machines by its door only", () => {
    expect(wrongInShell(arrows(shell))).toEqual([]);
  });

  it("the SDK stands alone", () => {
    expect(wrongInSdk(arrows(sdk))).toEqual([]);
  });

  it("process.env is read in config only", () => {
    const readers = shell.filter((path) =>
      /process\.env/.test(withoutComments(readFileSync(join(ROOT, path), "utf8"))),
    );
    expect(readers.filter((path) => !path.startsWith("src/config/"))).toEqual([]);
  });
});

describe("these tests see what they forbid", () => {
  const found = (from: string, text: string) => arrows([from], () => text);

  it.each([
    ["an upward arrow", wrongInShell, "src/store/x.ts", 'import type { A } from "../run/ports.js";'],
    ["a multi-line one", wrongInShell, "src/store/x.ts", 'import {\n  type A,\n  b,\n} from "../api/x.js";'],
    ["an unlisted sideways one", wrongInShell, "src/store/x.ts", 'import { A } from "../bus/x.js";'],
    ["a re-export", wrongInShell, "src/errors.ts", 'export * from "./store/x.js";'],
    ["a dynamic import", wrongInShell, "src/errors.ts", 'const a = await import("./store/x.js");'],
    ["a bare import", wrongInShell, "src/errors.ts", 'import "./main.js";'],
    ["a back door of machines", wrongInShell, "src/run/x.ts", 'import { A } from "../../machines/decide.js";'],
    ["a test", wrongInShell, "src/run/x.ts", 'import { A } from "../../test/harness/until.js";'],
    ["a room without a layer", wrongInShell, "src/run/x.ts", 'import { A } from "../utils/x.js";'],
    ["node in machines", wrongInMachines, "machines/x.ts", 'import { A } from "node:fs";'],
    ["the shell in machines", wrongInMachines, "machines/x.ts", 'import { A } from "../src/errors.js";'],
    ["the machine in a worker", wrongInSdk, "src/sdk/worker/x.ts", 'import { A } from "../../../machines/index.js";'],
    ["the shell in a rehearsal", wrongInSdk, "src/sdk/testing/x.ts", 'import { A } from "../../run/runtime.js";'],
    ["the shell in the SDK", wrongInSdk, "src/sdk/worker/x.ts", 'import { A } from "../../log.js";'],
  ])("%s", (_name, wrong, from, text) => {
    expect(wrong(found(from, text))).toHaveLength(1);
  });

  it.each(["Date.now()", "new Date()", "Math.random()"])("%s", (text) => {
    expect(impurities(`// fine: ${text}\nconst a = ${text};`)).toHaveLength(1);
  });
});
