// A rehearsal of an imported state machine, with the outcomes of its tasks as mocks. It knows which step belongs to which state by ids and titles.
import {
  compileWorkflow,
  type Imported,
  type Json,
  type JsonObject,
  Rehearsal,
  Schemas,
} from "../../machines/index.js";
import type { Ended, Script } from "./interpreter.js";

const schemas = new Schemas();

interface Step {
  readonly id: string;
  readonly type: string;
  readonly title?: string;
}

/** A task that answers with another value than an object answers with it as the member `$`. */
const mockOf = ({ output, error }: Script[string][number]) =>
  error === undefined
    ? { output: typeof output === "object" && output !== null && !Array.isArray(output) ? output : { $: output } }
    : { error: { code: error === "States.Timeout" ? "timeout" : error, message: `cause of ${error}` } };

/** The name of the state of each action. */
export function tasksOf(workflow: JsonObject): ReadonlyMap<string, string> {
  const steps = workflow.steps as unknown as readonly Step[];
  const titles = new Map(steps.map(({ id, title }) => [id, title ?? id]));
  const actions = steps.filter(({ type }) => type === "action");
  return new Map(
    actions.map(({ id }) => {
      const state = titles.has(id.replace(/\.task(\.\d+)?$/, "")) ? id.replace(/\.task(\.\d+)?$/, "") : id;
      return [id, titles.get(state) ?? state];
    }),
  );
}

export function rehearse({ workflow }: Pick<Imported, "workflow">, inputs: JsonObject, script: Script) {
  const { program, problems } = compileWorkflow(workflow, { schemaProblems: (schema) => schemas.problems(schema) });
  if (!program) throw new Error(problems.map(({ path, message }) => `${path} ${message}`).join("\n"));
  const mocks = [...tasksOf(workflow)].map(([id, state]) => [id, (script[state] ?? [{ output: {} }]).map(mockOf)]);
  const subs = (workflow.steps as unknown as readonly Step[]).filter(({ type }) => type === "sub_saga");
  const rehearsal = new Rehearsal(program, {
    inputs,
    mocks: { ...Object.fromEntries(subs.map(({ id }) => [id, [{ output: {} }]])), ...Object.fromEntries(mocks) },
    startAt: Date.UTC(2026, 0, 1),
    conforms: (schema, value, options) => schemas.conforms(schema, value, options),
  });
  // A sub-workflow is mocked; a workflow that is started beside is not known.
  for (let move = rehearsal.move(); move !== "over"; move = rehearsal.move())
    if (move !== "moved") rehearsal.provide(move.missing, null);
  return rehearsal.result;
}

const NAMES: Readonly<Record<string, string>> = {
  timeout: "States.Timeout",
  no_branch_matched: "States.NoChoiceMatched",
};
const PATHS = [
  "States.Runtime",
  "States.ParameterPathFailure",
  "States.IntrinsicFailure",
  "States.ResultPathMatchFailure",
];

/** An error of a path has one code here. What a cause says is the service's own wording. */
const nameOf = (code: string | undefined) =>
  code === undefined
    ? undefined
    : PATHS.includes(code) || code === "expression_error"
      ? "a path"
      : (NAMES[code] ?? code);

function withoutCauses(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutCauses);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([name]) => name !== "Cause");
  return Object.fromEntries(
    members
      .map(([name, each]) => [name, name === "Error" ? nameOf(String(each)) : withoutCauses(each)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

export interface Compared {
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string | undefined;
}

export const comparedEnd = ({ status, output, error }: Ended): Compared =>
  status === "SUCCEEDED" ? { status, output: withoutCauses(output) } : { status, error: nameOf(error) };

export function comparedRun(result: ReturnType<typeof rehearse>): Compared {
  if (result.left !== undefined) return { status: `left: ${result.left}` };
  return result.state === "succeeded"
    ? { status: "SUCCEEDED", output: withoutCauses((result.output ?? null) as Json) }
    : { status: "FAILED", error: nameOf(result.error?.code) };
}
