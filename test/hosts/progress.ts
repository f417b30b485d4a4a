// Whether runs still end: small runs with a step at a worker, started twice a second. What was acknowledged of them must end, too.
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import type { Client } from "../faults/client.js";
import { until } from "../harness/until.js";

const WORKFLOW = "sign-of-life";
const EVERY_MS = 500;
const ANSWER_MS = 10_000;
const WITHIN_MS = 300_000;

const STEPS = [
  { id: "rest", type: "wait_duration", duration_ms: 20, next: "pay" },
  {
    id: "pay",
    type: "action",
    action: "shop.charge",
    retry: { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 },
  },
];

export class Progress {
  private readonly acknowledged = new Set<string>();

  constructor(private readonly url: string) {}

  static async publish(client: Client): Promise<void> {
    await client.publish(WORKFLOW, STEPS);
  }

  /** Milliseconds from now until a run that was started since has ended. */
  async resumes(): Promise<number> {
    const began = performance.now();
    let ended = false;
    const tries: Promise<void>[] = [];
    const tryOnce = async () => {
      if (await this.runEnds()) ended = true;
    };
    await until(
      async () => {
        if (ended) return true;
        tries.push(tryOnce());
        await Promise.race([...tries, delay(EVERY_MS)]);
        return ended;
      },
      { within: WITHIN_MS, pause: EVERY_MS, what: "a run that ends" },
    );
    return Math.round(performance.now() - began);
  }

  /** A client that sets itself a time for an answer, over a connection of its own. */
  private async runEnds(): Promise<boolean> {
    try {
      const response = await fetch(`${this.url}/api/v1/sagas/start?wait_ms=${ANSWER_MS / 2}`, {
        ...{ method: "POST", headers: { "content-type": "application/json", connection: "close" } },
        body: JSON.stringify({ workflow_id: WORKFLOW }),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      const { run_id, run } = (await response.json()) as {
        readonly run_id?: string;
        readonly run?: { readonly state: string };
      };
      if (response.ok && run_id !== undefined) this.acknowledged.add(run_id);
      return run?.state === "succeeded";
    } catch {
      return false;
    }
  }

  /** All that were acknowledged succeed, with a sound history. Resolves with their number. */
  async finish(client: Client): Promise<number> {
    const seen = await client.allEnd([...this.acknowledged], WITHIN_MS);
    expect(seen.filter(({ run }) => run.state !== "succeeded").map(({ run }) => run.id)).toEqual([]);
    return seen.length;
  }
}
