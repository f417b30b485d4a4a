// The children of a run, counted: how many of each step's branches and items are where. The service counts them, as they are now; how
// many there were at an earlier moment, nothing says.

import { stateWord } from "../parts/state-words.js";

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

/** The children of one step by state, most advanced last. */
export function countsByState(counts: readonly ChildCount[]): ReadonlyMap<string, number> {
  const states = new Map<string, number>();
  for (const { state, count } of counts) states.set(state, (states.get(state) ?? 0) + count);
  return states;
}

export const total = (counts: readonly { readonly count: number }[]): number =>
  counts.reduce((sum, { count }) => sum + count, 0);

/** `200 children · 12 running · 188 succeeded` */
export function countWords(counts: readonly ChildCount[]): string {
  const states = [...countsByState(counts)].map(([state, count]) => `${count.toLocaleString()} ${stateWord(state)}`);
  return states.join(", ");
}
