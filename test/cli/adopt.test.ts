// `saga tenant adopt` as a process, on a database that a release without tenants has left.
// @module-tag long
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { registerActions } from "../run/rig.js";

const ROOT = resolve(import.meta.dirname, "../..");
const { bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { bin: { saga: string } };
const MAIN = join(ROOT, bin.saga);
const TENANT = "0190a000-0000-7000-8000-0000000000aa";

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** With these settings and no others. */
function saga(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

describe("saga tenant adopt", () => {
  let database: TestDatabase;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 1 });
    env = { DATABASE_URL: database.url };
  });
  afterAll(() => database?.drop());
  const adopt = (...args: readonly string[]) => saga(["tenant", "adopt", ...args], env);

  it("gives what has no tenant to one, says how much, and finds nothing the second time", async () => {
    await registerActions(database, "pay");
    await database.sql`
      insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record, workflow_id,
        version, definition_id, started_at)
      select gen_random_uuid(), 0, 1, 1, 1, 'failed', now(), now(), false, '{}', 'old', 1, gen_random_uuid(), now()
      from generate_series(1, 1200)`;
    const given = "1200 runs, 0 triggers, 0 bulk jobs, 0 workflow ids, 0 rule ids, 1 services";
    expect(await adopt(TENANT.toUpperCase())).toEqual({ code: 0, stdout: `${given}\n`, stderr: "" });
    expect(await database.sql`select distinct tenant_id from runs`).toEqual([{ tenant_id: TENANT }]);
    const again = await adopt(TENANT, "-o", "json");
    expect(JSON.parse(again.stdout)).toEqual({
      ...{ runs: 0, triggers: 0, jobs: 0, workflows: 0, rules: 0, services: 0, left: 0 },
    });
  });

  it("says in one sentence what is wrong with its arguments, or that there is no database", async () => {
    for (const args of [[], ["acme"], [TENANT, TENANT]])
      expect(await adopt(...args)).toEqual({
        ...{ code: 2, stdout: "", stderr: "saga: tenant adopt needs the UUID of one tenant\n" },
      });
    expect((await adopt(TENANT, "--all")).stderr).toMatch(/^saga: tenant adopt has an option .*\n$/);
    const nowhere = { DATABASE_URL: "postgres://postgres@127.0.0.1:1/none" };
    const ended = await saga(["tenant", "adopt", TENANT], nowhere);
    expect([ended.code, ended.stdout]).toEqual([2, ""]);
    expect(ended.stderr).toMatch(/^saga: the database cannot be used now \(ECONNREFUSED\)\n$/);
  });
});
