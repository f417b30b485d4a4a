// A worker's report as the command that its run gets. Pure: nothing is sent or stored here. A result that Postgres
// cannot store becomes a failure of unknown outcome (law 12), because the step did happen and has to be undone.
import { createHash } from "node:crypto";
import {
  type DispatchId,
  type EngineErrorCode,
  isDispatchId,
  isObject,
  type JsonObject,
  measure,
  type RunCommand,
} from "../../../machines/index.js";
import type { StepFailure, StepResult } from "../../sdk/protocol/index.js";
import type { Claimant } from "../relay/local-streams.js";

const MESSAGE_CHARACTERS = 8_192;
const NAME_CHARACTERS = 128;

type Failure = Extract<RunCommand, { type: "failure" }>;
type Result = Extract<RunCommand, { type: "result" }>;

/** A report whose dispatch id was checked. */
export type Report = (StepResult | StepFailure) & { readonly dispatch_id: DispatchId };

export function isReport(report: StepResult | StepFailure): report is Report {
  return isDispatchId(report.dispatch_id);
}

/** `outputBytes`: a result with more bytes of JSON becomes a failure. */
export function answerCommand(report: Report, worker: Claimant, outputBytes: number): Result | Failure {
  return "result_json" in report
    ? resultCommand(report, worker, outputBytes)
    : { type: "failure", ...identity(report, worker), ...failureOf(report) };
}

/**
 * The same answer has the same id, whenever and at whichever node it arrives, so it is one command (law 6). Must never
 * change.
 */
export function answerId(report: StepResult | StepFailure): string {
  const hash = createHash("sha256").update(report.dispatch_id);
  if ("result_json" in report) hash.update("\0result\0").update(report.result_json);
  else hash.update(`\0failure\0${report.code}\0${report.message}\0${report.retryable}\0${report.outcome_unknown}`);
  const hex = hash.digest("hex");
  // UUID version 8: custom.
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function resultCommand(report: StepResult & Report, worker: Claimant, outputBytes: number): Result | Failure {
  const about = identity(report, worker);
  const parsed = parseResult(report.result_json, outputBytes);
  if ("result" in parsed) return { type: "result", ...about, result: parsed.result };
  return { type: "failure", ...about, ...parsed, retryable: false, outcomeUnknown: true };
}

function failureOf(report: StepFailure) {
  return {
    code: storable(report.code, NAME_CHARACTERS) || ("error" satisfies EngineErrorCode),
    message: storable(report.message, MESSAGE_CHARACTERS),
    retryable: report.retryable ?? true,
    outcomeUnknown: report.outcome_unknown,
  };
}

function identity(report: Report, worker: Claimant) {
  return {
    dispatchId: report.dispatch_id,
    ...(report.step_id ? { stepId: storable(report.step_id, NAME_CHARACTERS) } : {}),
    ...(report.attempt > 0 ? { attempt: report.attempt } : {}),
    actor: `worker:${worker.workerId}`,
    service: worker.service,
  };
}

function parseResult(
  bytes: Buffer,
  limit: number,
): { readonly result: JsonObject } | { readonly code: EngineErrorCode; readonly message: string } {
  if (bytes.length === 0) return { result: {} };
  if (bytes.length > limit) {
    return { code: "limit_exceeded", message: `the step output has ${bytes.length} bytes, more than ${limit}` };
  }
  const refuse = (message: string) => ({ code: "schema_mismatch", message }) as const;
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (!isObject(value)) return refuse("the step output is not a JSON object");
    const size = measure(value);
    if (typeof size !== "number") return refuse(`the step output cannot be stored: $${size.path} ${size.message}`);
    return { result: value };
  } catch (error) {
    // A RangeError comes from a value nested deeper than the stack. The parser's own message would quote the payload.
    return refuse(error instanceof RangeError ? "the step output is nested too deeply" : "the step output is not JSON");
  }
}

/** Text that Postgres can store: U+0000 and lone surrogates are replaced, and it is cut after so many characters. */
function storable(text: string, characters: number): string {
  const cut = text.length > characters ? text.slice(0, characters) : text;
  return cut.replace(/\0|\p{Surrogate}/gu, "\uFFFD");
}
