// The sizes of files and functions in machines/ and src/, measured on the syntax tree. A file is as deep as its subject, and a function holds
// its control flow in one place. One over its bound has two reasons to change: split it along them. And the tags of tests.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { type Node, SyntaxKind } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";
import { describe, expect, it } from "vitest";
import { unseenTags } from "./harness/forms.js";

const ROOT = resolve(import.meta.dirname, "..");

const MAX_FILE_LINES = 700;
const MAX_FUNCTION_LINES = 70;

interface Measured {
  readonly name: string;
  readonly lines: number;
}

const FUNCTIONS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
]);

const linesOf = (text: string) => text.split("\n").length;

/** Functions with a name of their own or that of a variable or member. Inline callbacks count as part of their function. */
function functionsIn(node: Node, file: string, text: string, parent?: Node): Measured[] {
  const named = FUNCTIONS.has(node.kind) && !isInlineCallback(node, parent);
  const own = named ? [measured(node, file, text)] : [];
  const inner: Measured[] = [];
  node.forEachChild((child) => {
    inner.push(...functionsIn(child, file, text, node));
  });
  return [...own, ...inner];
}

function isInlineCallback({ kind }: Node, parent: Node | undefined): boolean {
  if (kind !== SyntaxKind.ArrowFunction && kind !== SyntaxKind.FunctionExpression) return false;
  return parent?.kind !== SyntaxKind.VariableDeclaration && parent?.kind !== SyntaxKind.PropertyAssignment;
}

function measured({ pos, end }: Node, file: string, text: string): Measured {
  // `pos` is before the comments of a declaration, which do not count.
  const source = text.slice(pos, end).replace(/^(\s|\/\/.*|\/\*[\s\S]*?\*\/)*/, "");
  return { name: `${file}:${linesOf(text.slice(0, end - source.length))}`, lines: linesOf(source) };
}

function measureTree(): { files: Measured[]; functions: Measured[] } {
  const files: Measured[] = [];
  const functions: Measured[] = [];
  const folder = mkdtempSync(join(tmpdir(), "saga-house-"));
  const api = new API({ cwd: folder });
  try {
    const path = projectOf(["machines", "src"], folder);
    const project = api.updateSnapshot({ openProjects: [path] }).getProject(path);
    for (const path of project?.rootFiles ?? []) {
      const file = relative(ROOT, path).replaceAll("\\", "/");
      const source = project?.program.getSourceFile(path);
      if (!source) continue;
      files.push({ name: file, lines: linesOf(source.text) - 1 });
      functions.push(...functionsIn(source, file, source.text));
    }
  } finally {
    api.close();
    rmSync(folder, { recursive: true });
  }
  return { files, functions };
}

/** A project of the rooms' files without all that they import: only the syntax is of interest. */
function projectOf(rooms: readonly string[], folder: string): string {
  const path = join(folder, "tsconfig.json");
  const compilerOptions = { noResolve: true, noLib: true, types: [], jsx: "preserve" };
  writeFileSync(path, JSON.stringify({ compilerOptions, include: rooms.map((room) => join(ROOT, room)) }));
  return path;
}

const byLength = (left: Measured, right: Measured) => right.lines - left.lines;

describe("the size of", () => {
  const { files, functions } = measureTree();

  it(`files is at most ${MAX_FILE_LINES} lines`, () => {
    const [longest] = files.toSorted(byLength);
    console.log(`${files.length} files, the longest with ${longest?.lines} lines: ${longest?.name}`);
    expect(files.length).toBeGreaterThan(100);
    const over = files.filter(({ lines }) => lines > MAX_FILE_LINES);
    expect(over.sort(byLength)).toEqual([]);
  });

  it(`functions is at most ${MAX_FUNCTION_LINES} lines`, () => {
    const [longest] = functions.toSorted(byLength);
    console.log(`${functions.length} functions, the longest with ${longest?.lines} lines: ${longest?.name}`);
    expect(functions.length).toBeGreaterThan(1_000);
    const over = functions.filter(({ lines }) => lines > MAX_FUNCTION_LINES);
    expect(over.sort(byLength)).toEqual([]);
  });
});

describe("the tag of a test", () => {
  const folder = join(ROOT, "test");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const textOf = (path: string) => readFileSync(join(folder, path), "utf8");

  it("is written where the projects look for it", () => {
    const unseen = files.filter((path) => path !== "harness/forms.ts" && path !== "house.test.ts");
    expect(unseen.flatMap((path) => unseenTags(textOf(path)).map((tag) => `${path}: ${tag}`))).toEqual([]);
    // Not written out, or this file would have them.
    const form = "long";
    const tag = `@module-tag ${form}`;
    expect(unseenTags(`/* ${tag} */\n// ${tag}.\nit("a", { tags: ["${form}"] });`)).toHaveLength(3);
    expect(unseenTags(`// ${tag}\nit("a", { tags: "${form}" });`)).toEqual([]);
  });

  it("is in a test file, not in a module that tests share", () => {
    const shared = files.filter((path) => !path.endsWith(".test.ts") && !path.startsWith("harness/"));
    expect(shared.filter((path) => /\btags: "(?:short|both|long|alone)"/.test(textOf(path)))).toEqual([]);
  });

  it("that it runs in both modes of access control is in the list of those, and nothing else is there", () => {
    const section = /^## With access control$(.*?)^## /ms.exec(textOf("README.md"))?.[1] ?? "";
    const rows = section.split("\n").filter((line) => line.startsWith("|"));
    const listed = rows.flatMap((row) => [...row.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file]) => file));
    const marked = files.filter((path) => path.endsWith(".test.ts") && /^\/\/ @access both$/m.test(textOf(path)));
    expect(listed.sort()).toEqual(marked.sort());
  });
});
