// The stager: looks for what is due in the three small tables of this node's shards and brings it to its run. Timers, messages
// and effects in memory are hints; this is the truth (law 7): with all of them dead every run still advances.
import type { Sql } from "postgres";
import { SagaError } from "../errors.js";
import type { Logger } from "../log.js";
import {
  type Doubt,
  type DueCommand,
  type DueEffect,
  type DueWake,
  hasDoubtful,
  inbox,
  outbox,
  reclaim,
  wakes,
} from "../store/poll.js";
import { type End, IN_HAND, Loans } from "./loans.js";
import type { Couriers, Dispatcher } from "./ports.js";
import type { Runtime } from "./runtime.js";

/** Which of many brought a node down is not known at once: they are looked at in small groups, then one by one. */
const SUSPECTS: readonly (readonly [Doubt, number])[] = [
  ["some", 16],
  ["much", 1],
];
/** While there is more of the others, suspects have their turn each so many looks: finding them among a million due rows takes a while. */
const SUSPECTS_EVERY = 20;
/** Taken this often without a commit, a run has brought its node down that often, or its data cannot be stored. */
const QUARANTINE_TRIES = 3;

export interface StagerOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly runtime: Pick<Runtime, "deliver" | "isBusy" | "stuck">;
  readonly dispatcher: Pick<Dispatcher, "holds">;
  /** What no courier takes stays where it is. */
  readonly couriers?: Couriers;
  readonly shards: () => readonly number[];
  readonly intervalMs?: number;
}

export class Stager {
  private timer: NodeJS.Timeout | undefined;
  private looking: Promise<boolean> | undefined;
  /** The next look is due at once. */
  private hurried = false;
  private started = false;
  private stopped = false;
  /** Shards that came to this node and are not reclaimed yet. */
  private readonly gained = new Set<number>();
  /** Effects first: a dispatch that was just taken over must be heard of before its silence is judged. */
  private readonly ordinary: readonly [Loans<DueEffect>, Loans<DueCommand>, Loans<DueWake>];
  /** Rows that were in hand when a node died: a group of them at a time, so that few are suspected should it happen again. */
  private readonly suspects: readonly (Loans<DueCommand> | Loans<DueWake>)[];
  private looks = 0;
  /** There were suspects at the last look for them. */
  private suspicion = false;

  constructor(private readonly options: StagerOptions) {
    const again = () => this.again();
    const first = { doubt: "none", most: IN_HAND } as const;
    this.ordinary = [
      new Loans(outbox, (row) => this.effect(row), again),
      new Loans(inbox, (row) => this.command(row), again, first),
      new Loans(wakes, (row) => this.wake(row), again, first),
    ];
    const [, commands, due] = this.ordinary;
    this.suspects = [
      ...SUSPECTS.map(
        ([doubt, most]) => new Loans(wakes, (row) => this.wake(row), again, { doubt, most, besides: due }),
      ),
      ...SUSPECTS.map(
        ([doubt, most]) => new Loans(inbox, (row) => this.command(row), again, { doubt, most, besides: commands }),
      ),
    ];
  }

  private get loans(): readonly (Loans<DueEffect> | Loans<DueCommand> | Loans<DueWake>)[] {
    return [...this.ordinary, ...this.suspects];
  }

  /** Rows in hand, of all three tables. */
  get inHand(): number {
    return this.loans.reduce((sum, { size }) => sum + size, 0);
  }

  /** Takes over the shards that are this node's now, and looks every `intervalMs`. */
  start(): void {
    this.started = true;
    this.takeOver(this.options.shards());
    this.arm(0);
  }

  /** What a former owner of the shards owed is due now: the next looks find it, bite by bite. */
  takeOver(shards: readonly number[]): void {
    for (const shard of shards) this.gained.add(shard);
  }

  /** Takes no more; what is in hand is its runs' to finish. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.looking;
  }

  /** Looks until nothing more is due and everything found has come to its end. For whoever cannot wait for the timer. */
  async tick(): Promise<void> {
    let well = true;
    do {
      well = await this.look();
      for (const loans of this.loans) well &&= await this.guarded(() => loans.settle(this.options.sql));
    } while (well && !this.stopped && (this.suspicion || this.ordinary.some(({ hasMore }) => hasMore)));
  }

  private again(): void {
    if (this.hurried) return;
    this.hurried = true;
    this.arm(0);
  }

  private arm(ms: number): void {
    if (this.stopped || !this.started) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      this.hurried = false;
      const well = await this.look();
      // Room came while it looked.
      this.arm(well && this.canGoOn ? 0 : (this.options.intervalMs ?? 500));
    }, ms);
  }

  private look(): Promise<boolean> {
    this.looking ??= this.guarded(() => this.takeAll()).finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  /** Goes on at once while there is more and room for it; where the room is missing, the end of some work looks again. */
  private async takeAll(): Promise<void> {
    const { sql, shards } = this.options;
    do {
      const gained = [...this.gained];
      const unfinished = new Set(await reclaim(sql, gained));
      for (const shard of gained) if (!unfinished.has(shard)) this.gained.delete(shard);
      for (const loans of this.ordinary) await loans.take(sql, shards());
      await this.takeSuspects();
    } while (!this.stopped && this.canGoOn);
  }

  /** One group, and no second one before the first has come to its end. */
  private async takeSuspects(): Promise<void> {
    const { sql, shards } = this.options;
    const busy = () => this.suspects.some(({ size }) => size > 0);
    for (const loans of this.suspects) await loans.tidy(sql);
    const turn = ++this.looks % SUSPECTS_EVERY === 0 || !this.ordinary.some(({ hasMore }) => hasMore);
    if (!turn || busy()) return;
    this.suspicion = await hasDoubtful(sql, shards());
    if (!this.suspicion) return;
    for (const loans of this.suspects) {
      if (busy()) return;
      await loans.take(sql, shards());
    }
  }

  private get canGoOn(): boolean {
    return this.gained.size > 0 || this.ordinary.some(({ hasMore, hasRoom }) => hasMore && hasRoom);
  }

  /** Whether it went well. */
  private guarded(work: () => Promise<void>): Promise<boolean> {
    return work().then(
      () => true,
      (error) => {
        this.options.log.warn({ err: error }, "the poll failed; the next one makes good for it");
        return false;
      },
    );
  }

  private async wake({ run_id: runId, tries }: DueWake): Promise<End> {
    // Somebody else's command is under way: it moves the row, or the row comes back.
    if (this.options.runtime.isBusy(runId)) return "alive";
    // It is not busy here and its lent wake row came back again and again: it does not come back alive.
    return this.bring(runId, tries > QUARANTINE_TRIES ? { type: "quarantine" } : { type: "advance" });
  }

  private async command({ id, run_id: runId, command, tries }: DueCommand): Promise<End> {
    // In quarantine it takes the command without acting on it.
    if (tries > QUARANTINE_TRIES) await this.bring(runId, { type: "quarantine" });
    const end = await this.bring(runId, command, { id, inboxId: id });
    return end === "failed" ? "later" : end;
  }

  /** What is posted is its courier's. A dispatch that this node has in hand needs nothing; of any other its run says again what it owes. */
  private async effect({ id, run_id: runId, kind }: DueEffect): Promise<End> {
    const { dispatcher, couriers } = this.options;
    if (kind !== "action") {
      couriers?.[kind]?.carry(id);
      return "done";
    }
    if (dispatcher.holds(id)) return "held";
    const end = await this.bring(runId, { type: "carry", dispatchId: id });
    if (end === "failed") return "later";
    // Nobody took it up: it was resolved, and its row is gone; or there is no room for it now.
    return end === "done" && !dispatcher.holds(id) ? "later" : end;
  }

  private async bring(runId: string, ...[command, about = {}]: Tail<Parameters<Runtime["deliver"]>>): Promise<End> {
    const { runtime } = this.options;
    try {
      await runtime.deliver(runId, command, about);
      return "done";
    } catch (error) {
      runtime.stuck(runId, error);
      const status = error instanceof SagaError ? error.status : 500;
      return status === 404 ? "gone" : status === 503 ? "alive" : "failed";
    }
  }
}

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, infer A, infer B] ? [A, B?] : never;
