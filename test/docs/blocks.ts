// The code blocks of the README and of docs/, with what their pages say of them in comments that no reader sees. It finds and sorts them; what must
// hold for each language is in blocks.test.ts.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/**
 * The comment above a block: `<!-- run: shell -->`, `<!-- file: order.ts -->`, `<!-- not run: it needs Docker -->`.
 * The text of `given` is TypeScript that stands before the block when it is compiled; `with` names another page, whose files are there, too.
 */
export interface Mark {
  readonly kind: string;
  readonly text: string;
}

export interface CodeBlock {
  readonly page: string;
  /** Of its first line of code, from 1. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
  readonly marks: readonly Mark[];
}

/** The README and every page of docs/, from the root of the repository. */
export const PAGES: readonly string[] = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("site/"))
    .map((path) => `docs/${path}`)
    .sort(),
];

export const BLOCKS: readonly CodeBlock[] = PAGES.flatMap((page) =>
  blocksIn(page, readFileSync(join(ROOT, page), "utf8")),
);

export function blocksIn(page: string, markdown: string): CodeBlock[] {
  const blocks = /((?:<!--(?:(?!-->)[\s\S])*-->\n\n?)*)^( *)```(\w*)\n([\s\S]*?)^\2```$/gm;
  return [...markdown.matchAll(blocks)].map((found) => {
    const [, comments = "", indent = "", language = "", code = ""] = found;
    const before = markdown.slice(0, found.index + comments.length);
    return {
      ...{ page, language, line: before.split("\n").length + 1 },
      code: indent === "" ? code : code.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
      marks: [...comments.matchAll(/<!-- ([a-z]+(?: [a-z]+)*)(?::\s?([\s\S]*?))?\s*-->/g)].map(
        ([, kind = "", text = ""]) => ({ kind, text }),
      ),
    };
  });
}

export const markOf = ({ marks }: CodeBlock, kind: string) => marks.find((mark) => mark.kind === kind)?.text;

export const placeOf = ({ page, line }: CodeBlock) => `${page}:${line}`;

/** The blocks of a page are files of one folder, so that one can import another by its name. Each is a module. Answers the path of the file. */
export function writeSource(folder: string, block: CodeBlock): string {
  const place = join(folder, block.page.replace(/\.md$/, "").replaceAll("/", "-"));
  const path = join(place, markOf(block, "file") || `block-${block.line}.ts`);
  mkdirSync(place, { recursive: true });
  const other = markOf(block, "with");
  for (const file of BLOCKS.filter(({ page, language }) => page === other && language === "ts"))
    if (markOf(file, "file") !== undefined) writeSource(folder, { ...file, page: block.page });
  writeFileSync(path, `${markOf(block, "given") ?? ""}\n${block.code}\nexport {};\n`);
  return path;
}
