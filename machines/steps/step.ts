// What a step type is: its attributes, its edges in the chart, and a pure function from the state at its entry to an
// outcome. Not what happens with the outcome: that is the same for all types, and stands in decide.ts.
import type { Wait } from "../context.js";
import type { Attributes, NumberSource, Parsed } from "../definition/attribute.js";
import type { Place } from "../definition/problem.js";
import type { Effect } from "../effects.js";
import { type Expression, ExpressionError, type Scope, type Template } from "../expression/index.js";
import type { Facts, Need } from "../facts.js";
import { isObject, type Json, type JsonObject } from "../json.js";
import type { RetryPolicy } from "../retry.js";
import { LONGEST_WAIT_MS } from "../time.js";

/** A labelled way out of a step, beside `next` and `on_error`. */
export interface Edge {
  readonly label: string;
  readonly target: string;
  /** Where the target stands in the step, for messages: `branches.approved.next`. */
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
  /** `next` ends nothing here and is refused (`end`, `error`). */
  readonly last?: boolean;
  edges?(attributes: Parsed<A>): readonly Edge[];
  /** Rules between attributes; faults are reported at the step's place. */
  check?(attributes: Parsed<A>, place: Place): void;
  enter(entered: Entered<A>): Outcome;
}

/** What an outcome function sees. */
export interface Entered<A extends Attributes> {
  readonly plan: StepPlan;
  readonly attributes: Parsed<A>;
  readonly scope: Scope;
  readonly facts: Facts;
  readonly run: { readonly id: string; readonly dryRun: boolean; readonly tenantId?: string };
  /** The number of this entry. */
  readonly entry: number;
  readonly unconsumedSignals: number;
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
      readonly consumedSignal?: string;
    }
  | { readonly kind: "skipped"; readonly reason: string; readonly output?: Json }
  /** Failed for good: only attempts of a call are retried. */
  | { readonly kind: "failed"; readonly error: Failure; readonly notes?: readonly Note[] }
  /** Waits: recorded as `step.paused`. */
  | { readonly kind: "wait"; readonly wait: Wait; readonly awaiting: string; readonly name?: string }
  /** An action is to be carried out by a worker. */
  | {
      readonly kind: "call";
      readonly call: Omit<import("../context.js").ActionCall, "phase" | "stepId" | "idempotencyKey">;
    }
  /** The whole run succeeds with this output. */
  | { readonly kind: "end"; readonly output: Json }
  | { readonly kind: "need"; readonly need: Need };

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly details?: Json;
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
}

export type RetrySource = { readonly [K in keyof RetryPolicy]?: RetryPolicy[K] | NumberSource };

export const failed = (code: string, message: string, details?: Json): Outcome => ({
  kind: "failed",
  error: details === undefined ? { code, message } : { code, message, details },
});

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
