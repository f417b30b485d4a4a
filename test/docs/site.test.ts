// The site of the documentation, built and read as a visitor and a program read it: links, search, Markdown, both colours. What its pages say is
// checked by the other tests of this folder.
// @module-tag long
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seriousFindings } from "../console/axe.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { BuiltSite } from "./site.js";

const ROOT = resolve(import.meta.dirname, "../..");
const SITE = join(ROOT, "docs/site");
const { config } = JSON.parse(readFileSync(join(SITE, "package.json"), "utf8")) as { config: { source: string } };
/** Every page that must be on the site, by its address without an ending. */
const NAMES = [
  "index",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("site/"))
    .map((path) => path.replace(/\.md$/, "")),
].sort();

const isInstalled = existsSync(join(SITE, "node_modules/vitepress"));

describe.skipIf(!isInstalled)("the site (needs npm ci --prefix docs/site)", () => {
  const folder = mkdtempSync(join(tmpdir(), "saga-site-"));
  let site: BuiltSite;
  let origin: string;
  let close: () => void;

  beforeAll(async () => {
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, DOCS_OUT: folder };
    await promisify(execFile)("npm", ["run", "-s", "docs:site"], { cwd: ROOT, env });
    site = new BuiltSite(folder, config.source, ROOT);
    const served = await site.serve();
    origin = served.origin;
    close = () => void served.server.close();
  }, 300_000);

  afterAll(() => {
    close?.();
    rmSync(folder, { recursive: true, force: true });
  });

  it("has a page for every document", () => {
    expect(site.pages.map((path) => path.replace(/\.html$/, ""))).toEqual(NAMES);
    expect(NAMES.length).toBeGreaterThan(10);
  });

  it("has links and anchors that lead somewhere", () => {
    expect(site.pages.flatMap((page) => site.brokenLinks(page).map((target) => `${page}: ${target}`))).toEqual([]);
    const withSource = site.pages.filter((page) => site.text(page).includes(`href="${config.source}src/`));
    expect(withSource).toEqual(expect.arrayContaining(["architecture.html", "index.html"]));
  });

  it("has each page as Markdown, whose links lead somewhere and which has no marks of tests", () => {
    for (const name of NAMES) {
      expect(site.text(`${name}.html`)).toContain(`href="/${name}.md"`);
      expect(site.text(`${name}.md`)).toMatch(/^# /m);
      expect(site.text(`${name}.md`)).not.toMatch(/^<!-- /m);
    }
    expect(NAMES.flatMap((name) => site.brokenLinksOfTwin(`${name}.md`).map((target) => `${name}: ${target}`))).toEqual(
      [],
    );
  });

  it("lists every page in llms.txt, each with a sentence", () => {
    const listed = [...site.text("llms.txt").matchAll(/^- \[[^\]]+\]\(\/(.+)\.md\): .*\S.*\.$/gm)].map(
      ([, name]) => name,
    );
    expect(listed.sort()).toEqual(NAMES);
  });

  describeWithBrowser("in a browser", () => {
    it("finds a page by words that it has, and opens it where they stand", async () => {
      const { page, faults } = await openPage(origin, "/");
      await page.locator("#local-search button").click();
      await page.locator("#localsearch-input").fill("idempotency keys");
      const found = page.locator('#localsearch-list a[href="/workers.html#idempotency-keys"]');
      await found.click();
      await page.locator("h2#idempotency-keys").waitFor();
      expect(faults).toEqual([]);
    });

    it("says so when a search finds nothing", async () => {
      const { page } = await openPage(origin, "/");
      await page.locator("#local-search button").click();
      await page.locator("#localsearch-input").fill("xylophone");
      await page.getByText("No results for").waitFor();
    });

    it("draws the diagrams", async () => {
      const { page, faults } = await openPage(origin, "/architecture.html");
      await page.locator(".diagram svg").waitFor();
      expect(await page.locator(".diagram svg .node").count()).toBeGreaterThan(10);
      expect(faults).toEqual([]);
    });

    it.each([
      ["a phone in the dark", 390, "dark"],
      ["a desk in the light", 1440, "light"],
    ] as const)(
      "fits %s: nothing is wider than the page, nothing serious is inaccessible",
      async (_where, width, scheme) => {
        for (const name of ["index", "steps", "operations", "architecture"]) {
          const viewport = { width, height: 900 };
          const { page, faults } = await openPage(origin, `/${name}.html`, { viewport, colorScheme: scheme });
          if (name === "architecture") await page.locator(".diagram svg").waitFor();
          await screenshot(page, `site-${name}-${width}-${scheme}`);
          const wider = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
          expect([name, wider]).toEqual([name, Math.min(wider, 0)]);
          // The others have nothing else in them, and are long.
          if (name !== "steps" && name !== "operations") expect(await seriousFindings(page)).toEqual([]);
          expect(faults).toEqual([]);
        }
      },
    );
  });
});
