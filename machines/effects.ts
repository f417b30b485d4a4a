// Effects: what a transition owes the world, as inert data. They are carried out by the shell, and only after the
// transition that owes them is committed (law 5). Rows in the database ride in that very commit.
import type { RunCommand } from "./commands.js";
import type { ActionCall, UndoEntry } from "./context.js";
import type { Json } from "./json.js";

export type Effect =
  /** A worker is wanted for the run's call; the shell answers with an `offer` command once one has credit. */
  | { readonly kind: "dispatch.request"; readonly dispatchId: string; readonly call: ActionCall }
  /** The call was dispatched: hand it over, and again until it is accepted or answered. */
  | { readonly kind: "dispatch.send"; readonly dispatch: Dispatch }
  /** Tell the worker to stop if it can. Its answer or deadline is awaited all the same. */
  | { readonly kind: "dispatch.cancel"; readonly dispatchId: string; readonly reason: string }
  /** The dispatch is resolved (or was never handed over): nothing is owed for it any more. */
  | { readonly kind: "dispatch.resolved"; readonly dispatchId: string }
  | {
      readonly kind: "signal.recorded";
      readonly id: string;
      readonly name: string;
      readonly payload: Json;
      readonly consumed: boolean;
    }
  | { readonly kind: "signal.consumed"; readonly id: string }
  | { readonly kind: "undo.owed"; readonly entry: UndoEntry }
  | { readonly kind: "undo.settled"; readonly ordinal: string; readonly state: "done" | "failed" }
  /** Steps that completed without a compensation are marked as passed over by the rollback. */
  | { readonly kind: "undo.passed" }
  /** A durable command to another run, delivered exactly once: its inbox row rides in this commit and dies in the taker's. */
  | { readonly kind: "send"; readonly to: string; readonly id: string; readonly command: RunCommand };

/** One attempt of an action as a worker gets it. Everything here is sent again unchanged. */
export interface Dispatch {
  readonly dispatchId: string;
  readonly runId: string;
  readonly tenantId?: string;
  readonly dryRun: boolean;
  readonly attempt: number;
  /** Database time, epoch milliseconds: a worker drops the step once it has passed. */
  readonly deadlineAt: number;
  readonly call: ActionCall;
}
