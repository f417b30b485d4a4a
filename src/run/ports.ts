// The ports of the runtime: the one that it offers to the layers above (Runs), and those that they fill (Dispatcher, Courier,
// EventAnnouncer, CommitListener). The composition root connects them; nothing in run/ imports a layer above.
import type {
  ActionCall,
  ActionFact,
  AnswerTo,
  AuditEvent,
  Dispatch,
  DispatchId,
  JsonObject,
  Program,
  Rule,
  RunCommand,
  RunContext,
  RunId,
  SlotKey,
} from "../../machines/index.js";

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
  /** They stay with the run, and find it in the list. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly delayMs?: number;
  readonly timeoutMs?: number;
  /** The trigger whose fire starts the run. */
  readonly triggerId?: string;
  /** The run that is started again. */
  readonly rerunOf?: RunId;
  /** `api`, `user:<sub>`, `trigger:<id>`. */
  readonly actor: string;
}

export interface StartAnswer {
  readonly runId: RunId;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly state: string;
  readonly deduplicated: boolean;
}

export interface Runs {
  /** Resolves once the run is durable. Throws SagaError: 400 unknown entrypoint, 404 workflow, 409 key or id with another body or no free slot, 422 inputs,
   * 429 a full waiting list, 503. */
  start(request: StartRequest): Promise<StartAnswer>;
  /**
   * Resolves with the answer of the committed transition (law 6). Throws SagaError: 404 no such run, 503 the outcome is not known
   * in time (send the command again with the same id).
   */
  command<C extends RunCommand>(runId: RunId, command: C, options?: CommandOptions): Promise<AnswerTo<C>>;
}

export interface CommandOptions {
  /** A uuid fixed before the first try; generated if absent. */
  readonly id?: string;
  /** Keep the recorded answer as long as the run, because a client holds the id (an idempotency key). */
  readonly keep?: boolean;
  /** What a repeat of the id must have in common with the first; another one is 409. Absent: the id alone decides. */
  readonly requestHash?: string;
}

/**
 * Carries dispatches to workers. Its methods never throw and never wait. It reports to the run through `Runs.command`:
 * `offer` when credit comes free for a queued call; `result`, `failure` and `heartbeat` when a worker answers.
 */
export interface Dispatcher {
  /** Reserves a worker's credit for this dispatch, if a worker has some now. The credit is held until `resolved`. */
  reserve(dispatchId: DispatchId, call: ActionCall): { readonly workerId?: string } | undefined;
  /** Waits for credit on behalf of the run, then sends the run an `offer`. A repeat changes nothing. */
  enqueue(runId: RunId, dispatchId: DispatchId, call: ActionCall): void;
  /** Hands over a committed dispatch, again and unchanged if the stream is lost, until `resolved` or its deadline. A repeat changes nothing. */
  send(dispatch: Dispatch): void;
  cancel(dispatchId: DispatchId, reason: string): void;
  /** Nothing is owed for the dispatch any more: removes it from the queue and gives back unused credit. */
  resolved(dispatchId: DispatchId): void;
  /** Whether this node has it (queued, reserved, in flight). If not, the outbox poll asks the run to `carry` it. */
  holds(dispatchId: DispatchId): boolean;
}

/** An action as calls name it. */
export type CalledAction = Pick<ActionCall, "service" | "action" | "version" | "transport">;

/** Why calls of an action wait: nothing takes them, or all that could are busy. */
export interface Obstacle {
  readonly reason: "no_worker" | "no_credit";
  /** What a person may want to know besides: `the queue shop.charge does not exist`. */
  readonly detail?: string;
}

/** Where a dispatch is that was handed to a worker. */
export interface DispatchHolder {
  /** The worker that holds it, or that held it last. */
  readonly workerId?: string;
  /** No worker holds it: since when, as far as the run's node knows. Epoch milliseconds in database time. */
  readonly goneSince?: number;
}

/** One connection of a worker, or one address that calls are handed to. */
export interface ConnectedWorker {
  readonly workerId: string;
  readonly service: string;
  /** `name` or `name@version`. Empty: every action of the service. */
  readonly actions: readonly string[];
  readonly transport: CalledAction["transport"];
  /** Epoch milliseconds in database time. */
  readonly since: number;
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** It takes no more steps. */
  readonly draining?: boolean;
}

export interface NodeWorker extends ConnectedWorker {
  readonly nodeId: string;
}

/** The calls of one action that wait for a worker, those included whose worker is gone. */
export interface WaitingAction extends CalledAction {
  readonly calls: number;
}

/** The workers of all nodes that answered. */
export interface WorkerReport {
  readonly workers: readonly NodeWorker[];
  readonly waiting: readonly WaitingAction[];
  /** Nodes without an answer. */
  readonly silent: readonly string[];
  /** Workers that did not fit into the answers. */
  readonly leftOff: number;
}

/** What all nodes of the cluster know of workers, as far as they answer in time. Never rejects. */
export interface Workers {
  report(): Promise<WorkerReport>;
  /** One for each action, in their order. */
  obstacles(actions: readonly CalledAction[]): Promise<readonly Obstacle[]>;
  /** Undefined: it is not known. */
  holder(dispatchId: DispatchId): Promise<DispatchHolder | undefined>;
}

/** Delivers outbox rows of its kind to the outside, at least once. Its methods never throw and never wait. */
export interface Courier {
  /** The row was committed, or is due. A repeat changes nothing. */
  carry(id: string): void;
}

/** Couriers by the kind of the row. `action` is not a kind here: the run itself repeats its dispatch of an action. */
export type Couriers = Readonly<Record<string, Courier | undefined>>;

/** Notifies the runs that wait for an event. Never throws and never waits. */
export interface EventAnnouncer {
  /** The event was committed. A repeat changes nothing. */
  announce(eventId: string): void;
}

/** Has free slots given to those that wait for them. Never throws and never waits: the poll finds what is lost. */
export interface SlotKeeper {
  /** A ticket of the key was committed. */
  requested(key: SlotKey): void;
  /** A ticket of the key was removed. */
  released(key: SlotKey): void;
}

/** Definitions, registrations and rules in memory, refreshed from the store. */
export interface Catalog {
  /** The compiled definition by its id: the version that a run is of, published or not. */
  program(definitionId: string): Promise<Program>;
  /** The published version, or the latest published one. */
  published(
    workflowId: string,
    version?: number,
  ): Promise<{ readonly definitionId: string; readonly program: Program } | undefined>;
  /** The exact version, or the latest that is not deprecated. */
  action(service: string, name: string, version?: number): ActionFact | undefined;
  /** Every registered action as `service.name`. */
  actionNames(): Iterable<string>;
  /** The latest published version of a rule. */
  rule(ruleId: string): Rule | undefined;
  /** Reads the store again: called after a publish, an unpublish or a registration. */
  refresh(): Promise<void>;
}

/** An audit event with its number, as committed. */
export interface CommittedEvent extends AuditEvent {
  readonly runId: RunId;
  readonly seq: number;
}

/** Called after every commit. Must not throw, must not wait. `after`: the run as it was committed, where it is at hand. */
export type CommitListener = (runId: RunId, events: readonly CommittedEvent[], after?: RunContext) => void;
