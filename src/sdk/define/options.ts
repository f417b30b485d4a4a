// The options of the steps: what every step may have, and what each type has besides. Types alone: attributes.ts says how they become JSON.
import type { TSchema } from "typebox";
import type { RetryOptions, SignalContract } from "../contract/index.js";
import type { Expr, Ref } from "./expression.js";
import type { TypeOf } from "./read.js";
import type { AnyAction, Computed, Condition, Given } from "./scope.js";
import type { Value } from "./value.js";
import type { NamedLater } from "./written.js";

export type InputOfAction<A extends AnyAction> = TypeOf<A["input"]>;
/** Of an action whose name is computed, it is not known what it takes and gives. */
export type InputOfCalled<A> = A extends AnyAction ? InputOfAction<A> : { readonly [name: string]: unknown };
export type OutputOfCalled<A> = A extends AnyAction ? TypeOf<A["output"]> : unknown;
export type PayloadOf<G> = G extends SignalContract<string, infer Payload extends TSchema> ? TypeOf<Payload> : unknown;

/** What every step may have. */
export interface StepOptions<Save, When, OnError> {
  /** Display name. */
  readonly title?: string;
  readonly description?: string;
  /** Where it does not hold, the step is skipped, and what it would have stored may be missing. */
  readonly when?: When;
  /** The variable of its output, `vars.name`, in place of its id; null discards it. */
  readonly saveAs?: Save;
  /** After a final error: "fail" (the default), "continue", or steps. The last two store `{ error }` in place of the output. */
  readonly onError?: OnError;
  /** What an error that nothing takes leads to; as the saga says if absent. */
  readonly onFailure?: "rollback" | "incident";
  /** What follows when its undo fails for good; as the saga says if absent. */
  readonly onUndoFailure?: "continue" | "incident";
}

/** What the inputs of an undo see besides. */
export interface UndoScope<Out> {
  /** What the step gave. Where it is not known, the undo gets `{ inputs, output }` of the step. */
  readonly output: Ref<Out>;
}

type Bare<U extends AnyAction, In, Out> =
  { inputs: In; output: Out } extends InputOfAction<U>
    ? unknown
    : "this undo takes inputs of its own: write undo: [action, ({ output }) => ({ ... })]";

/** An undo whose action has a computed name. Without inputs, it gets `{ inputs, output }` of the step. */
export type UndoNamedLater<S> = {
  readonly action: NamedLater<S>;
  readonly inputs?: Given<S, { readonly [name: string]: unknown }>;
} & { readonly [K in keyof AnyAction]?: never };

/** An action that undoes the step: alone, if it takes nothing or `{ inputs, output }` of the step, or with its inputs. */
export type UndoOf<S, In, Out, U extends AnyAction> =
  | (U & NoInfer<Bare<U, In, Out>>)
  | readonly [action: U, inputs: NoInfer<Given<S & UndoScope<Out>, InputOfAction<U>>>]
  | UndoNamedLater<S & UndoScope<Out>>;

export interface MayUndo<S, In, Out, U extends AnyAction> {
  /** Undoes the step when the run rolls back. */
  readonly undo?: UndoOf<S, In, Out, U> | null;
}

interface MustUndo<S, In, Out, U extends AnyAction> {
  /** The action is declared compensable: name what undoes it, or null to say that nothing does. */
  readonly undo: UndoOf<S, In, Out, U> | null;
}

/** A retry policy whose numbers may be computed. */
export interface RetryPolicyOptions<S> {
  /** Counts the first attempt; -1: unlimited. */
  readonly maxAttempts: Given<S, number>;
  readonly initialBackoffMs: Given<S, number>;
  readonly maxBackoffMs?: Given<S, number>;
  readonly multiplier?: Given<S, number>;
  readonly jitter?: boolean;
  readonly nonRetryableCodes?: RetryOptions["nonRetryableCodes"];
}

export interface Retries<S> {
  readonly retry?: RetryPolicyOptions<S>;
}

/** `NoInfer`: the compiler would look for type parameters in every branch of what a schema describes, a million instantiations deep. */
type InputsOf<S, Input> =
  Record<never, never> extends Input
    ? { readonly inputs?: NoInfer<Given<S, Input>> }
    : { readonly inputs: NoInfer<Given<S, Input>> };

/** The options of an action: its inputs, and an undo where the contract says `compensable: true`. */
export type ActionStepOptions<S, A, U extends AnyAction, Save, When, OnError> = StepOptions<Save, When, OnError> &
  Retries<S> & {
    /** Of each attempt, from its dispatch. */
    readonly timeoutMs?: Given<S, number>;
    /** The time to wait for a worker. */
    readonly queueTimeoutMs?: Given<S, number>;
    readonly heartbeatTimeoutMs?: Given<S, number>;
    /** At most `limit` steps at once have the action carried out for the key, over all runs. */
    readonly concurrency?: { readonly key: Given<S, string | number | boolean>; readonly limit: Given<S, number> };
    /** At most `limit` attempts in `perMs` milliseconds begin for the key, over all runs; `burst` at once after a time without any. */
    readonly rateLimit?: {
      readonly key: Given<S, string | number | boolean>;
      readonly limit: Given<S, number>;
      readonly perMs: Given<S, number>;
      readonly burst?: Given<S, number>;
    };
  } & InputsOf<S, InputOfCalled<A>> &
  (A extends { readonly compensable: true }
    ? MustUndo<S, InputOfCalled<A>, OutputOfCalled<A>, U>
    : MayUndo<S, InputOfCalled<A>, OutputOfCalled<A>, U>);

export interface HttpResponse<Body> {
  status: number;
  headers: { [name: string]: string };
  body: Body;
}

type Headers<S> = Given<S, { readonly [name: string]: string | null }>;

export interface HttpRequestOptions<S, Body extends TSchema> extends Retries<S> {
  readonly url: Given<S, string>;
  /** The JSON Schema of the output; `x-secret` marks secret parts. Another response fails the step. */
  readonly outputSchema?: TSchema;
  readonly method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
  readonly headers?: Headers<S>;
  readonly query?: Given<S, { readonly [name: string]: unknown }>;
  readonly body?: Given<S, unknown>;
  readonly timeoutMs?: Given<S, number>;
  readonly expectedStatus?: readonly (number | "2xx" | "3xx" | "4xx" | "5xx")[];
  readonly followRedirects?: boolean;
  readonly secretRef?: Given<S, string>;
  /** The schema of the body that you expect: a type for `steps.<id>.body`, which nothing checks. */
  readonly response?: Body;
}

export interface WebhookOptions<S> {
  readonly url: Given<S, string>;
  readonly eventType: Given<S, string>;
  readonly payload?: Given<S, unknown>;
  readonly headers?: Headers<S>;
  readonly secretRef?: Given<S, string>;
}

export interface TimeLimit<S, OnTimeout> {
  readonly timeoutMs?: Given<S, number>;
  /** "fail" (the default, with the code `timeout`), "continue" with a null output, or steps. */
  readonly onTimeout?: OnTimeout;
}

export interface PayloadRule {
  /** The JSON Schema of the payload; `x-secret` marks secret parts. Another payload fails the step. */
  readonly payloadSchema?: TSchema;
}

export interface ReceivedEvent<Payload> {
  topic: string;
  headers: { [name: string]: string };
  payload: Payload;
}

export interface WaitForEventOptions<S, Payload extends TSchema, OnTimeout> extends TimeLimit<S, OnTimeout> {
  /** The event must have all of these, with these values. */
  readonly headers?: Headers<S>;
  readonly match?: Condition<S & { readonly event: Ref<ReceivedEvent<TypeOf<Payload>>> }>;
  /** "run" (the default): also events since the run began. "none": only events from now on. */
  readonly lookback?: "run" | "none";
  /** The schema of the payload that you expect: a type, which nothing checks. */
  readonly payload?: Payload;
}

export interface TaskOptions<S, OnTimeout> {
  /** A user, a group or a role. */
  readonly assignee: Given<S, string>;
  /** The title of the task. */
  readonly title?: Given<S, string>;
  readonly dueInMs?: Given<S, number>;
  /** In place of dueInMs: RFC 3339, or a CEL timestamp. */
  readonly dueAt?: Given<S, string>;
  readonly onTimeout?: OnTimeout;
}

/** The output of an approval. */
export type Approval<Form> = { approved: boolean; submitted_by?: string } & Form;

export interface SagaCallOptions<S, Input> {
  readonly version?: Given<S, number>;
  readonly entrypoint?: Given<S, string>;
  readonly inputs?: Given<S, Input>;
}

export type SubSagaOptions<S, Input> = Omit<SagaCallOptions<S, Input>, "inputs"> &
  Retries<S> & { readonly timeoutMs?: Given<S, number> } & InputsOf<S, Input>;

export type SpawnSagaOptions<S, Input> = Omit<SagaCallOptions<S, Input>, "inputs"> & {
  readonly idempotencyKey?: Given<S, string>;
} & InputsOf<S, Input>;

export interface LogOptions<S> {
  readonly level?: "debug" | "info" | "warn" | "error";
  readonly fields?: Given<S, { readonly [name: string]: unknown }>;
}

export interface MetricOptions<S> {
  readonly value?: Given<S, number>;
  readonly kind?: "counter" | "gauge" | "histogram";
  readonly tags?: Given<S, { readonly [name: string]: string | number | boolean }>;
}

/** What a `decision` or a `switch` does where no branch fits and there is no default. */
export interface NoMatchOptions<OnNoMatch> {
  /**
   * "fail" (the default, with the code `no_branch_matched`), or "continue": the next step follows. It also does where the step has a `when`, or the
   * `onError` "continue".
   */
  readonly onNoMatch?: OnNoMatch;
}

export interface ErrorOptions<S> {
  readonly code?: Given<S, string>;
  readonly message?: Given<S, string>;
  readonly details?: Given<S, unknown>;
  readonly title?: string;
  readonly description?: string;
}

export interface EndOptions {
  /** Default "end", and in a block "<step>.<branch>.end". */
  readonly id?: string;
  readonly title?: string;
  readonly description?: string;
}

export interface JoinOptions<Branch extends string> {
  /** When the run goes on. Default "all". */
  readonly on?: readonly Branch[];
  /** Default true: branches that still run are cancelled. */
  readonly cancelRemaining?: boolean;
}

export interface ForeachOptions<S> {
  /** Items that run at once; 0: all. Default 1. */
  readonly maxConcurrency?: Given<S, number>;
  /** Items that may fail. */
  readonly toleratedFailures?: Given<S, number>;
  /** A longer list fails the step. Default 10000. */
  readonly maxItems?: Given<S, number>;
}

export interface WhileOptions<S> {
  /** One more fails the step. Default 1000. */
  readonly maxIterations?: Given<S, number>;
  readonly delayMs?: Given<S, number>;
  /** Rounds whose outputs are kept. Default 10. */
  readonly keepLast?: Given<S, number>;
}

export interface TryCatchOptions<S> {
  /** The codes that are caught; they may end in `*`. Default: all. */
  readonly errors?: readonly string[];
  /** Undo what was completed inside before the catch. */
  readonly rollback?: boolean;
  readonly timeoutMs?: Given<S, number>;
}

export interface CancelOptions<S> {
  readonly reason?: Given<S, string>;
  /** Default true: completed steps are undone. */
  readonly compensate?: boolean;
}

export interface RuleChoice<S> {
  /** The rule whose output names the branch. */
  readonly rule: Given<S, string>;
  /** Default: the inputs of the run. */
  readonly inputs?: Given<S, { readonly [name: string]: unknown }>;
  /** The member of the rule's output that names the branch. Default "branch". */
  readonly outputKey?: Given<S, string>;
}

export type Duration<S> =
  | number
  | string
  | { readonly durationMs: Given<S, number> }
  | { readonly duration: Given<S, string> };

export type SomeItems<S, Item> = Computed<S, readonly Item[]>;
export type NamesBranch<S> = Computed<S, string | number | boolean>;
export type { Condition, Expr, Given, Value };
