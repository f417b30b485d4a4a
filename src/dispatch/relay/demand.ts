// Tells the other nodes which calls wait here for credit: gathered for a moment, and repeated while calls wait. It
// offers nothing and takes no credit: the vouchers that come back go to relay.ts.

import { clearTimeout, performance, setTimeout } from "../../ambient.js";
import type { CreditWaiter } from "../carrier.js";
import type { FairQueue } from "../fair-queue.js";
import type { DispatchLimits } from "../limits.js";
import { type ActionName, nameKey, nameOf, type WaitingLevel } from "../workers.js";
import type { Batcher } from "./batcher.js";
import type { LocalStreams } from "./local-streams.js";
import type { Demand } from "./messages.js";

export interface DemandAnnouncerOptions {
  readonly streams: Pick<LocalStreams, "serves" | "unclaimedCounts">;
  readonly queue: Pick<FairQueue<CreditWaiter>, "ownCounts">;
  readonly batcher: Pick<Batcher, "sendNow">;
  readonly limits: DispatchLimits;
}

interface Waiting extends Pick<Demand, "calls" | "levels"> {
  readonly name: ActionName;
}

export class DemandAnnouncer {
  private peers: ReadonlySet<string> = new Set();
  private gathering: NodeJS.Timeout | undefined;
  private announcedAt = 0;
  /** The last announcement named calls: the peers must learn when none wait any more. */
  private hadDemand = false;
  private stopped = false;
  /** Which demand comes first in the next announcement. */
  private turn = 0;

  constructor(private readonly options: DemandAnnouncerOptions) {}

  placed(peers: ReadonlySet<string>): void {
    this.peers = peers;
    this.schedule();
  }

  /** Calls wait, and no worker of this node has credit for them. */
  schedule(): void {
    if (this.gathering || this.stopped || this.peers.size === 0) return;
    this.gathering = setTimeout(() => this.announce(), this.options.limits.demandGatherMs).unref();
  }

  tick(): void {
    if (performance.now() - this.announcedAt >= this.options.limits.demandMs) this.schedule();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.gathering);
  }

  private announce(): void {
    this.gathering = undefined;
    this.announcedAt = performance.now();
    const demand = this.demand();
    if (demand.length === 0 && !this.hadDemand) return;
    this.hadDemand = demand.length > 0;
    for (const nodeId of this.peers) this.options.batcher.sendNow(nodeId, "dispatch.want", demand);
  }

  /** Where there are more than one message names, each has its turn: those that no worker serves must not hold up the others. */
  private inTurns(all: readonly Waiting[]): readonly Waiting[] {
    const { demands: most } = this.options.limits;
    if (all.length <= most) return all;
    const first = this.turn % all.length;
    this.turn = first + most;
    return [...all.slice(first), ...all.slice(0, first)].slice(0, most);
  }

  private demand(): Demand[] {
    const { streams, queue, limits } = this.options;
    const waitings = new Map<string, Waiting>();
    for (const counts of [streams.unclaimedCounts(), queue.ownCounts()]) {
      for (const [counted, waiting, levels] of counts) {
        const name = nameOf(counted);
        const key = nameKey(name);
        const calls = Math.min(waiting + (waitings.get(key)?.calls ?? 0), limits.vouchers);
        waitings.set(key, { name, calls, ...(levels && { levels: bounded(levels, limits.vouchers) }) });
      }
    }
    const named = this.inTurns([...waitings.values()]);
    return named.map(({ name, ...waiting }) => ({ ...name, ...waiting, alone: !streams.serves(name) }));
  }
}

/** Each level has an equal part, so that none keeps another one from being named. */
function bounded(levels: readonly WaitingLevel[], most: number): WaitingLevel[] {
  const each = Math.ceil(most / levels.length);
  return levels.map((level) => ({ ...level, calls: Math.min(level.calls, each) }));
}
