// The clocks of the hosts of a compressed week: one for both servers of Postgres, one for each machine of the service. They run at their usual
// pace, and the test steps them. What is simulated is the answer of the system to the question what time it is (clock.c), and nothing else: Postgres
// and Node are as they are, and so is every statement.
import { execFile } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../../src/config/package.js";

const run = promisify(execFile);

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
const NANOSECONDS = 1_000_000n;

/** The library that a program is loaded with, so that it asks a clock of ours. Needs a C compiler. */
export async function buildClockLibrary(folder: string): Promise<string> {
  const library = join(folder, "clock.so");
  const source = join(packageRoot(), "test", "faults", "week", "clock.c");
  await run("cc", ["-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"]);
  return library;
}

export class HostClock {
  private ahead = 0;

  private constructor(
    private readonly file: number,
    /** The environment of a program whose clock it is. */
    readonly env: Readonly<Record<string, string>>,
  ) {}

  static open(path: string, library: string): HostClock {
    const clock = new HostClock(openSync(path, "w", 0o644), { LD_PRELOAD: library, TEST_CLOCK_FILE: path });
    clock.set(0);
    return clock;
  }

  /** Milliseconds by which it is ahead of this process's clock. */
  get aheadMs(): number {
    return this.ahead;
  }

  /** In one write of eight bytes, while programs read it. */
  set(aheadMs: number): void {
    this.ahead = Math.round(aheadMs);
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(this.ahead) * NANOSECONDS);
    writeSync(this.file, bytes, 0, bytes.length, 0);
  }

  step(byMs: number): void {
    this.set(this.ahead + byMs);
  }

  close(): void {
    closeSync(this.file);
  }
}

/**
 * Milliseconds until a Saturday at six. Partitions are weeks that begin on Mondays: a week that begins on that Saturday has two of them, and the first
 * one is past a retention of two days in the middle of it.
 */
export function untilSaturday(now: number): number {
  const { time, day } = { time: now % DAY_MS, day: Math.floor(now / DAY_MS) };
  // 1970-01-03 was a Saturday.
  const days = (((2 - day) % 7) + 7) % 7;
  const ahead = days * DAY_MS + 6 * HOUR_MS - time;
  return ahead < 0 ? ahead + 7 * DAY_MS : ahead;
}
