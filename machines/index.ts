// The only door of machines/: what a run does, decided purely. The shell imports from here and nowhere deeper.

export type { Problem } from "./attribute/findings.js";
export { tenantName } from "./attribute/kinds.js";
export { Suggestions } from "./attribute/suggestion.js";
export { ChartMismatch, movedActor, type RunActor, startActor } from "./chart/actor.js";
export { ChartGraph, statePathOf } from "./chart/graph.js";
export { mermaidOf } from "./chart/mermaid.js";
export * from "./chart/program.js";
export { forkFault } from "./chart/program.js";
export type { Chart } from "./chart/published.js";
export { type Move, Trace, type TracedRow } from "./chart/trace.js";
export { type CheckOptions as WorkflowCheckOptions, checkWorkflow, reviewedSlices } from "./check/check.js";
export { knownOf, type Listed, type ListedAction } from "./check/facts.js";
export type { Finding } from "./check/finding.js";
export { foreignDispatch } from "./decide/answers.js";
export { decide } from "./decide/decide.js";
export { actionsNamed } from "./definition/registered.js";
export { retentionBounds, retentionDays } from "./definition/retention.js";
export { type NamedAt, type NeededRights, rightsNeeded } from "./definition/rights.js";
export { type Compiled, type CompileOptions, compileWorkflow, compileWorkflowSlices } from "./definition/workflow.js";
export {
  type About,
  type Act,
  type ExplainedChild,
  type Explanation,
  explain,
  type Lived,
  type OperatorActName,
  type SlotQueue,
  type TurnQueue,
} from "./explain/explain.js";
export { ExpressionError, ExpressionSyntaxError, MAX_SOURCE_CHARS } from "./expression/index.js";
export { answerTo, scopeOf } from "./expression/scope.js";
export {
  DIALECTS,
  type Dialect,
  dialectOf,
  type Imported,
  type ImportOptions,
  importWorkflow,
} from "./import/import.js";
export type { ImportFinding, ImportWeight } from "./import/report.js";
export * from "./messages/audit.js";
export * from "./messages/command.js";
export * from "./messages/fact.js";
export * from "./messages/owed.js";
export {
  type ColumnType,
  RELATIONS,
  type Relation,
  type Row,
  type Rows,
  RUN_COLUMNS,
} from "./messages/relations.js";
export {
  SEALED,
  SEALED_BESIDE,
  type SealedColumn,
  type SealedMembers,
  type SealedPart,
} from "./messages/sealed.js";
export type { Absent, Decided, Decision, Transition, VersionOf } from "./messages/transition.js";
export { type Published, versionFact } from "./migrate/move.js";
export type { Mock, MockError, Mocks } from "./rehearsal/mock.js";
export { readMocks } from "./rehearsal/mocks.js";
export { Rehearsal } from "./rehearsal/rehearsal.js";
export * from "./rehearsal/rehearsed.js";
export { type AnsweredEvent, repeatingMock } from "./rehearsal/repeated.js";
export type { RehearsalOptions } from "./rehearsal/request.js";
export {
  type CompiledRule,
  compileRule,
  compileRuleSlices,
  type Rule,
  type RuleOptions,
  ruleFor,
} from "./rule/document.js";
export { evaluateRule, type RuleAudit, type RuleResult } from "./rule/evaluate.js";
export { UNKNOWN_TEXT, type Violation } from "./schema/check.js";
export { detailOf } from "./schema/problem.js";
export { draftFault, schemaSize, sizeFault } from "./schema/read.js";
export { type CheckOptions, Schemas } from "./schema/schemas.js";
export { hasSecrets, withSecrets } from "./schema/secrets.js";
export * from "./state/call.js";
export * from "./state/context.js";
export { withoutCorrection } from "./state/corrected-item.js";
export * from "./state/entry.js";
export * from "./state/frame.js";
export * from "./state/group.js";
export * from "./state/identity.js";
export * from "./state/lifecycle.js";
export * from "./state/precedence.js";
export type { QuarantineProof, TrialDeath } from "./state/proof.js";
export { type CommandReach, isWithin } from "./state/reach.js";
export * from "./state/record.js";
export * from "./state/rollback.js";
export * from "./state/slot.js";
export * from "./state/turn.js";
export { ANSWER_TRANSIT_MS, awaitedSignal, isOwedByRun, type Wait } from "./state/wait.js";
export { parseActionName } from "./steps/action.js";
export { type RunConcurrency, runSlot } from "./steps/concurrency.js";
export {
  HEADER_NAME_PATTERN,
  isTenantHeader,
  MAX_EVENT_HEADERS,
  MAX_HEADER_CHARS,
  RESERVED_HEADER,
  TENANT_HEADER,
} from "./steps/event.js";
export { type StepBook, type StepFacts, stepBook } from "./steps/facts.js";
export * from "./steps/plan.js";
export { type RunRate, runTurn } from "./steps/rate.js";
export type { Known, KnownAction, KnownWorkflow } from "./steps/step.js";
export { makesChildren } from "./steps/step.js";
export * from "./trigger/document.js";
export * from "./trigger/inputs.js";
export * from "./trigger/words.js";
export * from "./values/error-code.js";
export { FINDING_CODES, type FindingCode, type Severity } from "./values/finding-code.js";
export * from "./values/ids.js";
export * from "./values/json.js";
export { jsonPath, pathOfPointer } from "./values/json-path.js";
export * from "./values/limits.js";
export * as misfit from "./values/misfit.js";
export { compilePattern } from "./values/pattern.js";
export * from "./values/retry.js";
export * from "./values/secret.js";
export * from "./values/secret-text.js";
export * from "./values/slices.js";
export * from "./values/text.js";
export * from "./values/time.js";
export * from "./values/traceparent.js";
export * from "./values/uuid.js";
export { WeightedCache } from "./values/weighted-cache.js";
export * from "./writes/run-row.js";
export * from "./writes/unit.js";
