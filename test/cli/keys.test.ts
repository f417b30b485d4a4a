// `saga key` as a process, on a database of its own and on the embedded server: the first key is made before any service has run.
// @module-tag long
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ApiKeys } from "../../src/access/keys.js";
import { printableDatabaseUrl } from "../../src/config/index.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

const ROOT = resolve(import.meta.dirname, "../..");
const { bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { bin: { saga: string } };
const MAIN = join(ROOT, bin.saga);
const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const KEY = /^saga_([0-9A-Za-z]{16})_[0-9A-Za-z]{43}\n$/;

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** With these settings and no others. */
function saga(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

/** The principal of a key, as a node of this release knows it. */
async function principalOf(sql: Sql, key: string) {
  const keys = new ApiKeys({ sql, log: silentLog, now: Date.now });
  try {
    return await keys.verify(key.trim());
  } finally {
    await keys.stop();
  }
}

describe("saga key", () => {
  let database: TestDatabase;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 1 });
    env = { DATABASE_URL: database.url };
  });
  afterAll(() => database?.drop());
  const key = (...args: readonly string[]) => saga(["key", ...args], env);

  it("create prints the key alone, and the key works", async () => {
    const ended = await key("create", "--name", "first", "--roles", "platform,admin");
    expect(ended).toEqual({ code: 0, stdout: expect.stringMatching(KEY), stderr: "" });
    const principal = await principalOf(database.sql, ended.stdout);
    expect([...principal.roles]).toEqual(["platform", "admin"]);
  });

  it("create takes all that a key may have, and prints it as JSON", async () => {
    const options = {
      name: "shop",
      roles: "operator, worker",
      tenant: TENANT.toUpperCase(),
      workflows: "order,billing.*",
      services: "shop",
      secrets: "",
      "expires-at": "2099-01-01T00:00:00+01:00",
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    const { code, stdout } = await key("create", ...args, "-o", "json");
    expect(code).toBe(0);
    const { key: text, created_at: _, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({
      ...{ id: text.split("_")[1], name: "shop", roles: ["operator", "worker"], tenant_id: TENANT, secrets: [] },
      ...{ workflows: ["order", "billing.*"], services: ["shop"], created_by: "command" },
      expires_at: "2098-12-31T23:00:00.000Z",
    });
    expect((await principalOf(database.sql, text)).tenantId).toBe(TENANT);
  });

  it("create takes an end that its offset makes later than the year 9999 as the end of that year", async () => {
    const ends = ["--expires-at", "9999-12-31T23:59:59-05:00", "-o", "json"];
    const { code, stdout } = await key("create", "--name", "lasting", "--roles", "scrape", ...ends);
    expect([code, JSON.parse(stdout).expires_at]).toEqual([0, "9999-12-31T23:59:59.000Z"]);
  });

  it("create writes the key into a file for its user alone, once, and prints its id", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "saga-keys-")), "ops");
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    const create = (...more: string[]) =>
      key("create", "--name", "filed", "--roles", "platform,admin", "--file", file, ...more);
    // Of one that was killed.
    writeFileSync(`${file}.new`, "half a", { mode: 0o600 });
    const first = await create();
    const text = readFileSync(file, "utf8");
    expect(text).toMatch(KEY);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(first).toEqual({ code: 0, stdout: `${text.split("_")[1]}\n`, stderr: "" });
    expect([...(await principalOf(database.sql, text)).roles]).toEqual(["platform", "admin"]);
    expect(await create()).toEqual({ code: 0, stdout: `there is a key in ${file}\n`, stderr: "" });
    expect(await create("-o", "json")).toEqual({ code: 0, stdout: "null\n", stderr: "" });
    expect(readFileSync(file, "utf8")).toBe(text);
    expect(readdirSync(dirname(file))).toEqual(["ops"]);
    const [{ made } = { made: 0 }] = await database.sql<
      { made: number }[]
    >`select count(*)::int as made from api_keys where name = 'filed'`;
    expect(made).toBe(1);
  });

  it("create makes no key where its file cannot be written", async () => {
    const args = ["create", "--name", "nowhere", "--roles", "scrape", "--file", "/nowhere/key"];
    const stderr = "saga: key create: /nowhere/key cannot be written (ENOENT)\n";
    expect(await key(...args)).toEqual({ code: 2, stdout: "", stderr });
    expect(await database.sql`select id from api_keys where name = 'nowhere'`).toEqual([]);
  });

  it("list shows keys without their secrets, and revoke ends one", async () => {
    const { stdout: text } = await key("create", "--name", "to be\nrevoked", "--roles", "viewer", "--tenant", TENANT);
    const [, id = ""] = KEY.exec(text) ?? [];
    const before = await key("list", "--tenant", TENANT);
    expect(before.stdout).toMatch(new RegExp(`^${id} {2}to be revoked +viewer +${TENANT} +- +- +-$`, "m"));
    expect(before.stdout).not.toContain(text.trim().slice(22));
    expect(await key("revoke", id)).toEqual({ code: 0, stdout: `${id}\n`, stderr: "" });
    await expect(principalOf(database.sql, text)).rejects.toMatchObject({ reason: "revoked key" });
    const listed = JSON.parse((await key("list", "-o", "json")).stdout) as { id: string; revoked_at?: string }[];
    expect(listed.find((item) => item.id === id)?.revoked_at).toMatch(/^\d{4}-/);
    expect(listed.length).toBeGreaterThan(2);
    // Who has the whole key at hand need not cut it.
    expect(await key("revoke", text.trim())).toMatchObject({ code: 0, stdout: `${id}\n` });
  });

  it.each<readonly [string, readonly string[], RegExp]>([
    ["no name", ["create", "--roles", "viewer"], /--name must have 1 to 200 characters/],
    ["no role", ["create", "--name", "a"], /--roles must be some of viewer, operator/],
    [
      "an unknown role",
      ["create", "--name", "a", "--roles", "viewer,root"],
      /--roles must be some of viewer, operator/,
    ],
    [
      "a tenant that is none",
      ["create", "--name", "a", "--roles", "viewer", "--tenant", "shop"],
      /--tenant must be a UUID/,
    ],
    [
      "no tenant",
      ["create", "--name", "a", "--roles", "viewer"],
      /a key without a tenant needs the role platform or scrape/,
    ],
    [
      "a pattern that is none",
      ["create", "--name", "a", "--roles", "viewer", "--tenant", TENANT, "--workflows", "a*b"],
      /--workflows must be/,
    ],
    [
      "a time that is none",
      ["create", "--name", "a", "--roles", "scrape", "--expires-at", "tomorrow"],
      /--expires-at must be a time/,
    ],
    [
      "a time that is over",
      ["create", "--name", "a", "--roles", "scrape", "--expires-at", "2020-01-01T00:00:00Z"],
      /would have expired already/,
    ],
    ["an unknown option", ["create", "--nmae", "a"], /unknown or without a value: see saga key create --help/],
    ["a loose word", ["create", "a"], /takes options only/],
    ["another form", ["list", "-o", "yaml"], /-o must be one of them/],
    ["a tenant to list that is none", ["list", "--tenant", "shop"], /--tenant must be a UUID/],
    ["no key to revoke", ["revoke"], /needs the id of one key/],
    ["an id that is none", ["revoke", "' or true"], /that is not the id of a key/],
    ["an unknown key", ["revoke", "0000000000000000"], /there is no API key 0000000000000000/],
  ])("says in one sentence what is wrong: %s", async (_, args, sentence) => {
    const { code, stdout, stderr } = await key(...args);
    expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(/^saga: [^\n]*\n$/)]);
    expect(stderr).toMatch(sentence);
  });

  it("does not wait for a database that is away", async () => {
    const url = "postgres://postgres:s3cr3t@127.0.0.1:1/postgres";
    for (const args of [["list"], ["create", "--name", "a", "--roles", "scrape"]]) {
      const ended = await saga(["key", ...args], { DATABASE_URL: url });
      expect(ended).toEqual({ code: 2, stdout: "", stderr: "saga: the database cannot be used now (ECONNREFUSED)\n" });
    }
  });

  it("has a help for each command", async () => {
    const { stdout } = await saga(["--help"], {});
    expect(stdout).toMatch(/^ {2}key create --name <name> --roles <role,...>\n {8,}Makes an API key/m);
    for (const name of ["create", "list", "revoke"])
      expect((await saga(["key", name, "--help"], {})).stdout).toContain(`Usage: saga key ${name}`);
  });
});

describe("a database that has never been used", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 1, migrated: false });
  });
  afterAll(() => database?.drop());

  it("has no keys to list, and gets its tables with the first key", async () => {
    const env = { DATABASE_URL: database.url };
    const listed = await saga(["key", "list"], env);
    const place = printableDatabaseUrl(database.url);
    expect(listed).toEqual({
      ...{ code: 2, stdout: "", stderr: `saga: the database has no tables of this service yet: ${place}\n` },
    });
    const { code, stdout, stderr } = await saga(["key", "create", "--name", "first", "--roles", "platform,admin"], env);
    expect([code, KEY.test(stdout)]).toEqual([0, true]);
    expect(stderr).toBe(`saga: no service has used this database before, so its tables were made: ${place}\n`);
    expect((await saga(["key", "list"], env)).stdout).toContain(stdout.split("_")[1]);
  });
});

describe("without DATABASE_URL", () => {
  const folder = mkdtempSync(join(tmpdir(), "saga-cli-keys-"));
  const env = { SAGA_DATA_DIR: join(folder, "data") };
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const create = () => saga(["key", "create", "--name", "first", "--roles", "platform,admin"], env);

  it("the embedded server is started for the command, and is not left behind; a service finds the key", async () => {
    const { code, stdout, stderr } = await create();
    expect([code, KEY.test(stdout)]).toEqual([0, true]);
    // In the wrong folder, this is what tells.
    expect(stderr).toMatch(/^saga: no service has used this database before.*: the embedded one in (\S+)\n$/);
    expect(stderr).toContain(` ${env.SAGA_DATA_DIR}\n`);
    expect(() => readFileSync(join(env.SAGA_DATA_DIR, "postgres", "postmaster.pid"))).toThrow("ENOENT");
    const service = await startEmbeddedPostgres({ dataDir: env.SAGA_DATA_DIR, log: silentLog });
    const { sql, close } = openDatabase(service.url, { max: 1, applicationName: "saga-test", log: silentLog });
    try {
      expect((await principalOf(sql, stdout)).kind).toBe("key");
      // Beside the service that runs now, its server is used, and left to it.
      const second = await create();
      expect([second.code, second.stderr, (await principalOf(sql, second.stdout)).kind]).toEqual([0, "", "key"]);
      expect(await sql`select 1 as one`).toHaveLength(1);
    } finally {
      await close();
      await service.stop();
    }
  });
});
