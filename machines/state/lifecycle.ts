// The states of a run, and the reasons of a pause.

export type RunState = "pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled";

export type TerminalState = "succeeded" | "failed" | "cancelled";

export const RUN_STATES: readonly RunState[] = [
  "pending",
  "running",
  "paused",
  "compensating",
  "succeeded",
  "failed",
  "cancelled",
];

/** No transition leaves a terminal state (law 4). */
export function isTerminal(state: RunState): state is TerminalState {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

export const PAUSED_REASONS = [
  "signal",
  "event",
  "user_task",
  "timer",
  "children",
  "retry",
  "concurrency",
  "rate_limit",
  "incident",
  "operator",
  "quarantine",
] as const;

export type PausedReason = (typeof PAUSED_REASONS)[number];
