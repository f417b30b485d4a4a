// A private Redis that a test may kill: a server of its own, or a gate in front of the shared one where no `redis-server` is
// installed. It persists nothing.
import { type ChildProcess, spawn } from "node:child_process";
import { freePorts } from "./ports.js";
import { answersAsRedis } from "./probe.js";
import { TcpGate } from "./tcp-gate.js";
import { until } from "./until.js";

export interface PrivateRedis {
  readonly url: string;
  /** Closes all connections without notice. Safe to call twice. */
  kill(): Promise<void>;
  /** Starts it again under the same URL. */
  start(): Promise<void>;
}

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const server of running) server.kill("SIGKILL");
});

/** `shared` is the URL to use if no `redis-server` is on the PATH. */
export async function openPrivateRedis(shared: string): Promise<PrivateRedis> {
  const [port = 0] = await freePorts(1);
  return (await openServer(port)) ?? openGate(shared);
}

async function openServer(port: number): Promise<PrivateRedis | undefined> {
  const url = `redis://127.0.0.1:${port}`;
  let server: ChildProcess | undefined;
  const kill = async () => {
    const gone = server;
    server = undefined;
    if (gone === undefined || gone.exitCode !== null) return;
    const ended = new Promise((resolve) => gone.once("exit", resolve));
    gone.kill("SIGKILL");
    await ended;
    running.delete(gone);
  };
  const start = async () => {
    const settings = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    const child = spawn("redis-server", settings, { stdio: "ignore" });
    const missing = new Promise<"missing">((resolve) => child.once("error", () => resolve("missing")));
    const answers = until(() => answersAsRedis(url), { what: "a Redis server" }).then(() => "answers" as const);
    const state = await Promise.race([missing, answers]);
    answers.catch(() => {});
    if (state === "missing") throw new Error("there is no redis-server to start");
    running.add(child);
    server = child;
  };
  return start().then(
    () => ({ url, kill, start }),
    () => undefined,
  );
}

async function openGate(shared: string): Promise<PrivateRedis> {
  const gate = new TcpGate(new URL(shared));
  await gate.open();
  return { url: gate.url, kill: () => gate.shut(), start: () => gate.open() };
}
