// The rules of a review that hold for steps of all types: what stays after a rollback, and what can never happen. Rules of one type stand with the type,
// in machines/steps.
import { constantTruth, type Outline, outlineOf } from "../expression/index.js";
import { parseActionName } from "../steps/action.js";
import { effectsThatStay } from "../steps/effects.js";
import { constants, constantText } from "../steps/named.js";
import type { StepPlan } from "../steps/step.js";
import type { JsonObject } from "../values/json.js";
import { Fitting } from "./fit.js";
import { setBy } from "./flow.js";
import type { Review } from "./review.js";
import { viewOf } from "./schema-view.js";
import { type PlacedStep, pathIn } from "./sources.js";

/** The undo of a step: whether there is one, and whether it can be carried out. */
export function reviewUndo(step: PlacedStep, review: Review): void {
  const { plan } = step;
  const { known, report } = review;
  const { compensation, type, onUndoFailure, onFailure, onError } = plan;
  if (onFailure !== undefined && onError !== "fail")
    report(
      "failure_policy_unused",
      pathIn(step, ["on_failure"]),
      "has no effect: the step's own on_error takes every error",
    );
  if (!compensation) {
    if (onUndoFailure !== undefined && !type.runsSaga && !type.block)
      report("undo_policy_unused", pathIn(step, ["on_undo_failure"]), "has no effect: the step has no compensation");
    reviewChild(step, review);
    return;
  }
  if (type.alwaysFails)
    report("undo_never", pathIn(step, ["compensation"]), `is never used: a step of type ${type.name} never succeeds`);
  const name = constantText(compensation.action);
  const parsed = name === undefined ? undefined : parseActionName(name);
  if (name === undefined || !parsed) return;
  const own = constants(plan, "action").map(([, action]) => parseActionName(action));
  if (own.some((action) => action?.service === parsed.service && action.name === parsed.name))
    report("undo_of_itself", pathIn(step, ["compensation", "action"]), `the step is undone by its own action ${name}`);
  const found = known.action?.(parsed.service, parsed.name, parsed.version);
  if (found?.compensable)
    report(
      "undo_compensable",
      pathIn(step, ["compensation", "action"]),
      `the action ${name} is registered as compensable, and no undo is undone`,
    );
  if (found?.inputSchema) reviewUndoInputs(step, name, found.inputSchema, review);
}

function reviewUndoInputs(
  step: PlacedStep,
  name: string,
  schema: JsonObject,
  { types, comparisons, report }: Review,
): void {
  const { plan } = step;
  const inputs = plan.compensation?.inputs;
  // Without inputs the undo gets those of the step, and its output.
  const members = new Map<string, Outline>([
    ["inputs", { kind: "unknown" }],
    ["output", { kind: "unknown" }],
  ]);
  const given: Outline = inputs ? outlineOf(inputs.source) : { kind: "object", members };
  const misfit = new Fitting(types.resolveIn(plan, true), comparisons).misfit(given, viewOf(schema));
  if (!misfit) return;
  const at = inputs ? ["compensation", "inputs", ...misfit.at] : ["compensation"];
  const what = inputs ? "" : 'the undo gets {"inputs", "output"} of the step, because it names no inputs of its own: ';
  report(
    "undo_inputs",
    pathIn(step, at),
    `${what}cannot fit the input schema of the action ${name}: ${misfit.message}`,
  );
}

/** A step that runs a workflow whose own effects would stay. */
function reviewChild(step: PlacedStep, { workflow, known, report }: Review): void {
  const { plan } = step;
  if (!plan.type.runsSaga) return;
  for (const [attribute, name] of constants(plan, "workflow")) {
    const version: unknown = plan.attributes.version;
    if (version !== undefined && typeof version !== "number") continue;
    const child = known.workflow?.(name, version);
    const stay = child && child.workflowId !== workflow.workflowId ? effectsThatStay(child, known) : [];
    if (stay.length > 0)
      report(
        "child_effect_without_undo",
        pathIn(step, [attribute]),
        `the effect of ${stay.slice(0, 3).join(", ")} would stay after a rollback: it has no compensation, and this step has none either`,
      );
  }
}

/** Conditions that say the same whatever the run. */
export function reviewConditions(step: PlacedStep, { report }: Review): void {
  const { when } = step.plan;
  const truth = when && constantTruth(when);
  if (truth !== undefined)
    report(
      "condition_constant",
      pathIn(step, ["when"]),
      truth ? "is always true" : "is always false: the step is always skipped",
    );
}

/** Ways that the type itself says no run takes. */
export function reviewWays(step: PlacedStep, { report }: Review): void {
  const { plan } = step;
  const { type, attributes, edges, next, when, onError } = plan;
  for (const edge of edges)
    if (edge.when === null)
      report("way_never", pathIn(step, edge.at), "no run goes this way: the step has no time limit");
  // A step that is skipped, or goes on after an error, takes its next.
  const isTaken = when !== undefined || onError === "continue" || type.nextWhen?.(attributes) !== null;
  if (next !== undefined && type.nextWhen && !isTaken)
    report("way_never", pathIn(step, ["next"]), "no run goes this way when the step is done");
}

/** A join that waits for more branches than can succeed. */
export function reviewForks(step: PlacedStep, { workflow, endings, placed, report }: Review): void {
  const { plan } = step;
  const join = plan.type.forks && plan.next !== undefined ? workflow.steps.get(plan.next) : undefined;
  const names = plan.blocks.flatMap(({ name }) => name ?? []);
  const wanted = join?.type.wants?.(join.attributes, names);
  if (!join || !wanted) return;
  const starts = new Map(plan.blocks.map(({ name, start }) => [name, start]));
  const able = wanted.of.filter((name) => endings.succeeding.has(starts.get(name) ?? ""));
  if (wanted.many <= able.length) return;
  const failing = wanted.of.filter((name) => !able.includes(name));
  const why =
    failing.length > 0
      ? `: ${failing
          .slice(0, 5)
          .map((name) => JSON.stringify(name))
          .join(", ")} cannot succeed`
      : "";
  report(
    "join_never",
    pathIn(placed.get(join.id) ?? step, [wanted.at]),
    `waits for ${wanted.many} of the branches that decide, and ${able.length} can succeed${why}`,
  );
}

/** The codes that any step can fail with. */
const COMMON_CODES: readonly string[] = ["expression_error", "limit_exceeded", "cancelled"];

/** A catch whose try lets no error out that it takes. */
export function reviewCatches(step: PlacedStep, { workflow, inside, report }: Review): void {
  const { plan } = step;
  const caught = plan.type.catches?.(plan.attributes);
  if (!caught || Object.keys(plan.type.times?.(plan.attributes) ?? {}).length > 0) return;
  const tried = (inside.get(plan.id) ?? []).filter(({ id }) => workflow.layout.get(id)?.block.container === plan.id);
  const failing = tried.filter(({ onError, type }) => onError === "fail" && type.errors !== undefined);
  if (tried.length > 0 && tried.every(({ onError }) => onError !== "fail")) {
    report("catch_never", pathIn(step, ["catch"]), "never runs: every step of the try takes its own errors");
    return;
  }
  if (caught.errors.includes("*") || tried.length === 0) return;
  const codes: string[] = [...COMMON_CODES];
  for (const { type, attributes, blocks } of failing) {
    const own = blocks.length > 0 ? undefined : type.codes?.(attributes);
    // Its codes are its worker's, or its children's.
    if (!own) return;
    codes.push(...own);
  }
  const takes = (pattern: string) =>
    codes.some((code) => (pattern.endsWith("*") ? code.startsWith(pattern.slice(0, -1)) : code === pattern));
  if (!caught.errors.some(takes))
    report(
      "catch_never",
      pathIn(step, ["errors"]),
      `takes none of the errors of the try, which are ${[...new Set(codes)].slice(0, 12).join(", ")}`,
    );
}

/** A loop whose condition nothing in its body changes. */
export function reviewLoops(step: PlacedStep, { inside, report }: Review): void {
  const { plan } = step;
  if (!plan.blocks.some(({ kind }) => kind === "while")) return;
  const condition = plan.attributes.condition;
  if (!condition?.references || constantTruth(condition) === false) return;
  const changing = [...(condition.references as ReadonlySet<string>)].filter((name) => !FIXED_NAMES.has(name));
  const reads: ReadonlySet<string> | undefined = condition.reads;
  if (changing.some((name) => name !== "vars") || !reads) return;
  const body = inside.get(plan.id) ?? [];
  if (body.some(leavesLoop) || body.some((one) => setBy(one).some((name) => reads.has(name)))) return;
  report(
    "loop_endless",
    pathIn(step, ["condition"]),
    "nothing in the body changes the condition: once it holds, only an error or max_iterations ends the loop",
  );
}

/** Names of the scope that do not change while a loop goes on. */
const FIXED_NAMES: ReadonlySet<string> = new Set(["inputs", "run", "features", "error"]);

/** Whether it ends the run, fails on purpose, or may change anything at all. */
const leavesLoop = ({ type, attributes, next }: StepPlan): boolean =>
  type.ends === true || type.alwaysFails === true || (type.nextWhen?.(attributes) === null && next === undefined);
