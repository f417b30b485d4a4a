// The contracts that definitions, workers, clients and tests share. Each package that needs them has them in itself.
export { type ActionContract, type ActionOptions, defineAction, type RetryOptions } from "./action.js";
export type { InputOf, OutputOf, SagaContract } from "./saga.js";
export { defineSignal, type SignalContract } from "./signal.js";
export { refuseUnknown } from "./unknown-member.js";
