// Writes the files of an archive: under a temporary name first, then flushed to the disk and renamed, the data before its manifest. Once `write` has
// resolved, the file survives a power cut. What is in the lines is the caller's matter.
import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { maskedText } from "../../machines/index.js";
import { randomBytes } from "../ambient.js";
import {
  ARCHIVE_FORMAT,
  type ArchiveLine,
  fileName,
  isFolder,
  isManifestFile,
  type Manifest,
  manifestName,
  partName,
} from "./format.js";

/** What is written at a time. */
const CHUNK_CHARS = 256 * 1024;
/** The account of the service alone reads the archive, until the operator gives others the right to. */
const MODES = { folder: 0o700, file: 0o600 };

/** The file system, which tests replace. */
export const DISK = { mkdir, open, readdir, rename, unlink };
export type Disk = typeof DISK;

/** The archive could not be written, so nothing may be deleted. */
export class ArchiveError extends Error {
  override readonly name = "ArchiveError";
}

export interface LineSink {
  /** Bytes so far. */
  readonly bytes: number;
  add(line: ArchiveLine): Promise<void>;
}

export class ArchiveFolder {
  constructor(
    readonly path: string,
    private readonly disk: Disk = DISK,
  ) {}

  /**
   * One file with what `fill` adds, in the folder of the day. Undefined: it added nothing, and there is no file. Throws ArchiveError if the disk refuses, and what
   * `fill` throws: no file is left then.
   */
  async write(
    { holds, at }: { readonly holds: Manifest["holds"]; readonly at: Date },
    fill: (sink: LineSink) => Promise<void>,
  ): Promise<Manifest | undefined> {
    const day = at.toISOString().slice(0, 10);
    const folder = join(this.path, day);
    const file = fileName(holds, at, randomBytes(4).toString("hex"));
    const part = join(folder, partName(file));
    await this.refusals(this.makeFolder(folder));
    const sink = new FileSink(await this.refusals(this.disk.open(part, "wx", MODES.file)), (work) =>
      this.refusals(work),
    );
    try {
      await fill(sink);
      const sums = await sink.end();
      if (sums.lines === 0) {
        await this.disk.unlink(part);
        return undefined;
      }
      const previous = await this.refusals(this.latest());
      const manifest = { format: ARCHIVE_FORMAT, file, previous, created_at: at.toISOString(), holds, ...sums };
      await this.refusals(this.publish(folder, part, manifest));
      return manifest;
    } catch (error) {
      await sink.abandon();
      await this.disk.unlink(part).catch(() => {});
      throw error;
    }
  }

  /** The data has its name before the manifest exists: a manifest says that all is there. */
  private async publish(folder: string, part: string, manifest: Manifest): Promise<void> {
    await this.disk.rename(part, join(folder, manifest.file));
    const name = manifestName(manifest.file);
    const manifestPart = join(folder, partName(name));
    try {
      const handle = await this.disk.open(manifestPart, "wx", MODES.file);
      try {
        await handle.writeFile(`${JSON.stringify(manifest, null, 2)}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await this.disk.rename(manifestPart, join(folder, name));
      await this.sync(folder);
    } catch (error) {
      // Without its manifest it counts for nothing, and its families will be in another file.
      for (const path of [manifestPart, join(folder, name), join(folder, manifest.file)])
        await this.disk.unlink(path).catch(() => {});
      throw error;
    }
  }

  private async makeFolder(folder: string): Promise<void> {
    const made = await this.disk.mkdir(folder, { recursive: true, mode: MODES.folder });
    if (made !== undefined) await this.sync(this.path);
  }

  /** The names in a folder are durable, too. */
  private async sync(folder: string): Promise<void> {
    const handle = await this.disk.open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  /** The name of the last manifest, with its folder. */
  private async latest(): Promise<string | null> {
    const days = (await this.disk.readdir(this.path)).filter(isFolder).sort().reverse();
    for (const day of days) {
      const names = (await this.disk.readdir(join(this.path, day))).filter(isManifestFile);
      const last = names.sort((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1)).at(-1);
      if (last !== undefined) return `${day}/${last}`;
    }
    return null;
  }

  private async refusals<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException;
      const why = code === undefined ? String(error) : `${code}${syscall === undefined ? "" : ` at ${syscall}`}`;
      throw new ArchiveError(`the archive in ${this.path} cannot be written, so no run is deleted: ${why}`, {
        cause: error,
      });
    }
  }
}

/** What comes behind `runs-` or `events-`. */
const timeOf = (name: string): string => name.slice(name.indexOf("-") + 1);

class FileSink implements LineSink {
  bytes = 0;
  private lines = 0;
  private text = "";
  private readonly hash = createHash("sha256");
  private readonly runs = new Set<string>();
  private readonly roots = new Set<string>();
  private readonly tenants = new Set<string>();
  private open = true;

  constructor(
    private readonly handle: FileHandle,
    private readonly refusals: <T>(work: Promise<T>) => Promise<T>,
  ) {}

  async add(line: ArchiveLine): Promise<void> {
    this.text += `${maskedText(JSON.stringify(line))}\n`;
    this.lines++;
    this.runs.add(line.run);
    this.roots.add(line.root);
    this.tenants.add(line.tenant_id ?? "");
    if (this.text.length >= CHUNK_CHARS) await this.flush();
  }

  private async flush(): Promise<void> {
    const bytes = Buffer.from(this.text);
    this.text = "";
    this.hash.update(bytes);
    this.bytes += bytes.length;
    await this.refusals(this.handle.writeFile(bytes));
  }

  async end() {
    await this.flush();
    await this.refusals(this.handle.sync());
    this.open = false;
    await this.refusals(this.handle.close());
    return {
      ...{ families: this.roots.size, runs: this.runs.size, lines: this.lines, bytes: this.bytes },
      ...{ sha256: this.hash.digest("hex"), tenants: [...this.tenants].sort() },
    };
  }

  async abandon(): Promise<void> {
    if (this.open) await this.handle.close().catch(() => {});
    this.open = false;
  }
}
