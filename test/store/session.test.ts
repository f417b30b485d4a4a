// How sessions begin: they reach the server that a URL names, in every form in which it can be named, and read and write the same values
// whatever the database, its role or its server sets.
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig, parseDatabaseUrl, printableDatabaseUrl } from "../../src/config/index.js";
import { openSessions } from "../../src/store/engine/session.js";
import { awaitDatabase } from "../../src/store/migrate/readiness.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { until } from "../harness/until.js";

let database: TestDatabase;
/** Where the server of the tests is: its own URL says so. */
let server: { host: string; port: number; user: string; password: string };
let folder: string;
const doors: Server[] = [];

/** A door to the server of the tests at another address, but for clients that are taken care of. */
async function openDoor(
  address: { host: string; port?: number } | { path: string },
  takesCare: (client: Socket) => boolean = () => false,
): Promise<number> {
  const door = createServer((client) => {
    if (takesCare(client)) return;
    const behind = connect(server.port, server.host);
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const)
      one.pipe(other).on("error", () => one.destroy());
  });
  await new Promise<void>((resolve) => door.listen("path" in address ? address : { port: 0, ...address }, resolve));
  doors.push(door);
  return (door.address() as AddressInfo).port;
}

type Change = (text: string) => string;
const same: Change = (text) => text;

/** A door whose bytes are changed on their way. */
async function openChanging({ toServer = same, toClient = same }: { toServer?: Change; toClient?: Change }) {
  return openDoor({ host: "127.0.0.1" }, (client) => {
    const behind = connect(server.port, server.host);
    for (const [one, other, change] of [
      [client, behind, toServer],
      [behind, client, toClient],
    ] as const)
      one
        .on("data", (bytes) => other.write(change(bytes.toString("latin1")), "latin1"))
        .on("error", () => {})
        .on("close", () => other.destroy());
    return true;
  });
}

/** A door to a server that says that it is a standby. */
const openStandby = () =>
  openChanging({ toClient: (text) => text.replace("\0\0\0\x17in_hot_standby\0off", "\0\0\0\x16in_hot_standby\0on") });

/** A door of a pooler, which does not hand on that sessions want their commits on disk. A name of the same length takes the setting's place. */
const openPooler = () =>
  openChanging({ toServer: (text) => text.replace("synchronous_commit\0on", "saga.dropped_by_it\0on") });

beforeAll(async () => {
  database = await createTestDatabase({ max: 2, migrated: false });
  const { hosts = [], ports = [], user = "", password = "" } = parseDatabaseUrl(database.url);
  server = { host: hosts[0] ?? "127.0.0.1", port: ports[0] ?? 5432, user, password };
  folder = mkdtempSync(join(tmpdir(), "saga-sockets-"));
});
afterAll(async () => {
  for (const door of doors) await new Promise((resolve) => door.close(resolve));
  rmSync(folder, { recursive: true });
  await database.drop();
});

const nameOf = (url: string) => new URL(url).pathname.slice(1);
const credentials = () => `${server.user}${server.password && `:${encodeURIComponent(server.password)}`}`;

/** The database that is reached, and the settings of the session. */
async function reached(
  url: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ name: string; user: string; geqo: string }> {
  const sql = openSessions(url, { max: 1, applicationName: "saga-test-door", onnotice: () => {}, settings });
  try {
    const [row] = await sql<[{ name: string; user: string; geqo: string }]>`
      select current_database() as name, current_user as user, current_setting('geqo') as geqo`;
    return row;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

describe("a session reaches the database of its URL", () => {
  it("at an IPv6 address, in a socket's folder, and as parameters", async () => {
    const name = nameOf(database.url);
    const six = await openDoor({ host: "::1" });
    const port = 6543;
    await openDoor({ path: join(folder, `.s.PGSQL.${port}`) });
    const urls = [
      `postgres://${credentials()}@[::1]:${six}/${name}`,
      `postgresql://${credentials()}@/${name}?host=${folder}&port=${port}`,
      `postgresql://${credentials()}@${encodeURIComponent(folder)}:${port}/${name}`,
      `postgres:///?host=${server.host}&port=${server.port}&dbname=${name}&user=${server.user}&password=${server.password}`,
    ].map((url) => url.replace("&password=&", "&").replace(/&password=$/, ""));
    for (const url of urls) expect(await reached(url), url).toMatchObject({ name, user: server.user });
  });

  it("whose name needs escaping", async () => {
    const [name, written] = [`a b#${nameOf(database.url)}%é`, "a%20b#"];
    await database.sql.unsafe(`create database "${name}"`);
    try {
      const url = `postgres://${credentials()}@${server.host}:${server.port}/${written}${nameOf(database.url)}%25%C3%A9`;
      expect(await reached(url)).toMatchObject({ name });
    } finally {
      await database.sql.unsafe(`drop database "${name}" with (force)`);
    }
  });

  it("at the second host while the first one is away", async () => {
    const [away] = await freePorts(1);
    const hosts = `127.0.0.1:${away},${server.host}:${server.port}`;
    const url = `postgres://${credentials()}@${hosts}/${nameOf(database.url)}?target_session_attrs=read-write`;
    expect(await reached(url)).toMatchObject({ name: nameOf(database.url) });
  });

  it.each(["", "?target_session_attrs=read-write", "?target_session_attrs=primary"])(
    "of several hosts at the one that takes writes, also for a session that only reads: %s",
    async (query) => {
      let primary = 0;
      const second = await openDoor({ host: "127.0.0.1" }, () => {
        primary++;
        return false;
      });
      const hosts = `127.0.0.1:${await openStandby()},127.0.0.1:${second}`;
      const url = `postgres://${credentials()}@${hosts}/${nameOf(database.url)}${query}`;
      for (const setting of ["geqo", "default_transaction_read_only"])
        expect(await reached(url, { [setting]: "on" })).toMatchObject({ name: nameOf(database.url) });
      expect(primary).toBe(2);
    },
  );

  it("without TLS where sslmode=allow leaves it to a server that has none", async () => {
    expect(await reached(`${database.url}?sslmode=allow`)).toMatchObject({ name: nameOf(database.url) });
  });

  it("with the options of the URL, which cannot change what the service relies on", async () => {
    const options = encodeURIComponent("-c geqo=off -c TimeZone=Asia/Tokyo");
    expect(await reached(`${database.url}?options=${options}`)).toMatchObject({ geqo: "off" });
    const sql = openSessions(`${database.url}?options=${options}`, { max: 1, applicationName: "saga-test-door" });
    const [row] = await sql`select current_setting('TimeZone') as zone`;
    await sql.end({ timeout: 1 });
    expect(row).toEqual({ zone: "UTC" });
  });

  it("with PGOPTIONS where the URL has no options", async () => {
    const taken = (url: string) =>
      reached(loadConfig({ DATABASE_URL: url, PGOPTIONS: "-c geqo=off" }).config.databaseUrl ?? "");
    expect(await taken(database.url)).toMatchObject({ geqo: "off" });
    expect(await taken(`${database.url}?options=-c%20geqo%3Don`)).toMatchObject({ geqo: "on" });
  });
});

describe("whatever the database sets", () => {
  const HOSTILE = {
    DateStyle: "'German'",
    IntervalStyle: "'sql_standard'",
    TimeZone: "'Asia/Shanghai'",
    extra_float_digits: "-15",
    bytea_output: "'escape'",
    standard_conforming_strings: "off",
    array_nulls: "off",
    transform_null_equals: "on",
    default_transaction_isolation: "'serializable'",
    synchronous_commit: "off",
    exit_on_error: "on",
    statement_timeout: "1",
    client_encoding: "'LATIN1'",
  };

  it("a session reads and writes the same values", async () => {
    const name = nameOf(database.url);
    for (const [setting, value] of Object.entries(HOSTILE))
      await database.sql.unsafe(`alter database "${name}" set ${setting} = ${value}`);
    const sql = openSessions(database.url, {
      ...{ max: 1, applicationName: "saga-test-hostile", onnotice: () => {} },
      settings: { statement_timeout: "0" },
    });
    try {
      const at = new Date("2026-11-27T23:30:00.123Z");
      const [row] = await sql`
        select ${at}::timestamptz as at, ${at}::timestamptz::text as text, '2026-03-02'::date::text as day,
          0.1::float8 + 0.2::float8 as sum, '\\x00ff'::bytea as bytes, 'a\\b' as backslash,
          interval '36 hours 5 seconds' as span, ${["a", null]}::text[] as gaps, (null = null) is null as nulls, '😀' as emoji,
          to_char(${at}::timestamptz, 'YYYY-MM-DD HH24:MI') as written`;
      expect(row).toEqual({
        at,
        text: "2026-11-27 23:30:00.123+00",
        day: "2026-03-02",
        sum: 0.30000000000000004,
        bytes: Buffer.from([0, 255]),
        backslash: "a\\b",
        span: "36:00:05",
        gaps: ["a", null],
        nulls: true,
        emoji: "😀",
        written: "2026-11-27 23:30",
      });
      const settings = await sql<{ name: string; setting: string }[]>`
        select name, setting from pg_settings where name = any (${["default_transaction_isolation", "synchronous_commit"]}) order by 1`;
      expect(settings.map(({ setting }) => setting)).toEqual(["read committed", "on"]);
      const session = async () => (await sql<[{ pid: number }]>`select pg_backend_pid() as pid`)[0].pid;
      const before = await session();
      await expect(sql`select 1 / 0`).rejects.toThrow("division by zero");
      expect(await session()).toBe(before);
    } finally {
      await sql.end({ timeout: 1 });
      await resetAll(name);
    }
  });
});

/** In a session that may write, whatever the database sets. */
async function resetAll(name: string): Promise<void> {
  await database.sql.begin("read write", (sql) => sql.unsafe(`alter database "${name}" reset all`));
}

describe("a start", () => {
  /** The lines that it logs. */
  const listening = () => {
    const lines: string[] = [];
    return { lines, log: { ...silentLog, warn: (fields: object) => lines.push(JSON.stringify(fields)) } };
  };
  const often = { pause: 20, said: 50 };

  it("waits for a database that is read-only, says so, and goes on when it takes writes", async () => {
    const { lines, log } = listening();
    const name = nameOf(database.url);
    await database.sql.unsafe(`alter database "${name}" set default_transaction_read_only = on`);
    let isReady = false;
    const ready = awaitDatabase(database.url, log as never, often).then(() => {
      isReady = true;
    });
    try {
      await until(() => lines.length > 1);
      expect(lines[0]).toContain("the database is read-only");
      expect(isReady).toBe(false);
    } finally {
      await resetAll(name);
    }
    await ready;
  });

  it("waits while all of several hosts are standbys, and says so", async () => {
    const { lines, log } = listening();
    const hosts = `127.0.0.1:${await openStandby()},127.0.0.1:${await openStandby()}`;
    let isPrimary = false;
    const third = await openDoor({ host: "127.0.0.1" }, (client) => {
      if (!isPrimary) client.destroy();
      return !isPrimary;
    });
    const url = `postgres://${credentials()}@${hosts},127.0.0.1:${third}/${nameOf(database.url)}`;
    const waiting = awaitDatabase(url, log as never, often);
    await until(() => lines.length > 1, { what: "two lines of the log" });
    isPrimary = true;
    await waiting;
    expect(lines[0]).toMatch(/the database is read-only|ECONNRESET|CONNECTION_CLOSED/);
    expect(lines[0]).toContain(`@${hosts},127.0.0.1:${third}/`);
  });

  it("waits for a server that is away, and says so again and again", async () => {
    const [port] = await freePorts(1);
    const { lines, log } = listening();
    const url = `postgres://${credentials()}@127.0.0.1:${port}/${nameOf(database.url)}`;
    let ready = false;
    const waiting = awaitDatabase(url, log as never, often).then(() => {
      ready = true;
    });
    await until(() => lines.length >= 3, { what: "three lines of the log" });
    const { reason, database: at } = JSON.parse(lines[0] ?? "");
    expect({ reason, at }).toEqual({ reason: "ECONNREFUSED", at: printableDatabaseUrl(url) });
    expect(at).toContain(`@127.0.0.1:${port}/`);
    expect(ready).toBe(false);
    await openDoor({ host: "127.0.0.1", port: port as number });
    await waiting;
  });

  it("asks again at its own pace, however often it was refused, and goes on as soon as the server is there", async () => {
    const [port] = await freePorts(1);
    const { lines, log } = listening();
    const url = `postgres://${credentials()}@127.0.0.1:${port}/${nameOf(database.url)}`;
    let ready = false;
    const waiting = awaitDatabase(url, log as never, { pause: 20, said: 0 }).then(() => {
      ready = true;
    });
    // The driver's own pauses would be 17 s from the eighth try on.
    await until(() => lines.length >= 30, { what: "30 tries", within: 15_000 });
    await openDoor({ host: "127.0.0.1", port: port as number });
    await until(() => ready, { what: "the start goes on", within: 5_000 });
    await waiting;
  });

  it.each(["sslrootcert", "sslcert", "sslkey"])(
    "stops at a %s that cannot be read, in one sentence",
    async (parameter) => {
      const files = Object.fromEntries(["sslcert", "sslkey"].map((name) => [name, import.meta.filename]));
      const query = new URLSearchParams({ ...files, [parameter]: join(folder, "none.pem") });
      await expect(awaitDatabase(`${database.url}?${query}`, silentLog)).rejects.toMatchObject({
        name: "UnusableDatabase",
        message: expect.stringMatching(
          `^The ${parameter} of DATABASE_URL, or PG${parameter.toUpperCase()}, cannot be read: ENOENT`,
        ),
      });
    },
  );

  it("says what to change if the server has no TLS and the URL insists on it", async () => {
    const { lines, log } = listening();
    let isOver = false;
    const port = await openDoor({ host: "127.0.0.1" }, (client) => {
      // No TLS either, and no server that is away: it ends the wait.
      if (isOver) client.once("data", () => client.write("N", () => client.once("data", () => client.end("neither"))));
      return isOver;
    });
    const url = `postgres://${credentials()}@127.0.0.1:${port}/${nameOf(database.url)}?sslmode=require`;
    const waiting = awaitDatabase(url, log as never, often);
    await until(() => lines.length >= 1, { what: "a line of the log" });
    isOver = true;
    await expect(waiting).rejects.toThrow("The database of DATABASE_URL cannot be used");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      reason: "ECONNRESET",
      remedy: "if the server has no TLS, take sslmode=require out of DATABASE_URL or PGSSLMODE",
    });
  });

  it("stops at a database that is not UTF-8", async () => {
    const name = `latin_${nameOf(database.url)}`;
    await database.sql.unsafe(
      `create database "${name}" encoding 'LATIN1' locale_provider libc locale 'C' template template0`,
    );
    try {
      const url = database.url.replace(nameOf(database.url), name);
      await expect(awaitDatabase(url, silentLog)).rejects.toThrow("has the encoding LATIN1");
    } finally {
      await database.sql.unsafe(`drop database "${name}" with (force)`);
    }
  });

  it("stops where sessions do not wait until their commits are on disk, whatever they ask for", async () => {
    const name = nameOf(database.url);
    const url = new URL(database.url);
    url.host = `127.0.0.1:${await openPooler()}`;
    await expect(awaitDatabase(url.href, silentLog)).resolves.toBeUndefined();
    await database.sql.unsafe(`alter database "${name}" set synchronous_commit = off`);
    try {
      await expect(awaitDatabase(database.url, silentLog)).resolves.toBeUndefined();
      await expect(awaitDatabase(url.href, silentLog)).rejects.toThrow("have synchronous_commit off");
    } finally {
      await database.sql.unsafe(`alter database "${name}" reset all`);
    }
  });

  it("stops at a database whose triggers do not run", async () => {
    const name = nameOf(database.url);
    await database.sql.unsafe(`alter database "${name}" set session_replication_role = replica`);
    try {
      await expect(awaitDatabase(database.url, silentLog)).rejects.toThrow("sets session_replication_role to replica");
    } finally {
      await database.sql.unsafe(`alter database "${name}" reset all`);
    }
  });

  it.each([
    ["in whose schema its role may not create tables", "public", "may not create tables in the schema public"],
    ["without a schema for its tables", "nowhere", "has none of the schemas in the search_path of"],
  ])("stops at a database %s", async (_, path, sentence) => {
    const name = nameOf(database.url);
    const role = `plain_${name}`;
    // The embedded server asks for a password.
    await database.sql.unsafe(`create role "${role}" login password 'plain'`);
    await database.sql.unsafe(`revoke create on schema public from public`);
    await database.sql.unsafe(`alter role "${role}" set search_path = ${path}`);
    try {
      const url = `postgres://${role}:plain@${server.host}:${server.port}/${name}`;
      await expect(awaitDatabase(url, silentLog)).rejects.toMatchObject({
        ...{ name: "UnusableDatabase", message: expect.stringContaining(sentence) },
      });
    } finally {
      await database.sql.unsafe(`drop role "${role}"`);
    }
  });

  it("stops at a database that does not exist, with the server's own words", async () => {
    const url = database.url.replace(nameOf(database.url), "there-is-none");
    await expect(awaitDatabase(url, silentLog)).rejects.toThrow(
      'The database of DATABASE_URL cannot be used: database "there-is-none" does not exist',
    );
  });
});
