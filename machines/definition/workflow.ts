// Reads a workflow document into a program, or lists its problems, each with its JSON path. This file has the rules of the graph;
// a step type has its own rules.

import { list, own, parseAttributes, record, refuseUnknown } from "../attribute/composite.js";
import { flag, id, optional, plainNumber, plainText, required, schema, tenant } from "../attribute/kinds.js";
import { namesOf } from "../attribute/names.js";
import { Place, type Problem } from "../attribute/problem.js";
import { compileMachine } from "../chart/compile.js";
import type { Program } from "../chart/program.js";
import type { ActionFact } from "../messages/fact.js";
import { parseActionName } from "../steps/action.js";
import { isStep } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import { isObject, type Json, type JsonObject, measure } from "../values/json.js";
import { type DefinitionLimits, MAX_BRANCHES, MAX_STEPS, STANDARD_DEFINITION_LIMITS } from "../values/limits.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { layOut, type PlacedStep } from "./layout.js";
import { parseStep } from "./step.js";

/** Steps are parsed separately, with their places. */
const anyStep = { name: "step", parse: (raw: Json) => raw };

const DOCUMENT = {
  id: required(id, "The workflow's identifier."),
  version: optional(plainNumber({ min: 1, max: 2_147_483_647, whole: true }), "Given at the latest when it is stored."),
  tenant_id: optional(tenant, "Only this tenant can start it."),
  name: required(plainText, "Display name."),
  description: optional(plainText, "The state chart shows it."),
  start: required(id, "The first step."),
  entrypoints: optional(record(id, id, { max: MAX_BRANCHES }), "Entry name to step id."),
  steps: required(list<Json>(anyStep, { min: 1, max: MAX_STEPS }), "The graph."),
  published: optional(flag, "Whether it can be started."),
  created_at: optional(plainText, "Set by the service."),
  created_by: optional(plainText, "Set by the service."),
  input_schema: optional(schema, "Checked when a run starts."),
  timeout_ms: optional(plainNumber({ min: 1, max: LONGEST_WAIT_MS }), "For the whole run; on expiry it rolls back."),
};

export interface CompileOptions {
  /** The registrations. Absent: no warnings about actions. */
  readonly action?: (
    service: string,
    name: string,
    version?: number,
  ) => (ActionFact & { readonly deprecated?: boolean }) | undefined;
  /** The published rules. Absent: no warnings about rules. */
  readonly rule?: (ruleId: string) => object | undefined;
  /** The problems of a JSON Schema itself. */
  readonly schemaProblems?: (schema: JsonObject) => readonly string[];
  /** The version under which it is stored. */
  readonly version?: number;
  /** Null: no limits, for a stored definition. Lowering a limit must not break its runs. */
  readonly limits?: DefinitionLimits | null;
}

export function compileWorkflow(document: unknown, options: CompileOptions = {}): Compiled {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const place = new Place("$", problems, warnings, namesOf(document));
  const program = readWorkflow(document, place, options);
  if (program) warnAboutRegistered(program, place, options);
  return problems.length === 0 && program ? { program, problems, warnings } : { problems, warnings };
}

function readWorkflow(document: unknown, place: Place, options: CompileOptions): Program | undefined {
  if (!isObject(document)) return place.problem("must be an object");
  const size = measure(document);
  if (typeof size !== "number") return place.below(size.path).problem(size.message);
  refuseUnknown(document, DOCUMENT, place);
  const head = parseAttributes(DOCUMENT, (name) => ({ raw: own(document, name), place: place.at(name) }));
  const { steps, ids, valid } = readSteps(own(document, "steps"), place.at("steps"), options);
  checkTargets(steps, ids);
  const limits = options.limits ?? STANDARD_DEFINITION_LIMITS;
  if (options.limits !== null) checkLimits(steps, ids.size, limits, place);
  checkEntries(document, ids, place);
  const inputSchema = own(document, "input_schema");
  for (const problem of (isObject(inputSchema) && options.schemaProblems?.(inputSchema)) || [])
    place.at("input_schema").problem(problem);
  if (!head || !valid || (options.limits !== null && ids.size > limits.steps)) return undefined;
  const plans = new Map(steps.map(({ plan }) => [plan.id, plan]));
  const entrypoints = { ...head.entrypoints, default: head.start };
  warnAboutUnreachable(steps, plans, Object.values(entrypoints));
  const layout = layOut(steps, [
    { target: head.start, at: place.at("start") },
    ...Object.entries(head.entrypoints ?? {}).map(([name, target]) => ({
      target,
      at: place.at("entrypoints").at(name),
    })),
  ]);
  // A chart has no edge to a missing step: only a definition without problems is compiled.
  if (place.problemCount > 0) return undefined;
  const program = {
    workflowId: head.id,
    version: options.version ?? head.version ?? 1,
    tenantId: head.tenant_id,
    name: head.name,
    description: head.description,
    document,
    inputSchema: head.input_schema,
    timeoutMs: head.timeout_ms,
    steps: plans,
    layout,
    start: head.start,
    entrypoints,
  };
  return { ...program, ...compileMachine(program) };
}

function checkLimits(steps: readonly PlacedStep[], count: number, limits: DefinitionLimits, place: Place): void {
  if (count > limits.steps) place.at("steps").problem(`must have at most ${limits.steps} items`);
  for (const { plan, place: at } of steps) {
    if (plan.edges.length + plan.blocks.length > limits.branches)
      at.problem(`must have at most ${limits.branches} branches`);
    plan.type.checkLimits?.(plan.attributes, at);
  }
}

interface ReadSteps {
  /** Steps without problems of their own. */
  readonly steps: readonly PlacedStep[];
  /** The ids of all steps, including those with problems: an edge to one of them is no further problem. */
  readonly ids: ReadonlySet<string>;
  readonly valid: boolean;
}

function readSteps(raw: Json | undefined, place: Place, { schemaProblems }: CompileOptions): ReadSteps {
  const ids = new Set<string>();
  const steps: PlacedStep[] = [];
  if (!Array.isArray(raw) || raw.length > MAX_STEPS) return { steps, ids, valid: false };
  let valid = true;
  raw.forEach((entry: Json, index) => {
    const at = place.at(index);
    const plan = isObject(entry) ? parseStep(entry, at, schemaProblems) : at.problem("must be an object");
    const name = isObject(entry) ? own(entry, "id") : undefined;
    if (typeof name === "string" && ids.has(name))
      valid = Boolean(at.at("id").problem(`there is another step "${name.slice(0, 128)}"`));
    else if (typeof name === "string") ids.add(name);
    if (plan) steps.push({ plan, place: at });
    else valid = false;
  });
  return { steps, ids, valid };
}

function checkTarget(target: Json | undefined, ids: ReadonlySet<string>, at: Place): void {
  if (typeof target === "string" && !ids.has(target)) at.problem(`there is no step "${target.slice(0, 128)}"`);
}

function checkTargets(steps: readonly PlacedStep[], ids: ReadonlySet<string>): void {
  for (const { plan, place: at } of steps) {
    checkTarget(plan.next, ids, at.at("next"));
    if (isStep(plan.onError)) checkTarget(plan.onError, ids, at.at("on_error"));
    const below = (path: readonly (string | number)[]) => path.reduce((where, key) => where.at(key), at);
    for (const edge of plan.edges) checkTarget(edge.target, ids, below(edge.at));
    for (const block of plan.blocks) checkTarget(block.start, ids, below(block.at));
  }
}

/** Reads the document itself, so that a problem elsewhere in its head does not hide these. */
function checkEntries(document: JsonObject, ids: ReadonlySet<string>, place: Place): void {
  // A document without steps has one problem, not one for each entrypoint.
  if (ids.size === 0) return;
  const start = own(document, "start");
  checkTarget(start, ids, place.at("start"));
  const entrypoints = own(document, "entrypoints");
  if (!isObject(entrypoints)) return;
  for (const [name, target] of Object.entries(entrypoints)) {
    const at = place.at("entrypoints").at(name);
    if (name === "default" && target !== start) at.problem("default is always start");
    checkTarget(target, ids, at);
  }
}

function warnAboutUnreachable(
  steps: readonly PlacedStep[],
  plans: ReadonlyMap<string, StepPlan>,
  from: readonly string[],
): void {
  const reached = reachable(plans, from);
  for (const { plan, place: at } of steps)
    if (!reached.has(plan.id)) at.warn(`the step "${plan.id}" cannot be reached`);
}

function reachable(plans: ReadonlyMap<string, StepPlan>, from: readonly string[]): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = [...from];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const plan = plans.get(id);
    if (!plan || reached.has(id)) continue;
    reached.add(id);
    open.push(...plan.edges.map(({ target }) => target), ...plan.blocks.map(({ start }) => start));
    open.push(...[plan.next ?? [], plan.onError].flat());
  }
  return reached;
}

function warnAboutRegistered(program: Program, place: Place, options: CompileOptions): void {
  for (const step of program.steps.values()) {
    warnAboutActions(step, program, place, options);
    warnAboutRule(step, program, place, options);
  }
}

function warnAboutActions(plan: StepPlan, program: Program, place: Place, { action }: CompileOptions): void {
  if (!action) return;
  const index = [...program.steps.keys()].indexOf(plan.id);
  const at = place.at("steps").at(index);
  const forward = plan.type.name === "action" ? constantText(plan.attributes.action) : undefined;
  const found = forward === undefined ? undefined : warnAboutAction(forward, action, at.at("action"));
  if (found?.compensable && !plan.compensation)
    at.warn(`the action ${forward} is compensable, but the step has no compensation`);
  if (found && !found.compensable && plan.compensation)
    at.warn(`the action ${forward} is registered as not compensable`);
  const undo = plan.compensation && constantText(plan.compensation.action);
  if (undo) warnAboutAction(undo, action, at.at("compensation").at("action"));
}

function warnAboutRule({ id, attributes }: StepPlan, program: Program, place: Place, { rule }: CompileOptions): void {
  const ruleId = rule && attributes.rule_id ? constantText(attributes.rule_id) : undefined;
  if (ruleId === undefined || rule?.(ruleId)) return;
  const at = place
    .at("steps")
    .at([...program.steps.keys()].indexOf(id))
    .at("rule_id");
  at.warn(`the rule ${ruleId.slice(0, 128)} is not published`);
}

function warnAboutAction(
  name: string,
  action: NonNullable<CompileOptions["action"]>,
  at: Place,
): ReturnType<typeof action> {
  const parsed = parseActionName(name);
  const found = parsed && action(parsed.service, parsed.name, parsed.version);
  if (!found)
    at.warn(
      `the action ${name} is not registered${parsed && parsed.version === undefined ? ", or deprecated in every version" : ""}`,
    );
  else if (found.deprecated) at.warn(`the action ${name} is deprecated`);
  return found;
}

function constantText(template: StepPlan["attributes"][string]): string | undefined {
  return template?.constant ? String(template.render({})) : undefined;
}

export interface Compiled {
  /** Absent if there is any problem. */
  readonly program?: Program;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}
