// The bench's HTTP client of the public API: persistent connections, few copies, and errors that name the answer.
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import type { Workload } from "./workloads.js";

/** A wait for the end of a run is this long at most; a run that takes longer counts as failed. */
const WAIT_MS = 60_000;
/** Waiting requests hold a connection each. */
const MAX_CONNECTIONS = 2_000;

export class Refused extends Error {
  override readonly name = "Refused";

  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterSeconds: number,
  ) {
    super(message);
  }
}

/** What the bench reads of a run. */
export interface Run {
  readonly id: string;
  readonly state: string;
  readonly terminal_at?: string;
}

export interface StartOptions {
  readonly inputs?: object;
  readonly variables?: object;
  readonly labels?: Readonly<Record<string, string>>;
  readonly tenant_id?: string;
}

export class Client {
  private readonly pool: Pool;
  private readonly credential: { readonly authorization?: string };
  /** Requests that were answered with 503 and repeated. */
  shed = 0;

  /** `bearer`: the credential of every request. Absent: there is none. */
  constructor(
    readonly base: string,
    bearer?: string,
  ) {
    this.credential = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
    const timeout = 2 * WAIT_MS;
    this.pool = new Pool(new URL(base).origin, {
      ...{ connections: MAX_CONNECTIONS, pipelining: 1, headersTimeout: timeout, bodyTimeout: timeout },
    });
  }

  post<T>(path: string, body: object): Promise<T> {
    return this.send<T>("POST", path, JSON.stringify(body));
  }

  get<T>(path: string): Promise<T> {
    return this.send<T>("GET", path);
  }

  async text(path: string): Promise<string> {
    const { statusCode, body } = await this.pool.request({
      method: "GET",
      path: this.path(path),
      headers: this.credential,
    });
    const text = await body.text();
    if (statusCode >= 400) throw new Refused(statusCode, `${statusCode} to GET ${path}`, 0);
    return text;
  }

  /** Repeats a request that was shed, after the time that the service asks for. */
  async insist<T>(request: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await request();
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 503) throw error;
        this.shed++;
        await delay(error.retryAfterSeconds * 1_000);
      }
    }
  }

  /** Publishes the workflow, unless the same document is there already. */
  publish(workload: Workload): Promise<unknown> {
    return this.post("/api/v1/workflows", workload);
  }

  /** The id of the new run. */
  async start({ id }: Workload, given: StartOptions = {}): Promise<string> {
    const answer = await this.post<{ run_id: string }>("/api/v1/sagas/start", {
      workflow_id: id,
      inputs: {},
      ...given,
    });
    return answer.run_id;
  }

  /** Starts a run and waits for its end. Throws if it does not end as expected. */
  async run({ id }: Workload, given: StartOptions, expected = "succeeded"): Promise<void> {
    const path = `/api/v1/sagas/start?wait_ms=${WAIT_MS}`;
    const { run } = await this.post<{ run?: Run }>(path, { workflow_id: id, ...given });
    if (run?.state !== expected) throw new Error(`a run of ${id} is ${run?.state ?? "not ended"}, not ${expected}`);
  }

  /** The run when it has ended. Throws if it does not end in time. */
  async ended(runId: string): Promise<Run> {
    const run = await this.get<Run>(`/api/v1/sagas/${runId}?wait_ms=${WAIT_MS}`);
    if (run.terminal_at === undefined) throw new Error(`a run is still ${run.state} after ${WAIT_MS} ms`);
    return run;
  }

  /** Resolves when a run of SIGNALLED waits: its third audit row says so. */
  async paused(runId: string): Promise<void> {
    const run = await this.get<Run>(`/api/v1/sagas/${runId}?wait_ms=${WAIT_MS}&after_seq=2`);
    if (run.state !== "paused") throw new Error(`a run is ${run.state}, not paused`);
  }

  signal(runId: string): Promise<unknown> {
    return this.post(`/api/v1/sagas/${runId}/signal/go`, { payload: { amount: 7 } });
  }

  /** The number of runs of the workflow in this state. */
  async count({ id }: Workload, state: string): Promise<number> {
    const path = `/api/v1/sagas?workflow_id=${id}&state=${state}&limit=1&count=exact`;
    return (await this.get<{ total: number }>(path)).total;
  }

  /** Resolves when there are so many. Throws after a minute without progress. */
  async untilCount(workload: Workload, state: string, wanted: number): Promise<void> {
    let best = -1;
    for (let since = performance.now(); performance.now() - since < WAIT_MS; await delay(100)) {
      const now = await this.count(workload, state);
      if (now >= wanted) return;
      if (now > best) since = performance.now();
      best = Math.max(best, now);
    }
    throw new Error(`only ${best} of ${wanted} runs of ${workload.id} became ${state}`);
  }

  close(): Promise<void> {
    return this.pool.destroy();
  }

  private path(path: string): string {
    return new URL(this.base).pathname.replace(/\/+$/, "") + path;
  }

  private async send<T>(method: "GET" | "POST", path: string, text?: string): Promise<T> {
    const headers = { ...this.credential, ...(text !== undefined && { "content-type": "application/json" }) };
    const answer = await this.pool.request({ method, path: this.path(path), headers, body: text ?? null });
    const body = await answer.body.text();
    if (answer.statusCode < 400) return JSON.parse(body) as T;
    const retryAfter = Number(answer.headers["retry-after"] ?? 1);
    throw new Refused(
      answer.statusCode,
      `${answer.statusCode} to ${method} ${path}: ${body.slice(0, 300)}`,
      retryAfter,
    );
  }
}
