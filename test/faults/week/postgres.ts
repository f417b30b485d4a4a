// One server of Postgres with disks and a clock of its own: made anew, or as a copy of another one that it then follows; started, killed. Which of two
// servers is the primary is the matter of pair.ts.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { type Database, openDatabase } from "../../../src/store/engine/connection.js";
import { lives } from "../../cluster/rig.js";
import { silentLog } from "../../harness/database.js";
import { until } from "../../harness/until.js";
import { type Account, SmallDisk } from "./disk.js";

const run = promisify(execFile);

const DEBIAN = "/usr/lib/postgresql";
const PROGRAMS = ["initdb", "postgres", "pg_basebackup"];
const LOG_LINES = 500;
/** Of a server, if a test fails. */
const TOLD_LINES = 30;
const FULL = /could not extend file .*No space left on device/;
const REFUSED = /too many clients|connection slots are reserved/;

/** All that the nodes open, twice: those of a dead node are there for a while. */
export const MOST_SESSIONS = 140;
/** Twice what the week of an hour needs: it is filled in a moment. */
const DATA_MEGABYTES = 512;
/** Twice what checkpoints may let it grow to, beside what is kept for a standby. */
const WAL_MEGABYTES = 512;

/** Both servers have them: each is the primary now and then. */
const SETTINGS = {
  ...{ listen_addresses: "127.0.0.1", unix_socket_directories: "", max_connections: String(MOST_SESSIONS) },
  // Nothing of a killed server stays in the memory of the machine.
  ...{ dynamic_shared_memory_type: "mmap" },
  ...{ shared_buffers: "64MB", max_wal_size: "128MB", min_wal_size: "64MB", wal_keep_size: "64MB" },
  // Whatever a client is told is on both servers: no failover may lose any of it. Without a standby, commits wait for one.
  ...{ synchronous_commit: "on", synchronous_standby_names: "*" },
  // A day is minutes.
  ...{ autovacuum_naptime: "5s", checkpoint_timeout: "30s", wal_retrieve_retry_interval: "500ms" },
  ...{ log_min_messages: "warning", lc_messages: "C" },
};

/** The newest of Debian's folders that has all programs. */
export function postgresPrograms(): string | undefined {
  if (!existsSync(DEBIAN)) return undefined;
  const folders = readdirSync(DEBIAN).sort((one, other) => Number(other) - Number(one));
  const found = folders.find((version) => PROGRAMS.every((name) => existsSync(join(DEBIAN, version, "bin", name))));
  return found === undefined ? undefined : join(DEBIAN, found, "bin");
}

export interface ServerOptions {
  readonly programs: string;
  readonly account: Account;
  readonly folder: string;
  readonly name: string;
  readonly port: number;
  /** The environment that gives it its clock. */
  readonly clock: Readonly<Record<string, string>>;
}

export class Server {
  readonly data: SmallDisk;
  private readonly wal: SmallDisk;
  private readonly lines: string[] = [];
  private refused = 0;
  private full = 0;
  private child: ChildProcess | undefined;

  constructor(readonly options: ServerOptions) {
    const { folder, name, account } = options;
    this.data = SmallDisk.mount(join(folder, `${name}-data`), DATA_MEGABYTES, account);
    this.wal = SmallDisk.mount(join(folder, `${name}-wal`), WAL_MEGABYTES, account);
  }

  get port(): number {
    return this.options.port;
  }

  get walMegabytes(): number {
    return this.wal.usedMegabytes;
  }

  private get dataFolder(): string {
    return join(this.data.path, "data");
  }

  private get walFolder(): string {
    return join(this.wal.path, "wal");
  }

  async init(): Promise<void> {
    const places = ["-D", this.dataFolder, "--waldir", this.walFolder];
    await this.command("initdb", ...places, "-U", "postgres", "--auth", "trust", "-E", "UTF8", "--locale", "C", "-N");
    await this.start();
  }

  /** A copy of the primary at this port, which follows it from then on. What was here before is gone. */
  async follow(port: number): Promise<void> {
    for (const path of [this.dataFolder, this.walFolder]) rmSync(path, { recursive: true, force: true });
    const places = ["-D", this.dataFolder, "--waldir", this.walFolder];
    const from = `host=127.0.0.1 port=${port} user=postgres`;
    await this.command("pg_basebackup", ...places, "-d", from, "-X", "stream", "-c", "fast", "-R", "-N");
    await this.start();
  }

  private async command(program: string, ...args: readonly string[]): Promise<void> {
    const { programs, account, clock, folder } = this.options;
    const options = { ...account, cwd: folder, env: { PATH: process.env.PATH, LANG: "C", ...clock } };
    await run(join(programs, program), args, options);
  }

  private async start(): Promise<void> {
    const { programs, account, clock, folder, port } = this.options;
    const settings = Object.entries({ ...SETTINGS, port }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const command = [join(programs, "postgres"), "-D", this.dataFolder, ...settings];
    // With this process it ends at once.
    const child = spawn("setpriv", ["--pdeathsig", "QUIT", ...command], {
      ...{ ...account, cwd: folder, env: { PATH: process.env.PATH, LANG: "C", ...clock } },
      ...{ stdio: ["ignore", "pipe", "pipe"], detached: true },
    });
    this.child = child;
    for (const stream of [child.stdout, child.stderr])
      if (stream) createInterface({ input: stream }).on("line", this.keep);
    child.once("exit", () => {
      if (this.child === child) this.child = undefined;
    });
    await this.withSession(async ({ sql }) => {
      const answers = async () => (this.isRunning ? (await sql`select 1`).length === 1 : "ended");
      const state = await until(answers, { what: `the server ${this.options.name}` });
      if (state === "ended") throw new Error(`a server has ended:\n${this.lastLines.join("\n")}`);
    });
  }

  /** If it has ended by itself, as an init system does: with a full disk, the next checkpoint ends it, and so does the recovery afterwards. */
  async revive(): Promise<boolean> {
    if (this.isRunning) return false;
    await this.start();
    return true;
  }

  private readonly keep = (line: string): void => {
    this.lines.push(line);
    if (REFUSED.test(line)) this.refused++;
    if (FULL.test(line)) this.full++;
    if (this.lines.length > LOG_LINES) this.lines.shift();
  };

  get lastLines(): readonly string[] {
    return this.lines.slice(-TOLD_LINES).map((line) => `${this.options.name}: ${line}`);
  }

  get isRunning(): boolean {
    return this.child !== undefined;
  }

  /** Statements that found the disk full. */
  get foundFull(): number {
    return this.full;
  }

  /** Sessions that it refused because there were too many. */
  get refusals(): number {
    return this.refused;
  }

  /** A session of the administrator, at this server whatever it is. */
  async withSession<T>(work: (database: Database) => Promise<T>): Promise<T> {
    const url = `postgres://postgres@127.0.0.1:${this.port}/postgres`;
    const database = openDatabase(url, { max: 1, applicationName: "saga-week-server", log: silentLog });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  }

  /** All its processes, as when its machine loses its power. Complete on return. */
  async kill(): Promise<void> {
    const { child } = this;
    if (child?.pid === undefined) return;
    const { pid } = child;
    // The first one starts no further ones while the list is read.
    process.kill(pid, "SIGSTOP");
    const all = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
    for (const each of [pid, ...all]) killQuietly(each);
    const gone = () => !this.isRunning && !all.some(lives);
    await until(gone, { what: `the death of the server ${this.options.name}` });
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}
