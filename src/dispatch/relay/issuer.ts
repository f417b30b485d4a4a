// The host's side of the relay: gives other nodes credit of this node's workers, as vouchers, and takes their dispatches.
// What becomes of a dispatch that its worker lost is for its owner to decide, not for this side.
import { Expiring } from "../expiring.js";
import type { ActionName, DispatchLimits } from "../transport.js";
import { WaitingLine } from "../waiting-line.js";
import type { Mailbag } from "./mailbag.js";
import type { Hand, Want, Whereabouts } from "./messages.js";
import type { Near } from "./near.js";

/** Somebody in a line who is given a turn. False: there is no credit. */
export interface Taker {
  take(): boolean;
}

export interface IssuerOptions {
  readonly nodeId: string;
  readonly near: Near;
  readonly mailbag: Pick<Mailbag, "put">;
  readonly limits: DispatchLimits;
  /** Where the calls of this node wait: a node that has no worker of its own takes turns with them. */
  readonly line: WaitingLine<Taker>;
  /** Credit may be there: whoever stands in the line gets a turn. */
  readonly serve: (service: string) => void;
}

/** One call of another node that waits for credit here. */
interface Ticket extends Taker {
  readonly id: string;
  readonly of: string;
  readonly name: ActionName;
  readonly line: WaitingLine<Taker>;
  until: number;
}

export class Issuer {
  readonly #tickets = new Map<string, Ticket>();
  /** Of nodes that have workers of their own: they get what would be idle. */
  readonly #idle = new WaitingLine<Taker>();
  /** Given away and not redeemed. */
  readonly #vouchers: Expiring<true>;
  /** What was taken from other nodes: a repeat is known as such. */
  readonly #handed: Expiring<true>;
  #issued = 0;

  constructor(private readonly options: IssuerOptions) {
    const { voucherMs, handedMemoryMs, relayed } = options.limits;
    this.#vouchers = new Expiring(voucherMs);
    this.#handed = new Expiring(handedMemoryMs, 10 * relayed);
  }

  /** All that the node wants: what it named before and does not name now, it does not want any more. */
  wanted(of: string, wants: readonly Want[]): void {
    const { limits, serve } = this.options;
    const until = performance.now() + 3 * limits.wantMs;
    for (const want of wants.slice(0, limits.wants)) {
      for (let nth = 0; nth < Math.min(want.calls, limits.vouchers); nth++) this.#queue(of, want, nth, until);
    }
    for (const ticket of this.#tickets.values()) if (ticket.of === of && ticket.until !== until) this.#drop(ticket);
    for (const service of new Set(wants.map((want) => want.service))) serve(service);
  }

  /** After everybody of this node, and those without a worker of their own. */
  serveIdle(service: string | undefined): void {
    const take = (taker: Taker) => taker.take();
    if (service === undefined) this.#idle.serveAll(take);
    else this.#idle.serve(service, take);
  }

  returned(voucherIds: readonly string[]): void {
    for (const id of voucherIds) this.#release(id);
  }

  /** A repeat gets the same answer and executes nothing. */
  handed({ dispatch, voucher_id: voucherId, begun }: Hand): Whereabouts {
    const { near } = this.options;
    const { dispatchId } = dispatch;
    if (near.carries(dispatchId)) {
      if (voucherId !== undefined) this.#release(voucherId);
      return "held";
    }
    // Without a voucher, its credit was reserved here in its own name.
    const taken = begun ? near.adopt(dispatch) : near.redeem(voucherId ?? dispatchId, dispatch);
    if (!taken) return begun || this.#handed.get(dispatchId) ? "gone" : "never";
    if (voucherId !== undefined) this.#vouchers.delete(voucherId);
    this.#handed.set(dispatchId, true);
    return "held";
  }

  cancelled(dispatchId: string, reason: string): Whereabouts {
    const { near } = this.options;
    near.cancel(dispatchId, reason);
    return near.carries(dispatchId) ? "held" : "gone";
  }

  missing(dispatchIds: readonly string[]): string[] {
    return dispatchIds.filter((id) => !this.options.near.carries(id));
  }

  tick(): void {
    const now = performance.now();
    for (const ticket of this.#tickets.values()) if (ticket.until <= now) this.#drop(ticket);
    for (const [id] of this.#vouchers.takeDue()) this.options.near.resolved(id);
    this.#handed.takeDue();
  }

  /** Those that stand already keep their place. */
  #queue(of: string, { service, action, version, alone }: Want, nth: number, until: number): void {
    const id = `${of} ${service} ${action}@${version} ${nth} ${alone}`;
    const known = this.#tickets.get(id);
    if (known) {
      known.until = until;
      return;
    }
    const name = { service, action, version };
    const line = alone ? this.options.line : this.#idle;
    const ticket: Ticket = { id, of, name, line, until, take: () => this.#issue(ticket) };
    this.#tickets.set(id, ticket);
    line.add(name, id, ticket, { of });
  }

  #issue({ id: ticketId, of, name }: Ticket): boolean {
    const { nodeId, near, mailbag } = this.options;
    // No uuid: nobody takes it for a dispatch.
    const id = `voucher:${nodeId}:${++this.#issued}`;
    const reserved = near.reserve(id, name);
    if (!reserved) return false;
    this.#tickets.delete(ticketId);
    this.#vouchers.set(id, true);
    mailbag.put(of, "dispatch.vouchers", { ...name, id, worker_id: reserved.workerId ?? "" });
    return true;
  }

  /** Only what was given away: an id of another node's making gives nothing back here. */
  #release(voucherId: string): void {
    if (!this.#vouchers.get(voucherId)) return;
    this.#vouchers.delete(voucherId);
    this.options.near.resolved(voucherId);
  }

  #drop({ id, name, line, of }: Ticket): void {
    this.#tickets.delete(id);
    line.remove(name, id, of);
  }
}
