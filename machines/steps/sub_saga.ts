// `sub_saga`: runs another workflow as a child and waits for its end. `spawn_saga` starts one and does not wait.

import { naming, number, object, optional, type Parsed, required, text } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import type { Facts } from "../messages/fact.js";
import { withSecrets } from "../schema/secrets.js";
import type { Group } from "../state/group.js";
import { startupSource } from "../state/identity.js";
import type { Json, JsonObject } from "../values/json.js";
import { backoffMs, mayRetry } from "../values/retry.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { cappedBackoff, NO_INPUTS, resolveRetry } from "./action.js";
import { constantText } from "./named.js";
import type { Known } from "./step.js";
import {
  type Doubt,
  durationOf,
  type Entered,
  type Failure,
  type Fit,
  failed,
  millis,
  numberOf,
  objectOf,
  type SagaCall,
  type StepOutcome,
  stepType,
  textOf,
  tooLarge,
} from "./step.js";
import { written } from "./words.js";

export const SAGA_ATTRIBUTES = {
  workflow_id: required(naming("workflow", text), "The workflow to run."),
  version: optional(number({ min: 1, whole: true }), "The latest published one at entry, if absent."),
  entrypoint: optional(text, "The entrypoint; its start if absent."),
  inputs: optional(object, "Its inputs."),
};

/** The error of a sub-saga that did not end in its step's time. A timeout of the child itself is a failure of the child. */
export const SAGA_TIMEOUT: Failure = { code: "timeout", message: "the sub-saga did not end in time" };

const attributes = {
  ...SAGA_ATTRIBUTES,
  timeout_ms: optional(
    number({ min: 1, max: LONGEST_WAIT_MS }),
    "After this time the child is cancelled; code `timeout`.",
  ),
};

export const subSaga = stepType({
  name: "sub_saga",
  summary: "Runs another workflow as a child run and waits for its end.",
  attributes,
  output: "the child's output",
  errors: "`child_failed`, `cancelled`, `timeout`, `not_found`, `schema_mismatch`, `limit_exceeded`",
  pauses: true,
  retries: true,
  effectful: true,
  runsSaga: true,
  mock: { output: "any", failures: "any" },
  chartText: ({ workflow_id }) => `Runs the workflow ${written(workflow_id)}.`,
  nextWhen: () => "the child run has succeeded",
  times: ({ timeout_ms }) => (timeout_ms === undefined ? {} : { timeout_ms: millis(timeout_ms) }),
  fits: (attributes, known) => callFits(attributes, known),
  doubts(attributes, { plan, workflow, known }) {
    const doubts = [...cappedBackoff(plan), ...callDoubts(attributes, known)];
    const { concurrency, workflowId } = workflow;
    if (constantText(attributes.workflow_id) !== workflowId) return doubts;
    if (concurrency?.onLimit === "queue" && concurrency.limit === 1 && concurrency.key.constant)
      doubts.push({
        code: "saga_waits_for_itself",
        at: ["workflow_id"],
        message: "the child waits for the slot of its own workflow that this run has",
      });
    return doubts;
  },
  enter(entered) {
    const { group, attributes, scope, facts } = entered;
    if (group && group.running > 0) return { kind: "await_children" };
    if (group?.verdict) return ended(entered, group, group.verdict);
    // Every attempt runs the version of the first one.
    const child = sagaCall(entered, group?.version);
    if ("kind" in child) return child;
    const timeout = attributes.timeout_ms;
    const due = timeout === undefined ? {} : { dueAt: facts.now + durationOf(timeout, scope, "timeout_ms", 1) };
    return { kind: "start_sub_saga", child, ...due };
  },
});

type Call = Parsed<typeof SAGA_ATTRIBUTES>;

function knownWorkflow({ workflow_id, version }: Call, known: Known) {
  const name = constantText(workflow_id);
  if (name === undefined || !known.workflow || (version !== undefined && typeof version !== "number")) return undefined;
  return { name, found: known.workflow(name, version) };
}

/** The inputs of a run of another workflow, and its input schema. */
export function callFits(attributes: Call, known: Known): readonly Fit[] {
  const { name, found } = knownWorkflow(attributes, known) ?? {};
  if (!found?.inputSchema) return [];
  const given = attributes.inputs ?? NO_INPUTS;
  return [{ at: ["inputs"], given, schema: found.inputSchema, by: `the input schema of the workflow ${name}` }];
}

/** The workflow that it names exists, and has the entrypoint. */
export function callDoubts(attributes: Call, known: Known): Doubt[] {
  const { name, found } = knownWorkflow(attributes, known) ?? {};
  if (name === undefined) return [];
  if (!found)
    return [
      { code: "workflow_unknown", at: ["workflow_id"], message: `the workflow ${name.slice(0, 128)} is not published` },
    ];
  const entrypoint = constantText(attributes.entrypoint);
  if (!entrypoint || entrypoint === "default" || Object.hasOwn(found.entrypoints, entrypoint)) return [];
  const message = `the workflow ${name} has no entrypoint ${entrypoint.slice(0, 128)}`;
  return [{ code: "entrypoint_unknown", at: ["entrypoint"], message }];
}

/** The run that a `sub_saga` or `spawn_saga` starts, or the outcome without one. */
export function sagaCall(
  { attributes, scope, facts, run }: Entered<typeof SAGA_ATTRIBUTES>,
  taken?: number,
): SagaCall | StepOutcome {
  const workflowId = textOf(attributes.workflow_id, scope, "workflow_id");
  const given = attributes.version === undefined ? undefined : numberOf(attributes.version, scope, "version", 1);
  const version = taken ?? given;
  if (version !== undefined && !Number.isSafeInteger(version))
    throw new ExpressionError("version must be a whole number");
  const { workflow } = facts;
  if (workflow === undefined) return { kind: "need", need: { kind: "workflow", workflowId, version } };
  const named = `${workflowId}${version === undefined ? "" : ` version ${version}`}`;
  if (workflow === null) return failed("not_found", `there is no published workflow ${named}`);
  const entrypoint = attributes.entrypoint ? textOf(attributes.entrypoint, scope, "entrypoint") : "";
  if (!workflow.enters(entrypoint)) return failed("not_found", `the workflow ${named} has no entrypoint ${entrypoint}`);
  const plain = objectOf(attributes.inputs, scope, "inputs");
  const problems = workflow.inputSchema ? facts.conforms(workflow.inputSchema, plain) : [];
  if (problems.length > 0)
    return failed("schema_mismatch", `the inputs of ${named}: ${problems.slice(0, 5).join("; ")}`);
  const inputs = withSecrets(workflow.inputSchema, plain);
  const source = startupSource(run);
  if (source === undefined) return { workflow, entrypoint, inputs, startup: {} };
  const startup = run.startup ?? facts.startup;
  if (startup === undefined) return { kind: "need", need: { kind: "startup", runId: source } };
  return { workflow, entrypoint, inputs, startup };
}

function ended(entered: Entered<typeof attributes>, group: Group, verdict: NonNullable<Group["verdict"]>): StepOutcome {
  const { facts, groupEntry: entry } = entered;
  if (verdict.state !== "succeeded") return again(entered, group, group.timedOut ? SAGA_TIMEOUT : failureOf(verdict));
  if (facts.ended === undefined) return { kind: "need", need: { kind: "ended", entry, child: group.child } };
  return facts.ended ? { kind: "done", output: facts.ended[0]?.output ?? null } : tooLarge("the child's output");
}

function failureOf({ state, error }: NonNullable<Group["verdict"]>): Failure {
  if (state === "cancelled") return { code: "cancelled", message: error?.message ?? "the child was cancelled" };
  return {
    code: "child_failed",
    message: error?.message ?? "the child failed",
    cause: { ...error } as JsonObject as Json,
  };
}

/** Retries with a new child, if the step itself has a retry policy that allows it. */
function again(
  { plan, scope, facts, run }: Entered<typeof attributes>,
  { nth = 1 }: Group,
  error: Failure,
): StepOutcome {
  const policy = plan.retry && resolveRetry(plan.retry, scope);
  if (!policy || !mayRetry(policy, nth, error.code)) return { kind: "failed", error };
  const delay = run.dryRun ? 0 : backoffMs(policy, nth, (facts as Facts).random);
  return { kind: "retry_sub_saga", error, dueAt: facts.now + delay, nth, maxAttempts: policy.max_attempts };
}
