// Commands to a run, and the answers to them. Type names and members are durable: inbox rows and stored answers hold them.

import type { StepError } from "../state/entry.js";
import type { Unprotected } from "../state/frame.js";
import type { ChildState } from "../state/group.js";
import type { RunState } from "../state/lifecycle.js";
import type { QuarantineProof } from "../state/proof.js";
import type { DispatchId, RunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";

export type RunCommand =
  /** Start, step on, act on what is due. Sent by `saga.advance`, wake rows and timers in memory. */
  | { readonly type: "advance" }
  | {
      readonly type: "signal";
      readonly id: string;
      readonly name: string;
      readonly payload: Json;
      readonly actor: string;
      /** The W3C trace context of its sender. */
      readonly traceparent?: string;
    }
  | {
      readonly type: "cancel";
      readonly reason?: string;
      readonly compensate: boolean;
      /** A run that has begun goes on. */
      readonly unlessBegun?: true;
      readonly actor: string;
    }
  /** A person submits the result of a user task. */
  | {
      readonly type: "submit";
      readonly taskId: string;
      readonly result: JsonObject;
      readonly submittedBy?: string;
      readonly actor: string;
      readonly traceparent?: string;
    }
  /** A worker has credit for the queued dispatch. */
  | { readonly type: "offer"; readonly dispatchId: DispatchId; readonly workerId?: string }
  | (ReportedDispatch & { readonly type: "result"; readonly result: JsonObject })
  | (ReportedDispatch & {
      readonly type: "failure";
      readonly code: string;
      readonly message: string;
      readonly retryable: boolean;
      readonly outcomeUnknown: boolean;
      /** The other side asked for this delay before the next attempt. It is bounded by the policy's longest backoff. */
      readonly retryAfterMs?: number;
      /** Nothing of the dispatch has reached a worker: it was no attempt, and its call waits for a worker again. */
      readonly notHandedOver?: true;
    })
  | (ReportedDispatch & { readonly type: "heartbeat" })
  /** A child has ended. `owed` and `unprotected` count the undo list that it handed over. */
  | {
      readonly type: "child";
      readonly entry: number;
      /** Absent for a sub-saga. */
      readonly branch?: string;
      readonly state: ChildState;
      readonly error?: StepError;
      readonly owed: number;
      readonly unprotected: Unprotected;
    }
  /** Offers a branch or an item the signal that it waits for, recorded by its family. */
  | { readonly type: "take"; readonly signalId: string; readonly name: string; readonly from: RunId }
  /** A branch or an item no longer waits for the signal that it was offered: it goes to another one. */
  | { readonly type: "look"; readonly name: string }
  /** Offers an event to a run that waits for its topic and headers. */
  | { readonly type: "event"; readonly eventId: string }
  /** The node's poll found this dispatch unresolved. The run owes it again, or resolves it. */
  /** `held`: the node that asks has the dispatch in its hands, and has had it all the time. */
  | { readonly type: "carry"; readonly dispatchId: DispatchId; readonly held?: boolean }
  /** The run was proven to end or hang the process that takes its next step: it is left alone until it is released. */
  | { readonly type: "quarantine"; readonly proof?: QuarantineProof }
  | { readonly type: "release"; readonly actor: string }
  /** The slot that the run, or the step entry `entry`, waits for is its own now. */
  | { readonly type: "slot_granted"; readonly entry: number }
  /** It does not get the slot, and its ticket is gone. `full`: too many wait. */
  | { readonly type: "slot_refused"; readonly entry: number; readonly reason: "refused" | "full" }
  /** A new run begins at a step of this one. A run that waits ends with it. */
  | {
      readonly type: "fork";
      /** The id of the new run, in the shard of this one. */
      readonly runId: RunId;
      readonly step: string;
      /** Which entry of the step, from 1. Absent: the last. */
      readonly entry?: number;
      /** In place of those at the entry. */
      readonly variables?: JsonObject;
      readonly inputs?: JsonObject;
      /** Absent: that of this run. */
      readonly version?: number;
      /** Whether the new run owes the undo of what was done before the entry. */
      readonly inherits: boolean;
      readonly actor: string;
    }
  /** The run, or an attempt of the step entry `entry`, has its turn from `at` on, in epoch milliseconds. */
  | { readonly type: "turn_given"; readonly entry: number; readonly at: number }
  /** Too many wait, and its ticket is gone. */
  | { readonly type: "turn_refused"; readonly entry: number }
  /** The key that the values of the run were sealed with was destroyed: the run ends. Its node gives it to itself. */
  | { readonly type: "data_lost" }
  | OperatorAct;

/** What a person may do to a run beside `cancel` and `release`. A run that is paused or terminated sends the same to its children. */
export type OperatorAct =
  /** `nth`: set by a parent, which counts what it sends to its children. One that comes after a later one is stale. */
  | { readonly type: "pause"; readonly reason?: string; readonly actor: string; readonly nth?: number }
  | { readonly type: "resume"; readonly reason?: string; readonly actor: string; readonly nth?: number }
  /** A new series of attempts. Variables may be corrected first. */
  | { readonly type: "retry_step"; readonly variables?: JsonObject; readonly actor: string }
  | { readonly type: "skip_step"; readonly output?: Json; readonly actor: string }
  /** The error of an incident takes its course. */
  | { readonly type: "fail"; readonly reason?: string; readonly actor: string }
  /** `ordinal`: the undo that the sender means; the one that the rollback stands at if absent. */
  | { readonly type: "retry_undo"; readonly ordinal?: string; readonly actor: string }
  | { readonly type: "skip_undo"; readonly ordinal?: string; readonly actor: string }
  /** The end without waiting for anything. */
  | { readonly type: "terminate"; readonly reason: string; readonly actor: string }
  /** The run goes on under another published version. `steps`: steps that have another id there. */
  | {
      readonly type: "migrate";
      readonly version: number;
      readonly steps?: Readonly<Record<string, string>>;
      readonly actor: string;
    };

/** The dispatch of a report. `dispatchId` or `attempt` identifies it; without either it is the current forward dispatch. */
export interface ReportedDispatch {
  readonly dispatchId?: DispatchId;
  readonly stepId?: string;
  readonly attempt?: number;
  readonly actor: string;
  /**
   * When it reached the service, in database time (epoch milliseconds): by this moment it is in time. Set by the node that
   * received it, never by a client. Absent: the moment of the decision counts.
   */
  readonly arrivedAt?: number;
  /** The service of the worker's stream: a dispatch belongs to the service that it was given to. Absent over HTTP. */
  readonly service?: string;
  /** The services of the worker's credential, over HTTP: each is a name, or a prefix and `*`. Absent: all. */
  readonly services?: readonly string[];
  /** The credential of the worker's stream: the actor is the worker. Absent with access off. */
  readonly credential?: string;
}

export type CommandType = RunCommand["type"];

/** The command of one type, or the union of several. */
export type Command<T extends CommandType> = Extract<RunCommand, { type: T }>;

/** The answer to a command, once its transition is committed. */
export type AnswerTo<C extends RunCommand> = Answers[C["type"]];

/** Answers are stored beside the command's id, so that a repeat gets the same one: they must stay plain JSON. */
export type Answer = Answers[CommandType];

/** A refusal is not recorded: the same command may be accepted later (a report to a run in quarantine, after its release). */
export function isRefusal({ type }: Answer): boolean {
  return type === "refused" || type === "unfit" || type === "closed";
}

/**
 * A worker's answer that names its dispatch. It counts once, because the run waits for that dispatch once, so it needs no recorded answer: its id
 * is beside the audit row of its outcome.
 */
export function answersDispatch(command: RunCommand): boolean {
  return (command.type === "result" || command.type === "failure") && command.dispatchId !== undefined;
}

/** Which answers each type of command may get. */
interface Answers {
  readonly advance: Advanced;
  readonly signal: SignalRecorded | Refused;
  readonly cancel: CancelAccepted;
  readonly submit: TaskSubmitted | TaskUnfit | TaskClosed;
  readonly offer: Advanced | Refused;
  readonly result: Reported | Refused;
  readonly failure: Reported | Refused;
  readonly heartbeat: Reported | Refused;
  readonly child: Advanced;
  readonly take: Advanced;
  readonly look: Advanced;
  readonly event: Advanced;
  readonly carry: Advanced;
  readonly quarantine: Advanced;
  readonly release: Acted | Refused;
  readonly slot_granted: Advanced;
  readonly slot_refused: Advanced;
  readonly turn_given: Advanced;
  readonly turn_refused: Advanced;
  readonly data_lost: Advanced;
  readonly pause: Acted;
  readonly resume: Acted;
  readonly retry_step: Acted | Refused;
  readonly skip_step: Acted | Refused;
  readonly fail: Acted | Refused;
  readonly retry_undo: Acted | Refused;
  readonly skip_undo: Acted | Refused;
  readonly terminate: Acted;
  readonly migrate: Acted | Refused;
  readonly fork: Forked | Refused;
}

export interface Advanced {
  readonly type: "advanced";
}

export interface Refused {
  readonly type: "refused";
  readonly reason: string;
  /** What the command names does not exist. */
  readonly missing?: true;
  /** The command itself is wrong, whatever the state of the run. */
  readonly invalid?: true;
  /** All reasons, where there may be several. */
  readonly reasons?: readonly Reason[];
  /** What the command gives does not fit the workflow. */
  readonly unfit?: true;
  /** The variables at the step entry are not known any more. */
  readonly historyMissing?: true;
  /** The run that the refusal is about. */
  readonly runId?: RunId;
}

/** A reason against something. */
export interface Reason {
  /** The place in a document, as a JSON path. Absent: it is about the run itself. */
  readonly path?: string;
  readonly message: string;
}

/** The outcome of an operator's act. A run may send the act to a child, so one that comes too late is an outcome, too. */
export interface Acted {
  readonly type: "acted";
  /** The state after it. */
  readonly state: RunState;
  readonly changed: boolean;
  /** Why it changed nothing, where it makes no sense. Absent: the run was already as the act wants it. */
  readonly reason?: string;
}

/** The fork is durable. */
export interface Forked {
  readonly type: "forked";
  readonly runId: RunId;
}

export interface SignalRecorded {
  readonly type: "signal";
  readonly id: string;
  /** Whether a waiting step took it, or a waiting branch was offered it. */
  readonly matched: boolean;
  /** The run has ended: no step will ever take it. */
  readonly ended?: true;
}

export interface CancelAccepted {
  readonly type: "cancel";
  readonly state: RunState;
  readonly alreadyTerminal: boolean;
  /** The run was rolling back, and the cancel has changed nothing. */
  readonly alreadyEnding?: true;
}

export interface Reported {
  readonly type: "report";
  /** The report was not about the dispatch that the run waits for, or came too late. It changed nothing. */
  readonly stale: boolean;
  /** Why it was refused, where it was about a dispatch of another service or tenant. */
  readonly reason?: string;
  /** The run asks the worker to stop, and still waits for its answer. Only in the answer to a heartbeat. */
  readonly cancelled?: true;
}

export interface TaskSubmitted {
  readonly type: "submit";
  readonly taskId: string;
  /** Epoch milliseconds. */
  readonly submittedAt: number;
  /** Whether the step has taken the result; in quarantine it does so at the release. */
  readonly matched: boolean;
}

/** The result does not fit the task, which stays open. Each problem begins with a JSON pointer. */
export interface TaskUnfit {
  readonly type: "unfit";
  readonly problems: readonly string[];
}

/** The task was closed before. Unlike a refusal this is an outcome, so a repeat gets the recorded answer. */
export interface TaskClosed {
  readonly type: "closed";
  readonly reason: string;
}

/** What a node does with a command on its way to the run. */
interface CommandKind {
  /** It has an id before the first try, by which a repeat is recognised. The state of the run recognises the repeat of any other. */
  readonly isRepeatable: boolean;
  /** A client or an operator asks for it, so an overloaded node refuses it. Other commands complete work that is in progress. */
  readonly isNewWork: boolean;
}

const [HINT, ANSWER, ASKED] = [
  { isRepeatable: false, isNewWork: false },
  { isRepeatable: true, isNewWork: false },
  { isRepeatable: true, isNewWork: true },
] as const;

export const COMMAND_KINDS: Readonly<Record<CommandType, CommandKind>> = {
  advance: HINT,
  signal: ASKED,
  cancel: ASKED,
  submit: ANSWER,
  offer: HINT,
  result: ANSWER,
  failure: ANSWER,
  heartbeat: HINT,
  child: HINT,
  take: HINT,
  look: HINT,
  event: HINT,
  carry: HINT,
  quarantine: HINT,
  slot_granted: HINT,
  slot_refused: HINT,
  turn_given: HINT,
  turn_refused: HINT,
  data_lost: HINT,
  pause: ASKED,
  resume: ASKED,
  retry_step: ASKED,
  skip_step: ASKED,
  fail: ASKED,
  retry_undo: ASKED,
  skip_undo: ASKED,
  terminate: ASKED,
  migrate: ASKED,
  fork: ASKED,
  // A run that is not in quarantine any more refuses it.
  release: { isRepeatable: false, isNewWork: true },
};
