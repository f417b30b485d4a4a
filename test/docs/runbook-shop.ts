// The shop and the bank of the runbook: real SDK workers that can be broken, with books of what they did by idempotency key. Whether the books
// balance is compared with what the service says of its runs.
import { expect } from "vitest";
import { ActionError, createWorker } from "../../src/sdk/worker/index.js";
import type { Client } from "../faults/client.js";
import { type Action, handleAll } from "../harness/actions.js";

const TIMING = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
const silent = { debug() {}, info() {}, warn() {}, error() {} };

interface Input {
  readonly card?: string;
  readonly address?: string;
}

interface At {
  readonly grpc: string;
  readonly api: string;
}

/** A run, by its effects. */
interface Effect {
  readonly runId: string;
}

export class Shop {
  /** The effects by their idempotency keys: a repeated attempt has none. */
  readonly charges = new Map<string, Effect>();
  readonly parcels = new Map<string, Effect>();
  readonly letters = new Map<string, Effect>();
  /** The keys of the refunds, by the key of the charge. */
  private readonly refunds = new Map<string, Set<string>>();
  isCarrierDown = false;
  isBankDown = false;
  private delivery: Promise<void> | undefined;

  private constructor(private readonly stops: (() => Promise<void>)[]) {}

  static async open(at: At): Promise<Shop> {
    const stops: (() => Promise<void>)[] = [];
    const shop = new Shop(stops);
    for (const [service, actions] of [
      ["shop", [shop.charge(), shop.refund(() => false), shop.ship(), shop.letter()]],
      ["bank", [shop.refund(() => shop.isBankDown)]],
    ] as const) {
      const options = { log: silent, timing: TIMING, maxInFlight: 64, drainTimeoutMs: 200 };
      const worker = handleAll(createWorker({ service, ...at, ...options }), service, actions);
      await worker.start();
      stops.push(() => worker.stop());
    }
    return shop;
  }

  async close(): Promise<void> {
    for (const stop of this.stops) await stop();
  }

  /** Letters stay with the worker from now on, until what it returns is called. */
  holdLetters(): () => void {
    let deliver = () => {};
    this.delivery = new Promise((resolve) => {
      deliver = resolve;
    });
    return deliver;
  }

  private charge(): Action {
    return {
      ...{ name: "charge", compensable: true },
      execute: ({ card }: Input, { idempotencyKey: key, runId }) => {
        if (card === "declined") throw failure("card_declined");
        this.charges.set(key, { runId });
        return { receipt: key };
      },
    };
  }

  private refund(isDown: () => boolean): Action {
    return {
      name: "refund",
      execute: (_input, { idempotencyKey, forwardIdempotencyKey: charge = "" }) => {
        if (isDown()) throw failure("ledger_away");
        this.refunds.set(charge, new Set([...(this.refunds.get(charge) ?? []), idempotencyKey]));
        return {};
      },
    };
  }

  /** While the carrier is down, an order to the moon is shipped, and its answer is lost. */
  private ship(): Action {
    return {
      name: "ship",
      execute: ({ address }: Input, { idempotencyKey: key, runId, signal }) => {
        if (address === "nowhere") throw failure("unknown_address");
        if (this.isCarrierDown && address !== "the moon") throw failure("carrier_down");
        this.parcels.set(key, { runId });
        if (!this.isCarrierDown) return { parcel: key };
        return new Promise<object>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
    };
  }

  private letter(): Action {
    return {
      name: "letter",
      execute: async (_input, { idempotencyKey: key, runId }) => {
        this.letters.set(key, { runId });
        await this.delivery;
        return {};
      },
    };
  }

  /** Each charge belongs to a run that succeeded, or was refunded once, or is listed for a person. Returns how many are which. */
  async balance(client: Client, workflows: readonly string[]) {
    const states = new Map<string, string>();
    for (const id of workflows)
      for (const run of await listed(client, `workflow_id=${id}`)) states.set(run.id, run.state);
    const reviewed = new Set<string>();
    for (const { id } of await listed(client, "requires_manual_review=true"))
      if (await isLeftToPeople(client, id)) reviewed.add(id);
    const each = { kept: 0, refunded: 0, reviewed: 0 };
    for (const [key, { runId }] of this.charges) {
      const kept = states.get(runId) === "succeeded";
      const refunds = this.refunds.get(key)?.size ?? 0;
      const is = { kept, refunds, reviewed: reviewed.has(runId) };
      const right = kept
        ? { kept, refunds: 0, reviewed: false }
        : { kept, refunds: is.reviewed ? 0 : 1, reviewed: is.reviewed };
      expect({ runId, ...is }).toEqual({ runId, ...right });
      each[kept ? "kept" : is.reviewed ? "reviewed" : "refunded"]++;
    }
    expect([...this.refunds.keys()].filter((key) => !this.charges.has(key))).toEqual([]);
    return each;
  }
}

const failure = (code: string) => new ActionError(code, `the answer is ${code}`, { retryable: false });

interface Listed {
  readonly id: string;
  readonly state: string;
}

async function listed(client: Client, filter: string): Promise<readonly Listed[]> {
  const all: Listed[] = [];
  for (let cursor = ""; ; ) {
    const { body } = await client.insist("GET", `/sagas?${filter}&limit=500${cursor}`);
    all.push(...body.items);
    if (body.next_cursor === undefined) return all;
    cursor = `&cursor=${body.next_cursor}`;
  }
}

/** Its undo list says that the charge was not undone. */
async function isLeftToPeople(client: Client, runId: string): Promise<boolean> {
  const { items } = (await client.insist("GET", `/sagas/${runId}/undo`)).body;
  return items.some(
    ({ step_id: step, state }: { step_id: string; state: string }) =>
      step === "pay" && (state === "failed" || state === "abandoned"),
  );
}
