// Two nodes with the embedded Postgres: the primary's, found by its nodes, stopped after them, its password kept to itself.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createService } from "../harness/service.js";
import { until } from "../harness/until.js";
import { livingNodes, logged } from "./rig.js";

const dataDir = mkdtempSync(join(tmpdir(), "saga-cluster-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

it("one server for all nodes, stopped last; its password is in no log and on no command line", async () => {
  const service = await createService({ SAGA_DATA_DIR: dataDir, SAGA_WORKERS: "2", LOG_LEVEL: "debug" });
  await service.start();
  await until(() => logged(service, "ready").length === 1, { within: 30_000 });
  expect(livingNodes(service)).toHaveLength(2);
  expect(service.databasePid).toBeGreaterThan(0);
  // It is in the nodes' environment, which only its own user can read.
  const node = livingNodes(service)[0]?.pid ?? 0;
  const password = /DATABASE_URL=postgres:\/\/postgres:([^@]+)@/.exec(
    readFileSync(`/proc/${node}/environ`, "utf8"),
  )?.[1];
  expect(password?.length).toBeGreaterThan(15);
  expect(execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })).not.toContain(password);
  expect(await service.stop()).toBe(0);
  expect(service.log.filter((line) => line.includes(password ?? ""))).toEqual([]);
  expect(service.databasePid).toBeUndefined();
});
