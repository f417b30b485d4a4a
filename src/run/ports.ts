// The ports of the runtime: those that it offers to the layers above (RunStarter, Runs), and those that they fill (Dispatcher, Couriers,
// CommitListener). The composition root connects them; nothing in run/ imports a layer above. The ports of trials are in judge.ts.
import type {
  ActionCall,
  AnswerTo,
  Command,
  CommittedEvent,
  Dispatch,
  DispatchId,
  JsonObject,
  Precedence,
  RunCommand,
  RunContext,
  RunId,
} from "../../machines/index.js";
import type { Reach } from "../access/index.js";

export interface StartRequest {
  readonly workflowId: string;
  readonly version?: number;
  readonly entrypoint?: string;
  readonly inputs: JsonObject;
  readonly variables: JsonObject;
  readonly tenantId?: string;
  readonly dryRun: boolean;
  readonly features: Readonly<Record<string, boolean>>;
  readonly runId?: RunId;
  readonly idempotencyKey?: string;
  readonly businessKey?: string;
  /** What becomes of the start while another run holds its business key. With it or `debounce`, the new run holds the key. */
  readonly onConflict?: OnConflict;
  /** Of the starts of a business key, each within the window of the one before, the last one is carried out. */
  readonly debounce?: Debounce;
  /** They stay with the run, and find it in the list. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly delayMs?: number;
  readonly timeoutMs?: number;
  /** Its turn among those that wait for a worker or a slot. Absent: as any other's. */
  readonly precedence?: Precedence;
  /** The trigger whose fire starts the run. */
  readonly triggerId?: string;
  /** The run that is started again. */
  readonly rerunOf?: RunId;
  /** The W3C trace context of the request, if it has a valid one. */
  readonly traceparent?: string;
  /** `api`, `user:<sub>`, `trigger:<id>`. */
  readonly actor: string;
}

/** `cancel_old`: the other run is cancelled in the commit of the start. */
export type OnConflict = "reject" | "return" | "cancel_old";

export interface Debounce {
  readonly windowMs: number;
  /** The longest time from the first start of a burst to the beginning of a run. Absent: none begins while starts keep coming. */
  readonly maxMs?: number;
}

export interface StartAnswer {
  readonly runId: RunId;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly state: string;
  readonly deduplicated: boolean;
  /** It is the run that held the business key. */
  readonly held?: true;
}

/** Starts runs. */
export interface RunStarter {
  /**
   * Resolves once the run is durable. Throws SagaError: 400 unknown entrypoint, 404 workflow, 409 key or id with another body, a held business key or no free
   * slot, 422 inputs, 429 a full waiting list, 503. `signal` is owed to a run that it makes by the same commit, and not to one that was there before.
   */
  start(request: StartRequest, signal?: (runId: RunId) => Command<"signal">): Promise<StartAnswer>;
}

/** Brings commands to runs. */
export interface Runs {
  /**
   * Resolves with the answer of the committed transition (law 6). Throws SagaError: 404 no such run, 503 the outcome is not known
   * in time (send the command again with the same id).
   */
  command<C extends RunCommand>(runId: RunId, command: C, options: CommandOptions): Promise<AnswerTo<C>>;
}

export interface CommandOptions {
  /** Whose runs its sender may command. A run outside is answered as one that does not exist, and stays as it is. */
  readonly reach: Reach;
  /** A uuid fixed before the first try; generated if absent. */
  readonly id?: string;
  /** Keep the recorded answer as long as the run, because a client holds the id (an idempotency key). */
  readonly keep?: boolean;
  /** What a repeat of the id must have in common with the first; another one is 409. Absent: the id alone decides. */
  readonly requestHash?: string;
}

/**
 * Carries dispatches to workers. Its methods never throw and never wait. It reports to the run through `Runs.command`:
 * `offer` when credit comes free for a queued call; `result`, `failure` and `heartbeat` when a worker answers. `tenantId` is the run's: with
 * access on, workers serve the runs of their tenants only.
 */
export interface Dispatcher {
  /** Reserves a worker's credit for this dispatch, if a worker has some now. The credit is held until `resolved`. */
  reserve(dispatchId: DispatchId, call: ActionCall, tenantId?: string): { readonly workerId?: string } | undefined;
  /** Waits for credit on behalf of the run, in its turn, then sends the run an `offer`. A repeat changes nothing. */
  enqueue(runId: RunId, dispatchId: DispatchId, call: ActionCall, tenantId?: string, precedence?: Precedence): void;
  /** Hands over a committed dispatch, again and unchanged if the stream is lost, until `resolved` or its deadline. A repeat changes nothing. */
  send(dispatch: Dispatch): void;
  cancel(dispatchId: DispatchId, reason: string): void;
  /** Nothing is owed for the dispatch any more: removes it from the queue and gives back unused credit. */
  resolved(dispatchId: DispatchId): void;
  /** Whether this node has it (queued, reserved, in flight). If not, the poll of wakes (over gRPC) or of the outbox has the run `carry` it. */
  holds(dispatchId: DispatchId): boolean;
  /**
   * Whether its call is queued as one of no tenant, with access on. The run may have been given to a tenant since (adoption.ts): when it carries the
   * dispatch, the call is queued as its tenant's.
   */
  waitsWithoutTenant(dispatchId: DispatchId): boolean;
}

/** Delivers outbox rows of its kind to the outside, at least once. Its methods never throw and never wait. */
export interface Courier {
  /** The row was committed, or is due. A repeat changes nothing. */
  carry(id: string): void;
}

/** Couriers by the kind of the row. `action` is not a kind here: the run itself repeats its dispatch of an action. */
export type Couriers = Readonly<Record<string, Courier | undefined>>;

/** A run before and after a commit. */
export interface RunChange {
  readonly before: RunContext;
  readonly after: RunContext;
}

/** Called after every commit with events. Must not throw, must not wait. `change`: where it is at hand. */
export type CommitListener = (runId: RunId, events: readonly CommittedEvent[], change?: RunChange) => void;
