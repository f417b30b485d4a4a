// Which node owns the run of a dispatch: the node that the shard in the last byte of the dispatch id is placed on.
import type { DispatchId } from "../../machines/index.js";
import type { Bus } from "../bus/bus.js";
import { type ShardId, shardOf } from "../ids.js";

/** The other nodes, as this node sees them. */
export interface Peers {
  readonly bus: Pick<Bus, "ask" | "tell">;
  /** The node that a shard is placed on. */
  owner(shard: ShardId): string;
}

export class Ownership {
  constructor(
    private readonly nodeId: string,
    private readonly peers: Pick<Peers, "owner"> | undefined,
  ) {}

  ownerOf(dispatchId: DispatchId): string {
    return this.peers?.owner(shardOf(dispatchId)) ?? this.nodeId;
  }

  isMine(dispatchId: DispatchId): boolean {
    return this.ownerOf(dispatchId) === this.nodeId;
  }
}
