// Turns: under a rate limit, a run, or an attempt of a step, goes on from a moment that the store gives it and not before. The store has a
// ticket for each turn that was asked for and not taken yet; here is what the run itself knows of it. A durable format.
import { RUN_SLOT, type SlotKey } from "./slot.js";

/** The token bucket of a key. */
export interface Rate {
  readonly limit: number;
  readonly perMs: number;
  readonly burst: number;
}

/** The rate limit of a run, or of a step entry, and the turn that it has under it. */
export interface Turn extends SlotKey, Rate {
  /** It was asked for, and is neither taken nor given back. */
  readonly open?: true;
  /** From when it may be taken. Absent: it was not asked for yet, or the answer has not come. */
  readonly at?: number;
  /** Too many wait: there is none. */
  readonly full?: true;
}

/** What a ticket says beside its key. */
export interface TurnRequest extends Rate {
  /** The step entry whose attempt needs the turn; RUN_SLOT for the whole run. */
  readonly entry: number;
  readonly stepId?: string;
  readonly key: SlotKey;
}

/**
 * A turn that is not used by then is given up for a new one: calls that had theirs while no worker was there, or while their node was dead,
 * would come together. Longer than a command takes whose hint is lost (the poll brings it within two seconds): with less, a turn would be given up again and again.
 */
const GOOD_MS = 5_000;

export function isTooLate({ at }: Pick<Turn, "at">, now: number): boolean {
  return at !== undefined && now - at > GOOD_MS;
}

/** Whether the store has answered. */
export function isAnswered({ open, at, full }: Turn): boolean {
  return full === true || (open === true && at !== undefined);
}

/** The turn that is asked for, and the one without what was known of an earlier one. */
export function askedFor({ at: _, full: __, ...turn }: Turn): Turn {
  return { ...turn, open: true };
}

/** It is used: its ticket goes. A step entry still needs to know how old it is. */
export function taken({ open: _, ...turn }: Turn): Turn {
  return turn;
}

/** The turn of the whole run, or of its step entry. */
export function turnOf(
  { turn, entry }: { readonly turn?: Turn; readonly entry?: { readonly number: number; readonly turn?: Turn } },
  number: number,
): Turn | undefined {
  if (number === RUN_SLOT) return turn;
  return entry?.number === number ? entry.turn : undefined;
}

export function turnKey({ tenantId, scope, key }: SlotKey): SlotKey {
  return tenantId === undefined ? { scope, key } : { tenantId, scope, key };
}
