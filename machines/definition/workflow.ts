// Reads a workflow document into a program, or lists every problem it has with its JSON path. The graph's rules stand here;
// a step's own stand with its type.
import { compileMachine } from "../compile.js";
import type { ActionFact } from "../facts.js";
import { isObject, type Json, type JsonObject, measure } from "../json.js";
import type { Compiled, Program } from "../program.js";
import { parseActionName } from "../steps/action.js";
import type { StepPlan } from "../steps/step.js";
import {
  flag,
  id,
  list,
  number,
  optional,
  own,
  parseAttributes,
  plainText,
  record,
  refuseUnknown,
  required,
  schema,
} from "./attribute.js";
import { Place, type Problem } from "./problem.js";
import { parseStep } from "./step.js";

export const MAX_STEPS = 1000;
export const MAX_BRANCHES = 100;

/** Steps are parsed apart, to keep their places. */
const anything = { name: "step", parse: (raw: Json) => raw };

const DOCUMENT = {
  id: required(id, "The workflow's identifier."),
  version: optional(number({ min: 1, max: 2_147_483_647, whole: true }), "Given at the latest when it is stored."),
  tenant_id: optional(plainText, "Only this tenant can start it."),
  name: required(plainText, "For people."),
  description: optional(plainText, "For people."),
  start: required(id, "The first step."),
  entrypoints: optional(record(id, id, { max: MAX_BRANCHES }), "Entry name to step id."),
  steps: required(list<Json>(anything, { min: 1, max: MAX_STEPS }), "The graph."),
  published: optional(flag, "Whether it can be started."),
  created_at: optional(plainText, "Set by the service."),
  created_by: optional(plainText, "Set by the service."),
  input_schema: optional(schema, "Checked when a run starts."),
  timeout_ms: optional(number({ min: 1, max: 10 * 366 * 86_400_000 }), "For the whole run; on expiry it rolls back."),
};

export interface CompileOptions {
  /** The registrations, for warnings; without it none are given. */
  readonly action?: (
    service: string,
    name: string,
    version?: number,
  ) => (ActionFact & { readonly deprecated?: boolean }) | undefined;
  /** Problems of a JSON Schema itself. */
  readonly schemaProblems?: (schema: JsonObject) => readonly string[];
  /** The version it is stored as, where the document has none. */
  readonly version?: number;
}

export function compileWorkflow(document: unknown, options: CompileOptions = {}): Compiled {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const place = new Place("$", problems, warnings);
  const program = readWorkflow(document, place, options);
  if (program) for (const step of program.steps.values()) warnAboutActions(step, program, place, options);
  return problems.length === 0 && program ? { program, problems, warnings } : { problems, warnings };
}

function readWorkflow(document: unknown, place: Place, options: CompileOptions): Program | undefined {
  if (!isObject(document)) return place.problem("must be an object");
  const size = measure(document);
  if (typeof size !== "number") return place.problem(`${size.path} ${size.message}`);
  refuseUnknown(document, DOCUMENT, place);
  const head = parseAttributes(DOCUMENT, (name) => ({ raw: own(document, name), place: place.at(name) }));
  const steps = readSteps(own(document, "steps"), place.at("steps"));
  if (!head || !steps) return undefined;
  for (const problem of (head.input_schema && options.schemaProblems?.(head.input_schema)) || [])
    place.at("input_schema").problem(problem);
  const plans = new Map(steps.map(({ plan }) => [plan.id, plan]));
  const entrypoints = { ...head.entrypoints, default: head.start };
  checkGraph(steps, plans, head.start, head.entrypoints ?? {}, place);
  const program = {
    workflowId: head.id,
    version: options.version ?? (typeof head.version === "number" ? head.version : 1),
    tenantId: head.tenant_id,
    name: head.name,
    document,
    inputSchema: head.input_schema,
    timeoutMs: typeof head.timeout_ms === "number" ? head.timeout_ms : undefined,
    steps: plans,
    start: head.start,
    entrypoints,
  };
  return { ...program, ...compileMachine(program) };
}

interface PlacedStep {
  readonly plan: StepPlan;
  readonly place: Place;
}

/** All steps, or undefined if any is at fault: the graph is then not judged. */
function readSteps(raw: Json | undefined, place: Place): readonly PlacedStep[] | undefined {
  if (!Array.isArray(raw) || raw.length > MAX_STEPS) return undefined;
  const seen = new Set<string>();
  let sound = true;
  const steps: PlacedStep[] = [];
  raw.forEach((entry: Json, index) => {
    const at = place.at(index);
    const plan = isObject(entry) ? parseStep(entry, at) : at.problem("must be an object");
    if (!plan) sound = false;
    else if (seen.has(plan.id)) sound = Boolean(at.at("id").problem(`there is another step "${plan.id}"`));
    else {
      seen.add(plan.id);
      steps.push({ plan, place: at });
    }
  });
  return sound ? steps : undefined;
}

function checkGraph(
  steps: readonly PlacedStep[],
  plans: ReadonlyMap<string, StepPlan>,
  start: string,
  entrypoints: Readonly<Record<string, string>>,
  place: Place,
): void {
  const exists = (target: string, at: Place) => plans.has(target) || at.problem(`there is no step "${target}"`);
  exists(start, place.at("start"));
  for (const [name, target] of Object.entries(entrypoints)) {
    if (name === "default" && target !== start) place.at("entrypoints").at(name).problem("default always is start");
    exists(target, place.at("entrypoints").at(name));
  }
  for (const { plan, place: at } of steps) {
    if (plan.next !== undefined) exists(plan.next, at.at("next"));
    if (isStep(plan.onError)) exists(plan.onError, at.at("on_error"));
    for (const edge of plan.edges)
      exists(
        edge.target,
        edge.at.reduce((where, key) => where.at(key), at),
      );
  }
  const reached = reachable(plans, [start, ...Object.values(entrypoints)]);
  for (const { plan, place: at } of steps)
    if (!reached.has(plan.id)) at.warn(`the step "${plan.id}" cannot be reached`);
}

/** Whether an `on_error` names a step. */
export function isStep(target: string): boolean {
  return target !== "fail" && target !== "continue";
}

function reachable(plans: ReadonlyMap<string, StepPlan>, from: readonly string[]): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = [...from];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const plan = plans.get(id);
    if (!plan || reached.has(id)) continue;
    reached.add(id);
    open.push(...plan.edges.map(({ target }) => target), ...[plan.next ?? [], plan.onError].flat());
  }
  return reached;
}

function warnAboutActions(plan: StepPlan, program: Program, place: Place, { action }: CompileOptions): void {
  if (!action) return;
  const index = [...program.steps.keys()].indexOf(plan.id);
  const at = place.at("steps").at(index);
  const forward = plan.type.name === "action" ? constantAction(plan.attributes.action) : undefined;
  const found = forward === undefined ? undefined : warnAboutAction(forward, action, at.at("action"));
  if (found?.compensable && !plan.compensation)
    at.warn(`the action ${forward} is compensable, but the step has no compensation`);
  if (found && !found.compensable && plan.compensation)
    at.warn(`the action ${forward} is registered as not compensable`);
  const undo = plan.compensation && constantAction(plan.compensation.action);
  if (undo) warnAboutAction(undo, action, at.at("compensation").at("action"));
}

function warnAboutAction(
  name: string,
  action: NonNullable<CompileOptions["action"]>,
  at: Place,
): ReturnType<typeof action> {
  const parsed = parseActionName(name);
  const found = parsed && action(parsed.service, parsed.name, parsed.version);
  if (!found) at.warn(`the action ${name} is not registered`);
  else if (found.deprecated) at.warn(`the action ${name} is deprecated`);
  return found;
}

function constantAction(template: StepPlan["attributes"][string]): string | undefined {
  return template?.constant ? String(template.render({})) : undefined;
}
