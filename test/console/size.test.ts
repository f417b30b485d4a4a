// What a browser transfers to show the list of runs for the first time. How fast it does is measured elsewhere.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { startService } from "./runs-service.js";

const MOST_BYTES = 500_000;

interface Transfer {
  readonly name: string;
  readonly encodedBodySize: number;
  readonly decodedBodySize: number;
}

describeWithBrowser("the first load of the console", () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ service } = await startService());
  });

  it("is below 500 KB, because the compressed files are sent", async () => {
    const { page } = await openPage(service.url, "/console/runs");
    await page.getByText(/^There are no runs\./).waitFor();
    const entries = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]";
    const transfers = await page.evaluate<Transfer[]>(
      `${entries}.map(({ name, encodedBodySize, decodedBodySize }) => ({ name, encodedBodySize, decodedBodySize }))`,
    );
    const bytes = transfers.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
    console.log(`the first load of /console/runs: ${transfers.length} answers, ${(bytes / 1_000).toFixed(0)} KB`);
    expect(bytes).toBeLessThan(MOST_BYTES);
    const scripts = transfers.filter(({ name }) => name.endsWith(".js"));
    expect(scripts.length).toBeGreaterThan(1);
    for (const { name, encodedBodySize, decodedBodySize } of scripts)
      if (decodedBodySize > 5_000) expect(encodedBodySize, name).toBeLessThan(decodedBodySize);
  });
});
