// What nodes send to each other about dispatches. A wire format between nodes of neighbouring releases: members may be
// added, never changed. A message that does not fit is ignored, as a lost one would be.

import {
  type Dispatch,
  type DispatchId,
  isObject,
  type Json,
  type JsonObject,
  LEVELS,
} from "../../../machines/index.js";
import { randomUUID } from "../../ambient.js";
import type { Protocol } from "../../bus/protocol.js";
import type { ActionName, CalledAction, WaitingLevel } from "../workers.js";

/** A node that offers another one credit reserves it under a voucher's id, until the dispatch comes that uses it. */
export type VoucherId = string & { readonly __id: "voucher" };

/** Credit of this node's streams is reserved under the id of a dispatch, or of a voucher. */
export type ReservationId = DispatchId | VoucherId;

const PREFIX = "voucher:";

/** Random: who does not know it cannot use it. */
export const newVoucherId = (): VoucherId => `${PREFIX}${randomUUID()}` as VoucherId;

/** The id of a dispatch is a UUID. */
export const isVoucherId = (id: ReservationId): id is VoucherId => id.startsWith(PREFIX);

/** Calls of one action that wait at the sender. A node's demand is complete: it replaces the one it sent before. */
export interface Demand extends ActionName {
  readonly calls: number;
  /** The sender has no worker of its own for the action. */
  readonly alone: boolean;
  /** Of `calls`, those whose runs have a precedence, and those beside them, by their levels. Absent: all are of the usual one. */
  readonly levels?: readonly WaitingLevel[];
}

/** One credit of a worker of the sender, set aside for the receiver. */
export interface Voucher extends ActionName {
  readonly id: VoucherId;
  readonly worker_id: string;
}

/**
 * A worker of the sender has the dispatch. `brought`: the worker has just connected and named it, wherever it got it.
 * `held`: the dispatch was sent to it at the sender. `kept`: credit is only reserved for it there.
 */
export interface Claim {
  readonly dispatch_id: DispatchId;
  readonly worker_id: string;
  /** The worker's service, where it brought the dispatch. */
  readonly service?: string;
  /** The tenants whose runs it serves. Absent: all, and runs of no tenant. */
  readonly tenants?: readonly string[];
  readonly how: "brought" | "held" | "kept";
}

/** Messages without an answer, by kind, with their items: each may be lost. */
export interface Tells {
  "dispatch.want": Demand;
  "dispatch.vouchers": Voucher;
  /** Ids of vouchers that are not needed. */
  "dispatch.return": VoucherId;
  /** Ids of dispatches that their runs wait for no longer. */
  "dispatch.resolved": DispatchId;
  /** Ids of dispatches whose stream is gone. */
  "dispatch.lost": DispatchId;
  "dispatch.claim": Claim;
}

/** A tell as it arrives: its items are of one kind. */
export type Tell = {
  readonly [K in keyof Tells]: { readonly kind: K; readonly items: readonly Tells[K][] };
}[keyof Tells];

/** Where a dispatch is: `held` here, with a worker; `gone`, but it was here; `never` here, so no worker started it. */
export type Whereabouts = "held" | "gone" | "never";

/** The receiver is to execute the dispatch, or to bind it to its worker that has started it. */
export interface HandOver {
  readonly kind: "dispatch.hand";
  readonly dispatch: Dispatch;
  readonly voucher_id?: VoucherId;
  /** A worker of the receiver has started the dispatch: it comes without inputs, and is not executed again. */
  readonly begun: boolean;
}

export interface Cancel {
  readonly kind: "dispatch.cancel";
  readonly dispatch_id: DispatchId;
  readonly reason: string;
}

/** Which of these does the receiver hold? The answer names those that it does not. */
export interface RollCall {
  readonly kind: "dispatch.roll_call";
  readonly dispatch_ids: readonly DispatchId[];
}

export type Ask = HandOver | Cancel | RollCall;

/** Which workers does the receiver know, and which of its calls wait? The answer is a `NodeReport`. */
export interface WorkersAsk {
  readonly kind: "dispatch.workers";
}

/** Why do calls of these actions wait, as far as the receiver knows? The answer has an `Obstacle` or null for each. */
export interface ObstaclesAsk {
  readonly kind: "dispatch.obstacles";
  readonly actions: readonly CalledAction[];
}

/** Which worker holds a dispatch of the receiver's? The answer has a `DispatchHolder` or null: `holder`. */
export interface HolderAsk {
  readonly kind: "dispatch.holder";
  readonly dispatch_id: DispatchId;
}

export type DirectoryAsk = WorkersAsk | ObstaclesAsk | HolderAsk;

const DIRECTORY_KINDS: ReadonlySet<string> = new Set<DirectoryAsk["kind"]>([
  "dispatch.workers",
  "dispatch.obstacles",
  "dispatch.holder",
]);

export const isDirectoryAsk = (ask: DispatchAsk): ask is DirectoryAsk => DIRECTORY_KINDS.has(ask.kind);

/**
 * Which of these dispatches, of workers without streams, does the receiver send or may it be about to send? The answer names them: `held`.
 * `node_id` is the asking node, which would send the others: the receiver lets go of them.
 */
export interface HeldAsk {
  readonly kind: "dispatch.held";
  readonly node_id: string;
  readonly dispatch_ids: readonly DispatchId[];
}

/** Every question between nodes about dispatches. */
export type DispatchAsk = Ask | DirectoryAsk | HeldAsk;

const isText = (value: Json | undefined): value is string => typeof value === "string";

const isActionName = (value: JsonObject): boolean =>
  isText(value.service) &&
  isText(value.action) &&
  typeof value.version === "number" &&
  (value.tenantId === undefined || isText(value.tenantId));

const isCalledAction = (value: Json): boolean => isObject(value) && isActionName(value) && isText(value.transport);

const isDemand = ({ levels, ...value }: JsonObject): boolean =>
  isActionName(value) &&
  typeof value.calls === "number" &&
  typeof value.alone === "boolean" &&
  (levels === undefined || (Array.isArray(levels) && levels.length <= LEVELS && levels.every(isLevel)));

const isLevel = (value: Json): boolean =>
  isObject(value) &&
  Number.isInteger(value.priority) &&
  Number(value.priority) >= 1 &&
  Number(value.priority) <= LEVELS &&
  typeof value.calls === "number" &&
  typeof value.weight === "number" &&
  value.weight > 0;

const FITS: { readonly [K in keyof Tells]: (item: Json) => boolean } = {
  "dispatch.want": (item) => isObject(item) && isDemand(item),
  "dispatch.vouchers": (item) => isObject(item) && isActionName(item) && isText(item.id) && isText(item.worker_id),
  "dispatch.return": isText,
  "dispatch.resolved": isText,
  "dispatch.lost": isText,
  "dispatch.claim": (item) => isObject(item) && isText(item.dispatch_id) && isText(item.worker_id) && isText(item.how),
};

export const dispatchProtocol: Protocol<DispatchAsk, Tell> = { ask: decodeAsk, tell: decodeTell };

function decodeTell({ kind, items }: JsonObject): Tell | undefined {
  if (!isTellKind(kind) || !Array.isArray(items) || !items.every(FITS[kind])) return undefined;
  return { kind, items } as unknown as Tell;
}

const isTellKind = (kind: Json | undefined): kind is keyof Tells => isText(kind) && Object.hasOwn(FITS, kind);

function decodeAsk(message: JsonObject): DispatchAsk | undefined {
  const { kind, dispatch, dispatch_id: id, dispatch_ids: ids, node_id: nodeId, reason, actions } = message;
  const fits =
    kind === "dispatch.workers" ||
    (kind === "dispatch.obstacles" && Array.isArray(actions) && actions.every(isCalledAction)) ||
    (kind === "dispatch.hand" && isObject(dispatch) && isText(dispatch.dispatchId) && isObject(dispatch.call)) ||
    (kind === "dispatch.holder" && isText(id)) ||
    (kind === "dispatch.cancel" && isText(id) && isText(reason)) ||
    (kind === "dispatch.roll_call" && Array.isArray(ids) && ids.every(isText)) ||
    (kind === "dispatch.held" && isText(nodeId) && Array.isArray(ids) && ids.every(isText));
  return fits ? (message as unknown as DispatchAsk) : undefined;
}
