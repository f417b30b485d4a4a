// Placement: which node owns a shard, computed by every node in the same way from the nodes that are alive. It is for speed, never for
// safety: two nodes that disagree cost duplicate work, and the compare-and-set keeps the state right (law 1).

import { createHash } from "node:crypto";
import { random } from "../ambient.js";
import { asShardId, type ShardId } from "../ids.js";

/** The number must never change: the shard is part of every id. */
export const SHARDS: readonly ShardId[] = Array.from({ length: 256 }, (_, shard) => asShardId(shard));

/**
 * Rendezvous hashing: the node with the highest weight owns the shard, so a node that joins or leaves moves only its own share.
 * Nodes of different releases have to agree on it: the hashed text and the hash must never change.
 */
export function ownerOf(shard: ShardId, nodeIds: readonly string[]): string | undefined {
  let owner: string | undefined;
  let highest = "";
  for (const nodeId of nodeIds) {
    const weight = createHash("sha256").update(`${shard}/${nodeId}`).digest("hex");
    if (weight > highest) [owner, highest] = [nodeId, weight];
  }
  return owner;
}

export interface PlacementChange {
  readonly gained: readonly ShardId[];
  readonly lost: readonly ShardId[];
  /** A node that was alive is so no more. */
  readonly nodeLost: boolean;
}

export class Placement {
  private owners: readonly (string | undefined)[] = [];
  private alive: readonly string[] = [];
  /** The shards of this node. */
  mine: ReadonlySet<ShardId> = new Set();
  /** The same, to choose from. */
  private choice: readonly ShardId[] = [];

  constructor(private readonly nodeId: string) {}

  /** The node to ask about a run of this shard; this node itself until another one is known. */
  owner(shard: ShardId): string {
    return this.owners[shard] ?? this.nodeId;
  }

  /** Any shard of this node, each as likely as the others, so that what begins here can stay here. Undefined: it has none. */
  anyOfMine(): ShardId | undefined {
    return this.choice[Math.floor(random() * this.choice.length)];
  }

  /** The other nodes that are alive. */
  get others(): readonly string[] {
    return this.alive.filter((nodeId) => nodeId !== this.nodeId);
  }

  /** Places all shards again; undefined if nothing changes. */
  place(nodeIds: readonly string[]): PlacementChange | undefined {
    const sorted = [...nodeIds].sort();
    if (sorted.join() === this.alive.join()) return undefined;
    const nodeLost = this.alive.some((nodeId) => !sorted.includes(nodeId));
    this.alive = sorted;
    this.owners = SHARDS.map((shard) => ownerOf(shard, sorted));
    const before = this.mine;
    this.choice = SHARDS.filter((shard) => this.owners[shard] === this.nodeId);
    this.mine = new Set(this.choice);
    return {
      gained: [...this.mine].filter((shard) => !before.has(shard)),
      lost: [...before].filter((shard) => !this.mine.has(shard)),
      nodeLost,
    };
  }
}
