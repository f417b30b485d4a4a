// Documents and comments refer to what exists: links and anchors, paths, settings, endpoints, npm scripts, laws. What they
// say of it is compared with the code in docs.test.ts.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/index.js";
import {
  anchorsIn,
  brokenLinks,
  type Known,
  missingInComments,
  missingPaths,
  unknownLaws,
  unknownRoutes,
  unknownScripts,
  unknownSettings,
} from "./references.js";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** The tree without what is installed, built or ignored. */
const TREE = tree(".");
const documents = TREE.filter((path) => path.endsWith(".md"));
const sources = TREE.filter((path) => /\.(tsx?|mjs|sql|proto)$/.test(path));

const known: Known = {
  paths: new Set(TREE),
  settings: settings(),
  routes: new Set(Object.keys((JSON.parse(read("docs/openapi.json")) as { paths: object }).paths)),
  scripts: new Set(["package.json", "src/sdk/create/template/_package.json"].flatMap(scriptsIn)),
  laws: new Set(lawsOf(read("docs/architecture.md"))),
  anchorsOf: (path) => (path.endsWith(".md") ? anchorsIn(read(path)) : []),
};

function tree(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name).split(sep).join("/");
    if (/^(\.git|\.saga|node_modules|dist|coverage)$/.test(entry.name)) return [];
    return entry.isDirectory() ? [path, ...tree(path)] : [path];
  });
}

/** Of the repository, and of the project that the documents for newcomers are about. */
function scriptsIn(path: string): readonly string[] {
  return Object.keys((JSON.parse(read(path)) as { scripts: object }).scripts);
}

/** The names that the configuration asks its environment for. */
function settings(): ReadonlySet<string> {
  const asked = new Set<string>();
  loadConfig(new Proxy({}, { get: (_, name) => void asked.add(String(name)) }));
  return asked;
}

/** The numbers of the list under "The laws". */
function lawsOf(architecture: string): number[] {
  const section = architecture.split("\n## The laws\n")[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^(\d+)\. \*\*/gm)].map(([, number]) => Number(number));
}

const inAll = (files: readonly string[], find: typeof brokenLinks) =>
  files.flatMap((file) => find(file, read(file), known).map((reference) => `${file}: ${reference}`));

describe("every document", () => {
  it("is read", () => {
    expect(documents).toEqual(expect.arrayContaining(["README.md", "docs/architecture.md", "src/run/README.md"]));
  });

  it.each([
    ["links", brokenLinks],
    ["paths", missingPaths],
    ["settings", unknownSettings],
    ["endpoints", unknownRoutes],
    ["npm scripts", unknownScripts],
    ["laws", unknownLaws],
  ])("names %s that exist", (_what, find) => {
    expect(inAll(documents, find)).toEqual([]);
  });
});

describe("every comment", () => {
  it("names laws that exist", () => {
    expect(inAll(sources, unknownLaws)).toEqual([]);
  });

  it("names files that exist", () => {
    expect(inAll(sources, missingInComments)).toEqual([]);
  });
});

describe("the laws", () => {
  it("are numbered 1 to 15", () => {
    expect([...known.laws]).toEqual(Array.from({ length: 15 }, (_, index) => index + 1));
  });
});

describe("the walks of docs/architecture.md", () => {
  const section = read("docs/architecture.md").split("\n## Five walks through the code\n")[1] ?? "";
  const walks = section.split("\n### ").slice(1);
  const filesOf = (walk: string) => [...walk.matchAll(/\]\((\.\.\/[^)]+)\)/g)].map(([, path]) => path);

  it("are five", () => {
    expect(walks).toHaveLength(5);
  });

  it.each(walks.map((walk) => [walk.split("\n")[0], walk]))("%s: passes no file twice", (_title, walk) => {
    const files = filesOf(walk ?? "");
    expect(files.length).toBeGreaterThan(5);
    expect(files.filter((path, index) => files.indexOf(path) !== index)).toEqual([]);
  });
});

describe("these tests see what they forbid", () => {
  it.each([
    ["a link to nowhere", brokenLinks, "[a](docs/api.md) [b](docs/nothing.md)", "docs/nothing.md"],
    ["a wrong anchor", brokenLinks, "[a](docs/api.md#errors) [b](docs/api.md#nothing)", "docs/api.md#nothing"],
    ["a wrong path", missingPaths, "`src/main.ts` and `src/nothing.ts`", "src/nothing.ts"],
    ["a wrong folder", missingPaths, "`src/run/` and `src/nothing/`", "src/nothing/"],
    ["a wrong setting", unknownSettings, "`SAGA_WORKERS`, SAGA_AUTH_FILE, `SAGA_NOTHING`", "SAGA_NOTHING"],
    ["a wrong endpoint", unknownRoutes, "`GET /healthz`, `POST /nothing`", "/nothing"],
    ["a wrong route", unknownRoutes, "/api/v1/sagas/{id}/undo, /api/v1/nothing/{id}", "/api/v1/nothing/{id}"],
    ["a wrong part of a run", unknownRoutes, "`/undo` and `/undone`", "/undone"],
    ["a wrong script", unknownScripts, "npm run bench, npm run nothing", "nothing"],
    ["a law too many", unknownLaws, `law 15, laws 3 and ${16}`, `law ${16}`],
  ])("%s", (_what, find, text, found) => {
    expect(find("README.md", text, known)).toEqual([found]);
  });

  it("a comment about a file that is gone", () => {
    const source = '// As main.ts does, not nothing.ts.\nimport "./nothing.js";';
    expect(missingInComments("src/x.ts", source, known)).toEqual(["nothing.ts"]);
  });
});
