// The fair scheduler of computing: after 20 ms of it, for whatever it is, the event loop serves I/O, and then the parties that wait take
// turns (law 14). One object a process, so that a hundred pieces of a millisecond share it. It cannot cut a single call short; work that
// is done in slices stops between two of them.
import { performance, setImmediate } from "../ambient.js";
import { Semaphore } from "./semaphore.js";

/** Computing between two services of I/O. */
const SLICE_MS = 20;
/** Works of a party that take several turns, at once: each holds memory while others compute. */
const LONG_AT_ONCE = 2;

export class FairScheduler {
  /** When computing began since I/O was served. Undefined: it has not. */
  private began: number | undefined;
  /** Who waits for a turn, by party. The party that is served next comes first. */
  private readonly waiting = new Map<string, (() => void)[]>();
  /** Works that take several turns, by party. */
  private readonly long = new Map<string, Semaphore>();

  /** `now`: the monotonic clock, in milliseconds. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** The loop has computed long enough: only what cannot wait goes on. */
  get spent(): boolean {
    const began = this.begin();
    return this.now() - began >= SLICE_MS;
  }

  /** A piece would be computed at once. */
  get isFree(): boolean {
    return this.waiting.size === 0 && !this.spent;
  }

  /**
   * Computes the piece: at once if little was computed since I/O was served, otherwise when its turn has come. First come, first served
   * within a party, and the parties take turns, so that one with a thousand pieces delays another by one piece.
   */
  async compute<T>(party: string, piece: () => T): Promise<T> {
    if (!this.isFree) await this.nextTurn(party);
    return piece();
  }

  /** Resolves when I/O has been served and the party's turn has come. */
  nextTurn(party: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.waiting.get(party);
      if (queue) queue.push(resolve);
      else this.waiting.set(party, [resolve]);
      this.begin();
    });
  }

  /**
   * Takes the slices of a work: as many as fit into a turn, then the next ones when its turn has come again. Few works of a party are
   * under way at once; those that end in their second turn wait for no place.
   */
  async computeSlices<T>(party: string, slices: Generator<void, T>): Promise<T> {
    let release: (() => void) | undefined;
    let turns = 0;
    try {
      await this.compute(party, () => {});
      for (;;) {
        const slice = slices.next();
        if (slice.done) return slice.value;
        if (!this.spent) continue;
        if (++turns > 1) release ??= await this.longOf(party).acquire();
        await this.compute(party, () => {});
      }
    } finally {
      release?.();
    }
  }

  private longOf(party: string): Semaphore {
    const long = this.long.get(party) ?? new Semaphore(LONG_AT_ONCE);
    this.long.set(party, long);
    return long;
  }

  private begin(): number {
    // The first immediate may follow before the loop has polled for I/O; the second one, which the first schedules, comes after it.
    if (this.began === undefined) setImmediate(() => setImmediate(() => this.serve()));
    this.began ??= this.now();
    return this.began;
  }

  /** I/O has been served. */
  private serve(): void {
    this.began = undefined;
    this.serveNext();
  }

  /** Short pieces share a turn: the next one begins when this one, and what follows from it, waits for I/O. */
  private serveNext(): void {
    const next = this.nextPiece();
    if (!next) return;
    this.begin();
    next();
    queueMicrotask(() => process.nextTick(() => this.spent || this.serveNext()));
  }

  private nextPiece(): (() => void) | undefined {
    for (const [party, queue] of this.waiting) {
      const next = queue.shift();
      this.waiting.delete(party);
      if (queue.length > 0) this.waiting.set(party, queue);
      return next;
    }
    return undefined;
  }
}
