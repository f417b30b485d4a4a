// Placement: which node a shard is placed on, computed by everybody alike from the nodes that are alive. It is for speed, never
// for safety: two nodes that disagree cost duplicate work, and the compare-and-set keeps the state right (law 1).
import { createHash } from "node:crypto";

/** 256 for ever: the shard is part of every id. */
export const SHARDS: readonly number[] = Array.from({ length: 256 }, (_, shard) => shard);

/**
 * Rendezvous hashing: the node with the highest weight owns the shard, so that a node that comes or goes moves its own share
 * and nothing else. Nodes of different releases have to agree on it: what is hashed, and how, must never change.
 */
export function ownerOf(shard: number, nodeIds: readonly string[]): string | undefined {
  let owner: string | undefined;
  let highest = "";
  for (const nodeId of nodeIds) {
    const weight = createHash("sha256").update(`${shard}/${nodeId}`).digest("hex");
    if (weight > highest) [owner, highest] = [nodeId, weight];
  }
  return owner;
}

export interface PlacementChange {
  readonly gained: readonly number[];
  readonly lost: readonly number[];
}

export class Placement {
  private owners: readonly (string | undefined)[] = [];
  private alive: readonly string[] = [];
  /** The shards of this node. */
  mine: ReadonlySet<number> = new Set();

  constructor(private readonly nodeId: string) {}

  /** The node to ask about a run of this shard; this node itself as long as nobody else is known. */
  owner(shard: number): string {
    return this.owners[shard] ?? this.nodeId;
  }

  /** Who else there is. */
  get others(): readonly string[] {
    return this.alive.filter((nodeId) => nodeId !== this.nodeId);
  }

  /** Places all shards anew; undefined if nothing changes. */
  place(nodeIds: readonly string[]): PlacementChange | undefined {
    const sorted = [...nodeIds].sort();
    if (sorted.join() === this.alive.join()) return undefined;
    this.alive = sorted;
    this.owners = SHARDS.map((shard) => ownerOf(shard, sorted));
    const before = this.mine;
    this.mine = new Set(SHARDS.filter((shard) => this.owners[shard] === this.nodeId));
    return {
      gained: [...this.mine].filter((shard) => !before.has(shard)),
      lost: [...before].filter((shard) => !this.mine.has(shard)),
    };
  }
}
