// What became of an entry of the undo list, in words. Pure: the table of the entries is in undo-tab.tsx.
import { UNDO_WORDS } from "../story/words.js";

/** What is read of an entry. */
interface Entry {
  readonly ordinal: number;
  readonly step_id: string;
  readonly state: string;
}

const WORDS: Readonly<Record<string, string>> = {
  owed: "owed if the run rolls back",
  done: UNDO_WORDS.undone,
  failed: UNDO_WORDS.failed,
  passed: UNDO_WORDS.passed,
  abandoned: "abandoned: the run ended without undoing it",
  not_needed: "not needed: the run succeeded",
};

export interface Said {
  readonly words: string;
  readonly state: string;
}

/** An entry stays owed until it has ended: also while the rollback has come to it, or stands at it. */
export function saidOf(
  { ordinal, state }: Entry,
  { state: ofRun }: { readonly state: string },
  failed: Entry | undefined,
): Said {
  if (ordinal === failed?.ordinal) return { words: UNDO_WORDS.failed, state: "failed" };
  return {
    words: state === "owed" && ofRun === "compensating" ? "still to be undone" : (WORDS[state] ?? state),
    state,
  };
}

interface Page {
  readonly items: readonly Entry[];
  readonly total: number;
  readonly offset: number;
}

interface Standing {
  readonly incident?: { readonly step_id?: string; readonly phase?: string };
}

/**
 * The undo at which the rollback stands is the newest that is owed. Only the last page of a list is certain to have it: behind another one
 * newer entries may be owed, also of the same step.
 */
export function failedIn({ items, total, offset }: Page, { incident }: Standing): Entry | undefined {
  if (incident?.phase !== "compensation" || offset + items.length < total) return undefined;
  const newest = items.findLast(({ state }) => state === "owed");
  return newest?.step_id === incident.step_id ? newest : undefined;
}
