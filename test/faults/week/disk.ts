// The file systems of a server of Postgres: small ones in memory, one for its data and one for its WAL. The test fills the first one until nothing more
// can be written; the WAL has room all the while, because a Postgres that cannot write WAL ends, and this is about one that answers.
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Where folders of a test are, for programs of another account: `tmpdir()` is this account's alone. */
const PARENT = "/tmp";
const NAME = /^saga-week-(\d+)$/;
const CHUNKS = [4 * 2 ** 20, 4_096, 1];

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** A folder for all of it. What a killed test has left is removed. */
export function openFolder(): string {
  for (const name of readdirSync(PARENT)) {
    const pid = Number(NAME.exec(name)?.[1] ?? 0);
    if (pid > 0 && !existsSync(`/proc/${pid}`)) removeFolder(join(PARENT, name));
  }
  const folder = join(PARENT, `saga-week-${process.pid}`);
  removeFolder(folder);
  mkdirSync(folder, { mode: 0o755 });
  return folder;
}

/** With all that is mounted in it. Safe to call twice. */
export function removeFolder(folder: string): void {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) unmount(join(folder, name));
  rmSync(folder, { recursive: true, force: true });
}

function unmount(path: string): void {
  try {
    // Also if a program has it open still: it goes when that ends.
    execFileSync("umount", ["--lazy", path], { stdio: "ignore" });
  } catch {
    // Nothing is mounted there.
  }
}

export class SmallDisk {
  private readonly ballast: string;
  private file: number | undefined;
  private written = 0;

  private constructor(readonly path: string) {
    this.ballast = join(path, "ballast");
  }

  static mount(path: string, megabytes: number, { uid, gid }: Account): SmallDisk {
    mkdirSync(path, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0700,uid=${uid},gid=${gid}`, "tmpfs", path]);
    return new SmallDisk(path);
  }

  get usedMegabytes(): number {
    const { blocks, bfree, bsize } = statfsSync(this.path);
    return Math.round(((blocks - bfree) * bsize) / 2 ** 20);
  }

  /** To the last byte. Again: whatever has become free since. Returns the megabytes of the ballast. */
  fill(): number {
    this.file ??= openSync(this.ballast, "w");
    for (const size of CHUNKS) this.fillBy(this.file, Buffer.alloc(size));
    return Math.round(this.written / 2 ** 20);
  }

  private fillBy(file: number, chunk: Buffer): void {
    try {
      for (;;) this.written += writeSync(file, chunk, 0, chunk.length, this.written);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }

  /** Gives the space of the ballast back. Safe to call twice. */
  free(): void {
    if (this.file === undefined) return;
    closeSync(this.file);
    this.file = undefined;
    this.written = 0;
    rmSync(this.ballast);
  }
}
