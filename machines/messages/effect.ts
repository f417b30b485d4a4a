// Effects: what a transition owes the world, as inert data. They are carried out by the shell, and only after the
// transition that owes them is committed (law 5). Rows in the database ride in that very commit.
import type { RunCommand } from "./commands.js";
import type { ActionCall, RunIdentity, UndoEntry } from "./context.js";
import type { Json, JsonObject } from "./json.js";

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
  /** Claims the signal: the commit is lost if another wait has it. */
  | { readonly kind: "signal.consumed"; readonly id: string }
  /** Its row rides in this commit, and owes that whoever waits for it is told. */
  | { readonly kind: "event.published"; readonly event: PublishedEvent }
  /** The run takes the event, once and for ever: the commit is lost if it has it already. */
  | { readonly kind: "event.taken"; readonly id: string }
  /** From this commit on the run is told of events of the topic that bear these headers. */
  | { readonly kind: "event.awaited"; readonly topic: string; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: "event.unawaited" }
  | { readonly kind: "task.opened"; readonly task: OpenedTask }
  | {
      readonly kind: "task.submitted";
      readonly id: string;
      readonly result: JsonObject;
      readonly by?: string;
      /** Epoch milliseconds: what the submit was answered with. */
      readonly at: number;
    }
  /** The step was left without a submit: nobody can submit it any more. */
  | { readonly kind: "task.closed"; readonly id: string }
  | { readonly kind: "undo.owed"; readonly entry: UndoEntry }
  | { readonly kind: "undo.settled"; readonly ordinal: string; readonly state: "done" | "failed" }
  /** Steps that completed without a compensation, of entries after `since` if it is given, are passed over by the rollback. */
  | { readonly kind: "undo.passed"; readonly since?: number }
  /** The run succeeded: what its undo list still owes is its parent's to undo, in the same order; it belongs to the parent's `entry`. */
  | { readonly kind: "undo.handed"; readonly to: string; readonly entry: number }
  /** The run succeeded, and a compensation of its parent's step stands in for its undo list. */
  | { readonly kind: "undo.dropped" }
  /** What the branches or items of a step entry see: kept once for all of them, since the run goes on changing its own. */
  | { readonly kind: "scope.kept"; readonly entry: number; readonly inputs: JsonObject; readonly variables: JsonObject }
  /** Creates a run in this commit. `inherited`: its variables are those kept for its step entry. */
  | { readonly kind: "child.start"; readonly child: NewChild }
  /** A durable command to another run, delivered exactly once: its inbox row rides in this commit and dies in the taker's. */
  | { readonly kind: "send"; readonly to: string; readonly id: string; readonly command: RunCommand }
  /** To be delivered outside, at least once and without the run: its outbox row rides in this commit and goes when it is delivered. */
  | { readonly kind: "post"; readonly id: string; readonly to: "webhook"; readonly payload: JsonObject };

export interface PublishedEvent {
  readonly id: string;
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** Only runs of this tenant may take it; absent: any run. */
  readonly tenantId?: string;
}

export interface NewChild {
  readonly identity: RunIdentity;
  /** What it begins with; absent: what was kept for it. */
  readonly variables?: JsonObject;
  /** Of `variables`, in characters of JSON. */
  readonly variablesSize?: number;
  /** Whether its inputs and variables are those of a kept scope, and need no rows of their own. */
  readonly inherited: boolean;
  /** A detached run keeps its key as one started from outside does. */
  readonly idempotencyKey?: string;
  /** Database time. */
  readonly at: number;
}

/** A user task as it is created. */
export interface OpenedTask {
  readonly id: string;
  readonly stepId: string;
  readonly assignee: string;
  readonly title?: string;
  /** Epoch milliseconds. */
  readonly dueAt?: number;
  readonly formSchema?: JsonObject;
}

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
