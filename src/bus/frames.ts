// The frames between a node process and the primary's relay. Both run the same build, so this is not a public format; frames are
// checked all the same, because other messages use the same channel.
import type { RunId } from "../../machines/index.js";
import { isUuid, type ShardId } from "../ids.js";
import { fits, isObject } from "./envelope.js";

/** `saga_bus` distinguishes the bus's frames from other messages on the channel. */
export type Frame =
  /** Relay to node: introduce yourself. With it, the order in which both ends start does not matter. */
  | { readonly saga_bus: "who" }
  /** Node to relay: its id and the shards it listens to. It replaces the previous introduction. */
  | { readonly saga_bus: "here"; readonly node_id: string; readonly shards: readonly ShardId[] }
  /** Node to relay: forget this node. */
  | { readonly saga_bus: "gone" }
  | { readonly saga_bus: "advance"; readonly run_id: RunId }
  /** An envelope for a node; `ask_id` on an ask only. */
  | { readonly saga_bus: "node"; readonly to: string; readonly text: string; readonly ask_id?: string }
  /** Relay to node: the ask was for a node that is not there. */
  | { readonly saga_bus: "unheard"; readonly ask_id: string };

/** Undefined: not a frame of the bus. `malformed`: marked as one, but not well formed. */
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
      return typeof node_id === "string" && areShards(shards);
    case "advance":
      return isUuid(run_id);
    case "node":
      return (
        typeof to === "string" && typeof text === "string" && fits(text) && (ask_id === undefined || isText(ask_id))
      );
    case "unheard":
      return isText(ask_id);
    default:
      return false;
  }
}

const isText = (value: unknown): value is string => typeof value === "string";

const areShards = (value: unknown) => Array.isArray(value) && value.length <= 256 && value.every(Number.isInteger);
