// `spawn_saga`: starts a run of another workflow and goes on. That run is not a child, and no run waits for it.

import { optional, text } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { childStarted } from "../messages/owed.js";
import { startupSource, traceBelow } from "../state/identity.js";
import { asRunId } from "../values/ids.js";
import { isLongerThan } from "../values/text.js";
import { failed, stepType, textOf } from "./step.js";
import { callDoubts, callFits, SAGA_ATTRIBUTES, sagaCall } from "./sub_saga.js";
import { written } from "./words.js";

export const spawnSaga = stepType({
  name: "spawn_saga",
  summary: "Starts a run of another workflow and goes on.",
  attributes: {
    ...SAGA_ATTRIBUTES,
    idempotency_key: optional(text, "As for a start by a client: the same key starts one run."),
  },
  output: "{run_id}",
  errors: "`not_found`, `schema_mismatch`",
  chartText: ({ workflow_id }) => `Starts the workflow ${written(workflow_id)}.`,
  outputSchema: () => ({ type: "object", required: ["run_id"], properties: { run_id: { type: "string" } } }),
  fits: (attributes, known) => callFits(attributes, known),
  doubts: (attributes, { known }) => callDoubts(attributes, known),
  enter(entered) {
    const { attributes, scope, facts, run, entry, plan } = entered;
    const called = sagaCall(entered);
    if ("kind" in called) return called;
    const { workflow, entrypoint, inputs, startup } = called;
    const key = attributes.idempotency_key && textOf(attributes.idempotency_key, scope, "idempotency_key");
    if (key !== undefined && (key === "" || isLongerThan(key, 255)))
      throw new ExpressionError("idempotency_key must be 1 to 255 characters");
    if (key !== undefined && facts.keyedRun === undefined)
      return { kind: "need", need: { kind: "keyed_run", workflowId: workflow.workflowId, key } };
    if (facts.keyedRun?.erased)
      return failed(
        "not_found",
        "the run that was started under this idempotency key has been erased: it is not started again",
      );
    if (facts.keyedRun) return { kind: "done", output: { run_id: facts.keyedRun.id } };
    const seed =
      key === undefined
        ? `${run.id}/${plan.id}/${entry}/spawn`
        : `spawn/${run.tenantId ?? ""}/${workflow.workflowId}/${key}`;
    const id = asRunId(facts.uuid(run.id, seed));
    const { workflowId, version, definitionId, timeoutMs } = workflow;
    const identity = {
      ...{ id, workflowId, version, definitionId, inputs, entrypoint, startedAt: facts.now },
      ...{ tenantId: run.tenantId, dryRun: run.dryRun, features: run.features },
      ...(timeoutMs !== undefined && { expiresAt: facts.now + timeoutMs }),
      ...(run.precedence && { precedence: run.precedence }),
      ...(startupSource(run) !== undefined && { startup }),
      ...traceBelow(run, facts.traces),
    };
    const child = { identity, variables: startup, inherited: false, idempotencyKey: key, at: facts.now };
    return { kind: "done", output: { run_id: id }, owed: childStarted(child) };
  },
});
