// The worker under test as a process: started with the addresses in its environment, its newest output kept, ended with everything it started.
// How it should behave is the cases' business.
import { type ChildProcess, spawn } from "node:child_process";

/** The newest characters of its output, for the report of a worker that ended. */
const OUTPUT_CHARACTERS = 4_000;

export interface ProcessOptions {
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string | undefined;
  /** What it prints. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

export class WorkerProcess {
  /** "exit code 1" or "SIGKILL", once it has ended. */
  ended: string | undefined;
  output = "";
  private readonly child: ChildProcess;

  constructor({ command: [program, ...args], env, cwd, onOutput }: ProcessOptions) {
    // A group of its own, so that what a wrapper has started ends with it.
    this.child = spawn(program, args, { env, cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.output = (this.output + text).slice(-OUTPUT_CHARACTERS);
        onOutput?.(text);
      });
    this.child.once("error", (error) => {
      this.ended ??= `it could not be started: ${error.message}`;
    });
    this.child.once("exit", (code, signal) => {
      this.ended ??= signal ?? `exit code ${code}`;
    });
  }

  /** To the program itself, not to what it has started. */
  terminate(): void {
    this.child.kill("SIGTERM");
  }

  /** At once, with all that it has started. */
  kill(): void {
    const { pid } = this.child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It is gone, and all of its group.
    }
  }
}
