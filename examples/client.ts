// The few calls of the HTTP API that the small examples make. It is not an SDK: a call that fails ends the example.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { packageRoot } from "../src/config/package.js";

/** Where an example runs, and what it prints to. */
export interface Place {
  readonly saga: Saga;
  /** The service's gRPC address. */
  readonly grpc: string;
  /** The broker of the service, if it has one. */
  readonly amqpUrl?: string;
  /** The queue of a service's worker. With access control a name must begin like this. */
  readonly queue: (service: string) => string;
  /** What the worker of a service needs. */
  readonly credentials: (service: string) => Promise<Credentials>;
  readonly print: (line: string) => void;
}

/** Empty without access control. */
export interface Credentials {
  /** The key of the worker. */
  readonly token?: string;
  /** By which an HTTP worker knows the service. */
  readonly signingSecret?: string;
}

export interface Run {
  readonly id: string;
  readonly state: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly output?: unknown;
  readonly error?: { readonly code: string; readonly step_id?: string };
}

export interface Items<T> {
  readonly items: readonly T[];
  readonly total: number;
}

const WAIT_MS = 60_000;
const PAUSE_MS = 50;

export class Saga {
  /** `token`: a key with the role `author`, with access control. */
  constructor(
    readonly url: string,
    private readonly token?: string,
  ) {}

  /** Publishes a workflow of the folder, from the file beside the example's code. */
  async publish(folder: string, file: string): Promise<void> {
    const path = join(packageRoot(), "examples", folder, file);
    await this.call("POST", "/workflows", JSON.parse(readFileSync(path, "utf8")));
  }

  /** Starts a run and waits for its end. */
  async run(workflow_id: string, inputs: object): Promise<Run> {
    const body = { workflow_id, inputs };
    const { run_id } = await this.call<{ run_id: string }>("POST", "/sagas/start", body);
    return this.ended(run_id);
  }

  async ended(runId: string): Promise<Run> {
    const run = await this.call<Run & { terminal_at?: string }>("GET", `/sagas/${runId}?wait_ms=${WAIT_MS}`);
    if (run.terminal_at === undefined) throw new Error(`the run ${runId} has not ended within ${WAIT_MS / 1_000} s`);
    return run;
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(this.token !== undefined && { authorization: `Bearer ${this.token}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was answered ${response.status}: ${text.slice(0, 500)}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Asks until the list has an item. */
  async first<T>(path: string): Promise<T> {
    for (const latest = performance.now() + WAIT_MS; performance.now() < latest; await delay(PAUSE_MS)) {
      const [item] = (await this.call<Items<T>>("GET", path)).items;
      if (item !== undefined) return item;
    }
    throw new Error(`${path} has had no item for ${WAIT_MS / 1_000} s`);
  }
}

/** An example says what it expects, so that it fails where the service does something else. */
export function expectState({ state, error }: Run, expected: string): void {
  if (state !== expected) throw new Error(`the run is ${state}, not ${expected}: ${JSON.stringify(error)}`);
}
