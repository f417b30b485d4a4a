// Two nodes with the embedded Postgres of their primary: it is stopped after them, and its password stays secret.
// @module-tag long
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createService } from "../harness/service.js";
import { until } from "../harness/until.js";
import { livingNodes, logged } from "./rig.js";

const dataDir = mkdtempSync(join(tmpdir(), "saga-cluster-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

describe("a cluster with embedded Postgres", () => {
  it("has one server for all nodes, stopped last, whose password is in no log and on no command line", async () => {
    const service = await createService({ SAGA_DATA_DIR: dataDir, SAGA_WORKERS: "2", LOG_LEVEL: "debug" });
    await service.start();
    await until(() => logged(service, "ready").length === 1);
    expect(livingNodes(service)).toHaveLength(2);
    expect(service.databasePid).toBeGreaterThan(0);
    // The password is in the environment of the nodes, which only their own user can read.
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
});
