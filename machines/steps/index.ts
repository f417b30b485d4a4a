// The table of step types. Adding one is adding a file and a line here.
import { action } from "./action.js";
import { assert } from "./assert.js";
import { decision } from "./decision.js";
import { end } from "./end.js";
import { error } from "./error.js";
import { log } from "./log.js";
import { noop } from "./noop.js";
import { setVar } from "./set_var.js";
import type { StepType } from "./step.js";
import { switchStep } from "./switch.js";
import { transform } from "./transform.js";
import { waitDuration } from "./wait_duration.js";
import { waitForSignal } from "./wait_for_signal.js";
import { waitUntil } from "./wait_until.js";

export const STEP_TYPES: ReadonlyMap<string, StepType> = new Map(
  [
    end,
    action,
    decision,
    switchStep,
    error,
    noop,
    setVar,
    transform,
    log,
    assert,
    waitDuration,
    waitUntil,
    waitForSignal,
  ].map((type) => [type.name, type]),
);
