// An asynchronous failover that loses what was acknowledged last: orders come in, the standbys get nothing more, orders go on to be acknowledged, and the
// primary dies. What may be lost is exactly what was acknowledged from then on. A client that repeats that, under the same keys, has all it asked for.
import { expect } from "vitest";
import { type Client, PAUSE_MS } from "../faults/client.js";
import { receiptFor, type Shop } from "../faults/shop.js";
import { until } from "../harness/until.js";
import type { Machines } from "./machines.js";
import { Progress } from "./progress.js";
import type { Host } from "./rig.js";

const WORKFLOW = "kept-order";
const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
const STEPS = [
  { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, retry, next: "wait" },
  { id: "wait", type: "wait_for_signal", signal_name: "go", next: "ship" },
  { id: "ship", type: "action", action: "shop.charge", retry },
];

const AT_ONCE = 4;
/** Acknowledged before, and in the moments that are lost. */
const ENOUGH = 20;
const WITHIN_MS = 240_000;
/** An answer may be on its way when the primary dies. What comes later is of another primary: it takes its place much later. */
const ON_ITS_WAY_MS = 1_000;

interface Order {
  readonly key: string;
  runId?: string;
  /** When the answers came. */
  startedAt?: number;
  signalledAt?: number;
}

export class LostMoments {
  private readonly orders: Order[] = [];
  private readonly lostRuns: string[] = [];
  private lostSignals = 0;
  private stopped = false;
  /** What was acknowledged before is at the standbys; what came after `until`, at the next primary. */
  private window = { from: Number.POSITIVE_INFINITY, until: Number.POSITIVE_INFINITY };

  constructor(
    private readonly machines: Machines,
    private readonly client: Client,
    private readonly shops: readonly Shop[],
  ) {}

  /** The failover, the repeats and the checks. Resolves with figures. */
  async happen(): Promise<Readonly<Record<string, unknown>>> {
    await this.client.publish(WORKFLOW, STEPS);
    const drivers = Array.from({ length: AT_ONCE }, () => this.driveMany());
    await until(() => this.acknowledged() >= ENOUGH, { within: WITHIN_MS, what: "the first orders" });
    const leader = await until(() => this.machines.leader(), { pause: 200, what: "a primary" });
    const before = this.executed.length;
    const cutOff = await this.cutStandbys(leader);
    await until(() => this.acknowledged(this.window.from) >= ENOUGH, {
      within: WITHIN_MS,
      what: "orders that get lost",
    });
    await leader.get("patroni").kill();
    await leader.killAll("postgres");
    this.window.until = performance.now() + ON_ITS_WAY_MS;
    const progress = new Progress(this.machines.url);
    const resumedMs = await progress.resumes();
    // Not before: the dead primary's machine still had the lost moments to send.
    for (const standby of cutOff) await standby.pass();
    this.stopped = true;
    await Promise.all(drivers);
    leader.get("patroni").start();
    for (const order of this.orders) await this.repeat(order);
    await progress.finish(this.client);
    const seen = await this.expectRight();
    const effectsOfLost = await this.expectNoOtherEffects(before);
    const inWindow = this.acknowledged(this.window.from, this.window.until);
    const { lostRuns, lostSignals } = this;
    expect(lostRuns.length + lostSignals, "nothing was lost, so nothing was shown").toBeGreaterThan(0);
    const lost = { acknowledgedInTheseMoments: inWindow, lostRuns: lostRuns.length, lostSignals, effectsOfLost };
    return { resumedMs, orders: seen, ...lost };
  }

  private get executed() {
    return this.shops.flatMap(({ ledger }) => ledger);
  }

  private acknowledged(from = 0, until = Number.POSITIVE_INFINITY): number {
    const times = this.orders.flatMap(({ startedAt, signalledAt }) => [startedAt ?? -1, signalledAt ?? -1]);
    return times.filter((at) => at >= from && at <= until).length;
  }

  /** From now on the standbys get nothing. What was acknowledged before `window.from` they have. */
  private async cutStandbys({ address }: Host): Promise<readonly Host[]> {
    const { sql } = this.machines.database;
    const from = performance.now();
    const [row] = await sql<[{ lsn: string }]>`select pg_current_wal_flush_lsn()::text as lsn`;
    const have = async () => {
      const standbys = await sql<{ host: string; port: number; has: boolean }[]>`
        select host(client_addr) as host, client_port as port, flush_lsn >= ${row.lsn}::text::pg_lsn as has from pg_stat_replication`;
      return standbys.length === 2 && standbys.every(({ has }) => has) && standbys;
    };
    const standbys = await until(have, { what: "the standbys with all that is acknowledged" });
    const hosts: Host[] = [];
    for (const { host, port } of standbys) {
      const standby = this.machines.hosts.find((each) => each.address === host) as Host;
      // The stream to the standby, and not the sessions that its service has with the primary.
      await standby.drop("ingress", `ip saddr ${address} tcp sport 5432 tcp dport ${port}`);
      hosts.push(standby);
    }
    this.window.from = from;
    return hosts;
  }

  private async driveMany(): Promise<void> {
    while (!this.stopped) {
      const order: Order = { key: `${WORKFLOW}-${crypto.randomUUID()}` };
      this.orders.push(order);
      await this.start(order);
      if ((await this.standing(order)) === "rests") await this.signal(order);
    }
  }

  private async start(order: Order): Promise<string> {
    const runId = await this.client.start(WORKFLOW, { idempotency_key: order.key, inputs: {} });
    order.runId ??= runId;
    order.startedAt ??= performance.now();
    return runId;
  }

  private async signal(order: Order): Promise<void> {
    const answer = await this.client.insist("POST", `/sagas/${order.runId}/signal/go`, { idempotency_key: order.key });
    // 404: its run is lost. 409: an earlier try was recorded before the run waited.
    if (answer.status === 202) order.signalledAt ??= performance.now();
    else expect([404, 409]).toContain(answer.status);
  }

  /** Where the run is once it stands still. */
  private standing({ runId }: Order): Promise<"gone" | "rests" | "ended"> {
    const stands = async () => {
      const { status, body } = await this.client.insist("GET", `/sagas/${runId}`);
      if (status === 404) return "gone";
      if (body.terminal_at !== undefined) return "ended";
      return body.awaited_signal === "go" && "rests";
    };
    return until(stands, { within: WITHIN_MS, pause: PAUSE_MS, what: `run ${runId} at rest` });
  }

  /** As a client does that knows that acknowledgements were lost: the same requests under the same keys. */
  private async repeat(order: Order): Promise<void> {
    const standing = await this.standing(order);
    if (standing === "gone") {
      this.mayBeLost("the start", order, order.startedAt);
      this.lostRuns.push(order.runId ?? "");
      delete order.runId;
    } else if (standing === "rests" && order.signalledAt !== undefined) {
      this.mayBeLost("the signal", order, order.signalledAt);
      this.lostSignals++;
    }
    const known = order.runId;
    expect(await this.start(order)).toBe(known ?? order.runId);
    if ((await this.standing(order)) === "rests") await this.signal(order);
  }

  private mayBeLost(what: string, order: Order, at = Number.NaN): void {
    const { from, until: end } = this.window;
    expect(
      at >= from && at <= end,
      `${what} of ${JSON.stringify(order)} is lost, of ${JSON.stringify(this.window)}`,
    ).toBe(true);
  }

  /** Every order ends, with a sound history, one effect for each step, and the receipts of these. */
  private async expectRight(): Promise<number> {
    const seen = await this.client.allEnd(
      this.orders.map(({ runId = "" }) => runId),
      WITHIN_MS,
    );
    for (const { run } of seen) {
      expect({ id: run.id, state: run.state }).toEqual({ id: run.id, state: "succeeded" });
      for (const step of ["pay", "ship"]) {
        const entries = this.executed.filter(({ runId, stepId }) => runId === run.id && stepId === step);
        const receipts = [...new Set(entries.map(({ key }) => receiptFor(key)))];
        expect([run.id, step, receipts.length]).toEqual([run.id, step, 1]);
        expect(run.variables[step]).toEqual({ receipt: receipts[0] });
      }
    }
    const open = () => this.machines.database.sql`select id from runs where terminal_at is null`;
    await until(async () => (await open()).length === 0, {
      within: WITHIN_MS,
      pause: 500,
      what: "the end of all runs",
    });
    return seen.length;
  }

  /** Workers may have done what no run knows of, for runs of the lost moments alone. Resolves with the number of these runs. */
  private async expectNoOtherEffects(before: number): Promise<number> {
    const ids = [...new Set(this.executed.map(({ runId }) => runId))];
    const rows = await this.machines.database.sql<{ id: string }[]>`
      select id from runs where id = any(${ids}::text[]::uuid[])`;
    const known = new Set(rows.map(({ id }) => id));
    const early = this.executed
      .slice(0, before)
      .filter(({ runId }) => !known.has(runId) && !LostMoments.forgotten.has(runId));
    expect(early).toEqual([]);
    const orphans = ids.filter((id) => !known.has(id) && !LostMoments.forgotten.has(id));
    for (const id of orphans) LostMoments.forgotten.add(id);
    return orphans.length;
  }

  /** Runs that an earlier failover has lost. */
  private static readonly forgotten = new Set<string>();
}
