// A worker's report as the command that its run gets. Pure: nothing is sent or stored here.
import { hash } from "node:crypto";
import { type DispatchId, type EngineErrorCode, parseDispatchId, type RunCommand } from "../../../machines/index.js";
import type { StepFailure, StepResult } from "../../sdk/protocol/index.js";
import { parsedResult, storableMessage, storableName } from "../worker-report.js";

type Failure = Extract<RunCommand, { type: "failure" }>;
type Result = Extract<RunCommand, { type: "result" }>;

/** A worker that reports, and the id of its credential; with access off it has none. */
export interface Reporting {
  readonly workerId: string;
  readonly service: string;
  readonly credential?: string;
}

/** A report whose dispatch id was checked, and is in lower case. */
export type Report = (StepResult | StepFailure) & { readonly dispatch_id: DispatchId };

/** Undefined: it names no dispatch. */
export function readReport(report: StepResult | StepFailure): Report | undefined {
  const dispatchId = parseDispatchId(report.dispatch_id);
  if (dispatchId === undefined) return undefined;
  // Nearly every worker names the dispatch as it got it: no copy is made.
  return report.dispatch_id === dispatchId ? (report as Report) : { ...report, dispatch_id: dispatchId };
}

/** `outputBytes`: a result with more bytes of JSON becomes a failure. */
export function answerCommand(report: Report, worker: Reporting, outputBytes: number): Result | Failure {
  return "result_json" in report
    ? resultCommand(report, worker, outputBytes)
    : { type: "failure", ...identity(report, worker), ...failureOf(report) };
}

/**
 * The same answer has the same id, whenever and at whichever node it arrives, so it is one command (law 6). Must never
 * change.
 */
export function answerId(report: StepResult | StepFailure): string {
  const answer =
    "result_json" in report
      ? `\0result\0${report.result_json}`
      : `\0failure\0${report.code}\0${report.message}\0${report.retryable}\0${report.outcome_unknown}`;
  const hex = hash("sha256", report.dispatch_id + answer, "hex");
  // UUID version 8: custom.
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function resultCommand(report: StepResult & Report, worker: Reporting, outputBytes: number): Result | Failure {
  const about = identity(report, worker);
  const parsed = parsedResult(report.result_json, outputBytes);
  if ("result" in parsed) return { type: "result", result: parsed.result, ...about };
  return { type: "failure", ...about, ...parsed, retryable: false, outcomeUnknown: true };
}

function failureOf(report: StepFailure) {
  return {
    code: storableName(report.code) || ("error" satisfies EngineErrorCode),
    message: storableMessage(report.message),
    retryable: report.retryable ?? true,
    outcomeUnknown: report.outcome_unknown,
  };
}

function identity(report: Report, worker: Reporting) {
  return {
    dispatchId: report.dispatch_id,
    ...(report.step_id ? { stepId: storableName(report.step_id) } : {}),
    ...(report.attempt > 0 ? { attempt: report.attempt } : {}),
    ...reporter(worker),
  };
}

/** Who reports. A dispatch belongs to the workers of its service: the run checks it. Whose runs the worker serves is the reach of its commands. */
export function reporter({ workerId, service, credential }: Reporting) {
  return { actor: `worker:${workerId}`, service, ...(credential !== undefined && { credential }) };
}
