// The commands of a page, run as a reader would: each block with its runner, in process groups that end with the test file.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll } from "vitest";
import { until } from "../harness/until.js";

const ROOT = resolve(import.meta.dirname, "../..");

/** How a block is run: by CI, as a process of its own (`service`, `worker`), or in one shell with the others (`shell`). */
export interface Block {
  /** Undefined: the page says of none. */
  readonly runner: string | undefined;
  readonly text: string;
}

export function commandsOf(page: string): readonly Block[] {
  const blocks = /(?:<!-- run: (\w+) -->\n\n)?```sh\n([\s\S]*?)```/g;
  return [...readFileSync(join(ROOT, page), "utf8").matchAll(blocks)].map(([, runner, text = ""]) => ({
    runner,
    text,
  }));
}

export interface Running {
  output(): string;
  /** Undefined: still running; -1: ended by a signal. */
  code(): number | undefined;
  /** As Ctrl-C in its terminal; resolves when it has ended. */
  stop(): Promise<void>;
}

export interface Terminal {
  /** Of the embedded Postgres. */
  readonly dataDir: string;
  /** A process group of its own, as a terminal would give it. */
  run(script: string, env: Readonly<Record<string, string>>): Running;
}

/** Ends all that it has run after the file's tests, the newest first, and with them the Postgres of `dataDir`. */
export function useTerminal(): Terminal {
  const dataDir = mkdtempSync(join(tmpdir(), "saga-page-"));
  const started: ChildProcess[] = [];
  afterAll(async () => {
    for (const child of started.toReversed()) {
      signal(child, "SIGTERM");
      await until(() => isGone(child), { what: "the orderly end" }).catch(() => signal(child, "SIGKILL"));
    }
    await until(() => !existsSync(join(dataDir, "postgres", "postmaster.pid")), { what: "the end of its Postgres" });
    rmSync(dataDir, { recursive: true, force: true });
  });
  return { dataDir, run: (script, env) => run(started, script, env) };
}

function run(started: ChildProcess[], script: string, env: Readonly<Record<string, string>>): Running {
  const child = spawn("bash", ["-euo", "pipefail", "-c", script], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.push(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data) => (output += data));
  let ended: number | undefined;
  // Not `close`: what the script leaves running has its streams.
  child.once("exit", (code) => {
    ended = code ?? -1;
  });
  const stop = async () => {
    signal(child, "SIGINT");
    await until(() => isGone(child), { what: "the end after Ctrl-C" });
  };
  return { output: () => output, code: () => ended, stop };
}

function signal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, name);
  } catch {
    // The group is gone.
  }
}

const isGone = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

/** Fails with the output of the process, and at once if it has ended. `npm start` builds: on a busy machine for minutes. */
export async function comesAbout(
  what: string,
  process: Running,
  fact: () => boolean | Promise<boolean>,
): Promise<void> {
  const holds = async () => (await Promise.resolve(fact()).catch(() => false)) || (process.code() ?? 0) !== 0;
  await until(holds, { within: 200_000, what }).catch((error: Error) => {
    throw new Error(`${error.message}\n${process.output()}`);
  });
  if ((process.code() ?? 0) !== 0) throw new Error(`${what} ended with ${process.code()}:\n${process.output()}`);
}
