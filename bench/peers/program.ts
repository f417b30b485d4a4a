// The processes of a turn. Each program writes JSON lines: one with `msg: "ready"` when it serves, and possibly a last one when it ends.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export type Line = Readonly<Record<string, unknown>>;

export interface Program {
  readonly pid: number;
  readonly ready: Line;
  /** Ends it with SIGTERM. The last JSON line that it wrote. */
  stop(): Promise<Line>;
}

/** `npm start` starts the service with these. All Node programs of all systems have them: they save each of them garbage collection. */
const NODE_ARGUMENTS = ["--enable-source-maps", "--max-semi-space-size=32"];

export function startNode(path: string, env: Readonly<Record<string, string>>): Promise<Program> {
  return startProgram(process.execPath, [...NODE_ARGUMENTS, path], { NODE_ENV: "production", ...env });
}

/** Resolves when it is ready, and rejects if it ends before. */
async function startProgram(command: string, args: string[], env: Readonly<Record<string, string>>): Promise<Program> {
  const child = startChild(command, args, env);
  let last: Line = {};
  const ready = new Promise<Line>((resolve, reject) => {
    child.process.once("exit", () =>
      reject(new Error(`${args.join(" ")} ended before it was ready:\n${child.errors()}`)),
    );
    createInterface({ input: child.output }).on("line", (text) => {
      if (!text.startsWith("{")) return;
      last = JSON.parse(text) as Line;
      if (last.msg === "ready") resolve(last);
    });
  });
  return { pid: child.pid, ready: await ready, stop: () => child.stop().then(() => last) };
}

export interface Child {
  readonly pid: number;
  readonly process: ChildProcess;
  /** Must be read. */
  readonly output: Readable;
  /** The end of what it wrote to its standard error. */
  errors(): string;
  stop(): Promise<void>;
}

const KEPT_ERRORS = 4_000;

export function startChild(command: string, args: string[], env: Readonly<Record<string, string>>): Child {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  process.once("exit", () => child.kill("SIGKILL"));
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    errors = (errors + text).slice(-KEPT_ERRORS);
  });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "close");
  };
  return { pid: child.pid ?? 0, process: child, output: child.stdout, errors: () => errors, stop };
}
