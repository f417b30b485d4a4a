// What passes between a node process and the primary's relay. Both are of one build, so this is no public format; it is
// checked all the same, since other messages share the channel.
import { isUuid } from "../ids.js";
import { fits, isObject } from "./exchange.js";

/** `saga_bus` tells the bus's messages from any other on the same channel. */
export type Frame =
  /** Relay to node: who are you? So the order in which both ends appear does not matter. */
  | { readonly saga_bus: "who" }
  /** Node to relay: my name and the shards I hear. Replaces what was said before. */
  | { readonly saga_bus: "here"; readonly node_id: string; readonly shards: readonly number[] }
  /** Node to relay: forget me. */
  | { readonly saga_bus: "gone" }
  | { readonly saga_bus: "advance"; readonly run_id: string }
  /** An envelope for a node; `ask_id` only on an ask. */
  | { readonly saga_bus: "node"; readonly to: string; readonly text: string; readonly ask_id?: string }
  /** Relay to node: there is no such node. */
  | { readonly saga_bus: "unheard"; readonly ask_id: string };

/** Undefined: not ours. `malformed`: ours by its mark, and not well formed. */
export function frameOf(message: unknown): Frame | "malformed" | undefined {
  if (!isObject(message) || message.saga_bus === undefined) return undefined;
  return isFrame(message) ? message : "malformed";
}

function isFrame(message: Readonly<Record<string, unknown>>): message is Frame {
  const { saga_bus: kind, node_id, shards, run_id, to, text, ask_id } = message;
  switch (kind) {
    case "who":
    case "gone":
      return true;
    case "here":
      return (
        typeof node_id === "string" && Array.isArray(shards) && shards.length <= 256 && shards.every(Number.isInteger)
      );
    case "advance":
      return isUuid(run_id);
    case "node":
      return (
        typeof to === "string" &&
        typeof text === "string" &&
        fits(text) &&
        (ask_id === undefined || typeof ask_id === "string")
      );
    case "unheard":
      return typeof ask_id === "string";
    default:
      return false;
  }
}
