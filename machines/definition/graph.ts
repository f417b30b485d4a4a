// The edges of a workflow document: every target is a step, and every step is reached. Faulty steps take part with the edges that are
// known of them. The rules of blocks are in layout.ts.
import { own } from "../attribute/composite.js";
import type { Place } from "../attribute/problem.js";
import { isStep } from "../steps/plan.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { MAX_BRANCHES } from "../values/limits.js";
import type { Entry } from "./layout.js";
import type { ReadStep } from "./step.js";

/** What an `on_error` or an `on_timeout` may be besides a step. */
const WORDS = ["fail", "continue"];

export function checkTargets(steps: readonly ReadStep[], ids: ReadonlySet<string>): void {
  for (const { plan, place: at } of steps) {
    checkTarget(plan.next, ids, at.at("next"));
    if (isStep(plan.onError)) checkTarget(plan.onError, ids, at.at("on_error"), WORDS);
    const below = (path: readonly (string | number)[]) => path.reduce((where, key) => where.at(key), at);
    for (const { target, label, at: path } of plan.edges)
      checkTarget(target, ids, below(path), label === "timeout" ? WORDS : []);
    for (const block of plan.blocks) checkTarget(block.start, ids, below(block.at));
  }
}

function checkTarget(
  target: Json | undefined,
  ids: ReadonlySet<string>,
  at: Place,
  words: readonly string[] = [],
): void {
  if (typeof target !== "string" || ids.has(target)) return;
  at.problem(`there is no step "${target.slice(0, 128)}"${at.suggest(target, both(ids, words))}`);
}

/** Not a copy: there may be many steps, and as many wrong targets. */
function* both(ids: Iterable<string>, words: Iterable<string>): Iterable<string> {
  yield* ids;
  yield* words;
}

/** Reads the document itself, so that a problem elsewhere in its head does not hide these. Returns the entries that exist. */
export function readEntries(document: JsonObject, ids: ReadonlySet<string>, place: Place): readonly Entry[] {
  // A document without steps has one problem, not one for each entrypoint.
  if (ids.size === 0) return [];
  const start = own(document, "start");
  const entrypoints = own(document, "entrypoints");
  const named = isObject(entrypoints) ? entrypoints : {};
  const names = Object.keys(named);
  const entries: readonly [target: Json | undefined, at: Place][] = [
    [start, place.at("start")],
    // Too many are one problem.
    ...(names.length > MAX_BRANCHES ? [] : names).map((name): [Json | undefined, Place] => {
      const [target, at] = [named[name], place.at("entrypoints").at(name)];
      if (name === "default" && target !== start) at.problem("default is always start");
      return [target, at];
    }),
  ];
  for (const [target, at] of entries) checkTarget(target, ids, at);
  return entries.flatMap(([target, at]) => (typeof target === "string" && ids.has(target) ? { target, at } : []));
}

/** The steps that no other step names: where a run may begin, if the document does not say so. */
export function unnamed(steps: readonly ReadStep[], ids: ReadonlySet<string>, raw: readonly Json[]): readonly Entry[] {
  const named = new Set(raw.flatMap((step) => mentions(step, ids)));
  return steps.flatMap(({ plan: { id }, place }) => (named.has(id) ? [] : { target: id, at: place }));
}

/** The ids of other steps anywhere in a step as it was posted. */
export function mentions(step: Json | undefined, ids: ReadonlySet<string>): readonly string[] {
  const own = isObject(step) ? step.id : undefined;
  const found: string[] = [];
  const open: (Json | undefined)[] = [step];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === "string" && value !== own && ids.has(value)) found.push(value);
    else if (typeof value === "object" && value !== null) open.push(...Object.values(value as JsonObject));
  }
  return found;
}

/** A faulty step may lead to every step that it names. */
export function warnAboutUnreachable(
  steps: readonly ReadStep[],
  entries: readonly Entry[],
  named: (step: ReadStep) => readonly string[],
): void {
  const reached = reachable(new Map(steps.map((step) => [step.plan.id, step])), entries, named);
  for (const { plan, place: at } of steps)
    if (!reached.has(plan.id)) at.warn("step_unreachable", `the step "${plan.id}" cannot be reached`);
}

function reachable(
  steps: ReadonlyMap<string, ReadStep>,
  entries: readonly Entry[],
  named: (step: ReadStep) => readonly string[],
): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = entries.map(({ target }) => target);
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const step = steps.get(id);
    if (!step || reached.has(id)) continue;
    reached.add(id);
    const { edges, blocks, next, onError } = step.plan;
    open.push(
      ...edges.map(({ target }) => target),
      ...blocks.map(({ start }) => start),
      onError,
      ...[next ?? []].flat(),
    );
    if (step.faulty) open.push(...named(step));
  }
  return reached;
}
