// Reads a workflow document into a program, or lists its problems, each with its JSON path. The rules of the graph are in graph.ts
// and layout.ts; a step type has its own rules.

import { Budget, edgesWeight } from "../attribute/budget.js";
import { beginSalvage, list, own, parseAttributes, record, refuseUnknown } from "../attribute/composite.js";
import { Findings, type Problem } from "../attribute/findings.js";
import { flag, id, oneOf, optional, plainNumber, plainText, required, schema, tenant } from "../attribute/kinds.js";
import { Place } from "../attribute/problem.js";
import { compileMachine } from "../chart/compile.js";
import type { Program } from "../chart/program.js";
import { runConcurrency } from "../steps/concurrency.js";
import { STEP_TYPES, type StepTypes } from "../steps/index.js";
import type { Layout } from "../steps/plan.js";
import { runRate } from "../steps/rate.js";
import { isObject, type Json, type JsonObject, measure } from "../values/json.js";
import {
  type DefinitionLimits,
  MAX_BRANCHES,
  MAX_STEPS,
  MAX_VERSION,
  STANDARD_DEFINITION_LIMITS,
} from "../values/limits.js";
import * as misfit from "../values/misfit.js";
import { inOnePiece, inSlices, type Slices } from "../values/slices.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { checkTargets, mentions, readEntries, unnamed, warnAboutUnreachable } from "./graph.js";
import { layOut } from "./layout.js";
import { checkMigrations, migrations } from "./migrations.js";
import { scopeNames, variablesOf } from "./names.js";
import { type Registered, warnAboutRegistered } from "./registered.js";
import { retention } from "./retention.js";
import { refuseSecretKey, warnOfUnused } from "./secrets.js";
import { type ReadStep, readStep, type SchemaProblems, type StepOptions } from "./step.js";

/** Steps are parsed separately, with their places. */
const anyStep = { name: "step", parse: (raw: Json) => raw };

export const DOCUMENT = {
  $schema: optional(plainText, "For editors; the service does not read it."),
  id: required(id, "The workflow's identifier."),
  version: optional(plainNumber({ min: 1, max: MAX_VERSION, whole: true }), "Given at the latest when it is stored."),
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
  on_failure: optional(
    oneOf("rollback", "incident"),
    "Whether an error that nothing takes ends a run or waits for a person.",
  ),
  on_undo_failure: optional(
    oneOf("continue", "incident"),
    "Whether a rollback passes a failed undo or waits for a person.",
  ),
  migrations: optional(migrations, "By an earlier version: its steps that have another id in this one."),
  concurrency: optional(runConcurrency, "How many runs go on at once for a key."),
  history: optional(
    oneOf("full"),
    "Keeps the variables of each step at the top level, so that runs can be forked from any of them.",
  ),
  rate_limit: optional(runRate, "How many runs begin in a time for a key."),
  retention: optional(retention, "For how long ended runs are kept."),
};

export interface CompileOptions extends Registered {
  /** The problems of a JSON Schema itself. */
  readonly schemaProblems?: SchemaProblems;
  /** The step types that it may use. Absent: those of this release. */
  readonly stepTypes?: StepTypes;
  /** The version under which it is stored. */
  readonly version?: number;
  /** Null: no limits, for a stored definition. Lowering a limit must not break its runs. */
  readonly limits?: DefinitionLimits | null;
}

export function compileWorkflow(document: unknown, options: CompileOptions = {}): Compiled {
  return inOnePiece(compileWorkflowSlices(document, options));
}

/** A slice is at most one expression, one JSON Schema, one step without them, one walk over the graph, or the library's machine. */
export function* compileWorkflowSlices(document: unknown, options: CompileOptions = {}): Slices<Compiled> {
  const problems = new Findings("problems");
  const warnings = new Findings("warnings");
  const types = options.stepTypes ?? STEP_TYPES;
  const names = { scope: scopeNames(document, types), variables: variablesOf(document, types) };
  yield;
  beginSalvage();
  const budget = options.limits === null ? undefined : new Budget();
  const place = Place.of("$", { problems, warnings, names, budget });
  const schemaProblems: CompileOptions["schemaProblems"] = (schema) =>
    budget?.isOver ? [] : (options.schemaProblems?.(schema) ?? []);
  const program = yield* readWorkflow(document, place, { ...options, types, schemaProblems });
  const found = { problems: problems.all(), warnings: warnings.all() };
  return program ? { program, ...found } : found;
}

/** Lists every problem: a faulty part is no reason not to check the others. Only a definition without problems is compiled. */
function* readWorkflow(
  document: unknown,
  place: Place,
  options: CompileOptions & StepOptions,
): Slices<Program | undefined> {
  if (!isObject(document)) return place.problem(misfit.wrongType("object"));
  const size = measure(document);
  if (typeof size !== "number") return place.below(size.path).problem(size.message);
  yield;
  refuseUnknown(document, DOCUMENT, place);
  yield;
  const head = parseAttributes(DOCUMENT, (name) => ({ raw: own(document, name), place: place.at(name) }));
  yield* place.checks();
  if (head?.concurrency) refuseSecretKey(head.concurrency.key, head.input_schema, place.at("concurrency").at("key"));
  const read = yield* readSteps(own(document, "steps"), place.at("steps"), options);
  // A document over its budget is not read further, nor is its graph.
  if (!place.weigh(0)) return undefined;
  const layout = yield* readGraph(document, read, place, options);
  warnAboutRegistered(read.steps, options);
  // A chart has no edge to a missing step.
  if (!head || !layout || place.problemCount > 0) return undefined;
  const program = {
    workflowId: head.id,
    version: options.version ?? head.version ?? 1,
    tenantId: head.tenant_id,
    name: head.name,
    description: head.description,
    document,
    inputSchema: head.input_schema,
    timeoutMs: head.timeout_ms,
    onFailure: head.on_failure,
    onUndoFailure: head.on_undo_failure,
    migrations: head.migrations,
    concurrency: head.concurrency,
    history: head.history,
    rateLimit: head.rate_limit,
    steps: new Map(read.steps.map(({ plan }) => [plan.id, plan])),
    layout,
    start: head.start,
    entrypoints: { ...head.entrypoints, default: head.start },
  };
  return { ...program, ...(yield* compileMachine(program)) };
}

/** Checks targets, limits, entries, the input schema, and blocks. Undefined: there are too many steps to lay out. */
function* readGraph(
  document: JsonObject,
  { steps, raw, ids }: ReadSteps,
  place: Place,
  options: CompileOptions,
): Slices<Layout | undefined> {
  checkTargets(steps, ids);
  yield;
  const limits = options.limits === undefined ? STANDARD_DEFINITION_LIMITS : options.limits;
  if (limits) checkLimits(steps, ids.size, limits, place);
  const entries = readEntries(document, ids, place);
  yield;
  checkMigrations(own(document, "migrations"), ids, place.at("migrations"));
  yield;
  const inputSchema = own(document, "input_schema");
  const schemaFaults = (isObject(inputSchema) && options.schemaProblems?.(inputSchema)) || [];
  for (const problem of yield* inSlices(schemaFaults)) place.at("input_schema").problem(problem);
  if (isObject(inputSchema)) warnOfUnused(inputSchema, place.at("input_schema"));
  yield;
  if (limits && ids.size > limits.steps) return undefined;
  const placed = firstOfEach(steps);
  const started = ids.has(String(own(document, "start")));
  if (started) warnAboutUnreachable(placed, entries, (step) => mentions(raw.get(step), ids));
  yield;
  const layout = yield* layOut(placed, started ? entries : unnamed(placed, ids, [...raw.values()]));
  return place.weigh(chainsWeight(layout)) ? layout : undefined;
}

/** A step of a catch chain has an edge back to its try, and one for its errors; a step may be in the chains of many tries. */
function chainsWeight(layout: Layout): number {
  let memberships = 0;
  for (const { chains } of layout.values()) memberships += chains.size;
  return edgesWeight(2 * memberships);
}

/** The steps with an id of their own. */
function firstOfEach(steps: readonly ReadStep[]): readonly ReadStep[] {
  const byId = new Map<string, ReadStep>();
  for (const step of steps) if (step.plan.id !== "" && !byId.has(step.plan.id)) byId.set(step.plan.id, step);
  return [...byId.values()];
}

function checkLimits(steps: readonly ReadStep[], count: number, limits: DefinitionLimits, place: Place): void {
  if (count > limits.steps) place.at("steps").problem(misfit.tooManyItems(limits.steps));
  for (const { plan, place: at } of steps) {
    if (plan.edges.length + plan.blocks.length > limits.branches)
      at.problem(`must have at most ${limits.branches} branches`);
  }
}

interface ReadSteps {
  readonly steps: readonly ReadStep[];
  /** The steps as they were posted. */
  readonly raw: ReadonlyMap<ReadStep, JsonObject>;
  /** The ids of all steps, including those with problems: an edge to one of them is no further problem. */
  readonly ids: ReadonlySet<string>;
}

function* readSteps(list: Json | undefined, place: Place, options: StepOptions): Slices<ReadSteps> {
  const ids = new Set<string>();
  const raw = new Map<ReadStep, JsonObject>();
  if (!Array.isArray(list) || list.length > MAX_STEPS) return { steps: [], raw, ids };
  for (const [index, entry] of (list as readonly Json[]).entries()) {
    const at = place.at(index);
    yield;
    const read = isObject(entry) ? yield* readStep(entry, at, options) : at.problem(misfit.wrongType("object"));
    if (read) raw.set(read, entry as JsonObject);
    if (!at.weigh(edgesWeight(read ? read.plan.edges.length + read.plan.blocks.length : 0))) break;
    const name = isObject(entry) ? own(entry, "id") : undefined;
    if (typeof name !== "string") continue;
    if (ids.has(name)) at.at("id").problem(`there is another step "${name.slice(0, 128)}"`);
    ids.add(name);
  }
  return { steps: [...raw.keys()], raw, ids };
}

export interface Compiled {
  /** Absent if there is any problem. */
  readonly program?: Program;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}
