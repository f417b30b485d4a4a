// Bulk acts in a real browser, against a real service: from the filter over the preview to the end of the job. What a job does when nodes
// die is tested in operate/.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { call, publish, start, startService } from "./runs-service.js";

describeWithBrowser("bulk acts", () => {
  let service: ServiceProcess;

  const totalOf = async (query: string) => (await call<{ total: number }>(service, "GET", `/sagas?${query}`)).total;

  const preview = async (page: Page, action: string) => {
    await page.getByRole("button", { name: "Act on all that match" }).click();
    await page.getByLabel("Action").selectOption(action);
  };

  beforeAll(async () => {
    // A job of many runs takes long enough to be stopped.
    ({ service } = await startService({ SAGA_BULK_PER_SECOND: "4" }));
    const check = { id: "check", type: "assert", condition: "vars.price > 0", on_failure: "incident", next: "done" };
    await publish(service, "order", [check, { id: "done", type: "end", output: "${vars.price}" }]);
    await publish(service, "waits", [{ id: "hear", type: "wait_for_signal", signal_name: "go" }]);
    for (let i = 0; i < 12; i++) await start(service, "order", { variables: { price: 0 }, business_key: `o-${i}` });
    for (let i = 0; i < 3; i++) await start(service, "waits");
    await until(async () => (await totalOf("incident=true")) === 12 && (await totalOf("paused_reason=signal")) === 3);
  });

  it("retries the runs that stand at an incident by clicking, with a preview of what it hits, until the job is done", async () => {
    const { page, faults } = await openPage(service.url, "/console/runs");
    await page.getByRole("button", { name: "at an incident 12" }).click();
    await page.getByText("12 runs", { exact: true }).waitFor();
    await preview(page, "retry_step");
    await page.getByLabel("Corrected variables").fill('{"price": 7}');
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Preview" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("12 runs match now").waitFor();
    await dialog.getByText("The first 10").click();
    await until(async () => (await dialog.locator("li").count()) === 10);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "bulk-preview");
    await dialog.getByRole("button", { name: "Yes: Retry the step, all of them" }).click();
    await page.waitForURL("**/console/bulk/*");
    await page.getByText("12 of 12 runs").waitFor();
    await page.locator(".state", { hasText: "done" }).waitFor();
    await until(async () => (await totalOf("workflow_id=order&state=succeeded")) === 12);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "bulk-job");
    await page.getByRole("link", { name: "Those that it has changed" }).click();
    await page.getByText("12 runs", { exact: true }).waitFor();
    expect(faults).toEqual([]);
  });

  it("shows those that refuse, with a link to each, and the job in the list", async () => {
    const { page, faults } = await openPage(service.url, "/console/runs?workflow_id=waits&state=paused");
    await preview(page, "skip_step");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Yes: Skip the step" }).click();
    await page.getByText("3 of 3 runs, 3 refused").waitFor();
    expect(await page.locator("ul.refusals a").count()).toBe(3);
    await page.getByRole("main").getByRole("link", { name: "Bulk jobs" }).click();
    await page.getByRole("link", { name: "Skip the step" }).waitFor();
    expect(faults).toEqual([]);
  });

  it("says that more runs match than the limit allows, and shows the refusal", async () => {
    const { page } = await openPage(service.url, "/console/runs?workflow_id=waits");
    await preview(page, "pause");
    await page.getByLabel("At most this many runs").fill("2");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("More runs match than the limit allows").waitFor();
    await page.getByRole("button", { name: "Yes: Pause the run" }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    await page.getByRole("button", { name: "Back", exact: true }).click();
    await page.getByLabel("At most this many runs").fill("3");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Yes: Pause the run" }).click();
    await page.getByText("3 of 3 runs").waitFor();
    expect(await totalOf("paused_reason=operator")).toBe(3);
  });

  it("stops a job and resumes it", async () => {
    await publish(service, "many", [{ id: "hear", type: "wait_for_signal", signal_name: "go" }]);
    for (let i = 0; i < 80; i++) await start(service, "many");
    await until(async () => (await totalOf("workflow_id=many&paused_reason=signal")) === 80);
    const { page, faults } = await openPage(service.url, "/console/runs?workflow_id=many");
    await preview(page, "signal");
    await page.getByLabel("Signal", { exact: true }).fill("go");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Yes: Send a signal" }).click();
    await page.getByRole("button", { name: "Stop the job" }).click();
    await page.locator(".state", { hasText: "stopped" }).waitFor();
    expect(await totalOf("workflow_id=many&paused_reason=signal")).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Resume the job" }).click();
    await page.getByText("80 of 80 runs").waitFor();
    await until(async () => (await totalOf("workflow_id=many&state=succeeded")) === 80);
    expect(faults).toEqual([]);
  });
});
