// Which files of the project change: each folder is watched on its own, because a recursive watch of Node on Linux goes through node_modules, too.
// What a change means is not decided here.
import { type FSWatcher, statSync, watch } from "node:fs";
import { join } from "node:path";
import { watchedIn } from "./project.js";

/** An editor writes a file in several steps, and a tool many files. */
const SETTLE_MS = 120;
const MOST_SETTLE_MS = 1_000;

export interface FilesOptions {
  readonly folder: string;
  /** Paths relative to the folder, each of which is new, gone or other than before. Never called again before what it returns has settled. */
  onChange(paths: ReadonlySet<string>): Promise<void>;
  onTrouble(message: string): void;
}

export class Files {
  private readonly watchers = new Map<string, FSWatcher>();
  /** What each file was like: an event without a change is none. */
  private readonly seen = new Map<string, string>();
  private readonly touched = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private since = 0;
  private reporting: Promise<void> | undefined;
  private closed = false;
  private hasTrouble = false;

  constructor(private readonly options: FilesOptions) {}

  async start(): Promise<void> {
    await this.look();
  }

  /** No change is reported after it. */
  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    for (const watcher of this.watchers.values()) watcher.close();
    this.watchers.clear();
    await this.reporting;
  }

  /** Watches folders that are new, forgets those that are gone, and returns the files that have changed. */
  private async look(): Promise<Set<string>> {
    const { folders, files, isCut } = await watchedIn(this.options.folder);
    if (isCut)
      this.trouble(
        `the folder has more than can be watched: changes in ${folders.at(-1)} and later folders are not seen`,
      );
    for (const folder of folders) this.watchFolder(folder);
    const kept = new Set(folders);
    for (const [folder, watcher] of this.watchers)
      if (!kept.has(folder)) {
        watcher.close();
        this.watchers.delete(folder);
      }
    const there = new Set(files);
    return new Set([...files, ...this.seen.keys()].filter((path) => this.isOther(path, there.has(path))));
  }

  private isOther(path: string, isThere: boolean): boolean {
    const before = this.seen.get(path);
    const now = isThere ? likenessOf(join(this.options.folder, path)) : undefined;
    if (now === undefined) this.seen.delete(path);
    else this.seen.set(path, now);
    return before !== now;
  }

  private watchFolder(folder: string): void {
    if (this.closed || this.watchers.has(folder)) return;
    try {
      const watcher = watch(join(this.options.folder, folder), () => this.touch(folder));
      watcher.on("error", (error: NodeJS.ErrnoException) => {
        watcher.close();
        this.watchers.delete(folder);
        // The folder is gone.
        if (error.code !== "ENOENT" && error.code !== "EPERM") this.refused(error);
      });
      this.watchers.set(folder, watcher);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") this.refused(error as NodeJS.ErrnoException);
    }
  }

  private refused({ code }: NodeJS.ErrnoException): void {
    const advice =
      code === "ENOSPC"
        ? "raise fs.inotify.max_user_watches"
        : code === "EMFILE"
          ? "raise fs.inotify.max_user_instances"
          : "restart saga dev after a change";
    this.trouble(`not all folders can be watched (${code}): ${advice}`);
  }

  /** Once: there are as many troubles of one kind as folders. */
  private trouble(message: string): void {
    if (this.hasTrouble) return;
    this.hasTrouble = true;
    this.options.onTrouble(message);
  }

  private touch(folder: string): void {
    if (this.closed) return;
    const now = performance.now();
    if (this.touched.size === 0) this.since = now;
    this.touched.add(folder);
    clearTimeout(this.timer);
    const left = Math.max(0, this.since + MOST_SETTLE_MS - now);
    this.timer = setTimeout(() => this.report(), Math.min(SETTLE_MS, left));
  }

  private report(): void {
    if (this.closed || this.reporting) return;
    this.touched.clear();
    this.reporting = this.reportNow()
      .catch((error: unknown) => this.options.onTrouble(`a change could not be taken up: ${(error as Error).message}`))
      .finally(() => {
        this.reporting = undefined;
        // What has changed meanwhile has no timer any more.
        if (this.touched.size > 0) this.report();
      });
  }

  private async reportNow(): Promise<void> {
    const changed = await this.look();
    if (changed.size > 0 && !this.closed) await this.options.onChange(changed);
  }
}

/** Undefined: it is gone. */
function likenessOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats && `${stats.ino}:${stats.size}:${stats.mtimeMs}`;
}
