// "@saga-orchestrator/define/testing": rehearses and checks a workflow in a unit test. Types come from inner files of `machines/`, so that the
// declarations that are shipped name no library of the machine.
export type { Finding } from "../../../../machines/check/finding.js";
export type { Mock, MockError, Mocks } from "../../../../machines/rehearsal/mock.js";
export type { Rehearsed, RehearsedEvent } from "../../../../machines/rehearsal/rehearsed.js";
export type { JsonObject } from "../../../../machines/values/json.js";
export { type CheckOptions, checkWorkflow } from "./check.js";
export {
  mocksFromRun,
  type Recorded,
  type RecordedEvent,
  type RecordedRun,
  type RepeatingMocks,
} from "./from-run.js";
export { type RegisteredAction, RehearsalError, type RehearseOptions, rehearse } from "./rehearse.js";
