// Brings the checks of in-page/layout.ts into a page. Those are for a browser, so they are checked with the types of the console.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import type { Page } from "playwright-core";
import { packageRoot } from "../../src/config/package.js";

const GLOBAL = "layoutOfPage";

let source: string | undefined;

function program(): string {
  source ??= transformSync(readFileSync(join(packageRoot(), "test", "console", "in-page", "layout.ts"), "utf8"), {
    ...{ loader: "ts", format: "iife", globalName: GLOBAL, target: "es2023" },
  }).code;
  return source;
}

/** What is wrong with the layout of a page as it is now, in words. */
export async function layoutFaults(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate<boolean>(`"${GLOBAL}" in globalThis`)))
    await page.evaluate(`${program()}; globalThis.${GLOBAL} = ${GLOBAL}; undefined`);
  return page.evaluate<readonly string[]>(`${GLOBAL}.layoutFaults()`);
}
