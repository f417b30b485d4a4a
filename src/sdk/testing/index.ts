// "saga-orchestrator/testing": rehearses a workflow in a unit test.
export type { JsonObject, Mock, MockError, Mocks, Rehearsed, RehearsedEvent } from "../../../machines/index.js";
export { type RegisteredAction, RehearsalError, type RehearseOptions, rehearse } from "./rehearse.js";
