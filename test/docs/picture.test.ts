// The picture at the head of the README: a run of the guides' saga that is being undone, as the console shows it. `npm run docs:picture` takes it
// anew; without that the run is made and looked at, and no file is written.
// @module-tag long
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { startService } from "../console/runs-service.js";
import { handleAll } from "../harness/actions.js";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { atFileEnd } from "../harness/file-end.js";
import { BLOCKS } from "./blocks.js";

const ROOT = resolve(import.meta.dirname, "../..");
const SIZE = { width: 900, height: 1500 };
/** Around the steps: the ways of the undo are beside them. */
const MARGIN = { x: 90, y: 12 };
/** The README is read over slow lines, too. */
const MAX_BYTES = 60_000;

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const order = BLOCKS.find(({ page, language }) => page === "docs/from-temporal.md" && language === "json");

describeWithBrowser("the picture of the README", () => {
  let url: string;
  let run: string;
  /** Lets the release end, for which the picture waits. */
  let letGo = () => {};

  beforeAll(async () => {
    const { service } = await startService();
    url = service.url;
    const released = new Promise<void>((resolve) => (letGo = resolve));
    const worker = createWorker({ service: "shop", grpc: service.grpcAddress, api: url, log: silent });
    handleAll(worker, "shop", [
      { name: "reserve", compensable: true, execute: () => ({ reservation: "R-1" }) },
      { name: "charge", compensable: true, execute: () => ({ receipt: "paid" }) },
      {
        name: "ship",
        execute: () => {
          throw new ActionError("no_carrier", "no carrier ships to this address", { retryable: false });
        },
      },
      { name: "refund", execute: () => ({}) },
      { name: "release", execute: () => released.then(() => ({})) },
    ]);
    await worker.start();
    atFileEnd(() => worker.stop());
    const post = async (path: string, body: string) => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${url}/api/v1${path}`, { method: "POST", headers, body });
      expect(response.ok, await response.clone().text()).toBe(true);
      return (await response.json()) as { run_id: string };
    };
    await post("/workflows", JSON.stringify({ ...JSON.parse(order?.code ?? ""), published: true }));
    const inputs = { sku: "tea", quantity: 2, amount_cents: 950 };
    run = (await post("/sagas/start", JSON.stringify({ workflow_id: "order", business_key: "order-7", inputs })))
      .run_id;
  }, 120_000);

  it("shows a charge that is undone, and a reservation that is being undone", async () => {
    const { page, faults } = await openPage(url, `/console/runs/${run}`, { viewport: SIZE });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator("[data-step=charge][data-tone=undone]").waitFor();
      await page.locator("[data-step=reserve][data-tone=undoing]").waitFor();
      const picture = await page.screenshot({ clip: await aroundSteps(page) });
      expect(picture.length).toBeLessThan(MAX_BYTES);
      if (process.env.SAGA_TEST_PICTURE === "docs") writeFileSync(join(ROOT, `docs/undo-${colorScheme}.png`), picture);
    }
    letGo();
    await page.locator(".run-title .state.failed").first().waitFor();
    expect(faults).toEqual([]);
  });
});

/** The part of the page that has the steps of the run. */
async function aroundSteps(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  const [top, bottom] = await Promise.all(
    ["reserve", "ship"].map((step) => page.locator(`[data-step=${step}]`).boundingBox()),
  );
  if (!top || !bottom) throw new Error("the page does not show the steps of the run");
  const [x, y] = [top.x - MARGIN.x, top.y - MARGIN.y];
  return { x, y, width: top.width + 2 * MARGIN.x, height: bottom.y + bottom.height + MARGIN.y - y };
}
