// The loop of durable work: rounds that claim a bounded batch, work on it and settle it, and hints of what was just committed. What a round
// leaves, a later one finds, on this node or on another. What is claimed, and what is done with it, is the round's matter.
import { clearTimeout, performance, setTimeout } from "../ambient.js";
import type { Log } from "../log.js";

export interface Polls {
  /** The pause from the end of a round to the beginning of the next; a function gets what the round took. */
  readonly pauseMs: number | ((tookMs: number) => number);
  /** One batch. True: there may be more, and the next round begins at once. */
  readonly round: () => Promise<boolean> | Promise<void>;
}

export interface Hints<Key> {
  /** Carries out what the keys name. Those for which it fails are left to a poll. */
  readonly round: (keys: readonly Key[]) => Promise<void>;
  /** Keys of one round. */
  readonly batch: number;
  /** Keys that wait. A hint beyond it is dropped. */
  readonly most: number;
}

export interface LoopOptions<Key> {
  /** What the loop works on, for the log: "triggers". */
  readonly what: string;
  readonly log: Log;
  /** Absent: another loop polls for what is due, and hints at it. */
  readonly polls?: Polls;
  /** Absent: no hint has a key. */
  readonly hints?: Hints<Key>;
}

/** The time that work has to end by itself, and what cuts it short. */
export interface Grace {
  readonly ms: number;
  readonly cutShort: () => void;
}

export class WorkLoop<Key = never> {
  private readonly keys = new Set<Key>();
  /** Rounds that wait behind another one: of the poll, and of hints. */
  private nextPoll: Promise<boolean> | undefined;
  private nextHints: Promise<void> | undefined;
  /** The round in progress and those that wait behind it, and the end of the last one, which never rejects. */
  private rounds = 0;
  private tail: Promise<unknown> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private polling = false;
  /** A poll was asked for while one was in progress. */
  private again = false;
  private readonly pollFailures: FailureSeries;
  private readonly hintFailures: FailureSeries;
  private started = false;
  private stopped = false;

  constructor(private readonly options: LoopOptions<Key>) {
    const { log, what } = options;
    this.pollFailures = new FailureSeries(log, what, "round failed, retrying after a pause");
    this.hintFailures = new FailureSeries(log, what, "hints failed, left to a poll");
  }

  /** A round in progress may look at this, to end early. */
  get stopping(): boolean {
    return this.stopped;
  }

  /** Keys of hints that wait. */
  get waiting(): ReadonlySet<Key> {
    return this.keys;
  }

  /** The first poll comes after a pause. */
  start(): void {
    if (this.started || this.stopped) return;
    this.started = true;
    this.rest(0);
  }

  /** Ends the round in progress; nothing begins afterwards. Complete on return, safe twice and before `start`. */
  async stop(grace?: Grace): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    this.keys.clear();
    await (grace ? withGrace(this.tail, grace) : this.tail);
  }

  /** There is work under this key. Never throws and never waits. */
  hint(key: Key): void {
    const { hints } = this.options;
    if (!hints || this.stopped || this.keys.size >= hints.most) return;
    this.keys.add(key);
    this.carryOutSoon(hints);
  }

  /** There is work to be polled for: the next round comes at once. After a failure the pause is kept. */
  pollSoon(): void {
    if (!this.started || this.pollFailures.lasts) return;
    // The round in progress may have read too early.
    if (this.polling) this.again = true;
    else void this.poll();
  }

  /** Polls until nothing more is due, beginning with a round that has not begun yet. Throws what a round throws. */
  async now(): Promise<void> {
    while (await this.poll());
  }

  /** The next round of the poll, which all that ask for one until it begins have in common. */
  private poll(): Promise<boolean> {
    const { polls } = this.options;
    if (!polls || this.stopped) return Promise.resolve(false);
    if (this.nextPoll) return this.nextPoll;
    const isIdle = this.rounds === 0;
    const round = this.inTurn(() => this.pollOnce(polls));
    if (!isIdle) this.nextPoll = round;
    return round;
  }

  private async pollOnce({ round }: Polls): Promise<boolean> {
    this.nextPoll = undefined;
    if (this.stopped) return false;
    clearTimeout(this.timer);
    const began = performance.now();
    let more = false;
    this.polling = true;
    this.again = false;
    try {
      more = (await round()) === true || this.again;
      this.pollFailures.end();
      return more;
    } catch (error) {
      this.pollFailures.add(error);
      throw error;
    } finally {
      this.polling = false;
      if (more) void this.poll();
      else this.rest(performance.now() - began);
    }
  }

  private carryOutSoon(hints: Hints<Key>): void {
    if (this.nextHints) return;
    const isIdle = this.rounds === 0;
    const round = this.inTurn(() => this.carryOut(hints));
    if (!isIdle) this.nextHints = round;
  }

  private async carryOut(hints: Hints<Key>): Promise<void> {
    this.nextHints = undefined;
    const keys = this.take(hints.batch);
    if (keys.length === 0) return;
    await hints.round(keys).then(
      () => this.hintFailures.end(),
      (error: unknown) => this.hintFailures.add(error),
    );
    if (this.keys.size > 0) this.carryOutSoon(hints);
  }

  private take(most: number): readonly Key[] {
    const taken: Key[] = [];
    for (const key of this.keys) {
      if (taken.length === most) break;
      taken.push(key);
      this.keys.delete(key);
    }
    return taken;
  }

  /**
   * Begins at once if no round is in progress. Rounds come in the order in which they were asked for, so that a poll with a backlog and a
   * stream of hints take turns. A rejection may go unheard: it is logged.
   */
  private inTurn<T>(round: () => Promise<T>): Promise<T> {
    const ended = this.rounds++ === 0 ? round() : this.tail.then(round);
    this.tail = ended
      .catch(() => {})
      .finally(() => {
        this.rounds--;
      });
    return ended;
  }

  private rest(tookMs: number): void {
    const { polls } = this.options;
    if (!polls || !this.started || this.stopped) return;
    const pause = typeof polls.pauseMs === "number" ? polls.pauseMs : polls.pauseMs(tookMs);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.poll(), pause).unref();
  }
}

/** Failures one after the other: the first of those that say the same is a warning, the others are for who looks closely. */
class FailureSeries {
  private count = 0;
  private last = "";

  constructor(
    private readonly log: Log,
    private readonly what: string,
    private readonly message: string,
  ) {}

  get lasts(): boolean {
    return this.count > 0;
  }

  add(error: unknown): void {
    const text = String(error);
    this.log[text === this.last ? "debug" : "warn"]({ err: error }, `${this.what}: ${this.message}`);
    this.count++;
    this.last = text;
  }

  end(): void {
    if (this.lasts) this.log.info({ failures: this.count }, `${this.what}: works again`);
    this.count = 0;
    this.last = "";
  }
}

/** Resolves when the work has ended. It is cut short after the grace period, and waited for all the same. */
export async function withGrace(work: Promise<unknown>, { ms, cutShort }: Grace): Promise<void> {
  const timer = setTimeout(cutShort, ms);
  try {
    await work;
  } finally {
    clearTimeout(timer);
  }
}
