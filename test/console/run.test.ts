// The page of a run in a real browser, against a real service and a real worker: a run that is seen advancing, the slider, a shared link, and
// a service that dies while the page is open.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { openStage, type Stage } from "./run-stage.js";
import { call, widthOver } from "./runs-service.js";

const node = (page: Page, step: string, tone: string) => page.locator(`[data-step=${step}][data-tone=${tone}]`);
const words = (page: Page) => page.getByTestId("moment").textContent();

async function signal(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "Signals", exact: true }).click();
  await page.getByRole("button", { name: "Send a signal …" }).click();
  await page.getByLabel("Signal", { exact: true }).fill(name);
  await page.getByRole("dialog").getByRole("button", { name: "Send a signal" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Graph", exact: true }).click();
}

describeWithBrowser("the page of a run", () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await openStage();
  }, 120_000);

  it("shows a run advancing through a parallel, 200 items and a rollback, whose undo goes backwards", async () => {
    const { service, packing, undoing, start } = stage;
    const items = Array.from({ length: 200 }, (_, nth) => nth);
    const id = await start("journey", { inputs: { items }, business_key: "order-7", labels: { team: "blue" } });
    const { page, faults } = await openPage(service.url, `/console/runs/${id}`);
    await node(page, "reserve", "done").waitFor();
    await node(page, "ask", "waiting").waitFor();
    await screenshot(page, "run-parallel");
    await signal(page, "go");
    await node(page, "pack", "live").getByText("200", { exact: true }).waitFor();
    await screenshot(page, "run-items");
    packing.letGo();
    await node(page, "ship", "waiting").waitFor();
    await page.locator("[data-step=each]").getByText("items: 200 succeeded").waitFor();
    await page.getByRole("button", { name: "Send signal", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Send a signal" }).click();
    await node(page, "pay", "undoing").waitFor();
    await screenshot(page, "run-undoing");
    undoing.letGo();
    await node(page, "reserve", "undone").waitFor();
    await page.locator(".run-title .state.failed").first().waitFor();
    expect(await page.locator(".react-flow__edge.undo-way").count()).toBe(2);
    expect(await page.locator(".edge-label.undo-order").allTextContents()).toEqual(["1", "2"]);
    expect(await page.locator(".because").textContent()).toContain("The run ");
    await screenshot(page, "run-undone");
    expect(await seriousFindings(page)).toEqual([]);
    await goBack(page, id);
    await openTabs(page);
    await onPhone(service.url, id);
    expect(faults).toEqual([]);
  }, 180_000);

  /** Goes by keyboard to the first event, and on; then a link that somebody else opens. */
  async function goBack(page: Page, id: string): Promise<void> {
    const slider = page.getByRole("slider", { name: "Moment of the run" });
    await slider.focus();
    await slider.press("Home");
    await until(async () => (await words(page)) === "before the first event");
    await node(page, "reserve", "idle").waitFor();
    expect(await page.locator(".undo-way").count()).toBe(0);
    for (let nth = 0; nth < 3; nth++) await slider.press("ArrowRight");
    await until(async () => (await words(page))?.startsWith("Reserve the goods: "));
    await page.locator("[data-step=reserve]").click();
    await page.waitForURL(/step=reserve/);
    await page.waitForURL(/at=3/);
    const shared = await openPage(stage.service.url, new URL(page.url()).pathname + new URL(page.url()).search);
    await shared.page.getByRole("complementary", { name: "Step Reserve the goods" }).waitFor();
    await until(async () => (await words(shared.page)) === (await words(page)));
    expect(await shared.page.locator("[data-step=fork]").getAttribute("data-tone")).toBe("idle");
    await screenshot(shared.page, "run-moment");
    expect(shared.faults).toEqual([]);
    await shared.page.close();
    await page.goto(`${stage.service.url}/console/runs/${id}`);
    await node(page, "reserve", "undone").waitFor();
  }

  async function openTabs(page: Page): Promise<void> {
    const shows = {
      Timeline: page.getByRole("button", { name: /^undo of Charge the card, / }),
      Events: page.getByRole("button", { name: /the rollback began/ }),
      Variables: page.getByRole("row", { name: /reserve/ }).first(),
      Signals: page.getByRole("cell", { name: "ship" }),
      Tasks: page.getByText("The run has opened no task."),
      Undo: page.getByText("undone", { exact: true }).first(),
      Children: page.getByRole("link", { name: "fork[pay]" }),
    };
    for (const [tab, fact] of Object.entries(shows)) {
      await page.getByRole("button", { name: tab, exact: true }).click();
      await fact.waitFor();
      expect(await seriousFindings(page), tab).toEqual([]);
      await screenshot(page, `run-${tab.toLowerCase()}`);
    }
    await askAboutTheRun(page);
  }

  async function askAboutTheRun(page: Page): Promise<void> {
    await page.getByRole("button", { name: "Variables", exact: true }).click();
    const ask = async (expression: string) => {
      await page.getByLabel("Expression (CEL)").fill(expression);
      await page.getByRole("button", { name: "Evaluate" }).click();
    };
    await ask("inputs.items.size()");
    await page.getByLabel("Value of the expression").getByText("200", { exact: true }).waitFor();
    await ask("vars.");
    await page.getByText(/the expression is not valid/).waitFor();
    expect(await seriousFindings(page)).toEqual([]);
  }

  async function onPhone(url: string, id: string): Promise<void> {
    const dark = await openPage(url, `/console/runs/${id}`, {
      colorScheme: "dark",
      viewport: { width: 360, height: 780 },
    });
    await node(dark.page, "reserve", "undone").waitFor();
    expect(await widthOver(dark.page)).toBe(0);
    expect(await seriousFindings(dark.page)).toEqual([]);
    await screenshot(dark.page, "run-dark-phone");
    expect(dark.faults).toEqual([]);
    await dark.page.close();
  }

  it("goes on by itself when the service was killed and comes back", async () => {
    const { service, start } = stage;
    const id = await start("waits");
    const { page, faults } = await openPage(service.url, `/console/runs/${id}`);
    await node(page, "hold", "waiting").waitFor();
    await service.kill();
    await page.getByText("connecting again …").waitFor();
    await service.start();
    await until(() => call(service, "POST", `/sagas/${id}/signal/go`, { payload: {} }).then(() => true));
    await node(page, "end", "done").waitFor();
    await page.locator(".run-title .state.succeeded").waitFor();
    expect(faults).toEqual([]);
  }, 120_000);

  it("goes on by itself where it has asked too often", async () => {
    const { service, start } = stage;
    const id = await start("waits");
    const limited = { error: "rate_limited", message: "more than 10 requests a second", request_id: "" };
    const refused = new Set<string>();
    const { page } = await openPage(service.url, "/console/runs");
    await page.route("**/api/v1/**", (route) => {
      const { pathname } = new URL(route.request().url());
      if (refused.has(pathname)) return route.continue();
      refused.add(pathname);
      return route.fulfill({ status: 429, json: limited });
    });
    await page.goto(`${service.url}/console/runs/${id}`);
    await node(page, "hold", "waiting").waitFor();
    expect(refused).toContain(`/api/v1/sagas/${id}/events`);
    await call(service, "POST", `/sagas/${id}/signal/go`, { payload: {} });
    await node(page, "end", "done").waitFor();
  });

  it("says that there is no such run, without a link to it", async () => {
    const { page } = await openPage(stage.service.url, "/console/runs/01900000-0000-7000-8000-000000000000");
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").getByRole("link").count()).toBe(0);
  });
});
