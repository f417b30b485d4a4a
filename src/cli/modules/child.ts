// A process of the command: started in a process group of its own, its output taken as lines, ended with all that it has started. What it does is not known here.
import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { Env } from "../../config/index.js";

export interface ChildOptions {
  /** Arguments of node. */
  readonly args: readonly string[];
  readonly env: Env;
  readonly cwd: string;
  onLine(line: string): void;
  onMessage?(message: unknown): void;
}

export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A line without an end is cut here. */
const MOST_LINE = 1_048_576;
/** The rest of the output of a process that has ended. */
const REST_MS = 1_000;

/** Node says that it ended with this where it could not be started at all. */
const NOT_STARTED: End = { code: 127, signal: null };

export class Child {
  /** Never rejects. The output is complete, and nothing of its group is left. */
  readonly ended: Promise<End>;
  hasEnded = false;
  private readonly child: ChildProcess;

  constructor(private readonly options: ChildOptions) {
    const { args, env, cwd } = options;
    this.child = spawn(process.execPath, [...args], {
      ...{ cwd, env: { ...env }, detached: process.platform !== "win32" },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.child.on("message", (message) => options.onMessage?.(message));
    const closed = new Promise<void>((resolve) => this.child.once("close", () => resolve()));
    const outputs = [this.child.stdout, this.child.stderr].map((stream) => lines(stream, options.onLine));
    this.ended = this.exit().then(async (end) => {
      this.hasEnded = true;
      this.killGroup();
      await Promise.race([closed, delay(REST_MS, undefined, { ref: false })]);
      for (const flush of outputs) flush();
      return end;
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** A process that ends takes no message, and that is no fault. */
  send(message: string): void {
    if (this.child.connected) this.child.send(message, () => {});
  }

  /** Resolves when it has ended: asked first, killed after a time. `signal` aborted: killed at once. */
  async stop(withinMs: number, signal?: AbortSignal): Promise<End> {
    if (!this.hasEnded) this.child.kill("SIGTERM");
    const waiting = new AbortController();
    const stopWaiting = () => waiting.abort();
    signal?.addEventListener("abort", stopWaiting, { once: true });
    if (signal?.aborted) stopWaiting();
    const late = delay(withinMs, "late", { signal: waiting.signal }).catch(() => "late");
    const outcome = await Promise.race([this.ended, late]);
    waiting.abort();
    signal?.removeEventListener("abort", stopWaiting);
    if (outcome === "late") this.kill();
    return this.ended;
  }

  kill(): void {
    if (this.hasEnded) return;
    this.killGroup();
    this.child.kill("SIGKILL");
  }

  private exit(): Promise<End> {
    return new Promise((resolve) => {
      this.child.once("error", (error) => {
        if (this.child.pid !== undefined) return;
        this.options.onLine(`node could not be started: ${error.message}`);
        resolve(NOT_STARTED);
      });
      this.child.once("exit", (code, signal) => resolve({ code, signal }));
    });
  }

  /** What it has started and left, such as a compiler. */
  private killGroup(): void {
    const { pid } = this.child;
    if (pid === undefined || process.platform === "win32") return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // Nothing is left.
    }
  }
}

export const endText = ({ code, signal }: End): string => (signal === null ? `code ${code}` : `signal ${signal}`);

/** Returns what passes a last line without an end on. */
function lines(stream: NodeJS.ReadableStream | null, onLine: (line: string) => void): () => void {
  let rest = "";
  stream?.setEncoding("utf8");
  stream?.on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) onLine(part.replace(/\r$/, ""));
    if (rest.length > MOST_LINE) {
      onLine(rest);
      rest = "";
    }
  });
  return () => {
    if (rest !== "") onLine(rest);
    rest = "";
  };
}
