// Erasing in bulk, in a real browser against a service with access control: who is offered it, that it says what it means and asks for a word, and
// what is left.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { type Key, LockedService } from "./access-stage.js";
import { seriousFindings } from "./axe.js";
import { layoutFaults } from "./layout-faults.js";

interface Listed {
  readonly total: number;
}

describeWithBrowser("erasing in bulk", () => {
  let locked: LockedService;
  let admin: Key;

  const totalOf = async (query: string) => (await locked.call<Listed>(admin, "GET", `/sagas?${query}`)).total;

  beforeAll(async () => {
    locked = await LockedService.open();
    admin = await locked.newKey(["admin"]);
    const publish = (id: string, step: object) =>
      locked.call(admin, "POST", "/workflows", {
        ...{ id, name: id, start: "only", published: true, steps: [{ id: "only", ...step }] },
      });
    await publish("done", { type: "noop" });
    await publish("waits", { type: "wait_for_signal", signal_name: "go" });
    for (const workflow_id of ["done", "done", "done", "waits"])
      for (const batch of ["old", "new"])
        await locked.call(admin, "POST", "/sagas/start", { workflow_id, labels: { batch } });
    await until(async () => (await totalOf("state=succeeded")) === 6 && (await totalOf("state=paused")) === 2);
  });

  const open = async (page: Page) => {
    await page.getByRole("button", { name: "Act on all that match" }).click();
    return page.getByRole("dialog");
  };

  it("is offered to admins alone", async () => {
    for (const [role, count] of [
      ["operator", 0],
      ["author", 0],
      ["admin", 1],
    ] as const) {
      const { page } = await locked.openAs(await locked.newKey([role]), "/console/runs");
      const options = (await open(page)).getByLabel("Action").getByRole("option");
      await options.first().waitFor({ state: "attached" });
      expect([role, await options.filter({ hasText: "Erase the run" }).count()]).toEqual([role, count]);
    }
  });

  it("says that it cannot be undone, waits for the word, and erases what has ended and nothing else", async () => {
    const { page, faults } = await locked.openAs(admin, "/console/runs?label.batch=old");
    const dialog = await open(page);
    await dialog.getByLabel("Action").selectOption("erase");
    await dialog.getByText("This cannot be undone.").waitFor();
    await dialog.getByRole("button", { name: "Preview" }).click();
    await dialog.getByText("4 runs match now").waitFor();
    await dialog.getByText("This cannot be undone.").waitFor();
    const yes = dialog.getByRole("button", { name: "Yes: Erase the run, all of them" });
    expect(await yes.isDisabled()).toBe(true);
    await dialog.getByLabel("to go on").fill("eras");
    expect(await yes.isDisabled()).toBe(true);
    for (const size of [
      { width: 390, height: 844 },
      { width: 1440, height: 900 },
    ]) {
      await page.setViewportSize(size);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        await screenshot(page, `bulk-erase-${size.width}-${colorScheme}`);
        expect(await layoutFaults(page)).toEqual([]);
      }
    }
    expect(await seriousFindings(page)).toEqual([]);
    expect(await totalOf("label.batch=old")).toBe(4);
    await dialog.getByLabel("to go on").fill("erase");
    await yes.click();
    await page.waitForURL("**/console/bulk/*");
    await page.getByRole("heading", { name: "Erase the run" }).waitFor();
    await page.getByText("4 of 4 runs, 1 refused").waitFor();
    expect(await page.getByRole("link", { name: "Those that it has changed" }).count()).toBe(0);
    expect(await totalOf("label.batch=old")).toBe(1);
    expect(await totalOf("label.batch=old&state=paused")).toBe(1);
    expect(await totalOf("label.batch=new")).toBe(4);
    await page.getByRole("main").getByRole("link", { name: "Bulk jobs" }).click();
    await page.getByRole("link", { name: "Erase the run" }).waitFor();
    expect(faults).toEqual([]);
  });
});
