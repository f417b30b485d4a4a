// The page of workers in a real browser, against a real service with a worker of its own; and workers by service, alone. Who gets a step is tested with dispatch.
// @module-tag both
import { Type } from "typebox";
import { beforeAll, describe, expect, it } from "vitest";
import { byService, inWords } from "../../src/console/workers/workers.js";
import { createWorker, defineAction } from "../../src/sdk/worker/index.js";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { atFileEnd } from "../harness/file-end.js";
import type { ServiceProcess } from "../harness/service.js";
import { call, startService } from "./runs-service.js";

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

describe("workers by service", () => {
  it("are summed up in words", () => {
    const worker = { service: "shop", in_flight: 2, max_in_flight: 8 };
    const [shop, bank] = byService([worker, { ...worker, draining: true }, { ...worker, service: "bank" }]);
    expect(shop && inWords(shop)).toBe("2 workers hold 4 of 16 steps, 1 is draining");
    expect(bank && inWords(bank)).toBe("1 worker holds 2 of 8 steps");
  });
});

describeWithBrowser("the page of workers", { tags: "long" }, () => {
  let service: ServiceProcess;

  const startRun = async (id: string, action: string) => {
    const steps = [{ id: "call", type: "action", action }];
    await call(service, "POST", "/workflows", { id, name: id, start: "call", steps, published: true });
    await call(service, "POST", "/sagas/start", { workflow_id: id });
  };

  const hold = defineAction({
    ...{ service: "shop", name: "hold", description: "Holds what it is given", compensable: true },
    input: Type.Object({ sku: Type.Optional(Type.String()) }),
    output: Type.Object({}),
  });

  beforeAll(async () => {
    ({ service } = await startService());
    const options = { service: "shop", grpc: service.grpcAddress, api: service.url };
    const worker = createWorker({ ...options, drainTimeoutMs: 10, log: SILENT });
    worker.handle(hold, async (_input, { signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return {};
    });
    atFileEnd(() => worker.stop());
    await worker.start();
    await startRun("held", "shop.hold");
    await call(service, "POST", "/registry/register", { service: "bank", actions: [{ action_name: "pay" }] });
    await startRun("lost", "bank.pay");
  });

  it("names at its top the action that a run waits for and no worker serves, with a way to the runs", async () => {
    const { page, faults } = await openPage(service.url, "/console/workers");
    const unserved = page.getByRole("region", { name: "Runs wait for actions that no worker serves" });
    await unserved.getByText("bank.pay").waitFor();
    expect(await unserved.locator("tbody tr").count()).toBe(1);
    expect(await unserved.getByRole("link").getAttribute("href")).toBe("/console/runs?state=running,compensating");
    expect(faults).toEqual([]);
  });

  it("shows what a worker serves and holds, live, and the registration with its schemas", async () => {
    const { page, faults } = await openPage(service.url, "/console/workers");
    const shop = page.getByRole("region", { name: "Workers of shop" });
    await shop.getByText("1 worker holds 1 of").waitFor();
    const load = shop.getByRole("progressbar");
    expect(await load.getAttribute("value")).toBe("1");
    await startRun("again", "shop.hold");
    await shop.getByText("1 worker holds 2 of").waitFor();
    await shop.getByRole("cell", { name: "gRPC", exact: true }).waitFor();
    await shop.getByText(/^process\s\d+$/).waitFor();
    await page.getByText("shop.hold@1").click();
    await page.getByLabel("Input schema of shop.hold").getByText('"sku"').waitFor();
    await page.getByText("Waiting for a worker").waitFor();
    expect(faults).toEqual([]);
  });

  it("lists what the address filters", async () => {
    const { page } = await openPage(service.url, "/console/workers?service=bank&search=nothing");
    await page.getByText("No worker is connected.").waitFor();
    await page.getByText("No registered action matches.").waitFor();
  });
});
