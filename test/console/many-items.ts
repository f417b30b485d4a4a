// The page of a run with many items: it can be used, and how long a click takes to be painted is printed. How many is the test's matter.
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { openStage, type Stage } from "./run-stage.js";
import { call } from "./runs-service.js";

interface Counts {
  readonly items: readonly { readonly state: string; readonly count: number }[];
}

/** The time from the event of a click on the element to the frame after it, in ms. */
const toPaint = (page: Page, selector: string): Promise<number> =>
  page
    .locator(selector)
    .first()
    .evaluate(
      (element) =>
        new Promise<number>((resolve) => {
          const view = globalThis as unknown as { requestAnimationFrame(callback: () => void): void };
          const begin = performance.now();
          (element as unknown as { click(): void }).click();
          view.requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
        }),
    );

/** The test: the same page with any number of items. */
export function describeManyItems(count: number): void {
  describeWithBrowser(`the page of a run with ${count} items`, () => {
    let stage: Stage;
    let id: string;

    beforeAll(async () => {
      stage = await openStage();
      id = await stage.start("items", { inputs: { items: Array.from({ length: count }, (_, nth) => nth) } });
      const waiting = async () => {
        const { items } = await call<Counts>(stage.service, "GET", `/sagas/${id}/children/counts`);
        return items.some((item) => item.state === "paused" && item.count === count);
      };
      await until(waiting, { within: 240_000, pause: 500, what: "all items waiting" });
    }, 300_000);

    it("folds them into a count, and lists them as far as they are seen", async () => {
      const { page, faults } = await openPage(stage.service.url, `/console/runs/${id}`);
      await page.locator("[data-step=hold]").getByText(count.toLocaleString("en-US"), { exact: true }).waitFor();
      await screenshot(page, `run-${count}-graph`);
      const clicks: Record<string, number> = { step: await toPaint(page, "[data-step=each]") };
      await page.getByRole("complementary", { name: "Step each" }).waitFor();
      clicks.children = await toPaint(page, "nav.tabs button:has-text('Children')");
      await page
        .getByRole("link", { name: /^each\[/ })
        .first()
        .waitFor();
      clicks.expand = await toPaint(page, ".toggle");
      const list = page.getByRole("region", { name: "Tree of children" });
      for (let times = 0; times < 3; times++) {
        await list.waitFor();
        await page.evaluate("document.querySelector('.rows').scrollTop = 1e9");
        await until(async () => (await page.locator(".tree-line").count()) > 0);
      }
      expect(await page.locator(".tree-line").count()).toBeLessThan(100);
      clicks.graph = await toPaint(page, "nav.tabs button:has-text('Graph')");
      await page.locator("[data-step=hold]").waitFor();
      const shown = Object.entries(clicks).map(([name, ms]) => `${name} ${Math.round(ms)} ms`);
      console.log(`a run with ${count} items, click to paint: ${shown.join(", ")}`);
      expect(faults).toEqual([]);
    }, 120_000);
  });
}
