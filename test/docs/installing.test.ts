// What the documents tell people to install or to run with npx is ours, or is named here: the plain names `saga-orchestrator` and `saga` belong to
// strangers on the registry, and the packages of our scope are on none until the first release.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const { version, dependencies, devDependencies } = JSON.parse(read("package.json")) as {
  readonly version: string;
  readonly [kind: `${string}ependencies`]: Readonly<Record<string, string>>;
};
const installed = { ...dependencies, ...devDependencies };

/** Packages of others that users of ours add to their projects. */
const OTHERS = ["typebox", "typescript", "fastify", "amqplib", "@types/node"];
const TARBALL = new RegExp(`^\\S*/saga-orchestrator-(?:server|worker|client|define|create)-${version}\\.tgz$`);

/** A command up to the end of its line, of its code, or of its part of the line. */
const INSTALL = /\b(?:npm|pnpm|yarn|bun) (?:i|install|add)(?= [^-`\n&|;)]|(?: -[^ `\n]+)+ [^-])([^`\n&|;)]*)/g;
const FETCH = /\b(?:npx|bunx|pnpm dlx|yarn dlx|npm (?:exec|x|create|init)|(?:pnpm|yarn|bun) create) ([^`\n&|;)]*)/g;

const words = (text = "") => text.trim().split(/\s+/);

/** The packages that a document would have people fetch, beside those that it may. */
function strangersIn(text: string): string[] {
  const asked = [...text.matchAll(INSTALL)].flatMap(([, list]) => words(list).filter((word) => !word.startsWith("-")));
  const wrong = asked.filter((name) => !OTHERS.includes(name) && !TARBALL.test(name));
  const fetched = [...text.matchAll(FETCH)].filter(([command, list]) => !isKnown(command, words(list)));
  return [...wrong, ...fetched.map(([command]) => command.trim())];
}

/** With `--no-install`, only what is installed is run. In a clone all that it develops with is. */
function isKnown(command: string, [first = "", second = ""]: readonly string[]): boolean {
  const [, packed] = /^--package=(\S+)$/.exec(first) ?? [];
  if (packed !== undefined) return command.startsWith("npm exec ") && (TARBALL.test(packed) || OTHERS.includes(packed));
  if (first === "-p") return OTHERS.includes(second);
  return command.startsWith("npx ") && (first === "--no-install" || first in installed);
}

const documents = [
  "README.md",
  "CONTRIBUTING.md",
  ...["docs", "examples", "src", "machines", "bench", "test"].flatMap(pagesIn),
];

function pagesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !/(?:^|\/)(?:node_modules|dist)\//.test(path))
    .map((path) => join(folder, path));
}

describe("no command in the documents fetches a package that is not ours:", () => {
  it.each(documents)("%s", (path) => {
    expect(strangersIn(read(path))).toEqual([]);
  });

  it.each([
    ["npx saga dev", ["npx saga dev"]],
    ["npx tsc", ["npx tsc"]],
    ["npx --no-install saga dev", []],
    ["npx -p typescript tsc", []],
    ["npx vitest run test/docs", []],
    ["npm install saga-orchestrator", ["saga-orchestrator"]],
    ["npm i -D saga typescript", ["saga"]],
    ["npm install @saga-orchestrator/worker typebox", ["@saga-orchestrator/worker"]],
    [`npm install ../x/dist/packages/saga-orchestrator-worker-${version}.tgz typebox`, []],
    [
      "npm install ../x/dist/packages/saga-orchestrator-worker-0.0.1.tgz",
      ["../x/dist/packages/saga-orchestrator-worker-0.0.1.tgz"],
    ],
    ["pnpm add @saga-orchestrator/worker", ["@saga-orchestrator/worker"]],
    ["npm create @saga-orchestrator", ["npm create @saga-orchestrator"]],
    [`npm exec --package=../x/saga-orchestrator-create-${version}.tgz -- create`, []],
    ["npm ci && npm install", []],
  ])("in %s it finds %j", (text, found) => {
    expect(strangersIn(`\`\`\`sh\n${text}\n\`\`\`\n`)).toEqual(found);
  });
});

describe("a page that imports a package of ours", () => {
  const pages = pagesIn("docs").filter((path) => /from "@saga-orchestrator\//.test(read(path)));

  it.each(pages)("%s says before how to get it", (path) => {
    const [before = ""] = read(path).split(/from "@saga-orchestrator\//, 1);
    expect(before).toMatch(/npm run pack|\((?:workers\.md#with-the-sdk|definitions\.md#a-saga)\)/);
  });
});
