// Commands: what a run may be asked. Each may be refused; each gets an answer, and the answer is that of the committed
// transition. decide.ts gives every command an answer in every state.
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
  /** A worker with credit is there for the queued dispatch. */
  | { readonly type: "offer"; readonly dispatchId: string; readonly workerId?: string }
  | (ReportedDispatch & { readonly type: "result"; readonly result: JsonObject })
  | (ReportedDispatch & {
      readonly type: "failure";
      readonly code: string;
      readonly message: string;
      readonly retryable: boolean;
      readonly outcomeUnknown: boolean;
    })
  | (ReportedDispatch & { readonly type: "heartbeat" })
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
  | { readonly type: "refused"; readonly reason: string };
