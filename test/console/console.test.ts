// The console as a service serves it, in a real browser: the frame around the pages, and what the browser may load for them.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { createTestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { seriousFindings } from "./axe.js";

describeWithBrowser("the console", () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    const database = await createTestDatabase();
    atFileEnd(() => database.drop());
    service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" })).start();
  });

  it("is where `/` leads, and every page of its menu opens without a fault and without a serious finding of axe", async () => {
    const { page, faults } = await openPage(service.url, "/");
    await page.waitForURL("**/console/runs");
    const names = await page.locator("nav[aria-label=Pages] a").allTextContents();
    expect(names).toEqual(["Runs", "Workflows", "Tasks", "Rules", "Triggers", "Bulk", "Workers", "Cluster"]);
    for (const name of names) {
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
      await page.locator("main h1").waitFor();
      expect(await seriousFindings(page)).toEqual([]);
    }
    expect(faults).toEqual([]);
  });
});
