// What the tests of the pages about definitions share: a page looked at in all its forms. The service itself is that of runs-service.ts.
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { openPage, screenshot } from "../harness/browser.js";
import { seriousFindings } from "./axe.js";
import { call, widthOver } from "./runs-service.js";

export { call, widthOver };

const SCHEMES = ["light", "dark"] as const;

/** The page at an address, wide and narrow, light and dark: axe finds nothing serious, and nothing scrolls sideways on a phone. */
export async function looksRight(service: { url: string }, path: string, name: string, ready: (page: Page) => unknown) {
  for (const colorScheme of SCHEMES) {
    const { page, faults } = await openPage(service.url, path, { colorScheme });
    await ready(page);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, `${name}-${colorScheme}`);
    await page.setViewportSize({ width: 360, height: 780 });
    expect(await widthOver(page)).toBe(0);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, `${name}-${colorScheme}-phone`);
    expect(faults).toEqual([]);
    await page.context().close();
  }
}
