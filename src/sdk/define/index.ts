// "@saga-orchestrator/define": typed definitions, and the contracts of actions and signals that they are made of. They have no code of workers.
export {
  type ActionContract,
  type ActionOptions,
  defineAction,
  defineSignal,
  type InputOf,
  type OutputOf,
  type RetryOptions,
  type SagaContract,
  type SignalContract,
} from "../contract/index.js";
export type { Block, Closed, Saga, SagaDocument, StepDocument } from "./definition.js";
export { fromDocument } from "./document.js";
export { at, cel, type Embedded, type Expr, has, orElse, type Ref, type Template, text } from "./expression.js";
export type { Flow, Fork } from "./flow.js";
export { type SagaOptions, saga } from "./saga.js";
export type { Scope } from "./scope.js";
export { sourceOf } from "./source.js";
export type { Path, State, StepError } from "./state.js";
export type { Json, JsonObject, Resolved, Value } from "./value.js";
export { type NamedLater, pinned } from "./written.js";
