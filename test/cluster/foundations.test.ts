// What a node says in its log before it begins: the warnings about its secrets.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import type { Sql } from "postgres";
import { describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { openFoundations } from "../../src/cluster/foundations.js";
import { ConfigError, loadConfig } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { PLATFORM_READER_ROLE, prepareReader, READER_ROLE } from "../../src/store/migrate/reader-role.js";
import { createTestDatabase } from "../harness/database.js";

/** The warnings of a start with this secrets file. */
async function warningsWith(secrets: string, mode = 0o600): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "saga-foundations-"));
  const database = await createTestDatabase();
  const lines: string[] = [];
  const into = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  try {
    const secretsFile = join(folder, "secrets.json");
    writeFileSync(secretsFile, secrets);
    chmodSync(secretsFile, mode);
    const { config } = loadConfig({ DATABASE_URL: database.url, SAGA_SECRETS_FILE: secretsFile });
    const log = createLogger({ logLevel: "info" }, into);
    const foundations = await openFoundations({ config, databaseUrl: database.url, log });
    foundations.catalog.stop();
    await foundations.feed.stop();
    await foundations.closeDatabase();
  } finally {
    await database.drop();
    rmSync(folder, { recursive: true });
  }
  return lines.map((line) => JSON.parse(line)).flatMap(({ level, msg }) => (level === "warn" ? [msg] : []));
}

describe("a node that starts with secrets", () => {
  it("warns in its log about each that has no hosts, by its name and without its value", async () => {
    const bound = { value: "hunter1-of-api.example", hosts: ["api.example"] };
    const warnings = await warningsWith(
      JSON.stringify({ bare: "hunter2-of-everyone", object: { value: "hunter3-of-everyone" }, bound }),
    );
    expect(warnings).toEqual([
      expect.stringMatching(/^the secret bare has no hosts: every workflow can send it anywhere/),
      expect.stringMatching(/^the secret object has no hosts/),
    ]);
    expect(warnings.join()).not.toContain("hunter");
  });

  it("does not start with a file that others can read", async () => {
    await expect(warningsWith("{}", 0o644)).rejects.toThrow(ConfigError);
  });
});

describe("a node that starts with access on", () => {
  const on = (databaseUrl: string, readUrl?: string) => {
    const { config } = loadConfig({ DATABASE_URL: databaseUrl, ...(readUrl && { SAGA_READ_DATABASE_URL: readUrl }) });
    return { config: { ...config, auth: "api_key" as never }, databaseUrl, log: createLogger({ logLevel: "silent" }) };
  };
  const here = { closed: new AbortController().signal, reach: { tenants: ["0190a000-0000-7000-8000-00000000000a"] } };
  const who = (sql: Sql) => sql<[Who]>`
    select current_user as name, session_user as login, current_setting('saga.tenants') as tenants`;
  interface Who {
    readonly name: string;
    readonly login: string;
    readonly tenants: string;
  }

  it("reads for clients as the role that may only read, or by the login that is named, and ends what their clients leave", async () => {
    const database = await createTestDatabase();
    const login = `saga_reads_${process.pid}`;
    const url = new URL(database.url);
    [url.username, url.password] = [login, "hunter-of-reads"];
    try {
      await prepareReader(database.sql, { ownLogin: true });
      await database.sql.unsafe(
        `create role ${login} login password 'hunter-of-reads'; grant ${READER_ROLE} to ${login}`,
      );
      await expect(openFoundations(on(database.url, url.href))).rejects.toThrow(
        `${login} may not become ${PLATFORM_READER_ROLE}`,
      );
      await database.sql.unsafe(`grant ${PLATFORM_READER_ROLE} to ${login}`);
      for (const [readUrl, by] of [
        [undefined, undefined],
        [url.href, login],
      ] as const) {
        const { readPool, closeDatabase, catalog, feed } = await openFoundations(on(database.url, readUrl));
        try {
          const [row] = await readPool.look(here, who);
          expect(row).toMatchObject({ name: READER_ROLE, tenants: here.reach.tenants[0], ...(by && { login: by }) });
          const [whole] = await readPool.look({ ...here, reach: EVERYTHING }, who);
          expect(whole).toMatchObject({ name: PLATFORM_READER_ROLE, tenants: "*" });
          const client = new AbortController();
          const slow = readPool.run({ ...here, closed: client.signal }, (sql) => {
            setImmediate(() => client.abort());
            return sql`select pg_sleep(60)`;
          });
          await expect(slow).rejects.toMatchObject({ status: 503 });
          expect((await readPool.run(here, who))[0]).toMatchObject({ name: READER_ROLE });
        } finally {
          catalog.stop();
          await feed.stop();
          await closeDatabase();
        }
      }
    } finally {
      await database.sql.unsafe(`drop role if exists ${login}`);
      await database.drop();
    }
  });

  it("does not start where the login of the reads may do more than read", async () => {
    const database = await createTestDatabase();
    // Another text of the same login, the owner's.
    const other = `${database.url}${database.url.includes("?") ? "&" : "?"}connect_timeout=9`;
    try {
      await expect(openFoundations(on(database.url, other))).rejects.toThrow(/clients' reads need database roles/);
    } finally {
      await database.drop();
    }
  });
});
