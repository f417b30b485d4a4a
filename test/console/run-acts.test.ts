// The acts on the page of a run, each done by clicking in a real browser, against a real service and a real worker.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { suspect } from "../harness/deadly-trial.js";
import { seriousFindings } from "./axe.js";
import { openStage, type Stage } from "./run-stage.js";
import { call } from "./runs-service.js";

const state = (page: Page, name: string) => page.locator(`.run-title .state.${name}`).first().waitFor();

/** Opens the act, fills its fields, and sends it. */
async function act(page: Page, button: string, title: string, fields: Readonly<Record<string, string>> = {}) {
  await page.locator(".acts").first().getByRole("button", { name: button, exact: true }).click();
  const dialog = page.getByRole("dialog", { name: title });
  for (const [label, text] of Object.entries(fields)) await dialog.getByLabel(label, { exact: true }).fill(text);
  await dialog.getByRole("button", { name: title, exact: true }).click();
  return dialog;
}

const isGone = { state: "detached" } as const;

describeWithBrowser("an act on the page of a run", () => {
  let stage: Stage;

  const opened = async (workflow: string, more: object = {}) => {
    const id = await stage.start(workflow, more);
    return openPage(stage.service.url, `/console/runs/${id}`);
  };

  beforeAll(async () => {
    stage = await openStage();
  }, 120_000);

  it("pauses, resumes, signals, and runs again; the new run is cancelled", async () => {
    const { page, faults } = await opened("waits");
    await (await act(page, "Pause", "Pause the run", { Reason: "a look" })).waitFor(isGone);
    await page.locator("[data-step=hold][data-tone=paused]").getByText("paused by an operator").waitFor();
    await page.locator(".run-title .tone-paused", { hasText: "paused by an operator" }).waitFor();
    await (await act(page, "Resume", "Resume the run")).waitFor(isGone);
    const payload = { Payload: '{"by": "ann"}' };
    await (await act(page, "Send signal", "Send a signal", payload)).waitFor(isGone);
    await state(page, "succeeded");
    const dialog = await act(page, "Run again", "Run again");
    const link = dialog.getByRole("link");
    const rerun = await link.textContent();
    await link.click();
    await page.waitForURL(`**/console/runs/${rerun}`);
    await page.locator("[data-step=hold][data-tone=waiting]").waitFor();
    await (await act(page, "Cancel", "Cancel the run", { Reason: "enough" })).waitFor(isGone);
    await state(page, "cancelled");
    expect(faults).toEqual([]);
  }, 120_000);

  it("retries a step with a corrected variable, skips one with an output, and lets one fail", async () => {
    const stands = async () => {
      const { page } = await opened("charges", { variables: { amount: 50 } });
      await page.locator("[data-step=charge][data-tone=failed]").waitFor();
      await page.getByText("too_much").first().waitFor();
      return page;
    };
    const retried = await stands();
    await screenshot(retried, "run-incident");
    const corrected = { "Corrected variables": '{"amount": 5}' };
    await (await act(retried, "Retry step", "Retry the step", corrected)).waitFor(isGone);
    await state(retried, "succeeded");
    const skipped = await stands();
    await (await act(skipped, "Skip step", "Skip the step", { Output: '{"paid": 0}' })).waitFor(isGone);
    await state(skipped, "succeeded");
    const failed = await stands();
    await (await act(failed, "Let it fail", "Let the step fail", { Reason: "no" })).waitFor(isGone);
    await state(failed, "failed");
  }, 120_000);

  it("skips an undo that failed, and retries another", async () => {
    const { page } = await opened("stands");
    await page.locator("[data-step=second][data-tone=failed]").waitFor();
    await screenshot(page, "run-undo-incident");
    const failure = page.locator(".run-head .refused");
    expect(await failure.textContent()).toMatch(/^refund_down at the undo of second: /);
    await page.getByRole("button", { name: "Undo", exact: true }).click();
    const states = page.getByRole("region", { name: "Undo", exact: true }).locator(".undo-state");
    await states.nth(1).waitFor();
    expect(await states.allTextContents()).toEqual(["still to be undone", "the undo failed"]);
    await page.getByRole("button", { name: "Graph", exact: true }).click();
    const list = await openPage(stage.service.url, "/console/runs?workflow_id=stands&incident=true");
    await list.page.getByText("refund_down at the undo of second").waitFor();
    await (await act(page, "Skip undo", "Skip the undo")).waitFor(isGone);
    await page.locator("[data-step=first][data-tone=failed]").waitFor();
    stage.mendUndo();
    await (await act(page, "Retry undo", "Retry the undo")).waitFor(isGone);
    await page.locator("[data-step=first][data-tone=undone]").waitFor();
    await state(page, "failed");
  }, 120_000);

  it("moves a run to another version, after a check, and terminates it with a reason", async () => {
    const { page } = await opened("moves", { version: 1 });
    await page.locator("[data-step=hold][data-tone=waiting]").waitFor();
    await page.getByRole("button", { name: "Migrate", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Move the run to another version" });
    await dialog.getByLabel("Version").selectOption("2");
    await dialog.getByRole("button", { name: "Check" }).click();
    const verdict = dialog.getByText("The run can be moved to this version.");
    await verdict.waitFor();
    // What was said of one version is not said of another.
    await dialog.getByLabel("Renamed steps").fill('{"hold": "more"}');
    await verdict.waitFor(isGone);
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("The run cannot be moved:").waitFor();
    const move = dialog.getByRole("button", { name: "Move the run to another version" });
    expect(await move.isDisabled()).toBe(true);
    await dialog.getByLabel("Renamed steps").fill("");
    expect(await move.isDisabled()).toBe(false);
    await dialog.getByRole("button", { name: "Check" }).click();
    await verdict.waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "run-migrate");
    await move.click();
    await page.locator("[data-step=more]").waitFor();
    await (await act(page, "Terminate", "Terminate the run", { Reason: "it is over" })).waitFor(isGone);
    await state(page, "cancelled");
  }, 120_000);

  it("releases a run from quarantine", async () => {
    const { page } = await opened("sleeps");
    await page.locator("[data-step=hold][data-tone=waiting]").waitFor();
    const id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    const reason = async () =>
      (await call<{ paused_reason?: string }>(stage.service, "GET", `/sagas/${id}`)).paused_reason;
    await suspect(stage.database.sql, id);
    await page.locator(".acts").first().getByRole("button", { name: "Release", exact: true }).waitFor();
    expect(await reason()).toBe("quarantine");
    await page.locator("[data-step=hold][data-tone=failed]").getByText("in quarantine").waitFor();
    expect(await page.locator(".run-title .state").first().textContent()).toBe("in quarantine");
    const refused = page.locator(".run-head .refused");
    expect(await refused.locator("p").textContent()).toMatch(/^The service tried the step “hold” 3 times, /);
    expect(await refused.locator("pre").isVisible()).toBe(false);
    await refused.getByText("The last trial").click();
    expect(await refused.locator("pre").isVisible()).toBe(true);
    await screenshot(page, "run-quarantine");
    await (await act(page, "Release", "Release the run from quarantine")).waitFor(isGone);
    await page.locator(".acts").first().getByRole("button", { name: "Pause", exact: true }).waitFor();
    expect(await reason()).toBe("timer");
  }, 120_000);

  it("does not offer the reserved signal of a task", async () => {
    const { page } = await opened("asks");
    await page.locator("[data-step=ask][data-tone=waiting]").waitFor();
    await page.getByRole("button", { name: "Signals", exact: true }).click();
    await page.getByRole("button", { name: "Send a signal …" }).click();
    const dialog = page.getByRole("dialog", { name: "Send a signal" });
    expect(await dialog.getByLabel("Signal", { exact: true }).inputValue()).toBe("");
  }, 60_000);

  it("shows a refusal in its dialog", async () => {
    const { page } = await opened("waits");
    await page.getByRole("button", { name: "Signals", exact: true }).click();
    await page.getByRole("button", { name: "Send a signal …" }).click();
    const dialog = page.getByRole("dialog", { name: "Send a signal" });
    await dialog.getByLabel("Signal", { exact: true }).fill("other");
    await dialog.getByRole("button", { name: "Send a signal" }).click();
    await dialog.getByRole("alert").waitFor();
    expect(await dialog.getByRole("alert").textContent()).toContain("other");
  }, 60_000);
});
