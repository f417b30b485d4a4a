// Secret values in the console: a run that uses everything, with a canary in each place that a schema marks, and no canary in any page that shows it.
// @module-tag long
import { afterAll, beforeAll, expect, it } from "vitest";
import { canary, leaks, Sensitive } from "../cluster/sensitive-rig.js";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";

const TABS = ["graph", "timeline", "events", "variables", "signals", "tasks", "undo", "children"];

describeWithBrowser("secret values in the console", () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let rig: Sensitive;
  let runs: readonly string[];

  beforeAll(async () => {
    database = await createTestDatabase();
    const env = { DATABASE_URL: database.url, SAGA_WORKERS: "1", SAGA_EGRESS_ALLOW: "127.0.0.1", SAGA_AUTH: "" };
    service = await (await createService(env)).start();
    rig = await Sensitive.open(service);
    await rig.publish();
    runs = [await rig.live("ann"), await rig.live("fails")];
  });
  afterAll(async () => {
    await rig?.close();
    await service?.stop();
    await database?.drop();
  });

  /** What the page has in it, once it has loaded what it asks for. */
  async function content(path: string): Promise<readonly [string, string]> {
    const { page, faults } = await openPage(service.url, `/console/${path}`);
    await page.waitForLoadState("networkidle");
    await page.getByRole("main").waitFor();
    expect(faults).toEqual([]);
    return [path, await page.content()];
  }

  it.each(TABS)("are in no page of a run, at its %s", async (tab) => {
    for (const runId of runs) {
      const [path, text] = await content(`runs/${runId}?tab=${tab}`);
      expect(text, "the page of the run").toContain(runId);
      if (tab === "variables") expect(text).toContain("***");
      expect(leaks([[path, text]])).toEqual([]);
    }
  });

  it.each(["runs", "tasks", "workflows/whole", "workers", "bulk"])("are not on the page %s", async (path) => {
    expect(leaks([await content(path)])).toEqual([]);
  });

  it("are found by this test where a page shows one", async () => {
    const { page } = await openPage(service.url, "/console/runs");
    await page.evaluate(`document.body.append(${JSON.stringify(canary("shown"))})`);
    expect(leaks([["runs", await page.content()]])).toHaveLength(1);
  });
});
