// The only door of machines/: what a run does, decided purely. The shell imports from here and nowhere deeper.
export * from "./actor.js";
export * from "./audit.js";
export * from "./commands.js";
export * from "./context.js";
export { decide } from "./decide.js";
export type { Problem } from "./definition/problem.js";
export { type CompileOptions, compileWorkflow } from "./definition/workflow.js";
export * from "./effects.js";
export * from "./facts.js";
export * from "./json.js";
export * from "./lifecycle.js";
export * from "./limits.js";
export * from "./program.js";
export * from "./record.js";
export * from "./retry.js";
export { parseActionName } from "./steps/action.js";
export * from "./time.js";
export type { Decision, Transition } from "./transition.js";
