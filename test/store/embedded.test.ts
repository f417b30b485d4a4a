// Embedded Postgres, with real processes: found again, taken over after a kill, never shared, stopped in order. All data
// directories here are private (0700): as root, the server's account cannot enter them.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import postgres, { type Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseDatabaseUrl } from "../../src/config/database-url.js";
import { packageRoot } from "../../src/config/package.js";
import { createLogger } from "../../src/log.js";
import { findBinaries, serverAccount } from "../../src/store/embedded/binaries.js";
import { freePort } from "../../src/store/embedded/kept-files.js";
import { clearLeftover } from "../../src/store/embedded/leftover.js";
import { DataDirInUse, OwnerLock } from "../../src/store/embedded/owner-lock.js";
import { type EmbeddedPostgres, startEmbeddedPostgres, UnusableDataDir } from "../../src/store/embedded/postgres.js";
import { socketFolderIn, startServer } from "../../src/store/embedded/server.js";
import { openSessions } from "../../src/store/engine/session.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";

/** A data directory as a first start leaves it. To initialise one takes a second: most tests begin with a copy. */
let initialised: string;
let dataDir: string;
let servers: Pick<EmbeddedPostgres, "stop">[];
let child: ChildProcess | undefined;

const temporary = () => mkdtempSync(join(tmpdir(), "saga-embedded-"));

beforeAll(async () => {
  initialised = temporary();
  const server = await startEmbeddedPostgres({ dataDir: initialised, log: silentLog });
  await server.stop();
});
afterAll(() => rmSync(initialised, { recursive: true, force: true }));
beforeEach(() => {
  dataDir = temporary();
  servers = [];
});
/** The port is left to be chosen anew; the files stay their owner's. */
function useInitialised(): void {
  for (const name of ["postgres", "postgres-password"]) execFileSync("cp", ["-a", join(initialised, name), dataDir]);
}
afterEach(async () => {
  if (child?.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  for (const server of servers) await server.stop();
  const left = livingPostmaster();
  if (left !== undefined) {
    process.kill(left, "SIGQUIT");
    await until(() => !isAlive(left), { what: "the end of the server" });
  }
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  // The server of a service that was killed outlives it.
  expect(child !== undefined || left === undefined || "a server was left running").toBe(true);
  child = undefined;
});

async function start(): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, log: silentLog });
  servers.push(server);
  return server;
}

async function query<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

const keep = (url: string) => query(url, (sql) => sql`create table kept as select 42 as value`);
const kept = (url: string) => query(url, async (sql) => (await sql`select value from kept`)[0]?.value);

function postmasterPid(): number | undefined {
  try {
    return Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

function livingPostmaster(): number | undefined {
  const pid = postmasterPid();
  return pid !== undefined && isAlive(pid) ? pid : undefined;
}

/** A service of its own on the same directory, which ignores SIGINT; resolves with its server's URL, or without if it failed. */
async function startElsewhere({ quiet = false } = {}): Promise<string | undefined> {
  const module = join(packageRoot(), "dist", "src", "store", "embedded", "postgres.js");
  const log = join(packageRoot(), "dist", "src", "log.js");
  const script = `
    import { startEmbeddedPostgres } from ${JSON.stringify(module)};
    import { createLogger } from ${JSON.stringify(log)};
    process.on("SIGINT", () => {});
    const server = await startEmbeddedPostgres({ dataDir: process.argv[1], log: createLogger({ logLevel: "silent" }) });
    console.log(server.url);
    setInterval(() => {}, 1000);`;
  const args = ["--input-type=module", "-e", script, dataDir];
  child = spawn(process.execPath, args, { detached: true, stdio: ["ignore", "pipe", quiet ? "ignore" : "inherit"] });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const { value } = await lines.next();
  return value as string | undefined;
}

describe("embedded Postgres", () => {
  it("a second start finds the data, the port and the password; a stop leaves no process", async () => {
    useInitialised();
    const first = await start();
    const pid = postmasterPid()!;
    await keep(first.url);
    await first.stop();
    await first.stop();
    expect(isAlive(pid)).toBe(false);
    const second = await start();
    expect(second.url).toBe(first.url);
    expect(await kept(second.url)).toBe(42);
  });

  it("a start names its directory in the log, and the sessions that a stop ends are no fault", async () => {
    useInitialised();
    const lines: { level: string; msg: string; dataDir?: string }[] = [];
    const log = createLogger({ logLevel: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const server = await startEmbeddedPostgres({ dataDir, log });
    servers.push(server);
    await query(server.url, async (sql) => {
      await sql`select 1`;
      await server.stop();
    });
    expect(lines.map(({ level, msg, dataDir: named }) => [level, msg, named])).toEqual([
      ["info", "DATABASE_URL is not set: the embedded Postgres is used", realpathSync(dataDir)],
    ]);
  });

  it("a directory that cannot be made is an error that names its setting", async () => {
    const file = join(dataDir, "file");
    writeFileSync(file, "");
    const starting = startEmbeddedPostgres({ dataDir: join(file, "data"), log: silentLog });
    await expect(starting).rejects.toThrow(
      new UnusableDataDir(
        `SAGA_DATA_DIR ${join(file, "data")} cannot be used (ENOTDIR): name a folder that the service may write to`,
      ),
    );
  });

  /** With the driver of the service: that of the tests knows no URLs of sockets. */
  async function reachedBy(url: string): Promise<string | null | undefined> {
    const sql = openSessions(url, { applicationName: "test", max: 1, idle_timeout: 0 });
    try {
      const [row] = await sql<{ at: string | null }[]>`select inet_server_addr()::text as at`;
      return row?.at;
    } finally {
      await sql.end({ timeout: 1 });
    }
  }

  it("the service reaches its server through a socket to which others have no way, and with the password", async () => {
    useInitialised();
    const { url, socketUrl } = await start();
    expect([await reachedBy(url), await reachedBy(socketUrl)]).toEqual(["127.0.0.1/32", null]);
    const pgdata = join(realpathSync(dataDir), "postgres");
    expect(parseDatabaseUrl(socketUrl).socket).toBe(join(pgdata, `.s.PGSQL.${new URL(url).port}`));
    expect(statSync(pgdata).mode & 0o077).toBe(0);
    const wrong = new URL(socketUrl);
    wrong.password = "wrong";
    await expect(reachedBy(wrong.href)).rejects.toThrow("password authentication failed");
  });

  it("a data directory whose path is too long for a socket has the port only", async () => {
    useInitialised();
    const deep = join(dataDir, "é ü?#%".repeat(6), "x".repeat(50));
    mkdirSync(deep, { recursive: true });
    for (const name of ["postgres", "postgres-password"]) renameSync(join(dataDir, name), join(deep, name));
    const server = await startEmbeddedPostgres({ dataDir: deep, log: silentLog });
    servers.push(server);
    expect(server.socketUrl).toBe(server.url);
    expect(await reachedBy(server.socketUrl)).toBe("127.0.0.1/32");
    await server.stop();
  });

  it("a folder in which no socket can be made has none", async () => {
    expect(await socketFolderIn(join(dataDir, "nowhere"))).toBeUndefined();
    const free = realpathSync(dataDir);
    expect([await socketFolderIn(free), readdirSync(free)]).toEqual([free, []]);
  });

  it("a folder whose name needs escaping in a URL has a socket like any other", async () => {
    useInitialised();
    const strange = join(dataDir, "é ü?#%&");
    mkdirSync(strange);
    for (const name of ["postgres", "postgres-password"]) renameSync(join(dataDir, name), join(strange, name));
    const server = await startEmbeddedPostgres({ dataDir: strange, log: silentLog });
    servers.push(server);
    expect(await reachedBy(server.socketUrl)).toBe(null);
    await server.stop();
  });

  it("the socket that a killed server left stands in no way, also if its process id belongs to another program", async () => {
    useInitialised();
    const pgdata = join(realpathSync(dataDir), "postgres");
    writeFileSync(join(dataDir, "postgres-port"), `${await freePort(0)}\n`);
    const left = `.s.PGSQL.${readFileSync(join(dataDir, "postgres-port"), "utf8").trim()}`;
    // Postgres takes its own parent for no other server.
    child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1_000)"], { stdio: "ignore" });
    writeFileSync(join(pgdata, left), "");
    writeFileSync(join(pgdata, `${left}.lock`), `${child.pid}\n/x\n0\n1\n.\n`);
    writeFileSync(join(pgdata, ".s.PGSQL.1.lock"), `${child.pid}\n/x\n0\n1\n.\n`);
    const { socketUrl } = await start();
    expect(parseDatabaseUrl(socketUrl).socket).toBe(join(pgdata, left));
    expect(await reachedBy(socketUrl)).toBe(null);
    expect(
      readdirSync(pgdata)
        .filter((name) => name.startsWith(".s."))
        .sort(),
    ).toEqual([left, `${left}.lock`]);
  });

  it("the server asks for the password, listens on loopback only, and no other user can read the password", async () => {
    useInitialised();
    const { url } = await start();
    expect(statSync(join(dataDir, "postgres-password")).mode & 0o777).toBe(0o600);
    const wrong = new URL(url);
    wrong.password = "wrong";
    await expect(query(wrong.href, (sql) => sql`select 1`)).rejects.toThrow("password authentication failed");
    const settings = await query(
      url,
      (sql) =>
        sql`select name, setting from pg_settings where name in ('listen_addresses', 'unix_socket_directories', 'fsync', 'synchronous_commit')`,
    );
    expect(Object.fromEntries(settings.map((row) => [row.name, row.setting]))).toEqual({
      listen_addresses: "127.0.0.1",
      unix_socket_directories: ".",
      fsync: "on",
      synchronous_commit: "on",
    });
  });

  it("Ctrl-C on the service's process group leaves the server to the service", { tags: "long" }, async () => {
    useInitialised();
    const url = (await startElsewhere())!;
    const pid = postmasterPid()!;
    process.kill(-child!.pid!, "SIGINT");
    await keep(url);
    expect(await kept(url)).toBe(42);
    expect(postmasterPid()).toBe(pid);
  });

  it("the server of a killed service is replaced by that of the next one", { tags: "long" }, async () => {
    useInitialised();
    await keep((await startElsewhere())!);
    const left = postmasterPid()!;
    child!.kill("SIGKILL");
    await until(() => child!.signalCode !== null);
    expect(isAlive(left)).toBe(true);
    const { url } = await start();
    expect(postmasterPid()).not.toBe(left);
    expect(await kept(url)).toBe(42);
  });

  it("a second service on the directory is refused, and the first continues", async () => {
    useInitialised();
    const url = (await startElsewhere())!;
    await expect(startEmbeddedPostgres({ dataDir, log: silentLog })).rejects.toThrow(DataDirInUse);
    await keep(url);
    expect(await kept(url)).toBe(42);
  });

  /** A server that runs without a service, and what a service that starts beside it does first. */
  async function unowned(onStopping = () => {}) {
    const home = realpathSync(dataDir);
    const pgdata = join(home, "postgres");
    const account = await serverAccount(pgdata);
    const cluster = { pgdata, account, log: silentLog, binaries: await findBinaries(home, account) };
    const password = readFileSync(join(home, "postgres-password"), "utf8").trim();
    const urlAt = (port: number) => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const server = await startServer(cluster, await freePort(0));
    servers.push(server);
    const lines: string[] = [];
    const write = (line: string) => {
      lines.push(line);
      if (line.includes("a service that is gone")) onStopping();
    };
    const log = createLogger({ logLevel: "info" }, { write });
    return { server, lines, url: urlAt(server.port), clear: () => clearLeftover({ home, pgdata, log, urlAt }) };
  }

  it("a server whose service is about to take it is left to that service", async () => {
    useInitialised();
    const { url, clear, lines } = await unowned();
    const outcome = clear().then(
      () => "stopped",
      (error: Error) => error.name,
    );
    const asked = () =>
      query(url, (sql) => sql`select from pg_stat_activity where application_name = 'saga-owner' and query <> ''`);
    await until(async () => lines.length > 0 || (await asked()).length > 0, {
      what: "the question of another service",
    });
    const owner = new OwnerLock(silentLog, async () => false);
    const taken = await owner.take(url).catch((error: Error) => error.message);
    expect([taken, await outcome]).toEqual([true, "DataDirInUse"]);
    await owner.release();
  });

  it("while a server that has lost its service is stopped, no other service can take it", {
    tags: "long",
  }, async () => {
    useInitialised();
    // The server that is told to stop does not do so yet: its sessions go on.
    const freeze = () => process.kill(postmasterPid()!, "SIGSTOP");
    const { server, url, clear, lines } = await unowned(freeze);
    await query(url, async (sql) => {
      const held = () => sql`select from pg_locks where locktype = 'advisory' and granted`;
      expect(await held()).toHaveLength(0);
      const cleared = clear();
      try {
        await until(() => lines.length > 0, { what: "the decision to stop the server" });
        expect(await held()).toHaveLength(1);
      } finally {
        process.kill(postmasterPid()!, "SIGCONT");
      }
      await cleared;
    });
    expect(await server.ended).toContain("code 0");
  });

  it("of two services that start at once on a new directory, one wins", { tags: "long" }, async () => {
    const elsewhere = startElsewhere({ quiet: true }).then((url) => url ?? Promise.reject(new Error("it lost")));
    const outcomes = await Promise.allSettled([start(), elsewhere, start()]);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(isAlive(postmasterPid()!)).toBe(true);
  });

  it("a server that dies is restarted with the same URL and the same owner", { tags: "long" }, async () => {
    useInitialised();
    const { url } = await start();
    await keep(url);
    const pid = postmasterPid()!;
    process.kill(pid, "SIGKILL");
    const owners = () => query(url, (sql) => sql`select 1 from pg_locks where locktype = 'advisory' and granted`);
    await until(async () => postmasterPid() !== pid && (await owners()).length === 1);
    expect(await kept(url)).toBe(42);
    await expect(startEmbeddedPostgres({ dataDir, log: silentLog })).rejects.toThrow(DataDirInUse);
  });

  it("a stale process id that now belongs to another program is removed", { tags: "long" }, async () => {
    useInitialised();
    const first = await start();
    await keep(first.url);
    await first.stop();
    writeFileSync(join(dataDir, "postgres", "postmaster.pid"), `${process.pid}\n/x\n0\n1\n\n127.0.0.1\n\nready\n`);
    const second = await start();
    expect(await kept(second.url)).toBe(42);
  });

  it("the remains of an initialisation that was killed are removed", { tags: "long" }, async () => {
    const dead = spawn(process.execPath, ["-e", ""]);
    await until(() => dead.exitCode !== null);
    mkdirSync(join(dataDir, `initdb-${dead.pid}-x`, "data"), { recursive: true });
    await start();
    expect(readdirSync(dataDir).sort()).toEqual(["postgres", "postgres-password", "postgres-port"]);
  });
});
