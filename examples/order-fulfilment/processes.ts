// The child processes of the demo: starts, kills and restarts them, and leaves none behind. It does not know what they run.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

export interface ChildOptions {
  readonly name: string;
  /** The JavaScript file to run. */
  readonly entry: string;
  readonly env: NodeJS.ProcessEnv;
  /** An open file that takes all output. */
  readonly log: number;
  /** Opens an IPC channel, through which the process notices the end of the demo. */
  readonly channel?: boolean;
  /** The process ended unexpectedly. */
  readonly onDeath: (why: string) => void;
}

const STOP_MS = 15_000;
const living = new Set<Child>();

// The last resort, whatever ended the demo.
process.once("exit", () => {
  for (const child of living) child.killGroup();
});

export class Child {
  private process: ChildProcess | undefined;
  private ended: Promise<void> = Promise.resolve();
  private expected = false;

  constructor(private readonly options: ChildOptions) {}

  start(): void {
    const { entry, env, log, channel, name, onDeath } = this.options;
    // A process group of its own: a kill hits all of its processes at once, like a power failure.
    const child = spawn(process.execPath, ["--enable-source-maps", entry], {
      env,
      detached: true,
      stdio: channel ? ["ignore", log, log, "ipc"] : ["ignore", log, log],
    });
    this.process = child;
    this.expected = false;
    living.add(this);
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => onDeath(`${name} cannot be started: ${error.message}`));
      child.once("exit", (code, signal) => {
        if (!this.expected) onDeath(`${name} ended unexpectedly (${signal ?? `exit code ${code}`})`);
        resolve();
      });
    });
  }

  /** SIGKILL: nothing is flushed. */
  async kill(): Promise<void> {
    this.expected = true;
    this.killGroup();
    await this.ended;
  }

  /** SIGTERM, and SIGKILL if the process does not end in time. */
  async stop(): Promise<void> {
    if (!living.has(this)) return;
    this.expected = true;
    this.process?.kill("SIGTERM");
    await Promise.race([this.ended, delay(STOP_MS, undefined, { ref: false })]);
    await this.kill();
  }

  killGroup(): void {
    living.delete(this);
    const id = this.process?.pid;
    if (id === undefined) return;
    try {
      process.kill(-id, "SIGKILL");
    } catch {
      // The group has already ended.
    }
  }
}

/** Distinct ports that are free now. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
      return server;
    }),
  );
  return Promise.all(
    servers.map(async (server) => {
      const address = server.address();
      await new Promise((resolve) => server.close(resolve));
      if (typeof address !== "object" || address === null) throw new Error("the system gave no free port");
      return address.port;
    }),
  );
}
