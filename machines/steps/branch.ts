// Branches: the map of outgoing edges of `decision`, `switch` and `manual_approval`, and how a value selects one.
import { record, shape } from "../attribute/composite.js";
import { id, type Kind, plainText, required, stepId } from "../attribute/kinds.js";
import { asText } from "../expression/index.js";
import type { Json } from "../values/json.js";
import { MAX_BRANCHES } from "../values/limits.js";
import type { Edge, StepOutcome } from "./step.js";
import { excerpt } from "./words.js";

export type Branches = Readonly<Record<string, { readonly next: string }>>;

export const branch = shape("branch", { next: required(stepId, "The step to go to.") });
const some = { min: 1, max: MAX_BRANCHES };

export const branches: Kind<Branches> = record(branch, plainText, some);

/** The branches of a parallel: each key names a child run, and a member of the join's output. */
export const namedBranches: Kind<Branches> = record(branch, id, some);

/** `when`: the condition of each branch, in words. */
export function branchEdges(map: Branches | undefined, when: (key: string) => string): Edge[] {
  return Object.entries(map ?? {}).map(([key, { next }]) => ({
    label: `branch.${key}`,
    target: next,
    at: ["branches", key, "next"],
    when: when(key),
  }));
}

/** The edges of branches that the text of a value names: `subject` is where it comes from. */
export function namedEdges(map: Branches | undefined, subject: string): Edge[] {
  return branchEdges(map, (key) => (key === "default" ? NO_BRANCH : `${subject} is ${JSON.stringify(excerpt(key))}`));
}

const NO_BRANCH = "no branch matches";

/** Where no branch matches: to `next`, unless there is a default. */
export const unlessDefault = (map: Branches): string | null => (Object.hasOwn(map, "default") ? null : NO_BRANCH);

/** The outcome of selecting a branch. */
export type BranchTaken = Extract<StepOutcome, { kind: "done" | "failed" }>;

/** The branch that `value`, as text, names, else `default`, else `next`; else the step fails. */
export function takeBranch(map: Branches, value: Json | undefined, next: string | undefined): BranchTaken {
  for (const key of value === undefined ? ["default"] : [asText(value), "default"]) {
    if (Object.hasOwn(map, key)) return { kind: "done", edge: `branch.${key}`, target: map[key]?.next };
  }
  if (next !== undefined) return { kind: "done" };
  return { kind: "failed", error: { code: "no_branch_matched", message: "no branch matches and there is no default" } };
}
