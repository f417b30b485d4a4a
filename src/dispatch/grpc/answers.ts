// What a worker reported, as the command that its run gets. Pure: nothing is sent or stored here. A result that cannot
// be stored becomes a failure (law 12): the step did happen, so its outcome counts as unknown and it will be undone.
import { createHash } from "node:crypto";
import { isObject, type JsonObject, measure, type RunCommand } from "../../machines/index.js";
import type { StepFailure, StepResult } from "./grpc/messages.js";

const MESSAGE_CHARACTERS = 8_192;
const NAME_CHARACTERS = 128;

type Failure = Extract<RunCommand, { type: "failure" }>;
type Completed = Extract<RunCommand, { type: "result" }>;

export function resultCommand(report: StepResult, workerId: string, outputBytes: number): Completed | Failure {
  const about = reported(report, workerId);
  const parsed = parseResult(report.result_json, outputBytes);
  if ("result" in parsed) return { type: "result", ...about, result: parsed.result };
  return { type: "failure", ...about, ...parsed, retryable: false, outcomeUnknown: true };
}

export function failureCommand(report: StepFailure, workerId: string): Failure {
  return {
    type: "failure",
    ...reported(report, workerId),
    code: storable(report.code, NAME_CHARACTERS) || "error",
    message: storable(report.message, MESSAGE_CHARACTERS),
    retryable: report.retryable ?? true,
    outcomeUnknown: report.outcome_unknown,
  };
}

/** The same answer has the same id, whenever and at whichever node it arrives again: it is one command (law 6). */
export function answerId(report: StepResult | StepFailure): string {
  const hash = createHash("sha256").update(report.dispatch_id);
  if ("result_json" in report) hash.update("\0result\0").update(report.result_json);
  else hash.update(`\0failure\0${report.code}\0${report.message}\0${report.retryable}\0${report.outcome_unknown}`);
  const hex = hash.digest("hex");
  // Version 8: a uuid of one's own making.
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function reported(report: StepResult | StepFailure, workerId: string) {
  return {
    dispatchId: report.dispatch_id,
    ...(report.step_id ? { stepId: storable(report.step_id, NAME_CHARACTERS) } : {}),
    ...(report.attempt > 0 ? { attempt: report.attempt } : {}),
    actor: `worker:${workerId}`,
  };
}

function parseResult(
  bytes: Buffer,
  limit: number,
): { readonly result: JsonObject } | { readonly code: string; readonly message: string } {
  if (bytes.length === 0) return { result: {} };
  if (bytes.length > limit) {
    return { code: "limit_exceeded", message: `the step output has ${bytes.length} bytes, more than ${limit}` };
  }
  const refuse = (message: string) => ({ code: "schema_mismatch", message });
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (!isObject(value)) return refuse("the step output is no JSON object");
    const size = measure(value);
    if (typeof size !== "number") return refuse(`the step output cannot be stored: $${size.path} ${size.message}`);
    return { result: value };
  } catch (error) {
    // A RangeError is a value nested deeper than the stack. The parser's own message would quote the payload.
    return refuse(error instanceof RangeError ? "the step output is nested too deeply" : "the step output is not JSON");
  }
}

/** Text that Postgres can store: U+0000 and lone surrogates replaced, cut to its first characters. */
function storable(text: string, characters: number): string {
  const cut = text.length > characters ? text.slice(0, characters) : text;
  return cut.replace(/\0|\p{Surrogate}/gu, "\uFFFD");
}
