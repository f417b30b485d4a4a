// Commands: what a run may be asked. Each may be refused; each gets an answer, and the answer is that of the committed
// transition. decide.ts gives every command an answer in every state.
import type { ChildState, RunContext, StepError } from "./context.js";
import type { Json, JsonObject } from "./json.js";
import type { RunState } from "./lifecycle.js";

export type RunCommand =
  /** Look at yourself: start, step on, see what is due. What `saga.advance`, a wake row and a timer in memory all say. */
  | { readonly type: "advance" }
  | {
      readonly type: "signal";
      readonly id: string;
      readonly name: string;
      readonly payload: Json;
      readonly actor: string;
    }
  | { readonly type: "cancel"; readonly reason?: string; readonly compensate: boolean; readonly actor: string }
  /** A person hands in the result of a user task. */
  | {
      readonly type: "submit";
      readonly taskId: string;
      readonly result: JsonObject;
      readonly submittedBy?: string;
      readonly actor: string;
    }
  /** A worker with credit is there for the queued dispatch. */
  | { readonly type: "offer"; readonly dispatchId: string; readonly workerId?: string }
  | (ReportedDispatch & { readonly type: "result"; readonly result: JsonObject })
  | (ReportedDispatch & {
      readonly type: "failure";
      readonly code: string;
      readonly message: string;
      readonly retryable: boolean;
      readonly outcomeUnknown: boolean;
      /** Asked for by the other side: the next attempt is not made sooner, within the policy's longest backoff. */
      readonly retryAfterMs?: number;
    })
  | (ReportedDispatch & { readonly type: "heartbeat" })
  /** A child has ended. `owed` and `unprotected`: what it handed over with its undo list. */
  | {
      readonly type: "child";
      readonly entry: number;
      /** Absent: a sub-saga. */
      readonly branch?: string;
      readonly state: ChildState;
      readonly error?: StepError;
      readonly owed: number;
      readonly unprotected: RunContext["unprotected"];
    }
  /** To a branch or an item that waits for it: a signal that its family recorded. */
  | { readonly type: "take"; readonly signalId: string; readonly name: string; readonly from: string }
  /** From one that could not take it: somebody else may be waiting. */
  | { readonly type: "look"; readonly name: string }
  /** To a run that waits for such an event: it may be the one. */
  | { readonly type: "event"; readonly eventId: string }
  /** The node's poll: this dispatch is still owed. The run says again what it needs, or that it is owed no more. */
  | { readonly type: "carry"; readonly dispatchId: string }
  /** The run brought its node down too often: leave it alone until it is released. */
  | { readonly type: "quarantine" }
  | { readonly type: "release"; readonly actor: string };

/** Which dispatch a report is about: `dispatchId` or `attempt` pins it exactly, else it is the current forward one. */
export interface ReportedDispatch {
  readonly dispatchId?: string;
  readonly stepId?: string;
  readonly attempt?: number;
  readonly actor: string;
}

/** Answers are stored beside the command's id, so that a repeat gets the same one: they must stay plain JSON. */
export type Answer =
  | { readonly type: "advanced" }
  | { readonly type: "signal"; readonly id: string; readonly matched: boolean }
  | { readonly type: "cancel"; readonly state: RunState; readonly alreadyTerminal: boolean }
  | { readonly type: "report"; readonly stale: boolean }
  /** The task is submitted; `matched`: its step has taken the result. Epoch milliseconds. */
  | { readonly type: "submit"; readonly taskId: string; readonly submittedAt: number; readonly matched: boolean }
  /** The task stays open: its result is not what it asks for. Each problem begins with a JSON pointer. */
  | { readonly type: "unfit"; readonly problems: readonly string[] }
  /** The task is open no more, for ever: unlike a refusal this is the outcome, and a repeat gets the recorded one. */
  | { readonly type: "closed"; readonly reason: string }
  | { readonly type: "refused"; readonly reason: string };
