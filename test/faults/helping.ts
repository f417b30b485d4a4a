// A service whose runs people help, over its API: a shop that can be broken and repaired, the acts, and the books of the shop.
import { expect } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import type { Seen } from "../run/seen.js";
import { type Answer, type Client, PAUSE_MS } from "./client.js";
import { startService } from "./rig.js";
import type { Shop } from "./shop.js";

export interface Incident {
  readonly code: string;
  readonly message: string;
  readonly step_id: string;
  readonly attempts: number;
  readonly since: string;
  readonly phase?: string;
}

export interface Undo {
  readonly ordinal: number;
  readonly step_id: string;
  readonly child_run_id?: string;
  readonly state: string;
}

export type Run = Seen["run"] & {
  readonly incident?: Incident;
  readonly requires_manual_review: boolean;
  readonly terminal_at?: string;
};

export const HELPED = { on_failure: "incident", on_undo_failure: "incident" };

/** A paid step: what it charges is refunded when the run rolls back. */
export const charge = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", compensation: { action: "shop.refund" } },
  ...more,
});
/** The same with an action of its own, so that it can break alone. */
export const ship = (more: Record<string, unknown> = {}): Step => charge("ship", { action: "shop.slow", ...more });
export const refused: Step = { id: "no", type: "error", code: "no", on_failure: "rollback" };

/** All acts, as their routes are named, with a body that fits. */
export const ACTS: Readonly<Record<string, object>> = {
  pause: { reason: "look at it" },
  resume: {},
  retry_step: {},
  skip_step: { output: { by: "hand" } },
  fail: { reason: "hopeless" },
  "compensations/retry": {},
  "compensations/skip": {},
  terminate: { reason: "stuck" },
  migrate: { version: 1 },
  release: {},
};

export class Counter {
  private constructor(
    readonly database: TestDatabase,
    readonly client: Client,
    readonly shop: Shop,
    /** Where workers find the service. */
    readonly at: { readonly grpc: string; readonly api: string },
    private readonly stop: () => Promise<unknown>,
  ) {}

  /** A service in this process, and a worker. */
  static async openHere(): Promise<Counter> {
    const database = await createTestDatabase({ max: 2 });
    const { node, client, shop, stop } = await startService(database.url);
    return new Counter(database, client, shop, { grpc: `127.0.0.1:${node.grpcPort}`, api: client.url }, stop);
  }

  async close(): Promise<void> {
    this.shop.letAllGo();
    await this.stop();
    await this.database.drop();
  }

  run(runId: string): Promise<Run> {
    return this.client.run(runId) as Promise<Run>;
  }

  /** The answer, whatever it is. */
  act(runId: string, name: string, body: object = ACTS[name] ?? {}): Promise<Answer> {
    return this.client.insist("POST", `/sagas/${runId}/${name}`, body);
  }

  /** The act is done, and changed something. */
  async do(runId: string, name: string, body?: object): Promise<void> {
    const { status, body: answer } = await this.act(runId, name, body);
    expect({ name, status, answer }).toMatchObject({ status: 202, answer: { run_id: runId, changed: true } });
  }

  /** The incident that the run stands at. */
  incident(runId: string): Promise<Incident> {
    return until(async () => (await this.run(runId)).incident, { pause: PAUSE_MS, what: `an incident of ${runId}` });
  }

  async paused(runId: string, reason: string): Promise<Run> {
    const is = async () => {
      const run = await this.run(runId);
      return run.paused_reason === reason && run;
    };
    return until(is, { pause: PAUSE_MS, what: `${runId} paused by ${reason}` });
  }

  async can(runId: string): Promise<string[]> {
    return (await this.client.insist("GET", `/sagas/${runId}/explain`)).body.can;
  }

  async children(runId: string): Promise<string[]> {
    const { body } = await this.client.insist("GET", `/sagas/${runId}/children`);
    return body.items.map(({ id }: { id: string }) => id);
  }

  async undoList(runId: string): Promise<Undo[]> {
    return (await this.client.insist("GET", `/sagas/${runId}/undo`)).body.items;
  }

  /** Waits for the ends of the runs and their children, checks their histories, and balances the books. */
  async ends(runIds: readonly string[], state: string): Promise<Seen[]> {
    const seen = await this.client.allEnd(runIds);
    expect(seen.map(({ run }) => run.state)).toEqual(runIds.map(() => state));
    const children = (await Promise.all(runIds.map((runId) => this.children(runId)))).flat();
    await this.client.allEnd(children);
    await this.balance([...runIds, ...children]);
    return seen;
  }

  /** What was paid and not refunded is what succeeded, and what undo lists leave to people. */
  private async balance(runIds: readonly string[]): Promise<void> {
    const paid = runIds.flatMap((runId) => this.shop.of(runId).filter(({ action }) => action !== "refund"));
    const refunds = runIds.flatMap((runId) => this.shop.of(runId, "refund"));
    const kept = new Map(paid.map(({ key, runId, stepId }) => [key, `${runId} ${stepId}`]));
    for (const { forwardKey = "" } of refunds) kept.delete(forwardKey);
    const left: string[] = [];
    for (const runId of runIds) {
      const { state } = await this.run(runId);
      const list = (await this.undoList(runId)).filter((entry) => LEFT.has(entry.state));
      for (const { step_id: step, child_run_id: child = runId } of list) left.push(`${child} ${step}`);
      const root = await this.rootState(runId);
      // A branch that succeeded has handed its undo list to its parent.
      if (state === "succeeded" && root === "succeeded")
        left.push(...this.shop.of(runId).map(({ stepId }) => `${runId} ${stepId}`));
    }
    expect([...kept.values()].sort()).toEqual([...new Set(left)].sort());
  }

  private async rootState(runId: string): Promise<string> {
    const { root_run_id: root = runId } = (await this.run(runId)) as { root_run_id?: string };
    return (await this.run(root)).state;
  }
}

/** An undo of these states is left to people. */
const LEFT = new Set(["failed", "abandoned"]);
