// What users import as "saga-orchestrator/testing": a workflow rehearsed in a unit test.
export type { JsonObject, Mock, MockError, Mocks, Rehearsed, RehearsedEvent } from "../../../machines/index.js";
export { type RegisteredAction, RehearsalError, type RehearseOptions, rehearse } from "./rehearse.js";
