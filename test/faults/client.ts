// The API as a patient client uses it: plain HTTP, and the same request again after a 503 or a lost answer. Every answer is compared with
// the OpenAPI document.
import { expect } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { documented, Undocumented } from "../api/documented.js";
import { credential } from "../harness/access.js";
import { assertHistory, type EventSeen } from "../harness/history.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import type { Seen } from "../run/seen.js";

/** The longest pause between two requests of one question. Without it, waiting clients would be the load. */
export const PAUSE_MS = 100;
/** A request that gets no answer takes 40 s of it, and a node that is killed every two seconds hardly answers on a busy machine. */
const PATIENCE_MS = 240_000;

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape, and fail if the shape is wrong.
  readonly body: any;
}

export interface Received extends Answer {
  readonly headers: Headers;
}

export class Client {
  /** Every later request fails, too: a test that waits for a fact repeats its request after an error, and would miss a single wrong answer. */
  private fault: Undocumented | undefined;

  /** `url` changes if a service restarts on another port. */
  constructor(public url: string) {}

  /** Once. Throws if there is no answer, or one that the document does not have. */
  async ask(method: "GET" | "POST", path: string, body?: unknown): Promise<Answer> {
    const answer = await this.send(this.url, method, path, body);
    return { status: answer.status, body: answer.body };
  }

  /** The same, at the service of this URL, with the headers of the answer. `key`: the idempotency key. */
  async send(
    url: string,
    method: "GET" | "POST" | "DELETE",
    path: string,
    body?: unknown,
    key?: string,
  ): Promise<Received> {
    if (this.fault) throw this.fault;
    const sent = {
      ...credential(path),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(key !== undefined && { "idempotency-key": key }),
    };
    const response = await fetch(`${url}/api/v1${path}`, {
      ...{ method, headers: sent },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(40_000),
    });
    const { status, headers } = response;
    const text = await response.text();
    const answer = { status, headers, body: text === "" ? undefined : JSON.parse(text) };
    this.check(method, path, answer);
    return answer;
  }

  private check(method: string, path: string, { status, headers, body }: Received): void {
    const contentType = headers.get("content-type") ?? undefined;
    try {
      documented().check({ method, path: `/api/v1${path}`, status, contentType, body });
    } catch (error) {
      if (error instanceof Undocumented) this.fault = error;
      throw error;
    }
  }

  /** Asks until there is an outcome. No answer is none, and neither is a 503. Throws at once what the document does not have. */
  async insist(method: "GET" | "POST", path: string, body?: unknown): Promise<Answer> {
    const once = () => this.ask(method, path, body).catch(() => undefined);
    const answer = await until(
      async () => {
        const answer = await once();
        return this.fault ?? (answer?.status === 503 ? undefined : answer);
      },
      { pause: PAUSE_MS, within: PATIENCE_MS, what: `an outcome of ${method} ${path}` },
    );
    if (answer instanceof Undocumented) throw answer;
    return answer;
  }

  async publish(id: string, steps: readonly Step[], head: JsonObject = {}): Promise<void> {
    const document = { id, name: id, start: steps[0]?.id, steps, published: true, version: 1, ...head };
    const { status, body } = await this.insist("POST", "/workflows", document);
    if (status !== 201 && status !== 200) throw new Error(JSON.stringify(body));
  }

  async start(workflowId: string, more: JsonObject = {}): Promise<string> {
    const { status, body } = await this.insist("POST", "/sagas/start", { workflow_id: workflowId, ...more });
    if (status !== 202) throw new Error(JSON.stringify(body));
    return body.run_id;
  }

  async run(runId: string): Promise<Seen["run"]> {
    const { status, body } = await this.insist("GET", `/sagas/${runId}`);
    expect({ runId, status }).toEqual({ runId, status: 200 });
    return body;
  }

  async look(runId: string): Promise<Seen> {
    const events: EventSeen[] = [];
    for (let page = "?limit=500"; page !== ""; ) {
      const { body } = await this.insist("GET", `/sagas/${runId}/events${page}`);
      events.push(...(body.items as EventSeen[]));
      page = body.next_cursor === undefined ? "" : `?limit=500&cursor=${body.next_cursor}`;
    }
    return { run: await this.run(runId), events };
  }

  async untilState(runId: string, state: string, within = 45_000): Promise<Seen["run"]> {
    const reached = async () => {
      const run = await this.run(runId);
      return run.state === state && run;
    };
    return until(reached, { within, pause: PAUSE_MS, what: `${state} of run ${runId}` });
  }

  /** Waits until all runs have ended, and checks their histories. */
  async allEnd(runIds: readonly string[], within = long(60_000, 300_000)): Promise<Seen[]> {
    const open = new Set(runIds);
    const noneOpen = async () => {
      for (const runId of open) {
        if ((await this.run(runId)).terminal_at === undefined) return false;
        open.delete(runId);
      }
      return true;
    };
    await until(noneOpen, { within, pause: PAUSE_MS, what: "the end of all runs" }).catch(async (error) => {
      const [first = ""] = open;
      throw new Error(`${error.message}; ${open.size} open, one is ${JSON.stringify(await this.look(first), null, 1)}`);
    });
    const seen: Seen[] = [];
    for (const runId of runIds) {
      const one = await this.look(runId);
      assertHistory(one.run, one.events);
      seen.push(one);
    }
    return seen;
  }
}
