// The pages of workflows in a real browser, against a real service. What they draw from is tested in workflows-drawing.test.ts; how runs go on is the machine's.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { call, startService } from "./runs-service.js";

const ORDER = {
  id: "order",
  name: "An order",
  start: "reserve",
  input_schema: {
    type: "object",
    required: ["sku"],
    properties: { sku: { type: "string", title: "SKU" }, quantity: { type: "integer", title: "Quantity", minimum: 1 } },
  },
  steps: [
    { id: "reserve", type: "action", action: "shop.reserve", compensation: { action: "shop.release" }, next: "big" },
    { id: "big", type: "switch", cases: [{ when: "inputs.quantity > 10", next: "check" }], default: "ship" },
    { id: "check", type: "manual_approval", assignee: "ann", title: "Check the order", next: "ship" },
    { id: "ship", type: "action", action: "shop.ship", next: "done" },
    { id: "done", type: "end", output: "${vars.ship}" },
  ],
};

const QUICK = { id: "quick", name: "Quick", start: "done", steps: [{ id: "done", type: "end", output: { sum: 3 } }] };

interface Run {
  readonly id: string;
  readonly state: string;
  readonly business_key?: string;
  readonly inputs: unknown;
  readonly labels?: unknown;
  readonly dry_run?: boolean;
}

describeWithBrowser("the pages of workflows", () => {
  let service: ServiceProcess;

  const store = (document: object) => call(service, "POST", "/workflows", { ...document, published: true });
  const opened = (path: string) => openPage(service.url, `/console/workflows${path}`);

  beforeAll(async () => {
    ({ service } = await startService());
    const actions = ["reserve", "release", "ship"].map((action_name) => ({
      action_name,
      compensable: action_name === "reserve",
    }));
    await call(service, "POST", "/registry/register", { service: "shop", actions });
    await store(ORDER);
    const [reserve, big, check, ship, done] = ORDER.steps;
    const note = { id: "note", type: "noop", next: "done" };
    await store({
      ...ORDER,
      steps: [reserve, big, { ...check, assignee: "bob" }, { ...ship, next: "note" }, note, done],
    });
    await store(QUICK);
    for (const _ of [1, 2]) await call(service, "POST", "/sagas/start?wait_ms=30000", { workflow_id: "quick" });
  });

  it("lists the workflows with their latest version and what their runs do", async () => {
    const { page, faults } = await opened("");
    const row = page.getByRole("row", { name: /Quick/ });
    await row.getByText("100%").waitFor();
    expect(await page.getByRole("row", { name: /An order/ }).textContent()).toContain("published");
    expect(faults).toEqual([]);
  });

  it("says for how long the runs of a workflow are kept", async () => {
    await store({ ...QUICK, id: "kept", retention: { days: 30, failed_days: 1 } });
    await store({ ...QUICK, id: "kept-failed", retention: { failed_days: 400 } });
    for (const [id, words] of [
      ["kept", "Kept after their end: failed runs 1 day, other runs 30 days."],
      ["kept-failed", "Kept after their end: failed runs 400 days, other runs as long as the service keeps all."],
    ] as const) {
      const { page, faults } = await opened(`/${id}`);
      await page.getByText(words, { exact: true }).waitFor();
      expect(faults).toEqual([]);
    }
    const { page } = await opened("/quick");
    await page.getByRole("link", { name: "Stats" }).waitFor();
    expect(await page.getByText("Kept after their end").count()).toBe(0);
  });

  it("draws a workflow's graph, and shows the definition of the step that is selected, also from a shared address", async () => {
    const { page, faults } = await opened("/order");
    await page.locator("[data-step=reserve]").click();
    await page.getByLabel("Definition of reserve").getByText("shop.release").waitFor();
    expect(await page.locator("[data-step]").count()).toBe(6);
    const shared = await openPage(service.url, new URL(page.url()).pathname + new URL(page.url()).search);
    await shared.page.getByLabel("Definition of reserve").waitFor();
    expect(faults).toEqual([]);
  });

  it("compares two versions: what was added and what changed, from one value to another", async () => {
    const { page, faults } = await opened("/order?tab=versions");
    await page.getByRole("link", { name: "Compare version 1 with version 2" }).click();
    await page.getByRole("region", { name: "Step note added", exact: true }).waitFor();
    const check = page.getByRole("region", { name: "Step Check the order (check) changed" });
    expect(await check.locator("tbody tr").allTextContents()).toEqual(['$.assignee"ann""bob"']);
    expect(page.url()).toContain("compare=1");
    await screenshot(page, "workflow-difference");
    expect(faults).toEqual([]);
  });

  it("starts a run by the form of the input_schema, with a business key and labels, and leads to the run", async () => {
    const { page, faults } = await opened("/order?tab=start");
    await page.getByLabel("SKU").fill("tea");
    await page.getByLabel("Quantity").fill("2");
    await page.getByLabel("Business key").fill("order-7");
    await page.getByLabel(/^Labels/).fill("region=eu\nshop = north");
    await screenshot(page, "workflow-start");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.waitForURL("**/console/runs/*");
    const id = new URL(page.url()).pathname.split("/").at(-1);
    const run = await call<Run>(service, "GET", `/sagas/${id}`);
    expect(run).toMatchObject({ business_key: "order-7", labels: { region: "eu", shop: "north" } });
    expect(run.inputs).toEqual({ sku: "tea", quantity: 2 });
    expect(faults).toEqual([]);
  });

  it("starts a run once, however often the start is sent", async () => {
    const { page } = await opened("/quick?tab=start");
    let dropped = 0;
    const keys: (string | undefined)[] = [];
    await page.route("**/api/v1/sagas/start", async (route) => {
      keys.push(route.request().headers()["idempotency-key"]);
      if (dropped++ > 0) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await page.getByLabel("Business key").fill("once");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.waitForURL("**/console/runs/*");
    expect(new Set(keys).size).toBe(1);
    expect(keys).toHaveLength(2);
    const { total } = await call<{ total: number }>(service, "GET", "/sagas?business_key=once");
    expect(total).toBe(1);
  });

  it("starts a run once, also where the second try comes too soon and is given again by hand", async () => {
    const { page } = await opened("/quick?tab=start");
    const keys: (string | undefined)[] = [];
    await page.route("**/api/v1/sagas/start", async (route) => {
      const nth = keys.push(route.request().headers()["idempotency-key"]);
      if (nth > 2) return route.continue();
      if (nth === 2) return route.fulfill({ status: 429, json: { error: "rate_limited", message: "too many" } });
      await route.fetch();
      return route.abort();
    });
    await page.getByLabel("Business key").fill("once more");
    const button = page.getByRole("button", { name: "Start", exact: true });
    await button.click();
    await page.getByRole("alert").getByText("too many").waitFor();
    await button.click();
    await page.waitForURL("**/console/runs/*");
    expect(new Set(keys).size).toBe(1);
    const { total } = await call<{ total: number }>(service, "GET", "/sagas?business_key=once%20more");
    expect(total).toBe(1);
  });

  it("draws a rehearsal: the steps that it reached, the error at its step, the undo, and its events", async () => {
    const { page, faults } = await opened("/order?tab=try&version=1");
    await page.getByLabel("SKU").fill("tea");
    await page.getByLabel("Quantity").fill("20");
    await page.getByRole("combobox", { name: "Step" }).selectOption("ship");
    await page.getByRole("button", { name: "Let it fail" }).click();
    await page.getByRole("button", { name: "Rehearse" }).click();
    await page.locator("[data-step=ship][data-tone=failed]").waitFor();
    await page.locator("[data-step=reserve][data-tone=undone]").waitFor();
    await page.locator("[data-step=check][data-tone=done]").waitFor();
    await page.locator("[data-step=done][data-tone=idle]").waitFor();
    expect(await page.getByRole("status").textContent()).toContain("failed at ship");
    await screenshot(page, "workflow-rehearsal");
    await page.getByRole("cell", { name: "Check the order", exact: true }).first().waitFor();
    await page.locator("[data-step=ship]").click();
    await page.getByRole("heading", { name: "Events of ship" }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(3);
    expect(faults).toEqual([]);
  });

  it("shows what the service refuses about inputs and mocks of a rehearsal", async () => {
    const { page } = await opened("/order?tab=try");
    await page.getByLabel("SKU").fill("tea");
    await page.getByLabel("Mocks by step (JSON)").fill('{"nowhere": [{"output": {}}]}');
    await page.getByRole("button", { name: "Rehearse" }).click();
    await page.getByRole("alert").getByText("nowhere").first().waitFor();
  });

  it("starts a dry run, which is one, and leads to it", async () => {
    const { page } = await opened("/quick?tab=try");
    await page.getByRole("button", { name: "Start as a dry run" }).click();
    await page.waitForURL("**/console/runs/*");
    const id = new URL(page.url()).pathname.split("/").at(-1);
    expect(await call<Run>(service, "GET", `/sagas/${id}`)).toMatchObject({ dry_run: true });
  });

  it("shows a problem of a definition in a list and at its step, and stores the definition when it is mended", async () => {
    const { page, faults } = await opened("/quick?tab=edit");
    const field = page.getByLabel("Definition (JSON)");
    const steps = [{ id: "first", type: "noop", next: "dome" }, ...QUICK.steps];
    await field.fill(JSON.stringify({ ...QUICK, start: "first", steps }, null, 2));
    await page.locator("[data-step=first][data-tone=failed]").getByText("has a problem · noop").waitFor();
    await page.getByRole("region", { name: "Problems" }).getByText("$.steps[0].next").click();
    await page.locator("[data-step=first][aria-pressed=true]").waitFor();
    expect(await page.getByRole("button", { name: "Save as a draft" }).isDisabled()).toBe(true);
    await screenshot(page, "workflow-problem");
    await field.fill((await field.inputValue()).replace("dome", "done"));
    await page.getByText("The definition is valid.").waitFor();
    await page.getByRole("button", { name: "Save as a draft" }).click();
    await page.getByText("version 2").waitFor();
    await page.locator("[data-step=first]").waitFor();
    expect(await call(service, "GET", "/workflows/quick?version=2")).toMatchObject({
      start: "first",
      published: false,
    });
    expect(faults).toEqual([]);
  });

  it("stores a new workflow and publishes it", async () => {
    const { page } = await opened("");
    await page.getByRole("link", { name: "New workflow" }).click();
    await page.getByText("The definition is valid.").waitFor();
    await page.getByRole("button", { name: "Save and publish" }).click();
    await page.getByRole("heading", { name: "My workflow" }).waitFor();
    expect(await call(service, "GET", "/workflows/my-workflow")).toMatchObject({ published: true });
  });

  it("shows how runs ended and how long they took, as plots and as the same numbers", async () => {
    const { page, faults } = await opened("/quick?tab=stats&hours=1");
    // The minute that is not over is among the buckets, so that the runs of this test are.
    await until(async () => {
      const { buckets } = await call<{ buckets: { succeeded: number }[] }>(
        service,
        "GET",
        "/workflows/quick/performance?hours=1",
      );
      return buckets.some(({ succeeded }) => succeeded > 0);
    });
    await page.reload();
    await page.locator("dd", { hasText: "100%" }).waitFor();
    await page.getByRole("rowheader", { name: "done" }).waitFor();
    expect(await page.locator(".plot canvas").count()).toBe(2);
    expect(faults).toEqual([]);
  });

  it("withdraws a version and publishes it again", async () => {
    const { page } = await opened("/order?tab=versions&version=1");
    await page.getByRole("button", { name: "Unpublish version 1" }).click();
    await page.getByRole("button", { name: "Publish version 1" }).click();
    await page.getByRole("button", { name: "Unpublish version 1" }).waitFor();
  });
});
