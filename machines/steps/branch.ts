// Branches: the map of outgoing edges that `decision` and `switch` share, and how a value picks one.
import { id, type Kind, plainText, record, required, shape } from "../definition/attribute.js";
import { asText } from "../expression/index.js";
import type { Json } from "../json.js";
import { MOST_BRANCHES } from "../limits.js";
import type { Edge, Outcome } from "./step.js";

export type Branches = Readonly<Record<string, { readonly next: string }>>;

export const branch = shape("branch", { next: required(id, "The step to go to.") });
const some = { min: 1, max: MOST_BRANCHES };

export const branches: Kind<Branches> = record(branch, plainText, some);

/** Of a parallel: each names a child run, and a member of the join's output. */
export const namedBranches: Kind<Branches> = record(branch, id, some);

export function branchEdges(map: Branches | undefined): Edge[] {
  return Object.entries(map ?? {}).map(([key, { next }]) => ({
    label: `branch.${key}`,
    target: next,
    at: ["branches", key, "next"],
  }));
}

/** What choosing a branch comes to. */
export type Taken = Extract<Outcome, { kind: "done" | "failed" }>;

/** The branch named by `value` as text, if there is one; else `default`, else `next`, else it fails. */
export function takeBranch(map: Branches, value: Json | undefined, next: string | undefined): Taken {
  for (const key of value === undefined ? ["default"] : [asText(value), "default"]) {
    if (Object.hasOwn(map, key)) return { kind: "done", edge: `branch.${key}`, target: map[key]?.next };
  }
  if (next !== undefined) return { kind: "done" };
  return { kind: "failed", error: { code: "no_branch_matched", message: "no branch matches and there is no default" } };
}
