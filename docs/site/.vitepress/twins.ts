// What a program reads of the site: each page as plain Markdown beside its HTML, and `llms.txt`, the list of them. It writes files of the built
// site, and nothing to the source tree.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { isCopied, resolveLink, withPictures } from "./links.js";
import { bySubject, FILES, PAGES, type Page, ROOT, textOf } from "./pages.js";

const FENCE = /^( *)(```+)[\s\S]*?^\1\2$/gm;

/** Applies `change` to what is outside of code blocks. */
function outsideCode(markdown: string, change: (text: string) => string): string {
  let end = 0;
  let changed = "";
  for (const fence of markdown.matchAll(FENCE)) {
    changed += change(markdown.slice(end, fence.index)) + fence[0];
    end = fence.index + fence[0].length;
  }
  return changed + change(markdown.slice(end));
}

/** Without the marks that tests read, and with links that lead from where the twin is. */
export function twinOf({ name, file }: Page): string {
  const relative = (target: string) => {
    const link = resolveLink(target, file);
    return link.startsWith("/") ? posix.relative(posix.dirname(`/${name}`), link) : link;
  };
  return outsideCode(textOf(file), (text) =>
    withPictures(text.replace(/^<!--[\s\S]*?-->\n+/gm, ""), relative).replace(
      /(\]\(\s*)([^)\s]+)(\s*\))/g,
      (_all, open, target, close) => `${open}${relative(target)}${close}`,
    ),
  );
}

/** The first sentence below the title, as plain text. */
export function summaryOf({ file }: Page): string {
  const paragraphs = textOf(file)
    .replace(FENCE, "")
    .replace(/<[^>]+>/g, "")
    .split(/\n{2,}/);
  const first = paragraphs.find((text) => /^[\p{L}`[*]/u.test(text.trim())) ?? "";
  const plain = first
    .replace(/\s+/g, " ")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[`*]/g, "")
    .trim();
  return /^.*?\.(?= |$)/.exec(plain)?.[0] ?? plain;
}

function llmsText(base: string): string {
  const lists = bySubject().map(({ subject, pages }) => {
    const lines = pages.map((page) => `- [${page.title}](${base}${page.name}.md): ${summaryOf(page)}`);
    return `## ${subject}\n\n${lines.join("\n")}\n`;
  });
  const api = `## Machine-readable\n\n- [OpenAPI document](${base}openapi.json): every route of the HTTP API.\n`;
  return `# Saga orchestrator\n\n> ${summaryOf(PAGES[0] as Page)}\n\n${lists.join("\n")}\n${api}`;
}

/** `base` is the path of the site, with slashes on both ends. */
export function writeTwins(folder: string, base: string): void {
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const page of PAGES) write(`${page.name}.md`, twinOf(page));
  write("llms.txt", llmsText(base));
  for (const path of FILES.filter((path) => isCopied(`docs/${path}`))) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    copyFileSync(join(ROOT, "docs", path), join(folder, path));
  }
}
