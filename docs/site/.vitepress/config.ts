// The site of the documentation: the pages of `docs/` where they are, with a sidebar by subject and a search that needs no server. What a page says is in
// its file; nothing here adds to it.
import { fileURLToPath } from "node:url";
import { defineConfig, type MarkdownOptions, type Plugin } from "vitepress";
import { anchorOf, resolveLink, withPictures } from "./links.js";
import { bySubject, PAGES, SOURCE } from "./pages.js";
import { writeTwins } from "./twins.js";

const here = fileURLToPath(import.meta.url);

/** Pages are compiled to modules that import Vue, and are outside of the folder that has it. */
const vueForPages: Plugin = {
  name: "vue-for-pages",
  enforce: "pre",
  resolveId(id, _importer, { ssr }) {
    if (!/^vue(?:\/|$)/.test(id)) return undefined;
    return ssr ? { id, external: true } : this.resolve(id, here, { skipSelf: true });
  },
};

/** The path of the site on its host, with slashes on both ends. */
const base = process.env.DOCS_BASE ?? "/";

const markdown: MarkdownOptions = {
  theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  anchor: { slugify: anchorOf },
  config(md) {
    md.core.ruler.push("links", ({ tokens, env }) => {
      const { file } = PAGES.find(({ name }) => `${name}.md` === env.relativePath) ?? {};
      if (file === undefined) return;
      for (const token of tokens.flatMap(({ children }) => children ?? [])) {
        const attribute = token.type === "link_open" ? "href" : token.type === "image" ? "src" : undefined;
        const target = attribute === undefined ? null : token.attrGet(attribute);
        if (attribute === undefined || target === null) continue;
        token.attrSet(attribute, resolveLink(decodeURI(target), file));
      }
      for (const token of tokens.filter(({ type }) => type === "html_block"))
        token.content = withPictures(token.content, (target) => resolveLink(target, file));
    });
    const { fence } = md.renderer.rules;
    md.renderer.rules.fence = (tokens, index, ...rest) => {
      const token = tokens[index];
      if (token?.info.trim() !== "mermaid") return fence?.(tokens, index, ...rest) ?? "";
      return `<Diagram source="${encodeURIComponent(token.content)}" />\n`;
    };
  },
};

export default defineConfig({
  base,
  srcDir: "..",
  srcExclude: ["site/README.md", "site/node_modules/**"],
  rewrites: { "site/index.md": "index.md" },
  outDir: process.env.DOCS_OUT ?? fileURLToPath(new URL("../../../dist/site", import.meta.url)),
  cacheDir: fileURLToPath(new URL("../../../dist/site-cache", import.meta.url)),
  lang: "en",
  title: "Saga orchestrator",
  description: "A durable saga orchestrator: workflows whose completed steps are undone when a run fails.",
  markdown,
  vite: {
    publicDir: false,
    plugins: [vueForPages],
    // Large, and loaded late: Mermaid by pages with a diagram, the index at the first search.
    build: { chunkSizeWarningLimit: 3_000 },
  },
  transformHead: ({ page }) => [["link", { rel: "alternate", type: "text/markdown", href: `${base}${page}` }]],
  buildEnd: ({ outDir }) => writeTwins(outDir, base),
  themeConfig: {
    search: { provider: "local" },
    sidebar: bySubject().map(({ subject, pages }) => ({
      text: subject,
      items: pages.map(({ title, name }) => ({ text: title, link: name === "index" ? "/" : `/${name}` })),
    })),
    outline: { level: [2, 3] },
    // VitePress names a page from the folder of pages; the first one is a frame around the README.
    editLink: { pattern: `${SOURCE}docs/:path`, text: "The source of this page" },
    externalLinkIcon: false,
  },
});
