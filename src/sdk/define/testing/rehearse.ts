// Rehearses a workflow document for a unit test: compiles it as the service would, and runs it on the machine alone. It
// sends nothing.
import {
  type ActionFact,
  type Compiled,
  compileRule,
  compileWorkflow,
  detailOf,
  type Json,
  type Program,
  type parseActionName,
  Rehearsal,
  type Rule,
  readMocks,
  revealed,
  type WantedWorkflow,
} from "../../../../machines/index.js";
import type { Mocks } from "../../../../machines/rehearsal/mock.js";
import type { Rehearsed } from "../../../../machines/rehearsal/rehearsed.js";
import type { JsonObject } from "../../../../machines/values/json.js";
import type { RetryPolicy } from "../../../../machines/values/retry.js";
import { documentOf, schemas } from "./document.js";

/** An action as its service registers it, with the same defaults. */
export interface RegisteredAction {
  /** Counts from 1, the default. */
  readonly version?: number;
  readonly compensable?: boolean;
  readonly dry_run_supported?: boolean;
  readonly input_schema?: JsonObject;
  readonly output_schema?: JsonObject;
  readonly default_retry?: Partial<RetryPolicy>;
  /** Milliseconds. */
  readonly default_timeout_ms?: number;
}

export interface RehearseOptions {
  /** Default: {}. */
  readonly inputs?: JsonObject;
  /** Default: the workflow's `start`. */
  readonly entrypoint?: string;
  /** Mocks by step id; `<step>~undo` mocks the step's compensation. The nth attempt of a step takes its nth mock. */
  readonly mocks?: Mocks;
  /** Actions by "service.name". An action that is missing here counts as registered, without schemas. */
  readonly actions?: Readonly<Record<string, RegisteredAction | readonly RegisteredAction[]>>;
  /** Documents or sagas for `sub_saga` and `spawn_saga`. The last document of an id is its latest version. */
  readonly workflows?: readonly object[];
  /** Documents of the rules that decisions evaluate. */
  readonly rules?: readonly object[];
  readonly dryRun?: boolean;
  /** Feature overrides, in expressions under `features`. */
  readonly features?: Readonly<Record<string, boolean>>;
  /** Start of the virtual clock. Default: 2026-01-01T00:00:00Z. */
  readonly startAt?: Date;
}

/** A document, the inputs or the mocks are invalid. The message names every problem with its path. */
export class RehearsalError extends Error {
  override readonly name = "RehearsalError";
}

const START = Date.UTC(2026, 0, 1);

/**
 * Runs the workflow, a document or a saga, to its end, synchronously. If it does not end (a wait without an answer, an endless loop), `left`
 * says why. Throws RehearsalError.
 */
export function rehearse(document: object, options: RehearseOptions = {}): Rehearsed {
  const program = validProgram("the workflow", compile(document));
  const { mocks = {}, inputs = {}, entrypoint = "", workflows = [], rules = [] } = options;
  const { inputSchema } = program;
  refuse("the mocks", readMocks(mocks, program).problems);
  refuse("the inputs", inputSchema ? problemsOf(inputSchema, inputs) : []);
  if (entrypoint !== "" && !Object.hasOwn(program.entrypoints, entrypoint))
    throw new RehearsalError(`the workflow has no entrypoint ${entrypoint}`);
  const others = workflows.map((other) => validProgram("a workflow", compile(other)));
  const known = rules.map(ruleOf);
  const rehearsal = new Rehearsal(program, {
    ...{ inputs, mocks, entrypoint, dryRun: options.dryRun, features: options.features },
    startAt: options.startAt?.getTime() ?? START,
    action: (service, name, version) => registered(options, { service, name, version }),
    rule: (ruleId) => known.findLast((rule) => rule.ruleId === ruleId),
    conforms: (schema, value, options) => schemas.conforms(schema, value, options),
  });
  for (let move = rehearsal.move(); move !== "over"; move = rehearsal.move())
    if (move !== "moved") rehearsal.provide(move.missing, find(others, move.missing));
  // Only the test sees the values, and compares them.
  return revealed(rehearsal.result as unknown as Json) as unknown as Rehearsed;
}

function compile(document: object): Compiled {
  return compileWorkflow(documentOf(document), { schemaProblems: (schema) => schemas.problems(schema) });
}

function validProgram(subject: string, { program, problems }: Compiled): Program {
  refuse(subject, problems);
  if (!program) throw new RehearsalError(`${subject} does not compile`);
  return program;
}

function ruleOf(document: object): Rule {
  const { rule, problems } = compileRule(document);
  refuse("a rule", problems);
  if (!rule) throw new RehearsalError("a rule does not compile");
  return rule;
}

/** Throws if there are problems. */
function refuse(subject: string, problems: readonly { readonly path: string; readonly message: string }[]): void {
  if (problems.length === 0) return;
  const lines = problems.map(({ path, message }) => `  ${path} ${message}`);
  throw new RehearsalError(`${subject} cannot be used:\n${lines.join("\n")}`);
}

function problemsOf(schema: JsonObject, inputs: JsonObject) {
  return schemas.conforms(schema, inputs).map((problem) => detailOf(problem, "$.inputs"));
}

function find(programs: readonly Program[], { workflowId, version }: WantedWorkflow): Program | null {
  const found = programs.findLast(
    (program) => program.workflowId === workflowId && (version === undefined || program.version === version),
  );
  return found ?? null;
}

function registered(
  { actions = {} }: RehearseOptions,
  wanted: NonNullable<ReturnType<typeof parseActionName>>,
): ActionFact | undefined {
  const { service, name, version } = wanted;
  const key = `${service}.${name}`;
  const versions = Object.hasOwn(actions, key) ? [actions[key] ?? []].flat() : [];
  const action = versions.findLast((one) => version === undefined || (one.version ?? 1) === version);
  if (!action) return undefined;
  return {
    ...{ service, name, version: action.version ?? 1, transport: "grpc" },
    compensable: action.compensable ?? false,
    dryRunSupported: action.dry_run_supported ?? false,
    inputSchema: action.input_schema ?? {},
    outputSchema: action.output_schema ?? {},
    defaultRetry: action.default_retry,
    defaultTimeoutMs: action.default_timeout_ms,
  };
}
