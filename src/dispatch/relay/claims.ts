// Claims between nodes, where a worker holds a dispatch at another node than the one that owns its run: this node tells
// owners what its workers hold, and remembers what workers of other nodes hold. It moves no dispatch: relay.ts does.

import type { Dispatch, DispatchId } from "../../../machines/index.js";
import { performance } from "../../ambient.js";
import { ExpiringMap } from "../expiring-map.js";
import type { DispatchLimits } from "../limits.js";
import type { Ownership } from "../ownership.js";
import type { Batcher } from "./batcher.js";
import type { Claimant, LocalStreams } from "./local-streams.js";
import type { Claim } from "./messages.js";
import { isVoucherId } from "./messages.js";

export interface ClaimsOptions {
  readonly streams: Pick<LocalStreams, "bound" | "resolved">;
  readonly batcher: Pick<Batcher, "add">;
  readonly limits: DispatchLimits;
  readonly ownership: Ownership;
}

/** A claim with the node that sent it. */
export interface RemoteClaim extends Claim {
  readonly node_id: string;
}

/**
 * How often claims are repeated after a change of nodes: an owner may learn of the change later, or a message may be
 * lost.
 */
const REPEAT_MS = 500;

export class Claims {
  /** Claims of dispatches that are not known here yet. */
  private readonly remembered: ExpiringMap<RemoteClaim>;
  private repeatUntil = 0;
  private repeatAt = 0;

  constructor(private readonly options: ClaimsOptions) {
    this.remembered = new ExpiringMap(options.limits.claimMemoryMs, options.limits.claims);
  }

  /** A worker has just connected to this node and names a dispatch that it holds. */
  forward(dispatchId: DispatchId, { workerId, service, tenants }: Claimant): void {
    const limits = { service, ...(tenants && { tenants }) };
    this.tellOwner({ dispatch_id: dispatchId, worker_id: workerId, ...limits, how: "brought" });
  }

  remember(claim: RemoteClaim): void {
    this.remembered.set(claim.dispatch_id, claim);
  }

  /** Removes and returns the claim of the dispatch. */
  take(dispatchId: DispatchId): RemoteClaim | undefined {
    const claim = this.remembered.get(dispatchId);
    this.remembered.delete(dispatchId);
    return claim;
  }

  /** Repeats to the new owners, for `takeoverMs` after a change of nodes, which of their dispatches are held here. */
  repeat(): void {
    this.repeatUntil = performance.now() + this.options.limits.takeoverMs;
    this.repeatAt = 0;
  }

  tick(): void {
    this.remembered.takeDue();
    const now = performance.now();
    if (this.repeatUntil === 0 || now < this.repeatAt) return;
    const last = now >= this.repeatUntil;
    if (last) this.repeatUntil = 0;
    this.repeatAt = now + REPEAT_MS;
    this.tellOwners(last);
  }

  private tellOwners(last: boolean): void {
    const { streams, ownership } = this.options;
    for (const [id, workerId, committed] of [...streams.bound()]) {
      if (isVoucherId(id) || ownership.isMine(id)) continue;
      this.tellOwner({ dispatch_id: id, worker_id: workerId, how: committed ? "held" : "kept" });
      // Its owner had time to commit the dispatch and to hand it over: none will come.
      if (last && !committed) streams.resolved(id);
    }
  }

  private tellOwner(claim: Claim): void {
    const { batcher, ownership } = this.options;
    batcher.add(ownership.ownerOf(claim.dispatch_id), "dispatch.claim", claim);
  }
}

/** Whether the worker may have the dispatch: by its service and its tenants. Only one that has brought it names them. */
export function mayHold(
  { service, tenants }: Pick<Claim, "service" | "tenants">,
  { call, tenantId }: Pick<Dispatch, "call" | "tenantId">,
): boolean {
  if (service !== undefined && service !== call.service) return false;
  return tenants === undefined || (tenantId !== undefined && tenants.includes(tenantId));
}
