// Effects: the work that a transition owes, as inert data. Rows in the database are part of the transition's own commit; the shell
// carries out everything else after that commit (law 5). Kinds and members travel between nodes, so they are a wire format.

import type { ActionCall } from "../state/call.js";
import type { RunIdentity } from "../state/identity.js";
import type { UndoEntry } from "../state/rollback.js";
import type { SlotKey, SlotRequest } from "../state/slot.js";
import type { DispatchId, RunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RunCommand } from "./command.js";

export type Effect =
  /** The run's call needs a worker. The shell answers with an `offer` command once a worker has credit. */
  | { readonly kind: "dispatch.request"; readonly dispatchId: DispatchId; readonly call: ActionCall }
  /** The call was dispatched: it is sent to the worker, and sent again until it is accepted or answered. */
  | { readonly kind: "dispatch.send"; readonly dispatch: Dispatch }
  /** Asks the worker to stop. The run still waits for its answer or its deadline. */
  | { readonly kind: "dispatch.cancel"; readonly dispatchId: DispatchId; readonly reason: string }
  /** The dispatch is resolved, or was never sent: nothing is owed for it any more. */
  | { readonly kind: "dispatch.resolved"; readonly dispatchId: DispatchId }
  | {
      readonly kind: "signal.recorded";
      readonly id: string;
      readonly name: string;
      readonly payload: Json;
      readonly consumed: boolean;
      /**
       * The branch or item that is promised the signal. The commit loses if that run no longer waits for it, and if it wins, that run
       * decides again: it cannot leave its wait without having seen the promise.
       */
      readonly promisedTo?: RunId;
    }
  /** Claims the signal: the commit loses if another wait has consumed it. */
  | { readonly kind: "signal.consumed"; readonly id: string }
  /** Its row is part of this commit. An announcer then offers it to the runs that wait for it. */
  | { readonly kind: "event.published"; readonly event: PublishedEvent }
  /** The run consumes the event: the commit loses if the run has consumed it before. */
  | { readonly kind: "event.taken"; readonly id: string }
  /** Events of the topic with these headers are offered to the run from this commit on, unless they cannot pass its `match`. */
  | {
      readonly kind: "event.awaited";
      readonly topic: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly conditions?: EventConditions;
    }
  | { readonly kind: "event.unawaited" }
  | { readonly kind: "task.opened"; readonly task: OpenedTask }
  | {
      readonly kind: "task.submitted";
      readonly id: string;
      readonly result: JsonObject;
      readonly by?: string;
      /** Epoch milliseconds, as in the answer to the submit. */
      readonly at: number;
    }
  /** The step was left without a submit. Later submits are refused. */
  | { readonly kind: "task.closed"; readonly id: string }
  | { readonly kind: "undo.owed"; readonly entry: UndoEntry }
  | { readonly kind: "undo.settled"; readonly ordinal: string; readonly state: "done" | "failed" }
  /** The rollback skips the steps that completed without a compensation. `since`: only those of later step entries. */
  | { readonly kind: "undo.passed"; readonly since?: number }
  /** The run succeeded: its undo list goes to its parent, in the same order, as part of the parent's step entry `entry`. */
  | { readonly kind: "undo.handed"; readonly to: RunId; readonly entry: number }
  /** The run succeeded, and the compensation of its parent's step replaces its undo list. */
  | { readonly kind: "undo.dropped" }
  /**
   * The scope that the branches or items of a step entry start with, stored once for all of them: the run goes on changing its
   * own.
   */
  | { readonly kind: "scope.kept"; readonly entry: number; readonly inputs: JsonObject; readonly variables: JsonObject }
  /** Creates a run in this commit. */
  | { readonly kind: "child.start"; readonly child: NewChild }
  /** A ticket for a slot is part of this commit. The store answers with `slot_granted` or `slot_refused`. */
  | { readonly kind: "slot.requested"; readonly request: SlotRequest }
  /** The ticket of the run, or of the step entry, goes with this commit, whether it had the slot or waited for it. */
  | { readonly kind: "slot.released"; readonly entry: number; readonly slot: SlotKey }
  /** The ticket gives its slot back, and waits again, at its old place. */
  | { readonly kind: "slot.returned"; readonly entry: number; readonly slot: SlotKey }
  /** The ticket is passed over no longer. Nothing of it is stored: the granter looks whether the run is halted. */
  | { readonly kind: "slot.wanted"; readonly slot: SlotKey }
  | (SentCommand & { readonly kind: "send" })
  /** A delivery to the outside, at least once and independent of the run. Its outbox row is deleted when it is delivered. */
  | { readonly kind: "post"; readonly id: string; readonly to: "webhook"; readonly payload: JsonObject };

/**
 * A durable command to another run, carried out exactly once: its inbox row is written by this commit and deleted by the
 * receiver's.
 */
export interface SentCommand {
  readonly id: string;
  readonly to: RunId;
  readonly command: RunCommand;
}

/**
 * What an event must equal to match: by path, a JSON array of names. `entry` is that of the waiting step, so that the conditions of two waits
 * of a run differ. A storage format.
 */
export interface EventConditions {
  readonly entry: number;
  readonly equal: Readonly<Record<string, string | number | boolean | null>>;
}

export interface PublishedEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** Only runs of this tenant may consume it. Absent: any run. */
  readonly tenantId?: string;
}

export interface NewChild {
  readonly identity: RunIdentity;
  /** The variables it starts with. Absent: those stored for its step entry. */
  readonly variables?: JsonObject;
  /** The size of `variables` in characters of JSON. */
  readonly variablesSize?: number;
  /** Whether its inputs and variables are those stored for its step entry, so that it needs no rows of its own. */
  readonly inherited: boolean;
  /** Set for a detached run (`spawn_saga`), as for a run that a client starts. */
  readonly idempotencyKey?: string;
  /** The random token of its row, which the shell adds before the commit (law 1). */
  readonly fence?: string;
  /** Database time. */
  readonly at: number;
}

/** A user task at its creation. */
export interface OpenedTask {
  readonly id: string;
  readonly stepId: string;
  readonly assignee: string;
  readonly title?: string;
  /** Epoch milliseconds. */
  readonly dueAt?: number;
  readonly formSchema?: JsonObject;
}

/** One attempt of an action as its worker receives it. A dispatch that is sent again is unchanged. */
export interface Dispatch {
  readonly dispatchId: DispatchId;
  readonly runId: RunId;
  readonly tenantId?: string;
  readonly dryRun: boolean;
  readonly attempt: number;
  /** Database time, epoch milliseconds. A worker drops the dispatch once it has passed. */
  readonly deadlineAt: number;
  /** Until then it may be handed over: the end of the call's queue timeout. Absent: until its deadline. */
  readonly handOverBy?: number;
  readonly call: ActionCall;
}
