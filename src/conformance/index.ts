// The door of the conformance: plays the service's side of the worker protocol and reports how a worker keeps it. The command is in src/cli.
export type { Case } from "./case.js";
export { CASES } from "./cases/index.js";
export { ACTIONS, SERVICE, STOPPED } from "./contract.js";
export type { CaseReport, Report, Verdict } from "./rule.js";
export { type ConformanceOptions, runConformance } from "./run.js";
export { caseText, sumText } from "./text.js";
