// The bus as the other rooms see it: hints between nodes, and questions that may go unanswered. It promises no delivery, no
// order and no single delivery: what must not be lost is a row in Postgres.
import type { JsonObject } from "../../machines/index.js";
import type { Logger } from "../log.js";

export interface Bus {
  /** `saga.advance`: wakes the owner of the run's shard. Fire and forget. */
  advance(runId: string): void;
  /** Which shards' advance messages are heard here. Replaces the former set. */
  listen(shards: ReadonlySet<number>): void;
  /**
   * Asks a node; resolves with its answer, or undefined if none came within `withinMs` (sooner if it is known that the node
   * does not hear). Never rejects. Undefined does not say that the request was not carried out.
   */
  ask(nodeId: string, request: JsonObject, withinMs: number): Promise<JsonObject | undefined>;
  /** Tells a node something, fire and forget. */
  tell(nodeId: string, message: JsonObject): void;
  /** Unanswered asks resolve with undefined. Complete on return, and safe to repeat. */
  stop(): Promise<void>;
}

/** Each may be called twice for one message: what they do has to bear it. */
export interface BusHandlers {
  onAdvance(runId: string): void;
  /** The answer to an ask; a rejection or undefined: no answer is sent. It has to settle: until then it holds one of the
   * places of `MAX_ANSWERING`. */
  onAsk(request: JsonObject, from: string): Promise<JsonObject | undefined>;
  onTell(message: JsonObject, from: string): void;
}

export interface BusOptions {
  readonly nodeId: string;
  readonly handlers: BusHandlers;
  readonly log: Logger;
}

/** One message, envelope included. A longer one is dropped by its sender, and by its receiver. */
export const MAX_MESSAGE_BYTES = 1_048_576;
/** Asks of one node that wait for an answer; one more is answered undefined at once. */
export const MAX_ASKS = 4_096;
/** Asks that one node is answering; one more is dropped, and times out where it came from. */
export const MAX_ANSWERING = 4_096;
/** No ask waits longer, whatever its asker says. */
export const MAX_WAIT_MS = 60_000;
/** Messages handed to a socket or a pipe that has not taken them yet; further ones are dropped. */
export const MAX_UNSENT_MESSAGES = 10_000;
/** The same, in characters. */
export const MAX_UNSENT_SIZE = 16 * MAX_MESSAGE_BYTES;
