// The supervisor keeps a number of node processes alive: it starts them, replaces a dead one, replaces all of them one by one,
// and ends them. The work of a node process is not its matter.
//
// Invariant: each started node is watched until it ends, and has one successor, or none if it was retired.
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "../log.js";
import { backoff } from "../sdk/backoff.js";
import type { ToNode } from "./messages.js";
import type { NodeProcess } from "./node-process.js";

/** Milliseconds. */
export interface SupervisorTimes {
  readonly shortestPause: number;
  readonly longestPause: number;
  /** A node that served this long did not die of its start: the next pause is the shortest again. */
  readonly steady: number;
  /** The time from the fork to readiness. */
  readonly start: number;
  /** The time from the request to stop to the end. */
  readonly stop: number;
  /** A node that sends nothing for this long is unresponsive. */
  readonly silence: number;
}

export const SUPERVISOR_TIMES: SupervisorTimes = {
  shortestPause: 100,
  longestPause: 5_000,
  steady: 3_000,
  start: 60_000,
  stop: 30_000,
  silence: 30_000,
};

/** A successor may fail for a moment's reason: the database has no session left, or restarts. The old node serves meanwhile. */
const SUCCESSOR_TRIES = 8;

/** Silence is counted in checks, not in time: while the whole machine is suspended there are no checks. */
const SILENCE_CHECKS = 10;

export interface SupervisorOptions {
  readonly count: number;
  /** If it throws, it is tried again after a pause. */
  fork(): NodeProcess;
  /** The process has ended, and not in order. */
  onDeath(node: NodeProcess): void;
  readonly log: Logger;
  readonly times?: SupervisorTimes;
}

/** The first nodes did not become ready. Their own output says why. */
export class NodeDidNotStart extends Error {
  override readonly name = "NodeDidNotStart";
}

export class Supervisor {
  private readonly nodes = new Set<NodeProcess>();
  private readonly stopping = new AbortController();
  private readonly times: SupervisorTimes;
  private replacing: Promise<void> | undefined;
  private replaceAgain = false;
  private stopped: Promise<void> | undefined;

  constructor(private readonly options: SupervisorOptions) {
    this.times = options.times ?? SUPERVISOR_TIMES;
  }

  /** The nodes that serve. */
  get serving(): NodeProcess[] {
    return [...this.nodes].filter(({ details, hasEnded }) => details !== undefined && !hasEnded);
  }

  /** Sends it to all nodes. One that starts reads no messages yet, and may have begun with what was true before: it gets this one when it serves. */
  tell(message: ToNode): void {
    for (const node of this.nodes) void node.ready.then((serves) => serves && node.send(message));
  }

  /**
   * Starts one node first, so that a start that cannot succeed is reported once: throws NodeDidNotStart. Then the others
   * together: returns when each of them serves or has failed. A node that fails once the first one has served is started
   * again without limit, more and more slowly.
   */
  async start(): Promise<void> {
    const first = this.launch();
    if (!(await first.ready)) throw new NodeDidNotStart("A node process did not start; its own output above says why");
    void this.keepAlive(first);
    const others = Array.from({ length: this.options.count - 1 }, () => this.tryLaunch());
    for (const node of others) void this.keepAlive(node);
    await Promise.all(others.map((node) => node?.ready));
  }

  private launch(): NodeProcess {
    const node = this.options.fork();
    this.nodes.add(node);
    const deadline = this.killAfter(node, this.times.start, "node start timed out, killed");
    void node.ready.then((serves) => {
      clearTimeout(deadline);
      if (!serves) return;
      this.options.log.info({ node: node.pid, nodeId: node.details?.nodeId }, "node ready");
      this.watchSilence(node);
    });
    void node.ended.then(({ code }) => {
      this.nodes.delete(node);
      if (code !== 0) this.options.onDeath(node);
    });
    return node;
  }

  private killAfter(node: NodeProcess, ms: number, message: string): NodeJS.Timeout {
    return setTimeout(() => {
      this.options.log.error({ node: node.pid }, message);
      node.kill();
    }, ms);
  }

  /** A node in an endless loop keeps its share of all connections, and nothing but this ends it. */
  private watchSilence(node: NodeProcess): void {
    const checking = setInterval(() => {
      if (node.checkSilence() < SILENCE_CHECKS) return;
      this.options.log.error({ node: node.pid }, "node unresponsive, killed");
      node.kill();
    }, this.times.silence / SILENCE_CHECKS);
    void node.ended.then(() => clearInterval(checking));
  }

  /** One place among the nodes: whenever its node dies, another is started, until the node is retired. */
  private async keepAlive(first: NodeProcess | undefined): Promise<void> {
    let node = first;
    let failures = 0;
    const { shortestPause: base, longestPause: cap, steady } = this.times;
    while (!this.stopping.signal.aborted) {
      const { code, signal, served } = node ? await node.ended : { code: null, signal: null, served: 0 };
      if (node?.retired || this.stopping.signal.aborted) return;
      if (served >= steady) failures = 0;
      const pause = backoff(failures++, { base, cap });
      this.options.log.error({ node: node?.pid, code, signal, pause }, "node died, starting another");
      await this.pause(pause);
      if (this.stopping.signal.aborted) return;
      node = this.tryLaunch();
    }
  }

  private tryLaunch(): NodeProcess | undefined {
    try {
      return this.launch();
    } catch (error) {
      this.options.log.error({ err: error }, "fork of a node process failed");
      return undefined;
    }
  }

  /**
   * Gives each node a successor, and retires the node once the successor serves; one at a time. Calls during a replacement add
   * one more round, not more.
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
      // A node that is not ready yet is new enough.
      for (const node of this.serving) if (!node.hasEnded && !(await this.replace(node))) return;
    } while (this.replaceAgain);
    this.options.log.info("all nodes replaced");
  }

  /** False: the old node stays, or the service stops. */
  private async replace(old: NodeProcess): Promise<boolean> {
    // From here on the place belongs to the successor, even if the old node dies first.
    old.retired = true;
    const successor = await this.successorOf(old);
    if (successor) {
      void this.keepAlive(successor);
      await this.end(old);
    } else if (!this.stopping.signal.aborted) this.keepOld(old);
    return successor !== undefined && !this.stopping.signal.aborted;
  }

  /** A node that serves. Undefined: none became ready, the old node has died meanwhile, or the service stops. */
  private async successorOf(old: NodeProcess): Promise<NodeProcess | undefined> {
    const { shortestPause: base, longestPause: cap } = this.times;
    for (let nth = 0; !this.stopping.signal.aborted; nth++) {
      const successor = this.tryLaunch();
      if (await successor?.ready) return successor;
      if (old.hasEnded || nth + 1 === SUCCESSOR_TRIES || this.stopping.signal.aborted) return undefined;
      const pause = backoff(nth, { base, cap });
      this.options.log.warn({ node: successor?.pid, pause }, "successor did not become ready, starting another");
      await this.pause(pause);
    }
    return undefined;
  }

  private async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.stopping.signal }).catch(() => undefined);
  }

  private keepOld(old: NodeProcess): void {
    this.options.log.error({ node: old.pid }, "successor did not become ready, replacement of nodes ended");
    if (!old.hasEnded) old.retired = false;
    else void this.keepAlive(undefined);
  }

  /** True: the node ended in order. */
  private async end(node: NodeProcess): Promise<boolean> {
    node.retire();
    const deadline = this.killAfter(node, this.times.stop, "node stop timed out, killed");
    const { code } = await node.ended;
    clearTimeout(deadline);
    return code === 0;
  }

  /** Complete on return, safe to call twice and before the start has ended. Throws if a node did not end in order. */
  stop(): Promise<void> {
    this.stopped ??= this.endAll();
    return this.stopped;
  }

  private async endAll(): Promise<void> {
    this.stopping.abort();
    const orderly = await Promise.all([...this.nodes].map((node) => this.end(node)));
    const failed = orderly.filter((ended) => !ended).length;
    if (failed > 0) throw new Error(`${failed} of ${orderly.length} nodes did not stop in order`);
  }
}
