// The bus as the other rooms see it: hints between nodes, and questions that may stay unanswered. It does not promise delivery, order
// or single delivery: whatever must not be lost is a row in Postgres.

import type { JsonObject, RunId } from "../../machines/index.js";
import type { ShardId } from "../ids.js";
import type { Logger } from "../log.js";
import type { DropReason } from "./drop-counter.js";
import type { Protocol } from "./protocol.js";

/** Requests, messages and answers are JSON objects. */
export interface Bus {
  /** `saga.advance`: wakes the owner of the run's shard. Fire and forget. */
  advance(runId: RunId): void;
  /** Sets the shards whose advance messages arrive here. It replaces the former set. */
  listen(shards: ReadonlySet<ShardId>): void;
  /**
   * Asks a node; resolves with its answer, or with undefined if none arrives within `withinMs` (sooner if it is known that no node
   * received the ask). Never rejects. Undefined does not mean that the request was not carried out.
   */
  ask(nodeId: string, request: object, withinMs: number): Promise<JsonObject | undefined>;
  /** Sends a message to a node. Fire and forget. */
  tell(nodeId: string, message: object): void;
  /** Unanswered asks resolve with undefined. Complete on return, and safe to repeat. */
  stop(): Promise<void>;
}

/** A message may arrive twice: every handler must tolerate a repeat. */
export interface BusHandlers<Ask, Tell> {
  onAdvance(runId: RunId): void;
  /**
   * Resolves with the answer; a rejection or undefined sends none. It must settle: until then it holds one of `MAX_ANSWERING`
   * places.
   */
  onAsk(request: Ask, from: string): Promise<object | undefined>;
  onTell(message: Tell, from: string): void;
}

export interface BusOptions<Ask, Tell> {
  readonly nodeId: string;
  /** Decodes each body as it arrives, before a handler sees it. */
  readonly protocol: Protocol<Ask, Tell>;
  readonly handlers: BusHandlers<Ask, Tell>;
  readonly log: Logger;
  /** Hears of each message that is dropped. */
  readonly onDropped?: (reason: DropReason) => void;
}

/** One message with its envelope. A larger one is dropped by the sender, and by the receiver. */
export const MAX_MESSAGE_BYTES = 1_048_576;
/** Asks of one node that wait for an answer; the next one resolves with undefined at once. */
export const MAX_ASKS = 4_096;
/** Asks that one node is answering; the next one is dropped, and times out at its sender. */
export const MAX_ANSWERING = 4_096;
/** The longest wait of an ask, whatever its caller says. */
export const MAX_WAIT_MS = 60_000;
/** Messages handed to a socket or a pipe that has not taken them yet; further ones are dropped. */
export const MAX_UNSENT_MESSAGES = 10_000;
/** The same, in characters. */
export const MAX_UNSENT_SIZE = 16 * MAX_MESSAGE_BYTES;
