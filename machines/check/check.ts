// The review of a definition: its problems and warnings as the compiler finds them, and what only the whole workflow shows, beside the registrations
// that it uses. It runs nothing and asks nothing: all that it knows of the world outside is given.

import { MOST_LISTED, type Problem } from "../attribute/findings.js";
import { type Compiled, type CompileOptions, compileWorkflowSlices } from "../definition/workflow.js";
import { type Outline, outlineOf, outlineOfExpression } from "../expression/index.js";
import { constants } from "../steps/named.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { Known } from "../steps/step.js";
import { FINDING_CODES } from "../values/finding-code.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { inOnePiece, type Slices } from "../values/slices.js";
import type { Finding } from "./finding.js";
import { Comparisons, Fitting } from "./fit.js";
import { Flow } from "./flow.js";
import { endingsOf, insideOf, knotsOf, reachableIn, towardsEnd } from "./graph.js";
import type { Review } from "./review.js";
import { reviewCatches, reviewConditions, reviewForks, reviewLoops, reviewUndo, reviewWays } from "./rules.js";
import { viewOf } from "./schema-view.js";
import { type At, isTemplate, type PlacedStep, pathIn, type SourceAt, sourcesOf } from "./sources.js";
import { reviewTimes } from "./times.js";
import { ScopeTypes } from "./types.js";

export type CheckOptions = CompileOptions & Known;

/**
 * All findings about a workflow document, in the order of its steps: its problems (code `invalid`), and if there are none the warnings of the compiler
 * and those of the review. `known`: registrations, rules, workflows and signals as far as they are known; what is absent is not asked for.
 * Never throws, and ends for any document.
 */
export function checkWorkflow(document: unknown, options: CheckOptions = {}): readonly Finding[] {
  const { problems, warnings } = inOnePiece(reviewedSlices(document, options));
  const ids = stepIds(document);
  const found = [...problems.map((problem) => ({ ...problem, code: "invalid" as const })), ...warnings];
  return found.map(({ path, message, code = "invalid" }) => {
    const step = ids[Number(/^\$\.steps\[(\d+)\]/.exec(path)?.[1] ?? -1)];
    return { path, ...(step !== undefined && { step }), code, severity: FINDING_CODES[code].severity, message };
  });
}

/** As the compiler answers, with the findings of the review among the warnings. */
export function* reviewedSlices(document: unknown, options: CheckOptions = {}): Slices<Compiled> {
  const compiled = yield* compileWorkflowSlices(document, options);
  const { program, warnings } = compiled;
  if (!program || warnings.length >= MOST_LISTED) return compiled;
  const found = yield* review(program, options);
  return { ...compiled, warnings: byPlace([...warnings, ...found]) };
}

function stepIds(document: unknown): readonly (string | undefined)[] {
  const steps = isObject(document) ? document.steps : undefined;
  if (!Array.isArray(steps)) return [];
  return (steps as readonly Json[]).map((step) =>
    isObject(step) && typeof step.id === "string" ? step.id : undefined,
  );
}

/** By step; within a step as they were found. What is about the document comes first. */
function byPlace(found: readonly Problem[]): readonly Problem[] {
  const nth = ({ path }: Problem) => Number(/^\$\.steps\[(\d+)\]/.exec(path)?.[1] ?? -1);
  const sorted = found.map((problem) => [nth(problem), problem] as const).sort(([left], [right]) => left - right);
  const more = sorted.length - MOST_LISTED;
  const listed = sorted.slice(0, MOST_LISTED).map(([, problem]) => problem);
  return more > 0 ? [...listed, { path: "$", message: `has ${more} more warnings, which are not listed` }] : listed;
}

/** A slice is one walk over the graph, or one step. */
function* review(workflow: WorkflowPlan, known: Known): Slices<readonly Problem[]> {
  const found: Problem[] = [];
  const types = new ScopeTypes(workflow, known);
  yield;
  const flow = new Flow(workflow);
  yield;
  const endings = endingsOf(workflow);
  const reachable = reachableIn(workflow);
  yield;
  const steps = placedSteps(workflow);
  const placed = new Map(steps.map((step) => [step.plan.id, step]));
  const reviewed: Review = {
    ...{
      workflow,
      known,
      types,
      flow,
      endings,
      reachable,
      placed,
      inside: insideOf(workflow),
      comparisons: new Comparisons(),
    },
    report: (code, path, message) => {
      if (found.length <= MOST_LISTED) found.push({ code, path, message });
    },
  };
  for (const step of steps) {
    if (found.length > MOST_LISTED) break;
    reviewStep(step, reviewed);
    yield;
  }
  reviewGraph(reviewed);
  return found;
}

/** Every step has been read, so they stand as they do in the document. */
function placedSteps({ steps, document }: WorkflowPlan): readonly PlacedStep[] {
  const raw = document.steps as readonly JsonObject[];
  return [...steps.values()].map((plan, nth) => ({ plan, path: `$.steps[${nth}]`, raw: raw[nth] as JsonObject }));
}

function reviewStep(step: PlacedStep, reviewed: Review): void {
  const { plan } = step;
  const { workflow, known, report, reachable } = reviewed;
  const sources = sourcesOf(plan);
  reviewUndo(step, reviewed);
  for (const source of sources) {
    reviewReferences(step, source, reviewed);
    if (reachable.has(plan.id)) reviewVariables(step, source, reviewed);
  }
  reviewFits(step, reviewed);
  for (const { code, at, message } of plan.type.doubts?.(plan.attributes, { plan, workflow, known }) ?? [])
    report(code, pathIn(step, at), message);
  reviewConditions(step, reviewed);
  reviewWays(step, reviewed);
  reviewForks(step, reviewed);
  reviewCatches(step, reviewed);
  reviewLoops(step, reviewed);
  reviewTimes(step, workflow, ({ code, path, message }) => report(code, path, message));
}

/** A whole expression that is nothing but a reference fails if its schema rules the member out. Others may have tested for it. */
function reviewReferences(step: PlacedStep, { at, source, isUndo = false }: SourceAt, { types, report }: Review): void {
  for (const { outline, at: below } of parts(outlineOfSource(source), [])) {
    if (outline.kind !== "reference" || types.look(outline.path, step.plan, isUndo) !== "missing") continue;
    report(
      "member_missing",
      pathIn(step, [...at, ...below]),
      `there is no ${outline.path.join(".").slice(0, 128)}: its schema rules it out`,
    );
  }
}

function* parts(outline: Outline, at: At): Iterable<{ readonly outline: Outline; readonly at: At }> {
  yield { outline, at };
  if (outline.kind === "object") for (const [name, member] of outline.members) yield* parts(member, [...at, name]);
  if (outline.kind === "list") for (const [index, item] of outline.items.entries()) yield* parts(item, [...at, index]);
}

/** A bare expression of CEL is no document: its literals have no places in it. */
const outlineOfSource = (source: SourceAt["source"]): Outline =>
  isTemplate(source) ? outlineOf(source.source) : outlineOfExpression(source.source);

function reviewVariables(step: PlacedStep, { at, source, isUndo }: SourceAt, { flow, report }: Review): void {
  const { plan } = step;
  for (const name of source.variables) {
    // What nothing sets has a warning already. The undo's inputs are evaluated when the step has stored its output.
    if (!flow.isSetSomewhere(name) || flow.isSetBefore(plan.id, name) || (isUndo && plan.saveAs === name)) continue;
    report("variable_unset_here", pathIn(step, at), `no step before this one sets vars.${name.slice(0, 128)}`);
  }
}

/** What its kinds ask of templates, and what its type does. */
function reviewFits(step: PlacedStep, { types, known, comparisons, report }: Review): void {
  const { plan } = step;
  const { type, attributes } = plan;
  const fitting = new Fitting(types.resolveIn(plan, false), comparisons);
  /** What is no object at all misfits a schema of one, too. */
  const seen = new Set<string>();
  const byKind = Object.entries(type.attributes).flatMap(([name, { kind }]) => {
    const given: unknown = attributes[name];
    if (!kind.gives || typeof given !== "object" || given === null || !("references" in given)) return [];
    return [
      { at: [name], given: given as SourceAt["source"], schema: kind.gives, by: "the attribute", code: undefined },
    ];
  });
  for (const { at, given, schema, by, code = "template_misfit" } of [
    ...byKind,
    ...(type.fits?.(attributes, known) ?? []),
  ]) {
    const misfit = fitting.misfit(outlineOfSource(given), viewOf(schema));
    if (!misfit || seen.has(at.join("/"))) continue;
    seen.add(at.join("/"));
    const place = isTemplate(given) ? [...at, ...misfit.at] : at;
    report(code, pathIn(step, place), `cannot fit ${by}: ${misfit.message}`);
  }
}

/** What the graph as a whole shows. */
function reviewGraph({ workflow, endings, reachable, placed, report }: Review): void {
  const selves = [...workflow.steps.values()].filter(
    ({ type, when, onError, ...plan }) =>
      type.runsSaga &&
      !when &&
      onError === "fail" &&
      constants({ type, when, onError, ...plan }, "workflow").some(([, name]) => name === workflow.workflowId),
  );
  const through = new Set(selves.map(({ id }) => id));
  const [self] = selves;
  if (
    self &&
    workflow.layout.get(self.id)?.block.kind === "run" &&
    !towardsEnd(workflow, true, through).has(workflow.start)
  )
    report(
      "saga_runs_itself",
      placed.get(self.id)?.path ?? "$",
      `every run comes to the step "${self.id}", which runs the same workflow again`,
    );
  for (const id of knotsOf(workflow, endings, reachable))
    report(
      "cycle_endless",
      placed.get(id)?.path ?? "$",
      `from the step "${id}" on the steps lead back to each other, and no way leads out`,
    );
}
