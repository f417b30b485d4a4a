// The list of runs in a real browser, against a real service: filters in the address, live counts, pages, a walk by keyboard. What the
// filters mean is tested with the API.
// @module-tag both
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { bulkFilterOf, parseLabel, queryOf, toggled, withChildren } from "../../src/console/runs/filters.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { call, publish, start, startService } from "./runs-service.js";

describe("the filters of an address", () => {
  const of = (text: string) => new URLSearchParams(text);

  it("list the runs that were started by somebody, unless the address says otherwise", () => {
    expect(queryOf(of(""))).toEqual({ root_only: "true" });
    expect(queryOf(of("root_only=false&q=ab&nonsense=1&cursor=c"))).toEqual({ q: "ab" });
  });

  it.each([
    ...["incident=true", "requires_manual_review=true", "error_code=late", "paused_reason=incident", "current_step=a"],
    ...["awaited_signal=go", "parent_run_id=p", "bulk_id=b", "incident_in=r", "q=01a2"],
  ])("%s asks for branches and items too, unless the address says otherwise", (filter) => {
    const [name = ""] = filter.split("=");
    expect(queryOf(of(filter))).not.toHaveProperty("root_only");
    expect(queryOf(of(`${filter}&root_only=true`))).toMatchObject({ root_only: "true", [name]: expect.anything() });
    expect(queryOf(of(`${name}=`))).toEqual({ root_only: "true" });
  });

  it.each(["incident=false", "requires_manual_review=false", "workflow_id=w", "state=failed", "business_key=k"])(
    "%s is asked of the roots",
    (filter) => expect(queryOf(of(filter))).toMatchObject({ root_only: "true" }),
  );

  it("say children only where the other filters mean something else", () => {
    expect(String(withChildren(of("state=failed"), true))).toBe("state=failed&root_only=false");
    expect(String(withChildren(of("state=failed&root_only=false"), false))).toBe("state=failed");
    expect(String(withChildren(of("incident=true"), false))).toBe("incident=true&root_only=true");
    expect(String(withChildren(of("incident=true&root_only=true"), true))).toBe("incident=true");
  });

  it("become the filter of a bulk job with numbers and booleans as in JSON", () => {
    const search = of("state=paused,failed&version=2&incident=true&label.region=eu&workflow_id=order");
    expect(bulkFilterOf(search)).toEqual({
      state: ["paused", "failed"],
      version: 2,
      incident: true,
      "label.region": "eu",
      workflow_id: "order",
    });
  });

  it("take a state away that is chosen twice, and begin at the first page", () => {
    expect(String(toggled(of("state=paused&cursor=c"), "state", "failed"))).toBe("state=paused%2Cfailed");
    expect(String(toggled(of("state=paused"), "state", "paused"))).toBe("");
  });

  it("read a label as a person writes it", () => {
    expect(parseLabel(" region = eu=1 ")).toEqual({ name: "region", value: "eu=1" });
    expect([parseLabel("region"), parseLabel("=eu"), parseLabel("region=")]).toEqual([undefined, undefined, undefined]);
  });
});

const RUNS = 60;

describeWithBrowser("the page of runs", { tags: "long" }, () => {
  let service: ServiceProcess;

  const opened = (search = "", options = {}) => openPage(service.url, `/console/runs${search}`, options);
  const count = (page: Page, state: string) => page.getByRole("button", { name: new RegExp(`^${state} `) });
  const rows = (page: Page) => page.locator("table.runs tbody tr");

  beforeAll(async () => {
    ({ service } = await startService());
    await publish(service, "quick", [{ id: "done", type: "end", output: "ok" }]);
    await publish(service, "waits", [{ id: "hear", type: "wait_for_signal", signal_name: "go" }]);
    const key = (i: number) => ({ business_key: `order-${i}`, labels: { region: i % 2 === 0 ? "eu" : "us" } });
    for (let i = 0; i < RUNS; i++) await start(service, "quick", key(i));
    for (let i = 0; i < 3; i++) await start(service, "waits");
    const settled = async () =>
      (await call<{ total: number }>(service, "GET", "/sagas?state=succeeded")).total === RUNS &&
      (await call<{ total: number }>(service, "GET", "/sagas?paused_reason=signal")).total === 3;
    await until(settled);
  });

  it("counts by state, and shows those of the state that is clicked; a shared address shows the same", async () => {
    const { page, faults } = await opened();
    await page.getByRole("button", { name: `succeeded ${RUNS}` }).waitFor();
    await page.getByRole("button", { name: "all 63" }).waitFor();
    await count(page, "waiting").click();
    await page.waitForURL("**state=paused**");
    await page.getByText("3 runs", { exact: true }).waitFor();
    await page.getByRole("button", { name: "for a signal 3" }).click();
    await page.waitForURL("**paused_reason=signal**");
    expect(await rows(page).count()).toBe(3);
    const shared = await openPage(service.url, new URL(page.url()).pathname + new URL(page.url()).search);
    await shared.page.getByText("3 runs", { exact: true }).waitFor();
    expect(await count(shared.page, "waiting").getAttribute("aria-pressed")).toBe("true");
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "runs-paused");
    expect([...faults, ...shared.faults]).toEqual([]);
  });

  it("filters while a person types, by workflow and by label; all of it is in the address", async () => {
    const { page } = await opened();
    await page.getByLabel("Id or business key begins with").fill("order-1");
    await page.waitForURL("**q=order-1**");
    await page.getByText("11 runs", { exact: true }).waitFor();
    await page.getByLabel("Label", { exact: true }).fill("region=eu");
    await page.getByLabel("Label", { exact: true }).press("Enter");
    await page.waitForURL("**label.region=eu**");
    await page.getByText("5 runs", { exact: true }).waitFor();
    await page.getByRole("button", { name: "region=eu" }).click();
    await page.getByText("11 runs", { exact: true }).waitFor();
    await page.getByLabel("Id or business key begins with").fill("");
    await page.getByLabel("Workflow").fill("waits");
    await page.getByText("3 runs", { exact: true }).waitFor();
    await page.getByText("More filters").click();
    await page.getByLabel("Awaited signal").fill("stop");
    await page.getByLabel("Awaited signal").press("Enter");
    await page.getByText("There are no such runs").waitFor();
    await page.waitForURL("**awaited_signal=stop**");
    expect(await page.evaluate("document.activeElement?.closest('label')?.textContent")).toBe("Awaited signal");
  });

  it("says what the service refuses", async () => {
    const { page } = await opened("?bulk_id=nonsense");
    await page.getByRole("alert").getByText("the query parameter bulk_id must be a UUID").waitFor();
  });

  it("turns pages on and back", async () => {
    const { page } = await opened();
    await rows(page).nth(49).waitFor();
    const first = await rows(page).first().locator("th a").textContent();
    const above = page.getByRole("navigation", { name: "Pages of runs", exact: true });
    const below = page.getByRole("navigation", { name: "Pages of runs, below the list" });
    await above.getByRole("link", { name: "Next page" }).click();
    await until(async () => (await rows(page).count()) === 13);
    await above.getByRole("link", { name: "Previous page" }).click();
    await until(async () => (await rows(page).first().locator("th a").textContent()) === first);
    await below.getByRole("link", { name: "Next page" }).click();
    await until(async () => (await rows(page).count()) === 13);
    await until(async () => (await page.evaluate<number>("scrollY")) === 0);
    await below.getByRole("link", { name: "First page" }).click();
    await until(async () => (await rows(page).first().locator("th a").textContent()) === first);
    await page.goto(`${service.url}/console/runs?workflow_id=waits`);
    await page.locator("table.runs tbody tr").first().waitFor();
    expect(await below.count()).toBe(0);
  });

  it("has the fields of its filters in lines", async () => {
    const { page } = await opened();
    await rows(page).first().waitFor();
    await page.getByText("More filters").click();
    const fields = await page.evaluate<readonly { y: number; height: number }[]>(
      `[...document.querySelectorAll('.filters .row :is(input:not([type="checkbox"]), select)')]
        .map((field) => field.getBoundingClientRect())
        .map(({ y, height }) => ({ y, height }))`,
    );
    expect(fields.length).toBeGreaterThan(15);
    expect(new Set(fields.slice(0, 4).map(({ y }) => y)).size).toBe(1);
    expect(new Set(fields.map(({ height }) => height)).size).toBe(1);
  });

  it("shows a run that starts while it is open", async () => {
    const { page } = await opened("?workflow_id=waits");
    await page.getByText("3 runs", { exact: true }).waitFor();
    const id = await start(service, "waits");
    await page.getByRole("link", { name: id }).waitFor();
    await page.getByText("4 runs", { exact: true }).waitFor();
    await call(service, "POST", `/sagas/${id}/signal/go`, {});
    await page.locator("tr", { hasText: id }).getByText("succeeded").waitFor();
  });

  it("leads by keyboard from the list to a filter and on to a run", async () => {
    const { page } = await opened("?workflow_id=quick");
    await rows(page).first().waitFor();
    await page.getByLabel("Id or business key begins with").focus();
    await page.keyboard.type("order-42");
    await page.getByText("1 run", { exact: true }).waitFor();
    const focused = () => page.evaluate<string>("document.activeElement?.textContent ?? ''");
    await until(async () => {
      await page.keyboard.press("Tab");
      return (await focused()) === "order-42";
    });
    await page.keyboard.press("Enter");
    await page.waitForURL(/console\/runs\/[0-9a-f-]{36}$/);
  });

  it("leads to the start of a workflow", async () => {
    const { page } = await opened();
    await page.getByRole("button", { name: "Start a run" }).click();
    await page.getByLabel("Its id or name contains").fill("quic");
    await page.getByRole("dialog").getByRole("link", { name: "quick" }).click();
    await page.waitForURL("**/console/workflows/quick?tab=start");
  });
});
