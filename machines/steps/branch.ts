// Branches: the map of outgoing edges that `decision` and `switch` share, and how a value picks one.
import { id, type Kind, plainText, record, required, shape } from "../definition/attribute.js";
import { asText } from "../expression/index.js";
import type { Json } from "../json.js";
import { MOST_BRANCHES } from "../limits.js";
import { type Edge, failed, type Outcome } from "./step.js";

export type Branches = Readonly<Record<string, { readonly next: string }>>;

export const branches: Kind<Branches> = record(
  shape("branch", { next: required(id, "The step to go to.") }),
  plainText,
  { min: 1, max: MOST_BRANCHES },
);

export function branchEdges(map: Branches | undefined): Edge[] {
  return Object.entries(map ?? {}).map(([key, { next }]) => ({
    label: `branch.${key}`,
    target: next,
    at: ["branches", key, "next"],
  }));
}

/** The branch named by `value` as text, else `default`, else `next`, else it fails. */
export function takeBranch(map: Branches, value: Json, next: string | undefined): Outcome {
  const name = asText(value);
  for (const key of [name, "default"]) {
    if (Object.hasOwn(map, key)) return { kind: "done", edge: `branch.${key}`, target: map[key]?.next };
  }
  return next === undefined
    ? failed("no_branch_matched", "no branch matches and there is no default")
    : { kind: "done" };
}
