// JSON from outside may begin with a byte order mark, as editors and libraries of Windows write it. Every door reads it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parsedResult } from "../src/dispatch/worker-report.js";
import { Mask } from "../src/egress/mask.js";
import { readSecrets } from "../src/egress/secrets.js";
import { createMetrics } from "../src/metrics/index.js";
import { StartupProvider } from "../src/tenants/startup-provider.js";
import { readTenantSettings } from "../src/tenants/tenant-settings.js";
import { useRig } from "./api/rig.js";
import { silentLog } from "./harness/database.js";

const rig = useRig();
const folder = mkdtempSync(join(tmpdir(), "saga-marks-"));
afterAll(() => rmSync(folder, { recursive: true }));

const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const marked = (value: unknown) => `\uFEFF${JSON.stringify(value)}`;
function file(value: unknown): string {
  const path = join(folder, "marked.json");
  writeFileSync(path, marked(value), { mode: 0o600 });
  return path;
}

async function provided(): Promise<unknown> {
  const server = createServer((_, response) => response.end(marked({ currency: "CHF" })));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const provider = new StartupProvider({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      ...{ timeoutMs: 10_000, cacheMs: 1, onFailure: "open", mask: new Mask([]), log: silentLog },
      ...{ metrics: createMetrics(), now: () => Date.now() },
    });
    return (await provider.of(TENANT)).variables.currency;
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

describe("a byte order mark before JSON", () => {
  it.each<[string, () => unknown, unknown]>([
    [
      "the body of a request",
      async () => (await rig.call("POST", "/api/v1/sagas/start", marked({ workflow_id: "order" }))).status,
      202,
    ],
    ["the result of a worker", () => parsedResult(Buffer.from(marked({ a: 1 })), 100), { result: { a: 1 } }],
    [
      "the file of the secrets",
      () => readSecrets({ secretsFile: file({ a: "s3cr3t-of-a-file" }) }).get("a")?.value,
      "s3cr3t-of-a-file",
    ],
    [
      "the file of the licences",
      () => readTenantSettings({ licensesFile: file({ [TENANT]: ["gold"] }) }).licensed(TENANT, "gold"),
      true,
    ],
    [
      "the file of the startup variables",
      () => readTenantSettings({ startupVariablesFile: file({ "*": { a: 1 } }) }).startupVariables(TENANT),
      { a: 1 },
    ],
    ["the answer of a provider of startup variables", provided, "CHF"],
  ])("is no part of %s", async (_, read, expected) => {
    expect(await read()).toEqual(expected);
  });
});
