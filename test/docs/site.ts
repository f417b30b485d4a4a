// The built site of the documentation, as a host of static files has it: its pages, their links and anchors, and a server of it. It knows
// nothing of how the site is made.
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, posix } from "node:path";

const TYPES: Readonly<Record<string, string>> = {
  ...{ ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json" },
  ...{ ".svg": "image/svg+xml", ".png": "image/png", ".md": "text/markdown", ".txt": "text/plain" },
};

export class BuiltSite {
  /** Addresses of the HTML pages, without a slash before them: `tutorials/first-undo.html`. */
  readonly pages: readonly string[];
  private readonly anchors = new Map<string, ReadonlySet<string>>();

  constructor(
    private readonly folder: string,
    /** Where links to files of the repository lead, with a slash at the end. */
    private readonly source: string,
    private readonly root: string,
  ) {
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    this.pages = files.filter((path) => path.endsWith(".html") && path !== "404.html").sort();
  }

  has(path: string): boolean {
    return existsSync(join(this.folder, path));
  }

  text(path: string): string {
    return readFileSync(join(this.folder, path), "utf8");
  }

  /** The links of a page that lead nowhere: pages, files, anchors, and files of the repository. */
  brokenLinks(page: string): string[] {
    const found = [...this.text(page).matchAll(/<(?:a|link|img|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g)];
    return found.map(([, target = ""]) => unescaped(target)).filter((target) => !this.leads(target, page));
  }

  /** The links of a Markdown twin that lead to no file of the site. */
  brokenLinksOfTwin(twin: string): string[] {
    const text = this.text(twin)
      .replace(/^( *)```[\s\S]*?^\1```/gm, "")
      .replace(/(?<!\[)`[^`\n]*`(?!\])/g, "");
    const targets = [...text.matchAll(/\]\(\s*([^)\s]+)\s*\)/g)].map(([, target = ""]) => target);
    const asPage = (target: string) => (target.includes(":") ? target : target.replace(/\.md(?=#|$)/, ".html"));
    return targets.filter((target) => !this.leads(asPage(target), asPage(twin)));
  }

  private leads(target: string, page: string): boolean {
    if (target.startsWith(this.source))
      return existsSync(join(this.root, target.slice(this.source.length).split("#")[0] ?? ""));
    if (/^[a-z]+:/.test(target)) return true;
    const [path = "", anchor] = target.split("#");
    const named = path === "" ? page : posix.join(posix.dirname(page), path);
    const file = (path.startsWith("/") ? path.slice(1) : named) || "index.html";
    return (
      this.has(file) && (anchor === undefined || anchor === "" || this.anchorsOf(file).has(decodeURIComponent(anchor)))
    );
  }

  private anchorsOf(page: string): ReadonlySet<string> {
    const known =
      this.anchors.get(page) ??
      new Set([...this.text(page).matchAll(/\sid="([^"]+)"/g)].map(([, id = ""]) => unescaped(id)));
    this.anchors.set(page, known);
    return known;
  }

  /** At a port of its own on loopback. */
  async serve(): Promise<{ readonly origin: string; readonly server: Server }> {
    const server = createServer(({ url = "/" }, response) => {
      const { pathname } = new URL(url, "http://site");
      const path = join(this.folder, pathname === "/" ? "index.html" : decodeURIComponent(pathname));
      const isFile = existsSync(path) && statSync(path).isFile();
      response.writeHead(isFile ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
      if (isFile) createReadStream(path).pipe(response);
      else response.end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
  }
}

function unescaped(text: string): string {
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
}
