// The page of the inspector in a real browser: with an inspector that a server of the test plays, and with one that cannot be reached.
// @module-tag long
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import type { FastifyInstance } from "fastify";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { appendEvents, endRun, insertRun, otherApi, useRig } from "../api/rig.js";
import { seriousFindings } from "../console/axe.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { freePorts } from "../harness/ports.js";

const CONSOLE = { folder: join(resolve(import.meta.dirname, "../.."), "dist", "console") };
const WORKFLOW = { id: "orders", name: "Orders", start: "begin", steps: [{ id: "begin", type: "noop" }] };

/** What the hosted page does: says that it is there, and takes frames. Here it writes them down. */
const INSPECTOR = `<!doctype html><title>Inspector</title><ol></ol><script>
addEventListener("message", ({ data }) => {
  const line = document.createElement("li");
  line.textContent = data.type + " " + data.sessionId + " " + JSON.stringify(data.snapshot ? data.snapshot.value : data.event.type);
  document.querySelector("ol").append(line);
});
parent.postMessage({ type: "@statelyai.connected" }, "*");
</script>`;

const rig = useRig();
let runId: Awaited<ReturnType<typeof insertRun>>;

beforeAll(async () => {
  await rig.call("POST", "/api/v1/workflows", WORKFLOW);
  runId = await liveRun();
});

/** A run that waits for its first step, until the test ends it. */
async function liveRun(): Promise<typeof runId> {
  const id = await insertRun(rig);
  await rig.database.sql`update runs set definition_id = (select definition_id from definitions) where id = ${id}`;
  await appendEvents(rig, id, [{ type: "saga.started" }, { type: "step.started", step: "begin" }]);
  return id;
}

const addressOf = (app: FastifyInstance) => `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;

/** A service whose inspector is at the address, or that has none. */
async function serviceWith(ui: string | undefined, console?: { readonly folder: string }): Promise<string> {
  const app = await otherApi(rig, {}, { config: { inspector: { ui }, console } as never });
  // The browser keeps connections, and this service never says that it is about to end.
  onTestFinished(async () => {
    const closed = app.close();
    app.server.closeAllConnections();
    await closed;
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  return addressOf(app);
}

/** An address where nothing listens. */
async function deadAddress(): Promise<string> {
  const [port] = await freePorts(1);
  return `http://127.0.0.1:${port}`;
}

async function playedInspector(): Promise<string> {
  const server = createServer((_, response) => response.setHeader("content-type", "text/html").end(INSPECTOR));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describeWithBrowser("the page of the inspector", () => {
  it("hands the frames of a live run to the inspector, to its end", async () => {
    const ui = await playedInspector();
    const { page, faults } = await openPage(await serviceWith(ui, CONSOLE), `/inspect/${runId}`, {
      ...{ allowed: [ui], isPatient: true },
    });
    const frames = page.frameLocator("#inspector").getByRole("listitem");
    await frames.getByText('{"active":"begin"}').first().waitFor();
    expect(await frames.first().textContent()).toBe(`@xstate.actor run:${runId} "pending"`);
    await page.getByRole("status").getByText("Connected").waitFor();
    await screenshot(page, "inspector");
    await appendEvents(rig, runId, [{ type: "step.succeeded", step: "begin" }]);
    await endRun(rig, runId);
    await frames.getByText('"succeeded"').first().waitFor();
    await page.getByRole("status").getByText("The run has ended").waitFor();
    expect(page.url()).toContain(`/inspect/${runId}`);
    expect(faults).toEqual([]);
  });

  it("leads to the run in the console when the inspector cannot be reached", async () => {
    const ui = await deadAddress();
    const origin = await serviceWith(ui, CONSOLE);
    const { page, faults } = await openPage(origin, `/inspect/${runId}`, { allowed: [ui] });
    await page.waitForURL(`${origin}/console/runs/${runId}`);
    await page.locator("main h1").waitFor();
    expect(faults).toEqual([]);
  });

  it("asks no other host where the service has no inspector, says how to set one, and leads to the run", async () => {
    const origin = await serviceWith(undefined, CONSOLE);
    const { page, faults } = await openPage(origin, `/inspect/${runId}`, { colorScheme: "dark" });
    await page.getByText("This service has no inspector").waitFor();
    expect(await page.locator("iframe, script").count()).toBe(0);
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "inspector-not-set");
    await page.getByRole("link", { name: "console" }).click();
    await page.waitForURL(`${origin}/console/runs/${runId}`);
    await page.getByRole("link", { name: "JSON" }).waitFor();
    expect(await page.getByRole("link", { name: "Stately inspector" }).count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it("is linked by the page of the run where the service has an inspector", async () => {
    const ui = await playedInspector();
    const { page } = await openPage(await serviceWith(ui, CONSOLE), `/console/runs/${await liveRun()}`, {
      ...{ allowed: [ui], isPatient: true },
    });
    await page.getByRole("link", { name: "Stately inspector" }).click();
    await page.getByRole("status").getByText("Connected").waitFor();
  });

  it("says what to do when there is no console either", async () => {
    const ui = await deadAddress();
    const origin = await serviceWith(ui);
    const phone = { viewport: { width: 360, height: 700 }, colorScheme: "dark" } as const;
    const { page } = await openPage(origin, `/inspect/${runId}`, { allowed: [ui], ...phone });
    await page.getByRole("status").getByText("has not answered").waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "inspector-unreachable");
    expect(page.url()).toBe(`${origin}/inspect/${runId}`);
    expect(await page.getByRole("link").allTextContents()).not.toContain("console");
  });
});
