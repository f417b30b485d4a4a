// The part of the service's HTTP API that the shop uses. The service may be down at any moment, so calls are repeated with the
// same idempotency key until it answers.
import { setTimeout as delay } from "node:timers/promises";
import type { DemoOrder } from "./scenarios.js";

const WORKFLOW = "order-fulfilment";
const CALL_MS = 5_000;
const PAUSE_MS = 150;
const PAGE = 500;

export const STATES = ["pending", "running", "paused", "compensating", "succeeded", "failed", "cancelled"] as const;
export type State = (typeof STATES)[number];

export interface Run {
  readonly id: string;
  readonly state: State;
  readonly inputs: { readonly order_id: string; readonly scenario: string };
  readonly requires_manual_review: boolean;
  readonly last_error?: string;
}

interface Page {
  readonly items: readonly Run[];
  readonly total: number;
  readonly next_cursor?: string;
}

export class Saga {
  /** The number of repeated calls. */
  repeated = 0;

  constructor(
    private readonly base: string,
    /** Aborts all calls. */
    private readonly signal: AbortSignal,
    /** With access control: the key of an operator, or of an author who publishes. */
    private readonly key?: string,
  ) {}

  async isReady(): Promise<boolean> {
    try {
      return (await fetch(`${this.base}/readyz`, { signal: AbortSignal.timeout(1_000) })).ok;
    } catch {
      return false;
    }
  }

  /** The number of registered actions. A run that needs an action before its registration fails. */
  async countActions(service: string): Promise<number> {
    const path = `/api/v1/registry/actions?service=${service}`;
    return (await this.call<{ total: number }>("GET", path, undefined, [200])).total;
  }

  async publish(workflow: unknown): Promise<void> {
    await this.call("POST", "/api/v1/workflows", workflow as object, [200, 201]);
  }

  /** Returns the run's id. The order's id is the idempotency key, so repeated calls start one run. */
  async start({ orderId, email, sku, quantity, unitPriceCents, scenario }: DemoOrder): Promise<string> {
    const inputs = { order_id: orderId, email, sku, quantity, unit_price_cents: unitPriceCents, scenario };
    const body = { workflow_id: WORKFLOW, idempotency_key: orderId, business_key: orderId, inputs };
    const answer = await this.call<{ run_id: string }>("POST", "/api/v1/sagas/start", body, [202]);
    return answer.run_id;
  }

  /** A 409 is fine too: the signal is recorded, and the run takes it when it begins to wait. */
  async parcel(runId: string, payload: object): Promise<void> {
    const body = { payload, idempotency_key: `parcel:${runId}` };
    await this.call("POST", `/api/v1/sagas/${runId}/signal/parcel`, body, [202, 409]);
  }

  async waitingForParcel(): Promise<readonly Run[]> {
    return (await this.list({ awaited_signal: "parcel", sort: "started_at", limit: PAGE })).items;
  }

  async countByState(): Promise<Record<State, number>> {
    const pages = await Promise.all(STATES.map((state) => this.list({ state, limit: 1 })));
    return Object.fromEntries(STATES.map((state, index) => [state, pages[index]?.total ?? 0])) as Record<State, number>;
  }

  async all(): Promise<Run[]> {
    const runs: Run[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.list({ sort: "started_at", limit: PAGE, ...(cursor && { cursor }) });
      runs.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
    return runs;
  }

  private list(query: Record<string, string | number>): Promise<Page> {
    const search = new URLSearchParams({ workflow_id: WORKFLOW });
    for (const [name, value] of Object.entries(query)) search.set(name, String(value));
    return this.call<Page>("GET", `/api/v1/sagas?${search}`, undefined, [200]);
  }

  private async call<T>(
    method: string,
    path: string,
    body: object | undefined,
    expected: readonly number[],
  ): Promise<T> {
    for (; ; this.repeated++) {
      this.signal.throwIfAborted();
      const answer = await this.once(method, path, body);
      if (answer && expected.includes(answer.status)) return JSON.parse(answer.text) as T;
      if (answer && answer.status < 500 && answer.status !== 429)
        throw new Error(`the service refused ${method} ${path}: ${answer.status} ${answer.text.slice(0, 500)}`);
      await delay(PAUSE_MS * (0.5 + Math.random()), undefined, { signal: this.signal });
    }
  }

  /** Undefined: it is unknown whether the call arrived. */
  private async once(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; text: string } | undefined> {
    // Node 20 forgets a limit of `AbortSignal.timeout` that nothing but `AbortSignal.any` refers to.
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), CALL_MS);
    try {
      const response = await fetch(this.base + path, {
        method,
        signal: AbortSignal.any([this.signal, limit.signal]),
        headers: {
          ...(body && { "content-type": "application/json" }),
          ...(this.key !== undefined && { authorization: `Bearer ${this.key}` }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text() };
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }
}
