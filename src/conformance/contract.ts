// The actions that a worker under test implements: names, and what is asked of each. docs/protocol.md describes them for people; nothing here
// talks to a worker.

/** The service that a worker under test registers and says in its hello. */
export const SERVICE = "conformance";

/** Each in version 1. */
export const ACTIONS = ["echo", "undo_echo", "fail", "slow"] as const;

export type ActionName = (typeof ACTIONS)[number];

/** `slow` fails with this code if a cancel or its deadline stops it. */
export const STOPPED = "stopped";

/** The output of `slow`. Its inputs are `{ ms }`: how long it works. */
export interface SlowOutput {
  /** How often this process has begun `slow` with this idempotency key, this time included. */
  readonly executions: number;
}
