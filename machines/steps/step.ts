// What a step type is: its attributes, its edges in the chart, and a pure function from the state at its entry to an
// outcome. Not what happens with the outcome: that is the same for all types, and stands in decide.ts.
import type { Frame, Group, RunIdentity, StepError, Wait } from "../context.js";
import type { Attributes, NumberSource, Parsed } from "../definition/attribute.js";
import type { Place } from "../definition/problem.js";
import type { Effect } from "../effects.js";
import { type Expression, ExpressionError, type Scope, type Template } from "../expression/index.js";
import type { Facts, Need, WorkflowFact } from "../facts.js";
import { isObject, type Json, type JsonObject } from "../json.js";
import type { Plan } from "../program.js";
import type { RetryPolicy } from "../retry.js";
import { LONGEST_WAIT_MS } from "../time.js";

/** A labelled way out of a step, beside `next` and `on_error`. */
export interface Edge {
  readonly label: string;
  readonly target: string;
  /** Where the target stands in the step, for messages: `branches.approved.next`. */
  readonly at: readonly (string | number)[];
  /** The way into a catch chain. */
  readonly catches?: boolean;
}

/** A block that a step holds, and where it begins. */
export interface BlockStart {
  readonly kind: "branch" | "item" | "while" | "try";
  /** The branch's name. */
  readonly name?: string;
  readonly start: string;
  readonly at: readonly (string | number)[];
}

export interface StepType<A extends Attributes = Attributes> {
  readonly name: string;
  readonly summary: string;
  readonly attributes: A;
  /** What it stores, for the docs; undefined: it stores nothing. */
  readonly output?: string;
  /** Whether it can fail by its own doing, so that `on_error` makes sense. Expressions may fail in any step. */
  readonly retries?: boolean;
  /** Whether it may wait: then its chart has a `~paused` twin. */
  readonly pauses?: boolean;
  /** Its `next` is a join, which waits for what it forks. */
  readonly forks?: boolean;
  /** Only a parallel leads here. */
  readonly joins?: boolean;
  /** `next` ends nothing here and is refused (`end`, `error`). */
  readonly last?: boolean;
  edges?(attributes: Parsed<A>): readonly Edge[];
  blocks?(attributes: Parsed<A>): readonly BlockStart[];
  /** Rules between attributes; faults are reported at the step's place. */
  check?(attributes: Parsed<A>, place: Place): void;
  enter(entered: Entered<A>): Outcome;
  /** Of a step that opens a user task: what a submit makes of it. */
  readonly task?: TaskRules<A>;
}

/** What a user task asks for beyond its form schema, and where its result leads. */
export interface TaskRules<A extends Attributes = Attributes> {
  /** Problems of a result, each beginning with a JSON pointer. */
  problems(result: JsonObject): readonly string[];
  outcome(
    attributes: Parsed<A>,
    result: JsonObject,
    by: string | undefined,
  ): Extract<Outcome, { kind: "done" | "failed" }>;
}

/** What an outcome function sees. */
export interface Entered<A extends Attributes> {
  readonly program: Pick<Plan, "steps">;
  readonly plan: StepPlan;
  readonly attributes: Parsed<A>;
  readonly scope: Scope;
  readonly facts: Facts;
  readonly run: RunIdentity;
  /** The number of this entry. */
  readonly entry: number;
  /** Whether an unconsumed signal may be there for it. */
  readonly maybeSignalled: boolean;
  /** The error that a catch of this run took last. */
  readonly caught?: StepError;
  /** The while's own frame, from its first round on. */
  readonly frame?: Frame;
  /** The children of this entry (of a join: those of its parallel), once there are any. */
  readonly group?: Group;
  /** The step entry that made them; without any it is this one. */
  readonly groupEntry: number;
  /** Whether a wait of this entry is over. */
  readonly waited: boolean;
}

export type Outcome =
  /** Done: `edge` and `target` where it is not `next`. Without `output`, nothing is stored. */
  | {
      readonly kind: "done";
      readonly output?: Json;
      readonly edge?: string;
      readonly target?: string;
      readonly assign?: JsonObject;
      readonly notes?: readonly Note[];
      readonly effects?: readonly Effect[];
      /** The recorded signal that it took. */
      readonly signal?: NonNullable<Facts["signal"]>;
    }
  | { readonly kind: "skipped"; readonly reason: string; readonly output?: Json }
  /** Failed for good: only attempts of a call are retried. */
  | { readonly kind: "failed"; readonly error: Failure; readonly notes?: readonly Note[] }
  /** Waits: recorded as `step.paused`. */
  | {
      readonly kind: "wait";
      readonly wait: Wait;
      readonly awaiting: string;
      readonly name?: string;
      readonly effects?: readonly Effect[];
    }
  /** An action is to be carried out by a worker. */
  | {
      readonly kind: "call";
      readonly call: Omit<import("../context.js").ActionCall, "phase" | "stepId" | "idempotencyKey">;
    }
  /** Goes into the step's own block: a try, or the next round of a while. */
  | {
      readonly kind: "inside";
      readonly start: string;
      readonly edge: string;
      readonly dueAt?: number;
      readonly rollback?: boolean;
      readonly forgets?: string;
      /** Of a while: how many rounds it may have, and of how many the outputs are kept. */
      readonly rounds?: { readonly most: number; readonly keep: number };
    }
  /** Children are to run; `step.ts` of the step's type says which. A parallel goes on to its join. */
  | {
      readonly kind: "fork";
      readonly group: Pick<Group, "kind" | "total" | "window">;
      readonly items?: readonly Json[];
    }
  | { readonly kind: "saga"; readonly child: SagaCall; readonly dueAt?: number }
  /** A sub-saga failed and is tried again, with a new child. */
  | { readonly kind: "again"; readonly error: Failure; readonly dueAt: number; readonly nth: number }
  /** Children run, and the step waits on. `stop`: those that still run are told to end first. */
  | { readonly kind: "hold"; readonly stop?: string }
  /** The run cancels itself. */
  | { readonly kind: "cancel"; readonly reason: string; readonly compensate: boolean }
  /** The whole run succeeds with this output. */
  | { readonly kind: "end"; readonly output: Json }
  | { readonly kind: "need"; readonly need: Need };

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly details?: Json;
  readonly cause?: Json;
  /** Where it came from, if not from this step: an error that was raised again, or a child's. */
  readonly step_id?: string;
}

/** A run of another workflow, as a step asks for it. */
export interface SagaCall {
  readonly workflow: WorkflowFact;
  readonly entrypoint: string;
  readonly inputs: JsonObject;
}

/** An audit event of the step's own, beside those that every step has. */
export interface Note {
  readonly type: "log" | "metric" | "rule.evaluated" | "license.gate.rejected";
  readonly metadata: JsonObject;
}

/** One step of a program: parsed and compiled once. */
export interface StepPlan {
  readonly id: string;
  readonly type: StepType;
  readonly next?: string;
  readonly when?: Expression;
  /** The variable its output is stored in; null: discarded. */
  readonly saveAs: string | null;
  readonly onError: string;
  readonly retry?: RetrySource;
  readonly compensation?: { readonly action: Template; readonly inputs?: Template };
  readonly attributes: Parsed<Attributes>;
  readonly edges: readonly Edge[];
  readonly blocks: readonly BlockStart[];
}

export type RetrySource = { readonly [K in keyof RetryPolicy]?: RetryPolicy[K] | NumberSource };

export const failed = (code: string, message: string, details?: Json): Outcome => ({
  kind: "failed",
  error: details === undefined ? { code, message } : { code, message, details },
});

export const tooMuch = (what: string): Outcome => failed("limit_exceeded", `${what} are more than an output may hold`);

/** Ties a type's attributes to its functions; the table of all types forgets them again. */
export function stepType<A extends Attributes>(type: StepType<A>): StepType {
  return type as unknown as StepType;
}

export function textOf(template: Template, scope: Scope, name: string): string {
  const rendered = template.render(scope);
  if (typeof rendered === "string") return rendered;
  throw new ExpressionError(`${name} must be a string`);
}

export function objectOf(template: Template | undefined, scope: Scope, name: string): JsonObject {
  if (!template) return {};
  const rendered = template.render(scope);
  if (isObject(rendered)) return rendered;
  throw new ExpressionError(`${name} must be an object`);
}

export function listOf(source: Expression, scope: Scope, name: string): readonly Json[] {
  const value = source.evaluate(scope);
  if (Array.isArray(value)) return value as readonly Json[];
  throw new ExpressionError(`${name} must be a list`);
}

export function numberOf(source: NumberSource, scope: Scope, name: string, min = 0): number {
  const rendered = typeof source === "number" ? source : source.render(scope);
  if (typeof rendered === "number" && Number.isFinite(rendered) && rendered >= min) return rendered;
  throw new ExpressionError(`${name} must be a number of at least ${min}`);
}

/** Whole milliseconds, rounded up: nothing fires early. */
export function durationOf(source: NumberSource, scope: Scope, name: string, min = 0): number {
  const ms = Math.ceil(numberOf(source, scope, name, min));
  if (ms > LONGEST_WAIT_MS) throw new ExpressionError(`${name} is longer than ten years`);
  return ms;
}
