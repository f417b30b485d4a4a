// A service for the tests of the pages about definitions, spoken to over the public API. It opens no page.
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { openPage, screenshot } from "../harness/browser.js";
import { createTestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { seriousFindings } from "./axe.js";

export async function startService(): Promise<ServiceProcess> {
  const database = await createTestDatabase();
  atFileEnd(() => database.drop());
  return (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" })).start();
}

export async function call<T>({ url }: { url: string }, method: string, path: string, body?: unknown): Promise<T> {
  const init =
    body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`${url}/api/v1${path}`, { method, ...init });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

/** How far the page scrolls sideways. */
export const widthOver = (page: Page) =>
  page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");

const SCHEMES = ["light", "dark"] as const;

/** The page at an address, wide and narrow, light and dark: axe finds nothing serious, and nothing scrolls sideways on a phone. */
export async function looksRight(service: ServiceProcess, path: string, name: string, ready: (page: Page) => unknown) {
  for (const colorScheme of SCHEMES) {
    const { page, faults } = await openPage(service.url, path, { colorScheme });
    await ready(page);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, `${name}-${colorScheme}`);
    await page.setViewportSize({ width: 360, height: 780 });
    expect(await widthOver(page)).toBe(0);
    await screenshot(page, `${name}-${colorScheme}-phone`);
    expect(faults).toEqual([]);
    await page.context().close();
  }
}
