// `join`: waits for the branches of its parallel until its mode is met, or can be met no longer.
import type { Group } from "../context.js";
import { defaulted, flag, id, list, number, oneOf, optional } from "../definition/attribute.js";
import { ExpressionError, type Scope } from "../expression/index.js";
import type { EndedChild } from "../facts.js";
import type { JsonObject } from "../json.js";
import { MOST_BRANCHES } from "../limits.js";
import { type Entered, type Failure, failed, numberOf, type Outcome, stepType, tooMuch } from "./step.js";

const ATTRIBUTES = {
  mode: defaulted(oneOf("all", "any", "count", "all_settled"), "all", "When it goes on."),
  count: optional(number({ min: 1, whole: true }), "For `count`: how many branches must succeed."),
  on: optional(list(id, { min: 1, max: MOST_BRANCHES }), "Only these branches decide; all if absent."),
  cancel_remaining: defaulted(
    flag,
    true,
    "Branches still running are cancelled, and awaited; false: they go on, and are cancelled when the run is about to end.",
  ),
};

/** Open, met, or failed: by a branch, or because it never could be met. */
type Verdict = "open" | "met" | { readonly failedBy: string } | Failure;

export const join = stepType({
  name: "join",
  summary: "Waits for the branches of its parallel.",
  attributes: ATTRIBUTES,
  output: "{branch: output} of those that succeeded; `all_settled` adds {error} of those that did not",
  pauses: true,
  joins: true,
  check({ mode, count }, place) {
    if ((mode === "count") !== (count !== undefined)) place.problem("count goes with mode count, and only with it");
  },
  enter(entered): Outcome {
    const { group, attributes, facts } = entered;
    if (!group) return failed("error", "the join has no branches to wait for");
    const verdict = verdictOf(entered, group);
    if (verdict === "open") return { kind: "hold" };
    if (attributes.cancel_remaining && group.running > 0) return { kind: "hold", stop: "the join goes on without it" };
    if (typeof verdict === "object" && "code" in verdict) return { kind: "failed", error: verdict };
    if (facts.ended === undefined) return { kind: "need", need: { kind: "ended", entry: entered.groupEntry } };
    if (facts.ended === null) return tooMuch("the outputs of the branches");
    return outcomeOf(verdict, facts.ended, attributes.mode === "all_settled");
  },
});

/** In the order in which the branches ended: what came first decides, and stays decided. */
function verdictOf({ attributes, program, scope }: Entered<typeof ATTRIBUTES>, group: Group): Verdict {
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

/** How many of the deciding branches must succeed; or why no number of them would do. */
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
    // Not thrown on: the branches that run are told to end first.
    if (error instanceof ExpressionError) return impossible(error.message);
    throw error;
  }
}

function outcomeOf(
  verdict: "met" | { readonly failedBy: string },
  ended: readonly EndedChild[],
  settled: boolean,
): Outcome {
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
