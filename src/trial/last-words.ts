// The last words of a process: what it was deciding on when it died, in a file that outlives it. Its primary reads them, or the process that
// is started in its place. What follows from them is suspects.ts.

import { constants, mkdirSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { randomUUID, setImmediate } from "../ambient.js";

/** The length of a uuid. A file of zeros says nothing. */
const BYTES = 36;
// Nothing of machines/ is imported here: a primary reads last words, and loads no more code than it runs.
const KEY = /^[0-9a-f-]{36}$/;

/**
 * Says what the process is deciding on. Each change costs one write to memory of the system (1 to 3 µs), and none throws. What was said last is
 * cleared with the turn of the event loop, so that a process that waits suspects no run. Cleared with each callback, a run of three remote steps took 15
 * writes; with each turn it takes 6 (measured).
 */
export class LastWords {
  private said = "";
  private readonly bytes = Buffer.alloc(BYTES);

  constructor(private readonly file: number) {}

  /** `key`: a uuid. */
  say(key: string): void {
    // Decisions on one run often follow each other.
    if (key === this.said) return;
    // A decision goes through several promises, and the turn ends after all of them.
    if (this.said === "") setImmediate(() => this.clear());
    this.said = key;
    this.bytes.write(key, 0, BYTES, "latin1");
    this.write();
  }

  private clear(): void {
    this.said = "";
    this.bytes.fill(0);
    this.write();
  }

  private write(): void {
    try {
      writeSync(this.file, this.bytes, 0, BYTES, 0);
    } catch {
      // Without last words a poisonous run costs more nodes before it is found. No decision fails for that.
    }
  }
}

/** What the process said last, if that was something. */
export function readLastWords(file: number): string | undefined {
  const bytes = Buffer.alloc(BYTES);
  readSync(file, bytes, 0, BYTES, 0);
  const key = bytes.toString("latin1");
  return KEY.test(key) ? key : undefined;
}

/** A file for the last words of another process. It has no name, so nothing is left of it when both have ended. */
export function openNamelessFile(): number {
  const path = join(tmpdir(), `saga-${randomUUID()}`);
  const file = openSync(path, "wx+", 0o600);
  unlinkSync(path);
  return file;
}

export interface WordsFile {
  readonly words: LastWords;
  /** What the process before this one said last. */
  readonly before?: string;
  /** After an end in order nothing is left. */
  remove(): void;
}

/** For a process without a primary: the process that is started after it finds the file. Throws if the folder cannot be written to. */
export function openWordsFile(path: string): WordsFile {
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  const before = readLastWords(file);
  // The file stays open: a later write must not reach another file that has got its number.
  return { words: new LastWords(file), ...(before !== undefined && { before }), remove: () => unlinkSync(path) };
}
