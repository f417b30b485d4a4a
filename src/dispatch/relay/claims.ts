// Whose worker holds what, where that is not the node that owns the run: this node tells owners what its workers hold, and
// remembers what others' workers claim. It moves no dispatch: the relay does.
import { Expiring } from "../expiring.js";
import type { DispatchLimits } from "../transport.js";
import type { Mailbag } from "./mailbag.js";
import type { Claim } from "./messages.js";
import type { Near } from "./near.js";

export interface ClaimsOptions {
  readonly near: Near;
  readonly mailbag: Pick<Mailbag, "put">;
  readonly limits: DispatchLimits;
  readonly isMine: (dispatchId: string) => boolean;
  readonly ownerOf: (dispatchId: string) => string;
}

/** With the node that told it. */
export interface RemoteClaim extends Claim {
  readonly node_id: string;
}

/** How often an owner is told again after a change of nodes: it may have learnt of it later, or a message was lost. */
const REPEAT_MS = 500;

export class Claims {
  /** Of dispatches that are not known here yet. */
  readonly #remembered: Expiring<RemoteClaim>;
  #repeatUntil = 0;
  #repeatAt = 0;

  constructor(private readonly options: ClaimsOptions) {
    this.#remembered = new Expiring(options.limits.claimMemoryMs, options.limits.claims);
  }

  /** A worker of this node names what it holds. */
  forward(dispatchId: string, workerId: string): void {
    this.#tell(dispatchId, workerId, "brought");
  }

  remember(claim: RemoteClaim): void {
    this.#remembered.set(claim.dispatch_id, claim);
  }

  take(dispatchId: string): RemoteClaim | undefined {
    const claim = this.#remembered.get(dispatchId);
    this.#remembered.delete(dispatchId);
    return claim;
  }

  /** Runs may have other owners now: they are told what is held for them here. */
  repeat(): void {
    this.#repeatUntil = performance.now() + this.options.limits.takeoverMs;
    this.#repeatAt = 0;
  }

  tick(): void {
    this.#remembered.takeDue();
    const now = performance.now();
    if (this.#repeatUntil === 0 || now < this.#repeatAt) return;
    const last = now >= this.#repeatUntil;
    if (last) this.#repeatUntil = 0;
    this.#repeatAt = now + REPEAT_MS;
    this.#tellOwners(last);
  }

  #tellOwners(last: boolean): void {
    const { near, isMine } = this.options;
    for (const [id, workerId, begun] of [...near.bound()]) {
      if (id.startsWith("voucher:") || isMine(id)) continue;
      this.#tell(id, workerId, begun ? "held" : "kept");
      // Its owner had time to commit and to hand it over: nothing comes any more.
      if (last && !begun) near.resolved(id);
    }
  }

  #tell(dispatchId: string, workerId: string, how: Claim["how"]): void {
    const { mailbag, ownerOf } = this.options;
    mailbag.put(ownerOf(dispatchId), "dispatch.claim", { dispatch_id: dispatchId, worker_id: workerId, how });
  }
}
