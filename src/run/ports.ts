// The runtime's ports: what the rooms above it may ask (Runs), and what it asks of them (Dispatcher, Watchers). They are
// filled in by the composition root; nothing in run/ imports a room above it.
import type {
  ActionCall,
  ActionFact,
  Answer,
  AuditEvent,
  Dispatch,
  Json,
  JsonObject,
  Program,
  Rule,
  RunCommand,
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
  readonly runId?: string;
  readonly idempotencyKey?: string;
  readonly businessKey?: string;
  readonly delayMs?: number;
  readonly timeoutMs?: number;
  /** `api`, `user:<sub>`, `trigger:<id>`. */
  readonly actor: string;
}

export interface StartAnswer {
  readonly runId: string;
  readonly workflowId: string;
  readonly version: number;
  readonly definitionId: string;
  readonly state: string;
  readonly deduplicated: boolean;
}

export interface Runs {
  /** Resolves once the run is durable. Throws SagaError: 400 unknown entrypoint, 404 workflow, 409 key or id with another body, 422 inputs, 503. */
  start(request: StartRequest): Promise<StartAnswer>;
  /**
   * Resolves with the answer of the committed transition (law 6). Throws SagaError: 404 no such run, 503 outcome not
   * learnt in time (send it again with the same id).
   */
  command(runId: string, command: RunCommand, options?: CommandOptions): Promise<Answer>;
}

export interface CommandOptions {
  /** A uuid fixed before the first try; made up if absent. */
  readonly id?: string;
  /** Keep the recorded answer as long as the run: a client holds the id (an idempotency key). */
  readonly keep?: boolean;
}

/**
 * Carries dispatches to workers. Calls never throw and never wait; what it learns it says by `Runs.command`:
 * `offer` when credit came free for a queued call, `result`, `failure`, `heartbeat` when a worker spoke.
 */
export interface Dispatcher {
  /** Takes credit for this dispatch if a worker can take it now. The credit is held until `resolved`. */
  reserve(dispatchId: string, call: ActionCall): { readonly workerId?: string } | undefined;
  /** Waits for credit on behalf of the run, then sends it `offer`. A repeat changes nothing. */
  enqueue(runId: string, dispatchId: string, call: ActionCall): void;
  /** Hands over a committed dispatch, again and unchanged if the stream is lost, until `resolved` or its deadline. A repeat changes nothing. */
  send(dispatch: Dispatch): void;
  cancel(dispatchId: string, reason: string): void;
  /** Nothing is owed for it any more: drops it from the queue, gives back unused credit. */
  resolved(dispatchId: string): void;
  /** Whether this node holds it (queued, reserved, in flight): if not, the outbox poll asks the run to `carry` it. */
  holds(dispatchId: string): boolean;
}

/** Delivers what commits posted to the outside (outbox rows of its kind), at least once. Calls never throw and never wait. */
export interface Courier {
  /** The row was committed, or is due. A repeat changes nothing. */
  carry(id: string): void;
}

/** Tells those that wait for an event. A call never throws and never waits. */
export interface EventAnnouncer {
  /** The event was committed. A repeat changes nothing. */
  announce(eventId: string): void;
}

/** By the kind of the row. `action` is not among them: of an action its run says again what it owes. */
export type Couriers = Readonly<Record<string, Courier | undefined>>;

/** Definitions and registrations in memory, refreshed from the store. */
export interface Catalog {
  /** The compiled definition, by its id: the version a run began with, published or not. */
  program(definitionId: string): Promise<Program>;
  /** The published version, or the latest published one. */
  published(
    workflowId: string,
    version?: number,
  ): Promise<{ readonly definitionId: string; readonly program: Program } | undefined>;
  /** The exact version, or the latest that is not deprecated. */
  action(service: string, name: string, version?: number): ActionFact | undefined;
  /** The latest published version of a rule. */
  rule(ruleId: string): Rule | undefined;
  /** Forgets what may have changed: called after a publish, an unpublish or a registration. */
  refresh(): Promise<void>;
}

/** An audit event with its number, as committed. */
export interface CommittedEvent extends AuditEvent {
  readonly runId: string;
  readonly seq: number;
}

/** Told of every commit, after it. Must not throw, must not wait. */
export type CommitListener = (runId: string, events: readonly CommittedEvent[]) => void;

export type { Json };
