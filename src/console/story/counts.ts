// The children of a run, counted: how many of each step's branches and items are where. The service counts them, as they are now; how
// many there were at an earlier moment, nothing says.

import type { Tone } from "../graph/look.js";
import { type Standing, standingIn } from "./standing.js";

export interface ChildCount {
  readonly parent_step_id: string;
  readonly parent_branch_id?: string;
  readonly state: string;
  readonly paused_reason?: string;
  readonly current_step?: string;
  readonly count: number;
}

const ENDED = ["succeeded", "failed", "cancelled"];

export const hasEnded = ({ state }: Pick<ChildCount, "state">): boolean => ENDED.includes(state);

/** The children of one step by the state that the API has. */
export function countsByState(counts: readonly ChildCount[]): ReadonlyMap<string, number> {
  const states = new Map<string, number>();
  for (const { state, count } of counts) states.set(state, (states.get(state) ?? 0) + count);
  return states;
}

export const total = (counts: readonly { readonly count: number }[]): number =>
  counts.reduce((sum, { count }) => sum + count, 0);

export const isAtIncident = ({ paused_reason }: Pick<ChildCount, "paused_reason">): boolean =>
  paused_reason === "incident";

/** What a person must see first. */
const URGENCY: readonly Tone[] = ["failed", "paused", "undoing", "live", "waiting"];

const urgency = ({ tone }: Standing): number => (URGENCY.indexOf(tone) + URGENCY.length + 1) % (URGENCY.length + 1);

/** How some children stand: each way once, the most urgent first. */
export function standingsOf(counts: readonly ChildCount[]): readonly Standing[] {
  const standings = new Map<string, Standing>();
  for (const { state, paused_reason } of counts) {
    const standing = standingIn(state, paused_reason);
    standings.set(`${standing.word} ${standing.more}`, standing);
  }
  return [...standings.values()].sort((left, right) => urgency(left) - urgency(right));
}

/** `1 at an incident, 12 running, 188 succeeded`: in the words of a run's own state. */
export function countWords(counts: readonly ChildCount[]): string {
  const words = new Map<string, number>();
  for (const { word } of standingsOf(counts)) words.set(word, 0);
  for (const { state, paused_reason, count } of counts) {
    const { word } = standingIn(state, paused_reason);
    words.set(word, (words.get(word) ?? 0) + count);
  }
  return [...words].map(([word, count]) => `${count.toLocaleString()} ${word}`).join(", ");
}
