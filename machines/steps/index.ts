// The table of step types. A new one is a file, its import and its place in the list: nothing else in machines/ or src/ lists them. Who reads definitions may pass a table of their own.
import { action } from "./action.js";
import { assert } from "./assert.js";
import { cancel } from "./cancel.js";
import { collectInput } from "./collect_input.js";
import { decision } from "./decision.js";
import { emitEvent } from "./emit_event.js";
import { emitSignal } from "./emit_signal.js";
import { end } from "./end.js";
import { error } from "./error.js";
import { filter } from "./filter.js";
import { foreach } from "./foreach.js";
import { httpRequest } from "./http_request.js";
import { join } from "./join.js";
import { log } from "./log.js";
import { manualApproval } from "./manual_approval.js";
import { map } from "./map.js";
import { merge } from "./merge.js";
import { metricEmit } from "./metric_emit.js";
import { noop } from "./noop.js";
import { parallel } from "./parallel.js";
import { setVar } from "./set_var.js";
import { spawnSaga } from "./spawn_saga.js";
import type { StepType } from "./step.js";
import { subSaga } from "./sub_saga.js";
import { switchStep } from "./switch.js";
import { transform } from "./transform.js";
import { tryCatch } from "./try_catch.js";
import { waitDuration } from "./wait_duration.js";
import { waitForEvent } from "./wait_for_event.js";
import { waitForSignal } from "./wait_for_signal.js";
import { waitUntil } from "./wait_until.js";
import { webhookEmit } from "./webhook_emit.js";
import { whileStep } from "./while.js";

/** Step types by name. */
export type StepTypes = ReadonlyMap<string, StepType>;

export const STEP_TYPES: StepTypes = stepTypes([
  end,
  action,
  decision,
  switchStep,
  error,
  noop,
  setVar,
  transform,
  merge,
  filter,
  map,
  log,
  metricEmit,
  assert,
  httpRequest,
  webhookEmit,
  waitDuration,
  waitUntil,
  waitForSignal,
  waitForEvent,
  whileStep,
  tryCatch,
  subSaga,
  spawnSaga,
  parallel,
  join,
  foreach,
  emitSignal,
  emitEvent,
  cancel,
  manualApproval,
  collectInput,
]);

export function stepTypes(types: Iterable<StepType>): StepTypes {
  return new Map([...types].map((type) => [type.name, type]));
}
