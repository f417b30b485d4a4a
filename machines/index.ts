// The only door of machines/: what a run does, decided purely. The shell imports from here and nowhere deeper.

export * from "./actor.js";
export * from "./audit.js";
export * from "./commands.js";
export * from "./context.js";
export { decide } from "./decide.js";
export { tenantName } from "./definition/attribute.js";
export type { Problem } from "./definition/problem.js";
export { type CompileOptions, compileWorkflow } from "./definition/workflow.js";
export * from "./effects.js";
export { ExpressionError, warmUp } from "./expression/index.js";
export * from "./facts.js";
export * from "./json.js";
export * from "./lifecycle.js";
export * from "./limits.js";
export * from "./program.js";
export * from "./record.js";
export { type Mock, type MockError, type Mocks, readMocks } from "./rehearsal/mocks.js";
export { Rehearsal } from "./rehearsal/rehearsal.js";
export * from "./rehearsal/rehearsed.js";
export * from "./retry.js";
export { type CompiledRule, compileRule, type Rule } from "./rule/document.js";
export { evaluateRule, type RuleAudit, type RuleResult } from "./rule/evaluate.js";
export { parseActionName } from "./steps/action.js";
export { HEADER_NAME_PATTERN, MAX_EVENT_HEADERS, MAX_HEADER_CHARS, TOPIC_PATTERN } from "./steps/event.js";
export * from "./time.js";
export type { Decision, Transition } from "./transition.js";
