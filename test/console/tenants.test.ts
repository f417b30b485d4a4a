// Whose a thing is, in the lists of the console: for the platform, which sees several tenants, and not for a tenant's own people.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser } from "../harness/browser.js";
import { type Key, LockedService, TENANT } from "./access-stage.js";
import { seriousFindings } from "./axe.js";
import { layoutFaults } from "./layout-faults.js";

const ASK = { id: "ask", type: "manual_approval", title: "Ask the chief", assignee: "chief" };

describeWithBrowser("whose a thing is", () => {
  let locked: LockedService;
  let platform: Key;
  let admin: Key;
  let run: string;

  beforeAll(async () => {
    locked = await LockedService.open();
    platform = await locked.newKey(["platform", "admin"]);
    admin = await locked.newKey(["admin"]);
    const flow = { id: "ask", name: "Ask", start: "ask", steps: [ASK], published: true };
    await locked.call(platform, "POST", "/workflows", flow);
    run = (await locked.call<{ run_id: string }>(admin, "POST", "/sagas/start", { workflow_id: "ask" })).run_id;
    await locked.call(platform, "POST", "/sagas/start", { workflow_id: "ask" });
    const config = { schedule: "0 5 * * *" };
    await locked.call(admin, "POST", "/triggers", { trigger_type: "cron", workflow_id: "ask", config });
    await locked.call(admin, "POST", "/bulk", { action: "pause", filter: { workflow_id: "none" } });
  });

  const LISTS = ["/runs", "/triggers", "/bulk", "/tasks"];
  const PHONE = { width: 390, height: 844 };
  const DESK = { width: 1280, height: 900 };

  async function isWhole(page: Page): Promise<void> {
    for (const size of [PHONE, DESK]) {
      await page.setViewportSize(size);
      await expect.poll(() => layoutFaults(page)).toEqual([]);
    }
    expect(await seriousFindings(page)).toEqual([]);
  }

  it.each(LISTS)("stands in the list %s for the platform, and not for the tenant itself", async (path) => {
    const { page, faults } = await locked.openAs(platform, `/console${path}`);
    await page.getByRole("main").getByText(TENANT).first().waitFor();
    await isWhole(page);
    const { page: own } = await locked.openAs(admin, `/console${path}`);
    await own.locator("main :is(tbody tr, li)").first().waitFor();
    expect(await own.getByRole("main").textContent()).not.toContain(TENANT);
    expect(faults).toEqual([]);
  });

  it("leads from a run of the list to the runs of its tenant, and is among the filters", async () => {
    const { page } = await locked.openAs(platform, "/console/runs");
    const rows = page.locator("table.runs tbody tr");
    await rows.nth(1).waitFor();
    await page.getByRole("link", { name: TENANT }).click();
    await page.getByText("1 run", { exact: true }).waitFor();
    expect(page.url()).toContain(`tenant_id=${TENANT}`);
    expect(await rows.count()).toBe(1);
    await page.getByText(/^More filters/).click();
    expect(await page.getByLabel("Tenant").inputValue()).toBe(TENANT);
    const { page: own } = await locked.openAs(admin, "/console/runs");
    await own.getByText(/^More filters/).click();
    expect(await own.getByLabel("Tenant").count()).toBe(0);
  });

  it("is on the page of a run", async () => {
    const { page } = await locked.openAs(platform, `/console/runs/${run}`);
    await page.locator(".run-head").getByText(TENANT).waitFor();
    const { page: own } = await locked.openAs(admin, `/console/runs/${run}`);
    await own.locator(".fact-grid").first().waitFor();
    expect(await own.locator(".run-head").textContent()).not.toContain(TENANT);
  });
});
