// What a test has at RabbitMQ: an exchange of its own at the broker that it shares with others, or a broker of its own, which it can kill and
// start again: what was confirmed is still there. Where no broker can be started, and in the short form, a gate before the shared one is shut
// and opened instead.
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "amqplib";
import { inject } from "vitest";
import { topologyOf } from "../../src/events/topology.js";
import { atFileEnd } from "./file-end.js";
import { LONG } from "./long.js";
import { freePorts } from "./ports.js";
import { answersAsRabbitMq } from "./probe.js";
import { TcpGate } from "./tcp-gate.js";
import { until } from "./until.js";

/** The settings of a service at this broker. */
export function brokerSettings(url: string): { readonly AMQP_URL: string; readonly SAGA_EVENTS_EXCHANGE: string } {
  return { AMQP_URL: url, SAGA_EVENTS_EXCHANGE: ownExchange() };
}

/**
 * The name of an exchange for one service. What the service has under it at the shared broker goes with the test file, and so do the queues
 * of the test, which have the name with these endings.
 */
export function ownExchange(...endings: readonly string[]): string {
  const name = `saga-test.${randomUUID()}`;
  const { exchange, queue, dead } = topologyOf(name);
  atFileEnd(() => remove([queue, dead, ...endings.map((ending) => name + ending)], exchange));
  return name;
}

/**
 * The name of a queue for the workers of one service: with access control it begins with the service's. What has the name at the shared
 * broker, the queue of the SDK's dead messages too, goes with the test file.
 */
export function ownQueue(service: string): string {
  const name = `${service}/${randomUUID()}`;
  atFileEnd(() => remove([name, `${name}.dead`]));
  return name;
}

async function remove(queues: readonly string[], exchange?: string): Promise<void> {
  const connection = await connect(inject("amqpUrl"));
  const channel = await connection.createChannel();
  // What is not there counts as deleted.
  for (const queue of queues) await channel.deleteQueue(queue);
  if (exchange !== undefined) await channel.deleteExchange(exchange);
  await connection.close();
}

export interface BreakableRabbitMq {
  readonly url: string;
  kill(): Promise<void>;
  /** At the same address. */
  start(): Promise<void>;
  end(): Promise<void>;
}

/** The script itself: on Debian, that on the PATH changes the user first. */
const SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const START_WITHIN_MS = 120_000;

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const server of running) killNow(server);
});

/** `shared`: the URL of the broker behind the gate. */
export async function openBreakableRabbitMq(shared: string): Promise<BreakableRabbitMq> {
  return LONG && existsSync(SERVER) ? openServer() : openGate(shared);
}

async function openServer(): Promise<BreakableRabbitMq> {
  const [port = 0, distribution = 0] = await freePorts(2);
  const folder = await mkdtemp(join(tmpdir(), "saga-rabbitmq-"));
  const url = `amqp://guest:guest@127.0.0.1:${port}`;
  await writeFile(join(folder, "plugins"), "[].");
  const env = {
    ...{ PATH: process.env.PATH, HOME: folder, RABBITMQ_NODENAME: `saga${port}@localhost` },
    ...{ RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1", RABBITMQ_NODE_PORT: `${port}`, RABBITMQ_DIST_PORT: `${distribution}` },
    ...{ RABBITMQ_MNESIA_BASE: join(folder, "db"), RABBITMQ_LOG_BASE: join(folder, "log") },
    ...{ RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, "plugins"), RABBITMQ_CONFIG_FILE: join(folder, "none") },
  };
  let server: ChildProcess | undefined;
  const start = async () => {
    server = spawn(SERVER, { env, stdio: "ignore", detached: true });
    running.add(server);
    await until(() => answersAsRabbitMq(url), { within: START_WITHIN_MS, pause: 200, what: "a RabbitMQ broker" });
  };
  const kill = async () => {
    const gone = server;
    server = undefined;
    if (!gone) return;
    const ended = new Promise((resolve) => gone.once("exit", resolve));
    killNow(gone);
    await ended;
    running.delete(gone);
  };
  const end = async () => {
    await kill();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  await start();
  return { url, kill, start, end };
}

/** The broker and the helpers that it started. */
function killNow({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

async function openGate(shared: string): Promise<BreakableRabbitMq> {
  const gate = new TcpGate(new URL(shared));
  await gate.open();
  return { url: gate.url, kill: () => gate.shut(), start: () => gate.open(), end: () => gate.shut() };
}
