// Child processes of the demo: started, killed the hard way, started again, and gone when the demo is. What runs in them is
// run.ts's business.
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
  /** With a channel to the demo, so that it can notice the demo's death. */
  readonly channel?: boolean;
  /** It ended, and nobody here asked for it. */
  readonly onDeath: (why: string) => void;
}

const STOP_MS = 15_000;
const living = new Set<Child>();

// The last resort, whatever ended the demo: nothing stays behind.
process.once("exit", () => {
  for (const child of living) child.shoot();
});

export class Child {
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #expected = false;

  constructor(private readonly options: ChildOptions) {}

  start(): void {
    const { entry, env, log, channel, name, onDeath } = this.options;
    // A process group of its own: a kill takes all of its processes at one moment, as a power cut does.
    const child = spawn(process.execPath, ["--enable-source-maps", entry], {
      env,
      detached: true,
      stdio: channel ? ["ignore", log, log, "ipc"] : ["ignore", log, log],
    });
    this.#process = child;
    this.#expected = false;
    living.add(this);
    this.#ended = new Promise((resolve) => {
      child.once("error", (error) => onDeath(`${name} cannot be started: ${error.message}`));
      child.once("exit", (code, signal) => {
        if (!this.#expected) onDeath(`${name} ended by itself (${signal ?? `exit code ${code}`})`);
        resolve();
      });
    });
  }

  /** SIGKILL: no goodbye, nothing flushed. */
  async kill(): Promise<void> {
    this.#expected = true;
    this.shoot();
    await this.#ended;
  }

  /** Asks it to end, and insists after a while. */
  async stop(): Promise<void> {
    if (!living.has(this)) return;
    this.#expected = true;
    this.#process?.kill("SIGTERM");
    await Promise.race([this.#ended, delay(STOP_MS, undefined, { ref: false })]);
    await this.kill();
  }

  shoot(): void {
    living.delete(this);
    const id = this.#process?.pid;
    if (id === undefined) return;
    try {
      process.kill(-id, "SIGKILL");
    } catch {
      // The whole group is gone already.
    }
  }
}

/** Different ones, free right now. */
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
      if (typeof address !== "object" || address === null) throw new Error("no port is free");
      return address.port;
    }),
  );
}
