// The pages of triggers in a real browser, against a real service; and their form's config, alone. When a schedule is due is tested with its room.
// @module-tag both
import { beforeAll, describe, expect, it } from "vitest";
import { configOf, EMPTY, fieldsOf, occasion } from "../../src/console/triggers/config.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { call, startService } from "./runs-service.js";

const NIGHTLY = { ...EMPTY, workflow_id: "nightly", schedule: " 30 2 * * * " };

describe("the form of a trigger", () => {
  it("makes the config of its type, and no member of the other", () => {
    expect(configOf({ ...NIGHTLY, inputs: '{"region": "eu"}', catchup_window_ms: "500" })).toEqual({
      config: {
        ...{ schedule: "30 2 * * *", inputs: { region: "eu" }, overlap_policy: "allow", catchup: "latest" },
        catchup_window_ms: 500,
      },
    });
    const record = { record_type: "order", from_state: "new", to_state: "paid" };
    expect(configOf({ ...EMPTY, ...record, trigger_type: "record_transition" })).toEqual({
      config: { ...record, input_mapping: {} },
    });
  });

  it("says at which field the JSON is none", () => {
    expect(configOf({ ...NIGHTLY, inputs: "[]" }).fault?.field).toBe("inputs");
    expect(configOf({ ...NIGHTLY, trigger_type: "record_transition", input_mapping: "{" }).fault?.field).toBe(
      "input_mapping",
    );
  });

  it("shows an old config as it was, and names its occasion", () => {
    const config = { schedule: "0 0 * * *", inputs: { a: 1 } };
    const trigger = { trigger_type: "cron", workflow_id: "nightly", version: 2, config };
    const fields = fieldsOf(trigger);
    expect(fields).toMatchObject({ workflow_id: "nightly", version: "2", schedule: "0 0 * * *", catchup: "latest" });
    expect(configOf(fields).config).toMatchObject(config);
    expect(occasion(trigger)).toBe("0 0 * * * (UTC)");
    const zoned = { ...trigger, config: { schedule: "0 8 * * *", time_zone: "Europe/Vienna", jitter_ms: 60_000 } };
    expect(occasion(zoned)).toBe("0 8 * * * (Europe/Vienna)");
    expect(configOf(fieldsOf(zoned)).config).toMatchObject(zoned.config);
  });
});

interface Listed {
  readonly items: readonly { readonly id: string; readonly workflow_id: string }[];
}

describeWithBrowser("the pages of triggers", { tags: "long" }, () => {
  let service: ServiceProcess;

  const create = (workflow_id: string, schedule: string) =>
    call<{ id: string }>(service, "POST", "/triggers", { trigger_type: "cron", workflow_id, config: { schedule } });

  beforeAll(async () => {
    ({ service } = await startService());
    const steps = [{ id: "done", type: "end" }];
    for (const id of ["nightly", "paid"])
      await call(service, "POST", "/workflows", { id, name: `The ${id} run`, start: "done", steps, published: true });
  });

  it("creates a cron trigger by its form, fires it, and lists the fire with its run", async () => {
    const { page, faults } = await openPage(service.url, "/console/triggers");
    await page.getByRole("button", { name: "New trigger" }).click();
    await page.getByLabel("Workflow", { exact: true }).last().fill("nightly");
    await page.getByLabel(/^Schedule/).fill("30 2 * * 1-5");
    await page.getByLabel(/^Inputs of every run/).fill('{"region": "eu"}');
    await screenshot(page, "trigger-form");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "30 2 * * 1-5 (UTC)" }).waitFor();
    expect(await page.getByRole("region", { name: "Next fires" }).getByRole("listitem").count()).toBe(10);
    await page.getByRole("link", { name: "The nightly run" }).waitFor();
    await page.getByText("It has not fired yet.").waitFor();
    await page.getByRole("button", { name: "Fire now" }).click();
    const run = page.getByRole("region", { name: "Past fires" }).getByRole("link", { name: /^run / });
    await run.waitFor();
    const { items } = await call<Listed>(service, "GET", "/sagas?workflow_id=nightly");
    expect(await run.getAttribute("href")).toBe(`/console/runs/${items[0]?.id}`);
    expect(faults).toEqual([]);
  });

  it("shows what the service refuses about a schedule, and keeps the form", async () => {
    const { page } = await openPage(service.url, "/console/triggers");
    await page.getByRole("button", { name: "New trigger" }).click();
    await page.getByLabel("Workflow", { exact: true }).last().fill("nightly");
    await page.getByLabel(/^Schedule/).fill("61 2 * * *");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("schedule");
    expect(await page.getByLabel(/^Schedule/).inputValue()).toBe("61 2 * * *");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  });

  it("creates a record transition, and fires it with the payload of an event", async () => {
    const { page } = await openPage(service.url, "/console/triggers");
    await page.getByRole("button", { name: "New trigger" }).click();
    await page.getByRole("dialog").getByLabel("Type").selectOption("record_transition");
    await page.getByLabel("Workflow", { exact: true }).last().fill("paid");
    await page.getByLabel("Type of the record").fill("order");
    await page.getByLabel("From the state").fill("new");
    await page.getByLabel("To the state").fill("paid");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "order: new → paid" }).waitFor();
    await page.getByRole("button", { name: "Fire now …" }).click();
    await page
      .getByLabel("Payload of the event (JSON)")
      .fill('{"record_type":"order","from_state":"new","to_state":"paid"}');
    await page.getByRole("button", { name: "Fire", exact: true }).click();
    await page.getByRole("link", { name: /^run / }).waitFor();
    await page.goto(`${service.url}/console/triggers?type=record_transition`);
    // It has fired, but by no schedule.
    await page.getByRole("link", { name: "order: new → paid" }).waitFor();
    const heads = await page.getByRole("columnheader").allTextContents();
    expect(heads.slice(-2)).toEqual(["Next scheduled fire", "Last scheduled fire"]);
  });

  it("disables, changes and deletes a trigger; a deletion asks first", async () => {
    const { id } = await create("nightly", "0 1 * * *");
    const { page, faults } = await openPage(service.url, `/console/triggers/${id}`);
    await page.getByText("At 01:00 every day, UTC.").waitFor();
    await page.getByRole("button", { name: "Disable …" }).click();
    await page.getByLabel("Reason (optional)").fill("the stock is counted");
    await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
    await page.getByRole("button", { name: "Enable" }).waitFor();
    await page.getByText("It is disabled").waitFor();
    await page.getByText("by api: the stock is counted").waitFor();
    await page.getByRole("button", { name: "Change …" }).click();
    await page.getByLabel(/^Schedule/).fill("0 5 * * *");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "0 5 * * * (UTC)" }).waitFor();
    await page.getByRole("button", { name: "Delete …" }).click();
    await page.getByRole("dialog", { name: "Delete the trigger?" }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "Triggers" }).waitFor();
    const { items } = await call<Listed>(service, "GET", "/triggers");
    expect(items.map((one) => one.id)).not.toContain(id);
    expect(faults).toEqual([]);
  });

  it("looks at the ticks of a past range, and fires them once", async () => {
    const { id } = await create("nightly", "0 1 * * *");
    const { page, faults } = await openPage(service.url, `/console/triggers/${id}`);
    await page.getByRole("button", { name: "Backfill …" }).click();
    await page.getByLabel("From").fill("2026-01-05T00:00");
    await page.getByLabel(/^To/).fill("2026-01-06T23:59");
    await page.getByRole("button", { name: "Look" }).click();
    await page.getByText("To be fired: 2. Fired before: 0.").waitFor();
    await page.getByRole("button", { name: "Fire 2 ticks" }).click();
    await page.getByText("Fired: 2. Fired before: 0.").waitFor();
    await page.getByRole("button", { name: "Look" }).click();
    await page.getByText("To be fired: 0. Fired before: 2.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByText("backfilled").first().waitFor();
    const { items } = await call<Listed>(service, "GET", `/triggers/${id}/fires`);
    expect(items).toHaveLength(2);
    expect(faults).toEqual([]);
  });

  it("lists what the address filters, so that a list can be shared", async () => {
    await create("paid", "0 3 * * *");
    const { page } = await openPage(service.url, "/console/triggers?type=cron&workflow_id=paid");
    await page.getByRole("link", { name: "0 3 * * * (UTC)" }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(1);
    await page.getByLabel("Enabled").selectOption("false");
    await page.getByText("No trigger matches.").waitFor();
    expect(page.url()).toContain("enabled=false");
  });
});
