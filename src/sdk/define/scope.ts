// The names that an expression of a step sees: types alone, but for `scopeOf`, which makes the references.
import type { ActionContract } from "../contract/index.js";
import { type Expr, type Ref, rootReference } from "./expression.js";
import type { Read } from "./read.js";
import type { Value } from "./value.js";

export interface RunFacts {
  id: string;
  workflow_id: string;
  version: number;
  tenant_id: string | null;
  business_key: string | null;
  started_at: string;
  dry_run: boolean;
  root_id: string;
}

type Refs<Vars> = { readonly [K in keyof Vars]: Ref<Read<Vars[K]>> };

/** What the expressions of a step see, besides what the blocks around it give. */
export interface Scope<Input, Vars> {
  /** What the run was started with. */
  readonly inputs: Ref<Input>;
  /** The outputs of the steps before, by their ids. */
  readonly steps: Refs<Vars>;
  /** The same variables, for those that a step set by name: `saveAs`, `setVar`. */
  readonly vars: Refs<Vars>;
  readonly run: Ref<RunFacts>;
  /** The feature overrides that the run was started with. */
  readonly features: Ref<{ readonly [name: string]: boolean }>;
  /** When the step is entered: a CEL timestamp. */
  readonly now: Expr<string>;
}

/** A value, or a function that makes it from the scope S. */
export type Given<S, T> = Value<T> | ((scope: S) => Value<T>);

/** A CEL attribute. */
export type Computed<S, T> = Expr<T> | ((scope: S) => Expr<T>);

/** A condition: truthy are true, numbers other than 0, and what is not empty. */
export type Condition<S> = Expr | boolean | ((scope: S) => Expr | boolean);

export type AnyAction = ActionContract;

const BASE = ["inputs", "run", "features", "now"] as const;

/** The references of a scope, with `locals` beside those that every step sees. */
export function scopeOf(locals: readonly string[]): Readonly<Record<string, object>> {
  const named = Object.fromEntries([...BASE, ...locals].map((name) => [name, rootReference(name)]));
  return { ...named, steps: rootReference("vars"), vars: rootReference("vars") };
}
