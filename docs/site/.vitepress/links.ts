// Where the links of a page lead on the site: to another page, to a file that is copied, or to the repository. It changes addresses only; whether
// what they name exists is checked by the tests of documents, and on the built site.
import { posix } from "node:path";
import { FILES, PAGES, SOURCE } from "./pages.js";

/** How a link names another page: `.md` in Markdown twins and for VitePress, which makes `.html` of it. */
export function resolveLink(target: string, file: string): string {
  if (/^[a-z][a-z+.-]*:/.test(target) || target.startsWith("#") || target.startsWith("/")) return target;
  const [path = "", anchor] = target.split("#");
  const found = posix.normalize(posix.join(posix.dirname(file), path));
  const suffix = anchor === undefined ? "" : `#${anchor}`;
  const page = PAGES.find((candidate) => candidate.file === found);
  if (page !== undefined) return `/${page.name}.md${suffix}`;
  if (isCopied(found)) return `/${found.slice("docs/".length)}`;
  return `${SOURCE}${found.replace(/\/$/, "")}${suffix}`;
}

/** Files of `docs/` that are no pages are on the site as they are: `openapi.json`, pictures. */
export function isCopied(file: string): boolean {
  return file.startsWith("docs/") && !file.endsWith(".md") && FILES.includes(file.slice("docs/".length));
}

/** The pictures of HTML in Markdown: those of `<picture>` for the light and for the dark. */
export function withPictures(html: string, resolve: (target: string) => string): string {
  return html.replace(/( (?:src|srcset)=")([^"]+)"/g, (_all, open, target) => `${open}${resolve(target)}"`);
}

/** The anchors that GitHub makes of headings: links in the files are written for it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
