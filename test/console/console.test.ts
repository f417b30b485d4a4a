// The console as a service serves it, in a real browser: the frame around the pages, and what the browser may load for them.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { createTestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { seriousFindings } from "./axe.js";

/** What a page of a new service says first. */
const EMPTY: Readonly<Record<string, string>> = {
  Runs: "There are no runs. Start one with the button above, or let a trigger start them.",
  Workflows: "There are no workflows.",
  Tasks: "No task is open. A run that comes to a user task puts it here.",
  Rules: "There are no rules.",
  Triggers: "There are no triggers.",
  Bulk: "There are no jobs.",
  Workers: "No worker is connected.",
};

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
    expect(names).toEqual([
      "Runs",
      "Workflows",
      "Tasks",
      "Rules",
      "Triggers",
      "Bulk",
      "Workers",
      "Cluster",
      "API keys",
    ]);
    for (const name of names) {
      await page
        .getByRole("navigation", { name: "Pages", exact: true })
        .getByRole("link", { name, exact: true })
        .click();
      await page.locator("main h1").waitFor();
      expect(await seriousFindings(page)).toEqual([]);
    }
    expect(faults).toEqual([]);
  });

  it.each(Object.entries(EMPTY))(
    "says on the page %s of a new service that there is nothing yet",
    async (name, words) => {
      const { page } = await openPage(service.url, `/console/${name.toLowerCase()}`);
      await page
        .getByText(/^(There are no|No)\b/)
        .first()
        .waitFor();
      expect(await page.getByRole("main").textContent()).toContain(words);
      expect(await page.getByRole("columnheader").count()).toBe(0);
    },
  );

  it.each(["runs", "workflows", "rules", "triggers"])(
    "leads from one of the %s that does not exist to all",
    async (list) => {
      const { page } = await openPage(service.url, `/console/${list}/01a2216c-4318-7cda-aa72-f4f85f82ba0b`);
      await page
        .getByRole("alert")
        .getByText(/there is no/)
        .waitFor();
      await page.getByRole("link", { name: `All ${list}` }).click();
      await page.waitForURL(`**/console/${list}`);
    },
  );

  it("leads from an address that is none to its first page", async () => {
    const { page } = await openPage(service.url, "/console/nowhere");
    await page.getByRole("heading", { name: "There is no such page" }).waitFor();
    await page.getByRole("main").getByRole("link", { name: "Runs" }).click();
    await page.waitForURL("**/console/runs");
  });
});
