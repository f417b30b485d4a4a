// The interactive page of the API in a browser: it is titled and coloured as the console is, asks no other host, and shows the examples.
// @module-tag both
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { docsPage } from "../../src/api/http/docs-page.js";
import { DOCS_STYLE } from "../../src/api/http/docs-style.js";
import { packageRoot } from "../../src/config/package.js";
import { seriousFindings } from "../console/axe.js";
import { widthOver } from "../console/runs-service.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { useRig } from "./rig.js";

const START = /^Start a run; with/;

const rig = useRig();
let origin: string;
beforeAll(async () => {
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  origin = `http://127.0.0.1:${(rig.app.server.address() as AddressInfo).port}`;
});

describe("the style of the page", () => {
  it("has the colours of the console", () => {
    const console = readFileSync(join(packageRoot(), "src", "console", "style.css"), "utf8");
    const colours = [...DOCS_STYLE.matchAll(/^ {2}(--[a-z-]+: light-dark\([^;]+;)$/gm)].map(([, colour]) => colour);
    expect(colours.length).toBeGreaterThan(10);
    for (const colour of colours) expect(console).toContain(colour);
  });
});

describe("the header of the page", () => {
  const script = (hasConsole: boolean) => docsPage({ hasConsole }).theme?.js?.[0]?.content;

  it("leads to the console where there is one", () => {
    expect(script(true)).toContain('href: "/console"');
    expect(script(false)).not.toContain("/console");
  });
});

describeWithBrowser("the page of the API", { tags: "long" }, () => {
  // It is loaded once: it is as heavy as all others together.
  it("has a title, an icon and a header of ours, shows the examples of an operation whole, reads well in light and dark, and fits a phone", async () => {
    const { page, faults } = await openPage(origin, "/docs");
    await page.getByText(START).waitFor();
    expect(await page.title()).toBe("Sagas: the API");
    expect(await page.locator(".topbar").count()).toBe(0);
    expect(
      await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link").allTextContents(),
    ).toContain("API");
    expect((await page.request.get(`${origin}/docs/static/theme/icon.svg`)).headers()["content-type"]).toContain("svg");
    await page.getByText(START).click();
    await page.getByText('"business_key": "order-1081"').first().waitFor();
    await page.getByText('"deduplicated": false').first().waitFor();
    type Box = { readonly scrollHeight: number; readonly clientHeight: number };
    const spills = (blocks: unknown) =>
      (blocks as Box[]).filter((each) => each.scrollHeight > each.clientHeight + 1).length;
    expect(await page.locator("pre.microlight").evaluateAll(spills), "examples that cover what follows them").toBe(0);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await screenshot(page, `docs-operation-${colorScheme}`);
      // Swagger UI itself has a link in a button.
      const findings = (await seriousFindings(page)).filter((finding) => !finding.startsWith("nested-interactive"));
      expect(findings).toEqual([]);
    }
    await page.setViewportSize({ width: 360, height: 900 });
    await until(async () => (await widthOver(page)) <= 0, { what: "a page without a way to scroll sideways" });
    await screenshot(page, "docs-phone");
    const copy = await page.locator(".opblock.is-open .opblock-summary .copy-to-clipboard").boundingBox();
    expect(copy?.width, "the width of what copies the path").toBeGreaterThanOrEqual(24);
    expect(faults).toEqual([]);
  });
});
