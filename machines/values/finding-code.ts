// The codes of findings: what a review of a definition finds beside its problems. They are part of the contract, as error codes are: none is ever
// renamed, and a retired one is never used again.

export type Severity = "warning" | "error";

interface FindingRule {
  /** `error`: a run that comes there fails, or what the author wrote cannot happen. `warning`: most likely a mistake. */
  readonly severity: Severity;
  /** What it means, as the documentation gives it. */
  readonly means: string;
}

/** Every code, by what it is about. */
export const FINDING_CODES = {
  invalid: { severity: "error", means: "A problem for which the service refuses the definition." },
  effect_without_undo: {
    severity: "warning",
    means:
      "The action is registered as compensable, and the step has no compensation: its effect would stay after a rollback.",
  },
  child_effect_without_undo: {
    severity: "warning",
    means: "A step runs a workflow that has such an effect, and has no compensation of its own.",
  },
  undo_not_compensable: {
    severity: "warning",
    means: "The step has a compensation, and its action is registered as not compensable.",
  },
  undo_inputs: {
    severity: "error",
    means: "The inputs of the compensation cannot fit the input schema of its action.",
  },
  undo_of_itself: { severity: "warning", means: "The step is undone by its own action." },
  undo_compensable: {
    severity: "warning",
    means: "The action of the compensation is itself registered as compensable. No undo is undone.",
  },
  undo_never: { severity: "warning", means: "The step never succeeds, so its compensation is never used." },
  undo_policy_unused: { severity: "warning", means: "`on_undo_failure` of a step that has nothing to undo." },
  failure_policy_unused: {
    severity: "warning",
    means: "`on_failure` of a step whose own `on_error` takes every error.",
  },
  template_misfit: {
    severity: "error",
    means: "What a template or an expression gives cannot fit the schema or the type that is asked for.",
  },
  member_missing: { severity: "error", means: "An expression reads a member that its schema rules out." },
  signal_name: { severity: "error", means: "No step can wait for a signal of this name." },
  signal_payload: { severity: "error", means: "The payload cannot fit the schema of the signal." },
  variable_unset: { severity: "warning", means: "An expression reads a variable that nothing in the definition sets." },
  variable_unset_here: {
    severity: "warning",
    means:
      "An expression reads a variable that steps set, but on no path before this step. What a branch or an item sets stays in it.",
  },
  name_unknown: { severity: "warning", means: "An expression reads a name that no scope has." },
  expression_doubt: { severity: "warning", means: "An expression that is legal and most likely means something else." },
  condition_constant: { severity: "warning", means: "A condition that is always true, or always false." },
  step_unreachable: { severity: "warning", means: "No path leads to the step." },
  way_never: {
    severity: "warning",
    means: "No run takes this way, such as the `on_timeout` of a wait without a time limit.",
  },
  cycle_endless: { severity: "error", means: "The steps lead back to each other, and no way out." },
  loop_endless: { severity: "warning", means: "Nothing in the body of the loop changes its condition." },
  saga_runs_itself: {
    severity: "error",
    means: "Every run of the workflow starts another one of it and waits for that.",
  },
  saga_waits_for_itself: {
    severity: "error",
    means:
      "The workflow runs itself as a sub-saga under the same key of its `concurrency`: the child waits for the slot that its parent has.",
  },
  join_never: { severity: "error", means: "Fewer branches can succeed than the join waits for." },
  catch_never: { severity: "warning", means: "No error of the try that this catch takes can leave its steps." },
  catch_returns: {
    severity: "warning",
    means: "A `next` to the try_catch itself: it ends the catch chain, and does not try again.",
  },
  on_error_ignored: { severity: "warning", means: "The `on_error` of a parallel: that of its join counts." },
  wait_without_timeout: {
    severity: "warning",
    means:
      "The step waits for something from outside, and neither it, a try around it nor the workflow has a time limit.",
  },
  timeout_never: {
    severity: "warning",
    means: "The time of a try around the step, or of the run, is over before this one.",
  },
  heartbeat_never: {
    severity: "warning",
    means: "The heartbeat timeout is not shorter than the timeout of the attempt.",
  },
  retry_too_long: {
    severity: "warning",
    means:
      "The backoffs alone are longer than the time of a try around the step, or of the run: the last attempts are never made.",
  },
  backoff_capped: {
    severity: "warning",
    means: "The first backoff is longer than the longest one that the policy allows.",
  },
  action_unknown: { severity: "warning", means: "The action is not registered." },
  action_deprecated: { severity: "warning", means: "The action is deprecated." },
  rule_unknown: { severity: "warning", means: "The rule is not published." },
  rule_branch_missing: {
    severity: "error",
    means: "A row of the rule names no branch of the step, and the step has neither a default branch nor a `next`.",
  },
  rule_branch_never: { severity: "warning", means: "No row of the rule names this branch." },
  rule_row_never: { severity: "warning", means: "A row above it always matches." },
  workflow_unknown: { severity: "warning", means: "The workflow is not published." },
  entrypoint_unknown: { severity: "error", means: "The workflow that the step runs has no such entrypoint." },
  secret_unused: {
    severity: "warning",
    means: "`x-secret` where it marks nothing: under `not` or `propertyNames` of a schema.",
  },
  tenant_impossible: { severity: "warning", means: "The tenant is not a UUID." },
} as const satisfies Readonly<Record<string, FindingRule>>;

export type FindingCode = keyof typeof FINDING_CODES;
