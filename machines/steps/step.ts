// Step types: the attributes of a step, its edges in the chart, and `enter`, a pure function that gives its outcome. What an
// outcome does to a run is the same for all types and belongs to decide/.

import { type Attributes, mentionsOf, type NumberSource, type Parsed } from "../attribute/kinds.js";
import { type Mention, namesAt } from "../attribute/mention.js";
import type { Place } from "../attribute/problem.js";
import { type Expression, ExpressionError, isSecretText, type Scope, type Template } from "../expression/index.js";
import type { ActionFact, Facts, Need, WorkflowFact } from "../messages/fact.js";
import type { Owed } from "../messages/owed.js";
import type { Rule } from "../rule/document.js";
import type { ActionCall } from "../state/call.js";
import type { StepError } from "../state/entry.js";
import type { Frame } from "../state/frame.js";
import type { Group } from "../state/group.js";
import type { RunIdentity } from "../state/identity.js";
import type { SlotRequest } from "../state/slot.js";
import type { Turn } from "../state/turn.js";
import type { Wait } from "../state/wait.js";
import type { StepErrorCode } from "../values/error-code.js";
import type { FindingCode } from "../values/finding-code.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import type { RetryPolicy } from "../values/retry.js";
import { isSecret, MASK, SECRET, spread } from "../values/secret.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import type { RunConcurrency } from "./concurrency.js";

/** A labelled way out of a step, beside `next` and `on_error`. */
export interface Edge {
  readonly label: string;
  readonly target: string;
  /** The path of the target in the step, for messages: `branches.approved.next`. */
  readonly at: readonly (string | number)[];
  /** The edge leads into a catch chain. */
  readonly catches?: boolean;
  /** When a run goes this way, in words for the chart; null: it never does. */
  readonly when?: string | null;
}

/** A branch and an item are runs of their own. The rounds of a while and a try are executed by the run itself. */
export type BlockKind = "branch" | "item" | "while" | "try";

export const isChildBlock = (kind: BlockKind): boolean => kind === "branch" || kind === "item";

/** A block that belongs to a step, and its first step. */
export interface BlockStart {
  readonly kind: BlockKind;
  /** The name of a branch. */
  readonly name?: string;
  readonly start: string;
  readonly at: readonly (string | number)[];
  /** When a run goes into it, in words for the chart. */
  readonly when?: string;
}

/** All that is particular to a step type. */
export interface StepDeclaration<A extends Attributes = Attributes> {
  readonly name: string;
  readonly summary: string;
  readonly attributes: A;
  /** The output that it stores, for the docs. Undefined: it stores nothing. */
  readonly output?: string;
  /** The codes of its errors, for the docs, besides those that any step can fail with. */
  readonly errors?: string;
  /** Whether it takes a `retry` policy. */
  readonly retries?: boolean;
  /** Whether it acts outside the run. A rollback that passes over it records a warning. */
  readonly effectful?: boolean;
  /** Whether it waits for a run of another workflow, which is its child. */
  readonly runsSaga?: boolean;
  /**
   * Whether it meets runs that are neither its family nor of a workflow that it names: by events, or by a signal or a cancel to any run. Absent: it
   * does not.
   */
  meetsOthers?(attributes: Parsed<A>): boolean;
  /** What becomes of the variables that its attributes name: they are set when it succeeds, or hold the error that it catches. */
  readonly variables?: "assigned" | "caught";
  /** Its answer from outside, which a rehearsal takes from mocks. Absent: it waits for none. */
  readonly mock?: MockRules;
  /** Whether it may wait, so that its state in the chart has a `~paused` twin. */
  readonly pauses?: boolean;
  /** Its `next` is a join, which waits for its branches. */
  readonly forks?: boolean;
  /** Only the edge of a parallel leads to it. */
  readonly joins?: boolean;
  /** It has no `next` (`end`, `error`). */
  readonly last?: boolean;
  /** It never succeeds, so an operator cannot let it count as done. */
  readonly alwaysFails?: boolean;
  /** The whole run succeeds here. */
  readonly ends?: boolean;
  edges?(attributes: Parsed<A>): readonly Edge[];
  /** The blocks that it holds. */
  readonly block?: BlockRules<A>;
  /** The errors of its try that it catches, and the variable that then holds the error. */
  catches?(attributes: Parsed<A>): { readonly errors: readonly string[]; readonly variable: string };
  /** What it does, in words for the chart, where the type alone does not say it. */
  chartText?(attributes: Parsed<A>): string;
  /** When a run goes on along `next`, in words for the chart; null: it never does. Absent: whenever the step is done. */
  nextWhen?(attributes: Parsed<A>): string | null;
  /** Whether a dry run may skip the step. */
  dryRunSkips?(attributes: Parsed<A>): boolean;
  /** Rules between attributes. Problems are reported at the step. */
  check?(attributes: Parsed<A>, place: Place): void;
  /** The JSON Schema that its output conforms to, as far as it is known before a run. Undefined: any value. */
  outputSchema?(attributes: Parsed<A>, known: Known): JsonObject | undefined;
  /** What its expressions and templates must give, beyond what their kinds say. */
  fits?(attributes: Parsed<A>, known: Known): readonly Fit[];
  /** The codes of its errors besides those that any step can fail with, if all are known. Absent: none, if `errors` is absent, too. */
  codes?(attributes: Parsed<A>): readonly string[] | undefined;
  /** The attributes that limit its own time, or are its time, with the milliseconds that are not computed. */
  times?(attributes: Parsed<A>): Readonly<Record<string, number | undefined>>;
  /** Whether it may wait for good: for something from outside, without a time limit. */
  waitsForGood?(attributes: Parsed<A>): boolean;
  /** Of the branches of its parallel, those that decide, and how many of them must succeed. Undefined: any number, or it is computed. */
  wants?(
    attributes: Parsed<A>,
    branches: readonly string[],
  ): { readonly of: readonly string[]; readonly many: number; readonly at: string } | undefined;
  /** Whatever else a reviewer would say about it. */
  doubts?(attributes: Parsed<A>, reviewed: Reviewed): readonly Doubt[];
  enter(entered: Entered<A>): StepOutcome;
  /** The rules of the user task that a step opens. */
  readonly task?: TaskRules<A>;
}

/** An expression or a template, and the JSON Schema that its value must conform to. */
export interface Fit {
  /** Its path in the attributes. */
  readonly at: readonly (string | number)[];
  readonly given: Template | Expression;
  readonly schema: JsonObject;
  /** What asks for it, for the message: `the action shop.reserve`. */
  readonly by: string;
  /** Absent: `template_misfit`. */
  readonly code?: FindingCode;
}

/** A registration, as far as a review asks for it. */
export type KnownAction = Pick<ActionFact, "compensable"> &
  Partial<Pick<ActionFact, "inputSchema" | "outputSchema" | "defaultTimeoutMs">> & { readonly deprecated?: boolean };

export interface KnownWorkflow {
  readonly workflowId: string;
  readonly inputSchema?: JsonObject;
  readonly steps: ReadonlyMap<string, StepPlan>;
  readonly entrypoints: Readonly<Record<string, string>>;
  /** How many of its runs go on at once for a key. */
  readonly concurrency?: RunConcurrency;
}

/** What is known outside a definition while it is reviewed. A run asks the facts of its own moment, which may differ. Each member that is absent means: nothing is known of these things, so nothing is said about them. */
export interface Known {
  /** A registration; without a version its latest one. Undefined: there is none. */
  readonly action?: (service: string, name: string, version?: number) => KnownAction | undefined;
  /** The names of all registered actions, for suggestions. */
  readonly actions?: () => Iterable<string>;
  /** A published rule. */
  readonly rule?: (ruleId: string) => Partial<Pick<Rule, "rows" | "defaultOutput">> | undefined;
  /** A published workflow; without a version its latest one. */
  readonly workflow?: (workflowId: string, version?: number) => KnownWorkflow | undefined;
  /** The JSON Schema of a signal's payload. Undefined: any payload. */
  readonly signal?: (name: string) => JsonObject | undefined;
}

/** A step under review. */
export interface Reviewed {
  readonly plan: StepPlan;
  readonly workflow: KnownWorkflow;
  readonly known: Known;
}

export interface Doubt {
  readonly code: FindingCode;
  /** The path in the attributes that it is about. Empty: the step itself. */
  readonly at: readonly (string | number)[];
  readonly message: string;
}

export interface StepType extends StepDeclaration {
  /** What its attributes name. */
  readonly mentions: readonly Mention[];
}

export interface BlockRules<A extends Attributes = Attributes> {
  readonly kind: BlockKind;
  /** Where its attributes name the first step of each block. The member above that names a branch. */
  readonly starts: readonly string[];
  /** When a run goes into it, in words for the chart. */
  when?(attributes: Parsed<A>): string;
  /** The names of an item and of its index, beside `item` and `index`. */
  locals?(attributes: Parsed<A>): { readonly item: string; readonly index: string };
}

/** The blocks of a step, as far as its attributes name them. */
export function blocksOf({ block }: StepType, attributes: Parsed<Attributes>): readonly BlockStart[] {
  if (!block) return [];
  const { kind, starts } = block;
  const when = block.when?.(attributes);
  return namesAt(attributes, starts).map(({ name: start, at }) => ({
    ...{ kind, start, at },
    ...(kind === "branch" && { name: String(at.at(-2)) }),
    ...(when !== undefined && { when }),
  }));
}

/** Whether its steps make runs that are children of their own. */
export function makesChildren({ block, runsSaga = false }: StepType): boolean {
  return runsSaga || (block !== undefined && isChildBlock(block.kind));
}

/** The first step of the catch chain of a step that holds a try. */
export function catchOf({ id, edges }: StepPlan): string {
  const edge = edges.find(({ catches }) => catches);
  if (!edge) throw new Error(`the step ${id} holds a try and has no catch`);
  return edge.target;
}

/** How a rehearsal answers for the outside. */
export interface MockRules {
  readonly output: "object" | "any";
  /** `timeout`: it gets an answer or none, and has no other failure from outside. */
  readonly failures: "any" | "timeout";
  /** The answer, made of the output that the mock gives. Absent: that output, or an empty object. */
  answer?(given: Json | undefined): Json;
  /** The reverse: what a mock gives, made of the output of the step. Absent: that output. */
  given?(output: Json): Json;
  /** The outputs of mocks that make the step fail, by the code of its error. */
  readonly refusals?: Readonly<Record<string, Json>>;
}

/** The checks of a user task's result beyond its form schema, and its outcome. */
export interface TaskRules<A extends Attributes = Attributes> {
  /** The member of a result that the step itself asks for, so that a closed form need not name it. */
  readonly granted?: string;
  /** The problems of a result, each beginning with a JSON pointer. */
  problems(result: JsonObject): readonly string[];
  outcome(
    attributes: Parsed<A>,
    result: JsonObject,
    by: string | undefined,
  ): Extract<StepOutcome, { kind: "done" | "failed" }>;
}

/** What `enter` sees of a run. */
export interface Entered<A extends Attributes = Attributes> {
  readonly workflow: { readonly steps: ReadonlyMap<string, StepPlan> };
  readonly plan: StepPlan;
  readonly attributes: Parsed<A>;
  readonly scope: Scope;
  readonly facts: Facts;
  readonly run: RunIdentity;
  /** The number of this step entry. */
  readonly entry: number;
  /** How often a person has retried it. */
  readonly retried: number;
  /** Whether an unconsumed signal may exist for the run. */
  readonly maybeSignalled: boolean;
  /** The error that a catch of this run received last. */
  readonly caught?: StepError;
  /** The frame of a while, from its first round on. */
  readonly frame?: Frame;
  /** The children of this step entry, or for a join those of its parallel, once they exist. */
  readonly group?: Group;
  /** The step entry that created the group. Without a group, this one. */
  readonly groupEntry: number;
  /** Whether a wait of this step entry is over. */
  readonly waited: boolean;
}

export type StepOutcome =
  /** Done. `edge` and `target` replace `next`. Without an `output`, nothing is stored. */
  | {
      readonly kind: "done";
      readonly output?: Json;
      readonly edge?: string;
      readonly target?: string;
      readonly assign?: JsonObject;
      readonly notes?: readonly Note[];
      readonly owed?: Owed;
      /** The recorded signal that it consumed. */
      readonly signal?: NonNullable<Facts["signal"]>;
    }
  | { readonly kind: "skipped"; readonly reason: string; readonly output?: Json }
  /** Failed for good. Only the attempts of a call are retried. */
  | {
      readonly kind: "failed";
      readonly error: Failure;
      readonly notes?: readonly Note[];
      readonly owed?: Owed;
      /** The recorded signal that it consumed, and on which it failed. */
      readonly signal?: NonNullable<Facts["signal"]>;
    }
  /** Waits, recorded as `step.paused`. */
  | {
      readonly kind: "wait";
      readonly wait: Wait;
      readonly awaiting: string;
      readonly name?: string;
      readonly owed?: Owed;
    }
  /** A worker, or the service itself, is to carry out a call. */
  | {
      readonly kind: "call";
      readonly call: Omit<ActionCall, "phase" | "stepId" | "idempotencyKey">;
      /** The slot that the step needs for it. */
      readonly concurrency?: Pick<SlotRequest, "slot" | "limit">;
      /** The rate limit in whose turn each attempt begins. */
      readonly turn?: Turn;
    }
  /** The token enters the step's own block: a try, or the next round of a while. */
  | {
      readonly kind: "enter_block";
      readonly start: string;
      readonly edge: string;
      readonly dueAt?: number;
      readonly rollback?: boolean;
      readonly removes?: string;
      /** The most rounds of a while, and the number of rounds whose outputs are kept. */
      readonly rounds?: { readonly most: number; readonly keep: number };
    }
  /** Branches or items are to run as children. A parallel then goes on to its join; a foreach waits. */
  | {
      readonly kind: "start_children";
      readonly group: Pick<Group, "kind" | "total" | "window">;
      readonly items?: readonly Json[];
    }
  | { readonly kind: "start_sub_saga"; readonly child: SagaCall; readonly dueAt?: number }
  /** A sub-saga failed and is retried with a new child. */
  | {
      readonly kind: "retry_sub_saga";
      readonly error: Failure;
      readonly dueAt: number;
      readonly nth: number;
      readonly maxAttempts: number;
    }
  /** The step waits for its children. `stop`: those that still run are cancelled, for this reason. */
  | { readonly kind: "await_children"; readonly stop?: string }
  /** The run cancels itself. */
  | { readonly kind: "cancel"; readonly reason: string; readonly compensate: boolean }
  /** The whole run succeeds with this output. */
  | { readonly kind: "end"; readonly output: Json }
  | { readonly kind: "need"; readonly need: Need };

export interface Failure {
  readonly code: StepErrorCode;
  readonly message: string;
  readonly details?: Json;
  readonly cause?: Json;
  /** The step where the error came from, if not this one: an error that was raised again, or that of a child. */
  readonly step_id?: string;
}

/** A run of another workflow. */
export interface SagaCall {
  readonly workflow: WorkflowFact;
  readonly entrypoint: string;
  readonly inputs: JsonObject;
  /** The variables that it begins with. */
  readonly startup: JsonObject;
}

/** An audit event of the step's own, besides those that every step has. */
export interface Note {
  readonly type: "log" | "metric" | "rule.evaluated" | "license.gate.rejected";
  readonly metadata: JsonObject;
}

/** One step of a workflow: parsed and compiled once. */
export interface StepPlan {
  readonly id: string;
  readonly type: StepType;
  readonly title?: string;
  readonly description?: string;
  readonly next?: string;
  readonly when?: Expression;
  /** The variable of its output. Null: the output is discarded. */
  readonly saveAs: string | null;
  readonly onError: string;
  /** Absent: as the workflow says. */
  readonly onFailure?: OnFailure;
  readonly onUndoFailure?: OnUndoFailure;
  readonly retry?: RetrySource;
  readonly compensation?: { readonly action: Template; readonly inputs?: Template };
  readonly attributes: Parsed<Attributes>;
  readonly edges: readonly Edge[];
  readonly blocks: readonly BlockStart[];
}

/** What an error that nothing in the run takes leads to. */
export type OnFailure = "rollback" | "incident";

/** What the final failure of an undo leads to. */
export type OnUndoFailure = "continue" | "incident";

export type RetrySource = { readonly [K in keyof RetryPolicy]?: RetryPolicy[K] | NumberSource };

export const failed = (code: StepErrorCode, message: string, details?: Json): StepOutcome => ({
  kind: "failed",
  error: details === undefined ? { code, message } : { code, message, details },
});

/** The outputs of children together exceed the limit of an output. */
export const tooLarge = (outputs: string): StepOutcome =>
  failed("limit_exceeded", `${outputs} are more than an output may hold`);

/** Checks a type's functions against its attributes. The table of all types has no types of attributes. */
export function stepType<A extends Attributes>(declared: StepDeclaration<A>): StepType {
  return { ...(declared as unknown as StepDeclaration), mentions: mentionsOf(declared.attributes) };
}

/** The milliseconds of a time that is not computed. */
export const millis = (source: NumberSource | undefined): number | undefined =>
  typeof source === "number" ? source : undefined;

/** Written as null. Beside the other form of a step it says nothing. */
export const isNull = (template: Template | undefined): boolean =>
  template?.constant === true && template.render({}) === null;

export function textOf(template: Template, scope: Scope, name: string): string {
  const rendered = template.render(scope);
  if (typeof rendered === "string") return rendered;
  throw unfit(rendered, name, "a string");
}

/** A text for people, which is masked if it depends on a secret value. */
export function shownText(template: Template, scope: Scope, name: string): string {
  const rendered = template.render(scope);
  return isSecretText(rendered) ? MASK : typeof rendered === "string" ? rendered : textOf(template, scope, name);
}

/** A value of another kind, or a secret one where the value is shown, is compared by an index, or decides when something happens. */
function unfit(rendered: Json, name: string, kind: string): ExpressionError {
  if (isSecretText(rendered))
    return new ExpressionError(`${name} is not secret, so it cannot depend on a secret value`);
  return new ExpressionError(`${name} must be ${kind}`);
}

/** It may be secret as a whole. */
export function objectOf(template: Template | undefined, scope: Scope, name: string): JsonObject {
  if (!template) return {};
  const rendered = template.render(scope);
  if (isObject(rendered) && (!isSecret(rendered) || isObject(rendered[SECRET]))) return rendered;
  throw new ExpressionError(`${name} must be an object`);
}

export function listOf(source: Expression, scope: Scope, name: string): readonly Json[] {
  const value = spread(source.evaluate(scope));
  if (Array.isArray(value)) return value as readonly Json[];
  throw new ExpressionError(`${name} must be a list`);
}

export function numberOf(source: NumberSource, scope: Scope, name: string, min = 0): number {
  const rendered = typeof source === "number" ? source : source.renderNumber(scope);
  if (typeof rendered === "number" && Number.isFinite(rendered) && rendered >= min) return rendered;
  throw unfit(rendered, name, `a number${Number.isFinite(min) ? ` of at least ${min}` : ""}`);
}

/** Whole milliseconds, rounded up so that nothing fires early. */
export function durationOf(source: NumberSource, scope: Scope, name: string, min = 0): number {
  const ms = Math.ceil(numberOf(source, scope, name, min));
  if (ms > LONGEST_WAIT_MS) throw new ExpressionError(`${name} is longer than ten years`);
  return ms;
}
