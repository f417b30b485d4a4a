// What nodes say to each other about dispatches. A wire format between nodes of neighbouring releases: members may be added,
// never changed. What does not fit is passed over, as what is lost would be.
import { type Dispatch, isObject, type Json, type JsonObject } from "../../../machines/index.js";
import type { ActionName } from "../transport.js";

/** Calls that wait at the teller. `alone`: it has no worker of its own for them. A statement is whole: it replaces the last one. */
export interface Want extends ActionName {
  readonly calls: number;
  readonly alone: boolean;
}

/** One credit of a worker of the teller, set aside for the node that is told. */
export interface Voucher extends ActionName {
  readonly id: string;
  readonly worker_id: string;
}

/**
 * A worker of the teller has the dispatch. `brought`: it has just come with it, from wherever it was. `held`: it was sent there.
 * `kept`: the worker is only kept free for it.
 */
export interface Claim {
  readonly dispatch_id: string;
  readonly worker_id: string;
  readonly how: "brought" | "held" | "kept";
}

/** Told, not asked: every one may be lost. */
export interface Tells {
  "dispatch.want": Want;
  "dispatch.vouchers": Voucher;
  /** Vouchers that are not needed, by their id. */
  "dispatch.return": string;
  /** Dispatches that are owed no more. */
  "dispatch.resolved": string;
  /** Dispatches whose stream is gone. */
  "dispatch.lost": string;
  "dispatch.claim": Claim;
}

/** `held`: here, with a worker. `gone`: it was here. `never`: it was not, so nobody has begun it. */
export type Whereabouts = "held" | "gone" | "never";

export interface Hand {
  readonly kind: "dispatch.hand";
  readonly dispatch: Dispatch;
  readonly voucher_id?: string;
  /** A worker of the asked has begun it: it comes without inputs, and is not executed. */
  readonly begun: boolean;
}

export interface Cancel {
  readonly kind: "dispatch.cancel";
  readonly dispatch_id: string;
  readonly reason: string;
}

/** Which of these does the asked hold? The answer names those that it does not. */
export interface RollCall {
  readonly kind: "dispatch.roll_call";
  readonly dispatch_ids: readonly string[];
}

export type Ask = Hand | Cancel | RollCall;

const isText = (value: Json | undefined): value is string => typeof value === "string";

const isActionName = (value: JsonObject): boolean =>
  isText(value.service) && isText(value.action) && typeof value.version === "number";

const isWant = (value: JsonObject): boolean =>
  isActionName(value) && typeof value.calls === "number" && typeof value.alone === "boolean";

const FITS: { readonly [K in keyof Tells]: (item: Json) => boolean } = {
  "dispatch.want": (item) => isObject(item) && isWant(item),
  "dispatch.vouchers": (item) => isObject(item) && isActionName(item) && isText(item.id) && isText(item.worker_id),
  "dispatch.return": isText,
  "dispatch.resolved": isText,
  "dispatch.lost": isText,
  "dispatch.claim": (item) => isObject(item) && isText(item.dispatch_id) && isText(item.worker_id) && isText(item.how),
};

/** What a tell of this kind carries, or undefined if the message is none. */
export function itemsOf<K extends keyof Tells>(kind: K, message: JsonObject): readonly Tells[K][] | undefined {
  const { items } = message;
  if (message.kind !== kind || !Array.isArray(items) || !items.every(FITS[kind])) return undefined;
  return items as unknown as readonly Tells[K][];
}

export function askOf(message: JsonObject): Ask | undefined {
  const { kind, dispatch, dispatch_id: id, dispatch_ids: ids, reason } = message;
  const fits =
    (kind === "dispatch.hand" && isObject(dispatch) && isText(dispatch.dispatchId) && isObject(dispatch.call)) ||
    (kind === "dispatch.cancel" && isText(id) && isText(reason)) ||
    (kind === "dispatch.roll_call" && Array.isArray(ids) && ids.every(isText));
  return fits ? (message as unknown as Ask) : undefined;
}
