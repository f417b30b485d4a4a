// What the tests of the pages about definitions share: a page looked at in all its forms. The service itself is that of runs-service.ts.
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { openPage, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { call, widthOver } from "./runs-service.js";

export { call, widthOver };

const FORMS = [
  { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { colorScheme: "dark", viewport: { width: 360, height: 780 } },
] as const;

/**
 * The page at an address, light and wide, dark and as narrow as a phone: axe finds nothing serious, and nothing scrolls sideways. It is
 * loaded once: a browser loads a page in ten times the time in which it draws it in another form.
 */
export async function looksRight(service: { url: string }, path: string, name: string, ready: (page: Page) => unknown) {
  const { page, faults } = await openPage(service.url, path);
  await ready(page);
  for (const { colorScheme, viewport } of FORMS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    await until(async () => (await widthOver(page)) === 0, { what: `${name} without a way to scroll sideways` });
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, `${name}-${colorScheme}-${viewport.width}`);
  }
  expect(faults).toEqual([]);
}
