// The states of runs as people call them. The API's own names stay in addresses, filters and JSON; every word on a page comes from here.

import { counted } from "./plural.js";

/** What the colours of a state stand for. */
export type StateTone = "running" | "waiting" | "paused" | "undoing" | "succeeded" | "failed" | "quiet";

interface Named {
  readonly word: string;
  readonly tone: StateTone;
}

const STATES: Readonly<Record<string, Named>> = {
  pending: { word: "not begun", tone: "waiting" },
  running: { word: "running", tone: "running" },
  // A run that the API calls paused waits by itself: for a signal, a person, its branches.
  paused: { word: "waiting", tone: "waiting" },
  compensating: { word: "rolling back", tone: "undoing" },
  succeeded: { word: "succeeded", tone: "succeeded" },
  failed: { word: "failed", tone: "failed" },
  cancelled: { word: "cancelled", tone: "quiet" },
};
/** A state of a later release is shown as the service calls it. */
const named = (state: string): Named => STATES[state] ?? { word: state, tone: "quiet" };

const REASONS: Readonly<Record<string, string>> = {
  signal: "for a signal",
  event: "for an event",
  user_task: "for a person",
  timer: "for its time",
  children: "for child runs",
  retry: "to try again",
  concurrency: "for a slot",
  rate_limit: "for its turn",
  incident: "at an incident",
  operator: "paused by an operator",
  quarantine: "in quarantine",
};

/** These are no waits: the run goes on when a person lets it. */
const STOPPED: Readonly<Record<string, Named>> = {
  incident: { word: "at an incident", tone: "failed" },
  operator: { word: "paused by an operator", tone: "paused" },
  quarantine: { word: "in quarantine", tone: "failed" },
};

export interface StateName extends Named {
  /** What it waits for. */
  readonly more?: string;
}

/** The word and what it waits for, as a badge says them. */
export const stateText = ({ word, more }: StateName): string => (more === undefined ? word : `${word} ${more}`);

/** `3 incidents below`: of the branches, items and sub-sagas of a run or a step. */
export const belowWords = (incidents: number, isLowerBound = false): string =>
  `${isLowerBound ? `${incidents.toLocaleString()} or more incidents` : counted(incidents, "incident")} below`;

export const stateWord = (state: string): string => named(state).word;
/** The words for what a step's row awaits, which it names as the pauses of runs do. */
export const awaitedWord = (awaiting: string): string => REASONS[awaiting] ?? `for ${awaiting}`;
export const reasonWord = (reason: string): string => REASONS[reason] ?? reason;

export function stateName(state: string, reason?: string): StateName {
  const stopped = reason === undefined ? undefined : STOPPED[reason];
  if (stopped && state === "paused") return stopped;
  if (stopped) return { ...named(state), tone: stopped.tone, more: stopped.word };
  return { ...named(state), ...(reason !== undefined && { more: reasonWord(reason) }) };
}
