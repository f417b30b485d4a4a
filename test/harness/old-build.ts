// A build of an earlier commit, from the history of this repository: the real other half of a rolling upgrade. It is made once for a
// checkout, and runs on the packages of this one if its own are the same.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../src/config/package.js";

const run = promisify(execFile);

/** The last commit of release 0.6, which writes record format 1. */
export const RELEASE_0_6 = "ff8fdedd626a58a282f52111180db8425965db6f";

/** The folder with the `dist` of a commit, named by its full hash. A shallow clone fetches the commit. */
export async function buildOf(commit: string): Promise<string> {
  const root = packageRoot();
  // Below `node_modules`, so that imports find the packages of this checkout.
  const builds = join(await realpath(join(root, "node_modules")), ".cache", "saga-builds");
  const folder = join(builds, commit);
  if (existsSync(folder)) return folder;
  await mkdir(builds, { recursive: true });
  const made = await mkdtemp(join(builds, "making-"));
  try {
    await checkOut(commit, root, made);
    if (!(await hasItsPackages(made, root))) await run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: made });
    // Its types were checked when it was committed.
    await run(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-b", "--noCheck"], {
      cwd: made,
    });
    await rename(made, folder).catch(async (error) => {
      // Another test run was faster.
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return folder;
}

/** The sources of the service only: tests, benchmarks and examples are not built. */
async function checkOut(commit: string, root: string, to: string): Promise<void> {
  const git = (...args: string[]) => run("git", args, { cwd: root });
  const known = () =>
    git("cat-file", "-e", `${commit}^{commit}`).then(
      () => true,
      () => false,
    );
  if (!(await known())) await git("fetch", "--no-tags", "--depth", "1", "origin", commit).catch(() => {});
  if (!(await known()))
    throw new Error(
      `commit ${commit} is not in this clone, and cannot be fetched from origin: a rolling upgrade needs it. Clone without --depth, or run "git fetch --unshallow"`,
    );
  const archive = join(to, "sources.tar");
  await git(
    "archive",
    "--output",
    archive,
    commit,
    "src",
    "machines",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
  );
  await run("tar", ["-xf", archive, "-C", to]);
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dev?: boolean }>>;
}

/** Whether every package that it runs on is installed here in the same version. */
async function hasItsPackages(folder: string, root: string): Promise<boolean> {
  const read = async (of: string) => JSON.parse(await readFile(join(of, "package-lock.json"), "utf8")) as Lock;
  const [its, ours] = [await read(folder), await read(root)];
  return Object.entries(its.packages).every(
    ([path, { version, dev }]) => path === "" || dev === true || ours.packages[path]?.version === version,
  );
}
