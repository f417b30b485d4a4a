// Hints from process to process: one NOTIFY channel a run, whose payload has the run's newest events, or only how far it has come. A
// wire format that nodes of different releases read: members may be added, none may change.
import { isObject, parseRunId, type RunId } from "../../machines/index.js";
import type { EventItem } from "../store/lists/history.js";

/** How far a run has come. */
export interface Reached {
  readonly seq: number;
  readonly state: string;
}

export interface Hint {
  readonly runId: RunId;
  readonly events?: readonly EventItem[];
  /** The run has events up to here. */
  readonly lastSeq?: number;
  /** The state that they led to. */
  readonly state?: string;
}

/** Postgres refuses payloads of 8000 bytes and more. */
const MAX_PAYLOAD_BYTES = 7500;

/** Encodes a hint, with the events if they are given and fit into the payload. */
export function encodeHint(runId: RunId, { seq, state }: Reached, events: readonly EventItem[] = []): string {
  const texts: string[] = [];
  let bytes = JSON.stringify({ run_id: runId, events: [] }).length;
  for (const event of events) {
    const text = JSON.stringify(event);
    bytes += Buffer.byteLength(text) + 1;
    // The others need not be encoded: an event may have 64 KiB.
    if (bytes > MAX_PAYLOAD_BYTES) break;
    texts.push(text);
  }
  if (texts.length === 0 || texts.length < events.length)
    return JSON.stringify({ run_id: runId, last_seq: seq, state });
  return `{"run_id":${JSON.stringify(runId)},"events":[${texts.join(",")}]}`;
}

/** Every program with access to the database may send a hint: its form is checked, its content is believed. */
export function decodeHint(payload: string): Hint | undefined {
  const hint = parsed(payload);
  const runId = isObject(hint) ? parseRunId(hint.run_id) : undefined;
  if (!isObject(hint) || runId === undefined) return undefined;
  if (Array.isArray(hint.events) && hint.events.every(isEvent)) return { runId, events: hint.events };
  if (!Number.isSafeInteger(hint.last_seq)) return { runId };
  return { runId, lastSeq: Number(hint.last_seq), ...(typeof hint.state === "string" && { state: hint.state }) };
}

function isEvent(value: unknown): value is EventItem {
  return isObject(value) && Number.isSafeInteger(value.seq) && typeof value.event_type === "string";
}

function parsed(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    return undefined;
  }
}
