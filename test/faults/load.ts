// A stream of orders to several services in turn, while a test does something to those services. Each order is paid, made, then
// signalled or cancelled; some fail. `Load` knows how each must end, in its run, its history and the workers' ledgers.
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import type { Seen } from "../run/seen.js";
import { type Client, PAUSE_MS } from "./client.js";
import { receiptFor, type Shop } from "./shop.js";

const compensation = { action: "shop.refund" };
/** A service that is frozen for ten seconds must not use up the retries of an order. */
const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };

const ORDER = [
  { id: "pay", type: "action", action: "shop.charge", compensation, retry, next: "rest" },
  { id: "rest", type: "wait_duration", duration_ms: 100, next: "make" },
  { id: "make", type: "action", action: "shop.slow", inputs: { ms: 40 }, compensation, retry, next: "wait" },
  { id: "wait", type: "wait_for_signal", signal_name: "go", next: "which" },
  { id: "which", type: "switch", cases: [{ when: "inputs.fate == 'failed'", next: "refuse" }], default: "ship" },
  { id: "refuse", type: "action", action: "shop.refuse" },
  { id: "ship", type: "action", action: "shop.charge", retry },
];

type Fate = "succeeded" | "failed" | "cancelled";
const fateOf = (nth: number): Fate => (nth % 6 === 0 ? "failed" : nth % 7 === 3 ? "cancelled" : "succeeded");

export class Load {
  /** The runs, by the number of their order. */
  readonly started = new Map<number, string>();
  private readonly id = randomUUID();
  private next = 0;
  private last: number | undefined;
  private drivers: Promise<void>[] = [];
  private failed = new Promise<never>(() => {});

  /** `patience`: how long an order may take until it rests. */
  constructor(
    private readonly clients: readonly Client[],
    private readonly shops: readonly Shop[],
    private readonly patience = 50_000,
  ) {}

  get runIds(): readonly string[] {
    return [...this.started.entries()].sort(([one], [other]) => one - other).map(([, runId]) => runId);
  }

  /** Without `count`, orders come in until `finish` is called. */
  async begin({ atOnce, count }: { atOnce: number; count?: number }): Promise<void> {
    await this.client(0).publish("order", ORDER);
    this.last = count;
    this.drivers = Array.from({ length: atOnce }, () => this.driveMany());
    this.failed = new Promise((_, reject) => {
      for (const driver of this.drivers) driver.catch(reject);
    });
    // `more` and `finish` report it; until then it must not count as unhandled.
    this.failed.catch(() => {});
  }

  /** Waits until so many more orders have come in. */
  async more(count: number): Promise<void> {
    const wanted = this.started.size + count;
    const came = until(() => this.started.size >= wanted, { what: `${wanted} orders` });
    await Promise.race([came, this.failed]);
  }

  /** Takes no further orders. Complete on return, also if orders have failed. */
  async end(): Promise<void> {
    this.last ??= this.next;
    await Promise.allSettled(this.drivers);
  }

  /** Takes no further orders, waits for the end of all runs, and checks each against its fate. */
  async finish(within = long(60_000, 300_000)): Promise<Seen[]> {
    this.last ??= this.next;
    await Promise.all(this.drivers);
    const numbers = [...this.started.keys()].sort((one, other) => one - other);
    const runIds = this.runIds;
    expect(new Set(runIds).size).toBe(numbers.length);
    const seen = await this.client(0).allEnd(runIds, within);
    seen.forEach((one, index) => {
      this.holdAgainstLedgers(one, fateOf(numbers[index] ?? 0));
    });
    return seen;
  }

  private client(nth: number): Client {
    return this.clients[nth % this.clients.length] as Client;
  }

  private async driveMany(): Promise<void> {
    while (this.last === undefined || this.next < this.last) await this.drive(this.next++);
  }

  /** Each request goes to the next service, and is repeated until it is answered: it has an idempotency key. */
  private async drive(nth: number): Promise<void> {
    const idempotency_key = `${this.id}-${nth}`;
    const fate = fateOf(nth);
    const runId = await this.client(nth).start("order", { idempotency_key, inputs: { fate } });
    this.started.set(nth, runId);
    await until(async () => (await this.client(nth + 1).run(runId)).awaited_signal === "go", {
      within: this.patience,
      pause: PAUSE_MS,
    });
    const [path, body] = fate === "cancelled" ? ["cancel", { reason: "enough" }] : ["signal/go", { idempotency_key }];
    const { status } = await this.client(nth + 1).insist("POST", `/sagas/${runId}/${path}`, body);
    expect(status).toBe(202);
  }

  /** Checks the run's variables, history and ledger entries against its fate. */
  private holdAgainstLedgers({ run, events }: Seen, fate: Fate): void {
    expect({ id: run.id, state: run.state }).toEqual({ id: run.id, state: fate });
    const executed = this.shops.flatMap((shop) => shop.of(run.id));
    const keyOf = new Map<string, string>();
    for (const step of fate === "succeeded" ? ["pay", "make", "ship"] : ["pay", "make"]) {
      // One key and one effect, however often the step was executed; the run has the receipt of that effect.
      const ours = executed.filter(({ stepId, forwardKey }) => stepId === step && !forwardKey);
      const used = new Set(ours.map(({ key }) => key));
      expect([run.id, step, used.size]).toEqual([run.id, step, 1]);
      for (const key of used) keyOf.set(step, key);
      expect(run.variables[step]).toEqual({ receipt: receiptFor(keyOf.get(step) ?? "") });
    }
    const undone = events
      .filter(({ event_type, metadata }) => event_type === "step.succeeded" && metadata?.phase === "compensation")
      .map(({ step_id }) => step_id);
    expect([run.id, undone]).toEqual([run.id, fate === "succeeded" ? [] : ["make", "pay"]]);
    const refunded = executed.flatMap(({ forwardKey }) => (forwardKey === undefined ? [] : [forwardKey]));
    const owed = fate === "succeeded" ? [] : [keyOf.get("make"), keyOf.get("pay")];
    expect(new Set(refunded)).toEqual(new Set(owed));
  }
}
