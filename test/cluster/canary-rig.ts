// A service of two nodes, at log level trace, and everything that is looked at for a canary: its log, its metrics, the arguments of processes, what
// Redis was asked, the traces that a collector got, what was answered with an error, and another tenant's pages. What its own tenant reads of its own runs is no leak.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { Collector } from "../tracing/collector.js";
import { newKeyIn, OTHER, TENANT } from "./access-rig.js";

/** Each canary ends with where it was put, so that one that is found names its way. */
export const CANARY = "canary4c1e";
export const at = (place: string) => `${CANARY}-${place}-0123456789`;
export const silentWorker = { debug() {}, info() {}, warn() {}, error() {} };

const PAGES = [
  ...["sagas", "sagas/counts", "user_tasks", "workflows", "rules", "triggers", "bulk", "registry/actions"],
  ...["workers", "api_keys"],
];

/** The service keeps so many lines; beyond them it would forget what is looked for. */
const MOST_LINES = 2_000;

export interface Sent {
  readonly key?: string;
  readonly method?: string;
  readonly body?: object | string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Step {
  readonly id: string;
  readonly [attribute: string]: unknown;
}

export interface Answered {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what it is depends on the route
  readonly json: any;
}

export class CanaryService {
  /** What Redis was asked. */
  readonly heard: string[] = [];
  /** Answers from status 400 up. */
  readonly refusals: string[] = [];
  /** More that must be nowhere: tokens and ids that are made on the way. */
  readonly more = new Set<string>();

  private constructor(
    readonly service: ServiceProcess,
    readonly database: TestDatabase,
    readonly keys: Readonly<Record<"own" | "other" | "worker" | "platform", string>>,
    private readonly redis: Redis,
    private readonly monitor: Redis,
    private readonly folder: string,
    /** What traces were sent to. */
    readonly collector: Collector,
  ) {
    monitor.on("monitor", (_time: string, args: string[]) => void this.heard.push(args.join(" ")));
  }

  static async open(redisUrl: string, env: Readonly<Record<string, string>> = {}): Promise<CanaryService> {
    const database = await createTestDatabase({ max: 2 });
    const folder = mkdtempSync(join(tmpdir(), "saga-canary-"));
    const collector = await Collector.open();
    const secrets = join(folder, "secrets.json");
    const vault = { header: "x-api-key", value: at("secret"), tenants: [TENANT] };
    const hook = { value: at("webhook-secret"), use: "signing", tenants: [TENANT] };
    writeFileSync(secrets, JSON.stringify({ vault, hook }), { mode: 0o600 });
    const service = await createService({
      ...{ DATABASE_URL: database.url, REDIS_URL: redisUrl, SAGA_WORKERS: "2", LOG_LEVEL: "trace" },
      ...{ SAGA_AUTH: "api_key", SAGA_EGRESS_ALLOW: "127.0.0.1", SAGA_WORKER_ALLOW: "127.0.0.1" },
      SAGA_SECRETS_FILE: secrets,
      SAGA_SIGNING_SECRET: at("signing-secret-of-32-bytes"),
      SAGA_BUS_KEY: at("bus-key-of-thirty-two-characters"),
      SAGA_CALLBACK_KEY: at("callback-key-of-thirty-two-characters"),
      ...{ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: "50" },
      OTEL_EXPORTER_OTLP_HEADERS: `x-login=${at("collector-login")}`,
      ...env,
    });
    const redis = new Redis(redisUrl);
    const monitor = await redis.monitor();
    const opened = new CanaryService(service, database, await makeKeys(database), redis, monitor, folder, collector);
    await service.start();
    return opened;
  }

  get url(): string {
    return this.service.url;
  }

  async close(): Promise<void> {
    this.monitor.disconnect();
    this.redis.disconnect();
    await this.service.stop();
    await this.collector.close();
    await this.database.drop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Beside many other services, Postgres may have no session left for a moment: what is answered 503 is asked again. */
  ask(path: string, sent: Sent = {}): Promise<Answered> {
    return until(async () => {
      const answer = await this.askOnce(path, sent);
      return answer.status !== 503 && answer;
    });
  }

  private async askOnce(path: string, { key = this.keys.own, method, body, headers = {} }: Sent): Promise<Answered> {
    const sent = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(`${this.url}${path}`, {
      headers: {
        authorization: `Bearer ${key}`,
        ...(sent !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(sent !== undefined && { method: "POST", body: sent }),
      ...(method !== undefined && { method }),
    });
    const text = await answer.text();
    if (answer.status >= 400) this.refusals.push(`${answer.status} ${text}`);
    return { status: answer.status, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
  }

  /** What is refused is refused with this status. */
  async refuses(status: number, path: string, sent: Sent): Promise<void> {
    const answer = await this.ask(path, sent);
    expect([path, answer.status, answer.text]).toEqual([path, status, expect.any(String)]);
  }

  async publish(id: string, steps: readonly Step[], more: object = {}): Promise<void> {
    const body = { id, name: id, start: steps[0]?.id, steps, published: true, ...more };
    // A repeat may find it stored.
    const { status, text } = await this.ask("/api/v1/workflows", { body });
    expect([200, 201], text).toContain(status);
  }

  async start(
    workflow_id: string,
    inputs: object = { note: at("input") },
    key = `${at("key")}-${randomUUID()}`,
  ): Promise<string> {
    const labels = { kind: at("label") };
    const { status, text, json } = await this.ask("/api/v1/sagas/start", {
      body: { workflow_id, inputs, business_key: at("business-key"), labels },
      headers: { "idempotency-key": key, "x-own": at("header"), "user-agent": at("agent") },
    });
    // What was answered 503 may have started, and is asked again.
    expect([200, 202], text).toContain(status);
    return json.run_id;
  }

  reaches(run: string, state: string, more: (json: Record<string, unknown>) => boolean = () => true): Promise<true> {
    return until(async () => {
      const { json, text } = await this.ask(`/api/v1/sagas/${run}`);
      if (json?.state === state && more(json)) return true;
      throw new Error(text);
    });
  }

  /** The lines that have a canary, a key, or what was added to `more`. */
  found(lines: readonly string[]): readonly string[] {
    const secrets = [CANARY, ...Object.values(this.keys), ...this.more];
    return lines.filter((line) => secrets.some((secret) => line.includes(secret)));
  }

  /** Looks at everything. What is looked at is whole, and there was something to see. */
  async expectNoLeak(): Promise<void> {
    const others: string[] = [];
    for (const page of PAGES) {
      const { status, text } = await this.ask(`/api/v1/${page}`, { key: this.keys.other });
      expect([page, status]).toEqual([page, 200]);
      others.push(text);
    }
    const metrics = (await this.ask("/metrics", { key: this.keys.platform })).text;
    const cluster = (await this.ask("/api/v1/cluster", { key: this.keys.platform })).text;
    expect(metrics).toContain("saga_");
    // What the monitor hears comes in its order: so it has heard all that was said before.
    const mark = randomUUID();
    await this.redis.echo(mark);
    await until(() => this.heard.some((line) => line.includes(mark)));
    expect(this.service.log.length).toBeLessThan(MOST_LINES);
    expect(this.service.log.some((line) => line.includes('"audit":true'))).toBe(true);
    expect(this.found([(await this.ask("/api/v1/sagas")).text])).toHaveLength(1);
    const traces = this.collector.bodies.map((bytes) => bytes.toString("latin1"));
    const args = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" });
    const looked = {
      ...{ log: this.service.log, metrics: metrics.split("\n"), cluster: [cluster], processes: args.split("\n") },
      ...{ redis: this.heard, traces, others, refusals: this.refusals },
    };
    const leaks = Object.entries(looked).map(([name, lines]) => [name, this.found(lines)]);
    expect(Object.fromEntries(leaks)).toEqual(Object.fromEntries(Object.keys(looked).map((name) => [name, []])));
  }
}

async function makeKeys(database: TestDatabase) {
  const make = (name: string, roles: readonly string[], tenantId?: string) =>
    newKeyIn(database, { name, roles, services: ["*"], secrets: ["*"], ...(tenantId && { tenantId }) });
  return {
    own: await make("own", ["admin"], TENANT),
    other: await make("other", ["admin"], OTHER),
    worker: await make("worker", ["worker"], TENANT),
    platform: await make("platform", ["platform", "admin"]),
  };
}
