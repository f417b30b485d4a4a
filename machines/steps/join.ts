// `join`: waits for the branches of its parallel until its mode is met, or cannot be met any more.

import { list } from "../attribute/composite.js";
import { defaulted, flag, id, number, oneOf, optional } from "../attribute/kinds.js";
import { ExpressionError, type Scope } from "../expression/index.js";
import type { EndedChild } from "../messages/fact.js";
import type { Group } from "../state/group.js";
import type { JsonObject } from "../values/json.js";
import { MAX_BRANCHES } from "../values/limits.js";
import { type Entered, type Failure, failed, numberOf, type StepOutcome, stepType, tooLarge } from "./step.js";
import { written } from "./words.js";

const ATTRIBUTES = {
  mode: defaulted(oneOf("all", "any", "count", "all_settled"), "all", "The condition to go on."),
  count: optional(number({ min: 1, whole: true }), "For `count`: how many branches must succeed."),
  on: optional(list(id, { min: 1, max: MAX_BRANCHES }), "The branches that decide; all if absent."),
  cancel_remaining: defaulted(
    flag,
    true,
    "Branches that still run are cancelled and awaited. false: they go on, and are cancelled when the run is about to end.",
  ),
};

const MET = {
  all: "all branches have succeeded",
  any: "a branch has succeeded",
  count: "enough branches have succeeded",
  all_settled: "all branches have ended",
};

/** Open, met, or failed: by a branch, or because the mode cannot be met at all. */
type Verdict = "open" | "met" | { readonly failedBy: string } | Failure;

export const join = stepType({
  name: "join",
  summary: "Waits for the branches of its parallel.",
  attributes: ATTRIBUTES,
  output: "{branch: output} of those that succeeded; `all_settled` adds {error} of those that did not",
  errors: "the error of the branch that decided, `cancelled`",
  pauses: true,
  joins: true,
  check({ mode, count }, place) {
    if ((mode === "count") !== (count !== undefined)) place.problem("count goes with mode count, and only with it");
  },
  outputSchema: () => ({ type: "object" }),
  wants({ mode, count, on }, branches) {
    const of = on ?? branches;
    if (mode === "all_settled" || (mode === "count" && typeof count !== "number")) return undefined;
    const many = mode === "any" ? 1 : mode === "count" ? Number(count) : new Set(of).size;
    return { of: [...new Set(of)], many, at: mode === "count" ? "count" : "mode" };
  },
  nextWhen: ({ mode, count }) =>
    count === undefined ? MET[mode] : `${typeof count === "number" ? count : written(count)} branches have succeeded`,
  enter(entered): StepOutcome {
    const { group, attributes, facts } = entered;
    if (!group) return failed("error", "the join has no branches to wait for");
    const verdict = verdictOf(entered, group);
    if (verdict === "open") return { kind: "await_children" };
    if (attributes.cancel_remaining && group.running > 0)
      return { kind: "await_children", stop: "the join goes on without it" };
    if (typeof verdict === "object" && "code" in verdict) return { kind: "failed", error: verdict };
    if (facts.ended === undefined) return { kind: "need", need: { kind: "ended", entry: entered.groupEntry } };
    if (facts.ended === null) return tooLarge("the outputs of the branches");
    return outcomeOf(verdict, facts.ended, attributes.mode === "all_settled");
  },
});

/** Counts the branches in the order of their ends, so a verdict never changes. */
function verdictOf({ attributes, workflow: program, scope }: Entered<typeof ATTRIBUTES>, group: Group): Verdict {
  const all = program.steps.get(group.step)?.blocks.map(({ name = "" }) => name) ?? [];
  const deciding = new Set(attributes.on ?? all);
  const total = deciding.size;
  const wanted = wantedOf(attributes, scope, total);
  if (typeof wanted !== "number") return wanted;
  let succeeded = 0;
  let lost = 0;
  for (const [branch, state] of group.ended ?? []) {
    if (!deciding.has(branch)) continue;
    if (state === "succeeded" || attributes.mode === "all_settled") succeeded++;
    else lost++;
    if (succeeded >= wanted) return "met";
    if (total - lost < wanted) return { failedBy: branch };
  }
  return "open";
}

const impossible = (message: string): Failure => ({ code: "expression_error", message });

/** The number of deciding branches that must succeed, or why the join cannot be met. */
function wantedOf(
  { mode, count }: Entered<typeof ATTRIBUTES>["attributes"],
  scope: Scope,
  total: number,
): number | Failure {
  if (mode === "any") return 1;
  if (mode !== "count" || count === undefined) return total;
  try {
    const wanted = numberOf(count, scope, "count", 1);
    return wanted <= total ? wanted : impossible(`count is ${wanted}, and ${total} branches decide`);
  } catch (error) {
    // Not thrown: the branches that still run are cancelled first.
    if (error instanceof ExpressionError) return impossible(error.message);
    throw error;
  }
}

function outcomeOf(
  verdict: "met" | { readonly failedBy: string },
  ended: readonly EndedChild[],
  settled: boolean,
): StepOutcome {
  if (verdict !== "met") {
    const error = ended.find(({ branch }) => branch === verdict.failedBy)?.error;
    return { kind: "failed", error: error ?? { code: "error", message: `the branch ${verdict.failedBy} failed` } };
  }
  const output: Record<string, JsonObject[string]> = {};
  for (const { branch, state, output: result, error } of ended) {
    if (state === "succeeded") output[branch] = result;
    else if (settled) output[branch] = { error: { ...error } };
  }
  return { kind: "done", output };
}
