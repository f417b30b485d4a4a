// The world of a simulated cluster: one queue of what happens, in simulated time, and chance from one seed. Everything that a node's code waits for or
// draws comes from here: src/ambient.ts asks this world, and so do the globals, for the packages that a node uses. What a node began belongs to the
// life of that node: after a crash it happens no more, and while the node is frozen it waits.
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";
import { type Ambient, replaceAmbient } from "../../../src/ambient.js";
import { unitHost } from "../../../src/run/unit-host.js";

/** One life of a node, from a start to a crash or a stop. */
export interface Life {
  readonly name: string;
  isAlive: boolean;
  isFrozen: boolean;
  /** What was due while it was frozen, in order. */
  readonly missed: (() => void)[];
  /** Milliseconds by which its host's clock differs from the true time. */
  skewMs: number;
}

interface Happening {
  readonly at: number;
  readonly nth: number;
  readonly life: Life | undefined;
  readonly happen: () => void;
  isCancelled: boolean;
}

/** Numbers from 0 to 1 that follow from a seed. Each subject has its own, so that more of one changes nothing of the others. */
export type Chance = () => number;

export function chanceOf(seed: string): Chance {
  let block = Buffer.alloc(0);
  let [at, nth] = [0, 0];
  return () => {
    if (at === block.length) {
      block = createHash("sha512").update(`${seed} ${nth++}`).digest();
      at = 0;
    }
    const number = block.readUInt32BE(at) / 2 ** 32;
    at += 4;
    return number;
  };
}

/** 20 s before 2030: a minute, a day and a year turn in a story, so schedules have ticks. */
const BEGIN = Date.UTC(2030, 0, 1) - 20_000;

const turnOfHost = globalThis.setImmediate;

/** What the loop waits for besides its own queue: work that is really under way. */
export interface Busy {
  readonly isBusy: boolean;
  idle(): Promise<void>;
}

export class World {
  /** Simulated milliseconds since the begin. */
  now = 0;
  /** What has happened so far. */
  happened = 0;
  /** Milliseconds by which the clock of the store's host differs from the true time, and the most that it has been before it. */
  private storeSkewMs = 0;
  private mostSkewMs = 0;
  private readonly places = new AsyncLocalStorage<Life>();
  private readonly queue = new Heap();
  private made = 0;
  private failure: unknown;
  private hasFences = false;
  private readonly ids: Chance;
  private readonly bytes: Chance;
  private readonly tokens: Chance;
  private readonly entropy: Chance;
  private readonly ofStore: Chance;
  private readonly jitter: Chance;

  constructor(
    readonly seed: number,
    private readonly connectToStore: (life: Life) => Duplex,
  ) {
    this.ids = chanceOf(`${seed} ids`);
    this.bytes = chanceOf(`${seed} bytes`);
    this.tokens = chanceOf(`${seed} tokens`);
    this.entropy = chanceOf(`${seed} entropy`);
    this.ofStore = chanceOf(`${seed} store`);
    this.jitter = chanceOf(`${seed} jitter`);
  }

  /** True time, epoch milliseconds. */
  get time(): number {
    return BEGIN + this.now;
  }

  /** The latest that a node may believe the store's clock to say, epoch milliseconds: it may not know yet that this was set back. */
  get latestStoreTime(): number {
    return this.time + this.mostSkewMs;
  }

  jumpStoreTime(ms: number): void {
    this.storeSkewMs += ms;
    this.mostSkewMs = Math.max(this.mostSkewMs, this.storeSkewMs);
  }

  /** Does something as a part of a node's life: all that follows from it is, too. */
  as<Result>(life: Life, act: () => Result): Result {
    return this.places.run(life, act);
  }

  /** `life` absent: whose it is now. Null: the world's own. */
  later(ms: number, happen: () => void, life: Life | null | undefined = this.places.getStore()): Happening {
    const happening = { at: this.now + ms, nth: this.made++, life: life ?? undefined, happen, isCancelled: false };
    this.queue.push(happening);
    return happening;
  }

  freeze(life: Life): void {
    life.isFrozen = true;
  }

  thaw(life: Life): void {
    life.isFrozen = false;
    for (const happen of life.missed.splice(0)) this.later(0, happen, life);
  }

  /** A rejection that nothing has caught ends the world: a node would have ended by it. */
  fail(error: unknown): void {
    this.failure ??= error;
  }

  /** Lets time pass until the end, or until something is true. Answers whether it is. */
  async run(untilMs: number, isDone: () => boolean, busy: Busy): Promise<boolean> {
    while (true) {
      await settled(busy);
      if (this.failure !== undefined) throw this.failure;
      if (isDone()) return true;
      const next = this.queue.first;
      if (next === undefined || next.at > untilMs) {
        this.now = Math.max(this.now, untilMs);
        return false;
      }
      this.queue.pop();
      if (next.isCancelled) continue;
      this.now = Math.max(this.now, next.at);
      this.happened++;
      this.happen(next);
    }
  }

  private happen({ life, happen }: Happening): void {
    if (life === undefined) this.places.exit(happen);
    else if (!life.isAlive) return;
    else if (life.isFrozen) life.missed.push(happen);
    else this.places.run(life, happen);
  }

  /** From now on the process lives in this world. Undone by what it answers. */
  enter(): () => void {
    const ambient = this.ambient();
    replaceAmbient(ambient);
    const restore = replaceGlobals(ambient, () => this.entropy());
    // A process draws fences many at once: those that the story before has left would be the first of this one.
    const { newFence } = unitHost();
    while (!this.hasFences) newFence();
    return () => {
      replaceAmbient(undefined);
      restore();
    };
  }

  private ambient(): Ambient {
    const life = () => this.places.getStore();
    const cancel = (timer: NodeJS.Timeout | undefined) => {
      if (timer instanceof Timer) timer.clear();
    };
    const start = (callback: () => void, ms: number, again: boolean) =>
      new Timer(this, callback, Math.max(1, ms || 1), again) as unknown as NodeJS.Timeout;
    return {
      monotonic: () => this.now,
      // What belongs to no life is the store's.
      wallTime: () => Math.floor(this.time + (life()?.skewMs ?? this.storeSkewMs)),
      setTimeout: (callback, ms) => start(callback, ms, false),
      setInterval: (callback, ms) => start(callback, ms, true),
      clearTimeout: cancel,
      clearInterval: cancel,
      setImmediate: (callback) => void this.later(0, callback),
      delay: (ms, { signal }) => this.delay(ms, signal),
      timeoutSignal: (ms) => {
        const controller = new AbortController();
        this.later(ms, () => controller.abort(new DOMException("the time is over", "TimeoutError")));
        return controller.signal;
      },
      random: () => this.jitter(),
      randomInt: (end) => Math.floor(this.ids() * end),
      randomBytes: (count) => Buffer.from(Array.from({ length: count }, () => Math.floor(this.bytes() * 256))),
      randomFill: (target) => {
        this.hasFences = true;
        for (let nth = 0; nth < target.length; nth++)
          target[nth] = BigInt.asIntN(64, (this.word() << 32n) | this.word());
      },
      randomUUID: () => uuidOf(this.ids),
      connectToStore: () => {
        const mine = life();
        if (!mine) throw new Error("only a node connects to the store");
        return this.connectToStore(mine);
      },
    };
  }

  /** For random numbers of the store. */
  chanceOfStore(): number {
    return this.ofStore();
  }

  private word(): bigint {
    return BigInt(Math.floor(this.tokens() * 2 ** 32));
  }

  private delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const end = () => {
        signal?.removeEventListener("abort", abort);
        resolve();
      };
      const happening = this.later(Math.max(1, ms), end);
      const abort = () => {
        happening.isCancelled = true;
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}

function uuidOf(chance: Chance): string {
  const digits = Array.from({ length: 32 }, () => Math.floor(chance() * 16).toString(16)).join("");
  const variant = "89ab".charAt(Number.parseInt(digits.charAt(16), 16) % 4);
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-${variant}${digits.slice(17, 20)}-${digits.slice(20)}`;
}

/** All that follows at once from what has happened: microtasks are over in the next turn of the real loop. */
async function settled(busy: Busy): Promise<void> {
  while (true) {
    await new Promise<void>((resolve) => void turnOfHost(resolve));
    if (!busy.isBusy) return;
    await busy.idle();
  }
}

/** A timer as Node's own, as far as code asks for it. */
class Timer {
  private happening: Happening;

  constructor(
    private readonly world: World,
    private readonly callback: () => void,
    private readonly ms: number,
    private readonly again: boolean,
  ) {
    this.happening = this.arm();
  }

  clear(): void {
    this.happening.isCancelled = true;
  }

  unref(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  refresh(): this {
    this.clear();
    this.happening = this.arm();
    return this;
  }

  private arm(): Happening {
    return this.world.later(this.ms, () => {
      if (this.again) this.happening = this.arm();
      this.callback();
    });
  }
}

/** The globals, for packages: the driver of Postgres, and PGlite, of which `Date.now` is the clock. */
function replaceGlobals(ambient: Ambient, chance: Chance): () => void {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
  const [now, random, monotonic] = [Date.now, Math.random, performance.now];
  const draw = crypto.getRandomValues;
  const immediate = (callback: (...given: unknown[]) => void, ...given: unknown[]) => {
    const handle = { isCleared: false };
    ambient.setImmediate(() => handle.isCleared || callback(...given));
    return handle;
  };
  type Callback = (...given: unknown[]) => void;
  Object.assign(globalThis, {
    setTimeout: (callback: Callback, ms: number, ...given: unknown[]) =>
      ambient.setTimeout(() => callback(...given), ms),
    setInterval: (callback: Callback, ms: number, ...given: unknown[]) =>
      ambient.setInterval(() => callback(...given), ms),
    setImmediate: immediate,
    clearTimeout: ambient.clearTimeout,
    clearInterval: ambient.clearInterval,
    clearImmediate: (handle: { isCleared: boolean } | undefined) => {
      if (handle) handle.isCleared = true;
    },
  });
  Date.now = ambient.wallTime;
  Math.random = ambient.random;
  performance.now = ambient.monotonic;
  crypto.getRandomValues = <Given extends ArrayBufferView | null>(target: Given): Given => {
    if (target) {
      const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
      for (let nth = 0; nth < bytes.length; nth++) bytes[nth] = Math.floor(chance() * 256);
    }
    return target;
  };
  return () => {
    Object.assign(globalThis, { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate });
    Object.assign(Date, { now });
    Object.assign(Math, { random });
    performance.now = monotonic;
    crypto.getRandomValues = draw;
  };
}

/** What happens next, first: by time, and then in the order in which it was made. */
class Heap {
  private readonly items: Happening[] = [];

  get first(): Happening | undefined {
    return this.items[0];
  }

  push(item: Happening): void {
    const { items } = this;
    let at = items.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (isBefore(items[above] as Happening, item)) break;
      items[at] = items[above] as Happening;
      at = above;
    }
    items[at] = item;
  }

  pop(): void {
    const { items } = this;
    const last = items.pop();
    if (last === undefined || items.length === 0) return;
    let at = 0;
    while (true) {
      let below = 2 * at + 1;
      if (below >= items.length) break;
      if (below + 1 < items.length && isBefore(items[below + 1] as Happening, items[below] as Happening)) below++;
      if (isBefore(last, items[below] as Happening)) break;
      items[at] = items[below] as Happening;
      at = below;
    }
    items[at] = last;
  }
}

const isBefore = (a: Happening, b: Happening): boolean => a.at < b.at || (a.at === b.at && a.nth < b.nth);
