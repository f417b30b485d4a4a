// Leads the files of a test run into memory, where there is room: a test database is some hundred files, and creating them on a disk takes up to
// a fifth of the time of the tests.
import { rmSync } from "node:fs";
import { mkdtemp, readdir, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

/** Where Linux has files in memory. */
const MEMORY = "/dev/shm";
/** All files of a short form together are 0.6 GB (measured). */
const ROOM_BYTES = 4 * 2 ** 30;

const folderOf = (pid: number) => `saga-test-${pid}-`;

/** Sets the folder that `tmpdir()` names, for this process and all that it starts. It is removed when this process ends. */
export async function writeIntoMemory(): Promise<void> {
  // Several runs in one process share it, as those of the mutants.
  if (basename(tmpdir()).startsWith(folderOf(process.pid))) return;
  const parent = (await hasRoom()) ? MEMORY : tmpdir();
  await removeLeftOver(parent);
  const folder = await mkdtemp(join(parent, folderOf(process.pid)));
  process.env.TMPDIR = folder;
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}

async function hasRoom(): Promise<boolean> {
  const free = await statfs(MEMORY).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
  return Math.min(free, process.availableMemory()) >= ROOM_BYTES;
}

/** Runs that were killed have left their folders. Those of other users stay. */
async function removeLeftOver(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(/^saga-test-(\d+)-/.exec(name)?.[1]);
    if (pid > 0 && !isAlive(pid)) await rm(join(parent, name), { recursive: true, force: true }).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
