// What follows the failure of a state: the steps for Retry and Catch. A retry leads back to the step that failed, a catch puts the error into the
// data, and what neither takes fails as before.

import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { literal, template } from "../cel.js";
import type { Report } from "../report.js";
import type { Chain } from "./chain.js";
import { ERROR_NAMES, FAILURE, matching, namesIn, type Retrier } from "./errors.js";
import { FIELDS } from "./fields.js";
import { celOf, namesOf, presence } from "./path.js";
import { orReported, usesOf } from "./payload.js";

/** The states of a machine, of a branch, or of a Map's processor. */
export interface Scope {
  readonly path: FieldPath;
  /** The step that ends it. */
  readonly end: string;
  /** Inside of a Map. */
  readonly item: boolean;
}

/** The state that is being read. */
export interface State {
  readonly name: string;
  readonly id: string;
  readonly given: JsonObject;
  readonly path: FieldPath;
  readonly scope: Scope;
  readonly chain: Chain;
  /** The effective input, as CEL. */
  input: string;
  /** The step that a failure leads to, if the state handles any. */
  readonly failed: string | undefined;
  /** The steps of the state's own paths that a failure of theirs leads to, by the error's name. */
  readonly own: Map<string, string>;
}

export interface Handling {
  /** The step that is repeated. */
  readonly call: string;
  readonly retriers: readonly Retrier[];
  readonly report: Report;
  target(next: Json | undefined): string;
}

/** Each retrier counts for itself, from the moment that the state is entered. */
export function addCounters({ chain }: State, retriers: readonly Retrier[]): void {
  if (retriers.length === 0) return;
  const variables = retriers.flatMap(({ intervalMs, maxMs }, index): [string, Json][] => [
    [`retry_${index}`, 0],
    [`delay_${index}`, Math.min(intervalMs, maxMs)],
  ]);
  chain.add("tries", "set_var", { variables: Object.fromEntries(variables) });
}

/** Adds the steps from `failed` on. A retrier that matches and is used up hands over to Catch, and no later retrier is asked. */
export function addFailures(state: State, failed: string, handling: Handling): void {
  const { chain, given } = state;
  const { retriers } = handling;
  const catchers = Array.isArray(given.Catch) ? given.Catch.filter(isObject) : [];
  ambiguous(state, [...retriers.flatMap(({ names }) => names), ...catchers.flatMap(namesIn)], handling.report);
  const raised = chain.aside("raised", "error", {
    code: "${vars.result.error.code}",
    message: "${vars.result.error.message}",
  });
  const caught = catchers.map((entry, index) => ({
    when: matching(namesIn(entry)),
    next: catchInto(state, entry, index, handling),
  }));
  const after = caught.length === 0 ? raised : chain.aside("caught", "switch", { cases: caught, default: raised });
  // What the state's own paths fail with is not tried again: a second try would compute the same.
  for (const [name, suffix] of state.own)
    chain.aside(suffix, "set_var", {
      variables: { failure: { Error: name, Cause: "${vars.result.error.message}" } },
      next: after,
    });
  const again = retriers.flatMap((retrier, index) => {
    const when = `(${matching(retrier.names)})`;
    const next = retrier.attempts < 1 ? [] : [waitAndRepeat(state, index, retrier, handling)];
    return [
      ...next.map((wait) => ({ when: `${when} && vars.retry_${index} < ${retrier.attempts}`, next: wait })),
      { when, next: after },
    ];
  });
  const next = again.length === 0 ? after : chain.aside("retry", "switch", { cases: again, default: after });
  const failure = { Error: template(errorName(state)), Cause: "${vars.result.error.message}" };
  // Its id was given away when the state was begun, so that it is the same one here.
  if (chain.aside("failed", "set_var", { variables: { failure }, next }) !== failed)
    throw new Error(`the steps of ${state.name} have lost their way`);
}

function waitAndRepeat({ chain, path }: State, index: number, retrier: Retrier, { call, report }: Handling): string {
  const { rate, maxMs, jitter } = retrier;
  if (jitter)
    report.note(
      [...path, "Retry", index, "JitterStrategy"],
      "JitterStrategy FULL",
      "the wait is random there",
      "the longest of these waits",
    );
  const again = chain.aside(`again_${index}`, "set_var", {
    variables: {
      [`retry_${index}`]: `\${vars.retry_${index} + 1}`,
      [`delay_${index}`]: `\${math.least(vars.delay_${index} * ${rate}, ${maxMs})}`,
    },
    next: call,
  });
  return chain.aside(`wait_${index}`, "wait_duration", { duration_ms: `\${vars.delay_${index}}`, next: again });
}

/** The error's name in the specification. */
function errorName({ given }: State): string {
  const names = { ...ERROR_NAMES, expression_error: given.Type === "Task" ? ofParameters(given) : "States.Runtime" };
  return `${literal(names)}[?vars.result.error.code].orValue(vars.result.error.code)`;
}

/** What Parameters that cannot be computed fail with. */
export const ofParameters = ({ Parameters: payload = null }: JsonObject): string =>
  usesOf(payload).functions ? "States.IntrinsicFailure" : "States.ParameterPathFailure";

/** An expression that fails says not whether a path or a function of it did. */
function ambiguous({ given, path }: State, names: readonly string[], report: Report): void {
  const uses = usesOf(given.Parameters ?? null);
  for (const name of ["States.ParameterPathFailure", "States.IntrinsicFailure"]) {
    if (!names.includes(name)) continue;
    if (uses.functions && uses.paths)
      report.refuse(
        path,
        name,
        "an expression that fails does not say which part of it did",
        "one name for all of them",
      );
  }
  for (const name of ["States.Runtime", "States.DataLimitExceeded"])
    if (names.includes(name)) report.note(path, name, "it ends an execution whatever catches it", "it matches nothing");
}

/** The error is put into the data, and the run goes on at the state that the catcher names. */
function catchInto(state: State, entry: JsonObject, index: number, { report, target }: Handling): string {
  const { chain, path } = state;
  for (const field of Object.keys(entry))
    if (!["ErrorEquals", "Next", "ResultPath", "Comment"].includes(field))
      report.refuse(
        [...path, "Catch", index, field],
        field,
        FIELDS.refused[field] ?? "the specification has no such field",
      );
  const next = target(entry.Next);
  const given = entry.ResultPath === undefined ? "$" : entry.ResultPath;
  if (given === null) return next;
  const names = orReported([...path, "Catch", index, "ResultPath"], report, () => namesOf(String(given))) ?? [];
  if (names.length === 0)
    return chain.aside(`catch_${index}`, "set_var", { variables: { data: template(FAILURE) }, next });
  let follows = next;
  // From the outermost object in, because a step is made before the one that leads to it.
  for (let depth = 0; depth < names.length; depth++) {
    const way = names.slice(0, depth).map((name) => ({ kind: "member", name }) as const);
    const base = depth === 0 ? "vars.data" : `${presence("vars.data", way)} ? ${celOf("vars.data", way)} : {}`;
    const value = depth === names.length - 1 ? FAILURE : "vars.caught";
    const sources = [base, `{${JSON.stringify(names[depth])}: ${value}}`];
    follows = chain.aside(`catch_${index}${depth === 0 ? "" : `_${depth}`}`, "merge", {
      ...{ sources, save_as: depth === 0 ? "data" : "caught", next: follows },
    });
  }
  return follows;
}
