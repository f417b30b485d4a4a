// Keeps a number of node processes alive: starts them, starts another where one died, replaces them one by one, ends them.
// What a node process does, and what it is told besides, is not known here.
//
// Invariant: each node that was started is watched until it is over, and has one successor, or none if it was dismissed.
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../log.js";
import type { Child } from "./child.js";

/** Milliseconds. */
export interface KeeperTimes {
  readonly shortestPause: number;
  readonly longestPause: number;
  /** A node that lived this long did not die of its start: the next pause is the shortest again. */
  readonly steady: number;
  /** From the fork to readiness. */
  readonly start: number;
  /** From being told to stop to the end. */
  readonly stop: number;
  /** A node that says nothing for so long stands still. */
  readonly silence: number;
}

export const KEEPER_TIMES: KeeperTimes = {
  shortestPause: 100,
  longestPause: 5_000,
  steady: 10_000,
  start: 60_000,
  stop: 30_000,
  silence: 30_000,
};

/** Silence is counted in looks, not in time: while the whole machine slept nobody looked, and nobody was silent. */
const LOOKS = 10;

export interface KeeperOptions {
  readonly count: number;
  /** May throw: then it is tried again after a pause. */
  fork(): Child;
  /** Its process is over, and was not orderly. */
  onDeath(child: Child): void;
  readonly log: Logger;
  readonly times?: KeeperTimes;
}

/** The first nodes did not come up: they have said why themselves. */
export class NodeDidNotStart extends Error {
  override readonly name = "NodeDidNotStart";
}

export class Keeper {
  private readonly children = new Set<Child>();
  private readonly stopping = new AbortController();
  private readonly times: KeeperTimes;
  private replacing: Promise<void> | undefined;
  private replaceAgain = false;
  private over: Promise<void> | undefined;

  constructor(private readonly options: KeeperOptions) {
    this.times = options.times ?? KEEPER_TIMES;
  }

  /** Those that serve. */
  get serving(): Child[] {
    return [...this.children].filter(({ details, isOver }) => details !== undefined && !isOver);
  }

  /**
   * One first, so that a start that cannot succeed is told once; then the others together. Throws NodeDidNotStart.
   * A node that fails later is started again for ever, more and more slowly.
   */
  async start(): Promise<void> {
    await this.startTogether(1);
    await this.startTogether(this.options.count - 1);
  }

  private async startTogether(count: number): Promise<void> {
    const children = Array.from({ length: count }, () => this.launch());
    const ready = await Promise.all(children.map((child) => child.ready));
    if (!ready.every(Boolean)) throw new NodeDidNotStart("A node process did not start: its own words stand above");
    for (const child of children) void this.watch(child);
  }

  private launch(): Child {
    const child = this.options.fork();
    this.children.add(child);
    const late = setTimeout(() => {
      this.options.log.error({ node: child.pid }, "a node took too long to start: killed");
      child.kill();
    }, this.times.start);
    void child.ready.then((serves) => {
      clearTimeout(late);
      if (serves) this.options.log.info({ node: child.pid, nodeId: child.details?.nodeId }, "a node serves");
      if (serves) this.lookAfter(child);
    });
    void child.ended.then(({ code }) => {
      this.children.delete(child);
      if (code !== 0) this.options.onDeath(child);
    });
    return child;
  }

  /** One that never comes back from what it does holds its share of every connection, and nothing else ends it. */
  private lookAfter(child: Child): void {
    const looking = setInterval(() => {
      if (child.look() < LOOKS) return;
      this.options.log.error({ node: child.pid }, "a node stands still: killed");
      child.kill();
    }, this.times.silence / LOOKS);
    void child.ended.then(() => clearInterval(looking));
  }

  private async watch(first: Child | undefined): Promise<void> {
    let child = first;
    let pause = 0;
    while (!this.stopping.signal.aborted) {
      const { code, signal, lived } = child ? await child.ended : { code: null, signal: null, lived: 0 };
      if (child?.dismissed || this.stopping.signal.aborted) return;
      pause = lived >= this.times.steady ? 0 : pause;
      pause = Math.min(Math.max(2 * pause, this.times.shortestPause), this.times.longestPause);
      this.options.log.error({ node: child?.pid, code, signal, pause }, "a node died: starting another");
      await delay(pause, undefined, { signal: this.stopping.signal }).catch(() => undefined);
      if (this.stopping.signal.aborted) return;
      child = this.tryLaunch();
    }
  }

  private tryLaunch(): Child | undefined {
    try {
      return this.launch();
    } catch (error) {
      this.options.log.error({ err: error }, "no node process could be forked");
      return undefined;
    }
  }

  /**
   * Each node gets a successor, and is told to stop once that one serves; one at a time. Asked again while it is under way,
   * it does one more round, not more.
   */
  replaceAll(): Promise<void> {
    if (this.replacing) this.replaceAgain = true;
    this.replacing ??= this.replaceRounds().finally(() => {
      this.replacing = undefined;
    });
    return this.replacing;
  }

  private async replaceRounds(): Promise<void> {
    do {
      this.replaceAgain = false;
      // One that is not ready yet is new enough.
      for (const child of this.serving) if (!child.isOver && !(await this.replace(child))) return;
    } while (this.replaceAgain);
    this.options.log.info("all nodes are replaced");
  }

  /** False: it keeps the old node, or the service stops. */
  private async replace(old: Child): Promise<boolean> {
    if (this.stopping.signal.aborted) return false;
    // From here on its place is its successor's, even if it dies first.
    old.dismissed = true;
    const successor = this.tryLaunch();
    if (await successor?.ready) {
      if (successor) void this.watch(successor);
      await this.end(old);
      return !this.stopping.signal.aborted;
    }
    if (this.stopping.signal.aborted) return false;
    this.options.log.error({ node: old.pid }, "no successor became ready: the restart ends here");
    if (!old.isOver) old.dismissed = false;
    else void this.watch(undefined);
    return false;
  }

  /** True: orderly. */
  private async end(child: Child): Promise<boolean> {
    child.dismiss();
    const late = setTimeout(() => {
      this.options.log.error({ node: child.pid }, "a node took too long to stop: killed");
      child.kill();
    }, this.times.stop);
    const { code } = await child.ended;
    clearTimeout(late);
    return code === 0;
  }

  /** Complete on return, safe twice, and before the start is over. Throws if a node did not stop orderly. */
  stop(): Promise<void> {
    this.over ??= this.endAll();
    return this.over;
  }

  private async endAll(): Promise<void> {
    this.stopping.abort();
    const orderly = await Promise.all([...this.children].map((child) => this.end(child)));
    const bad = orderly.filter((ended) => !ended).length;
    if (bad > 0) throw new Error(`${bad} of ${orderly.length} nodes did not stop in order`);
  }
}
