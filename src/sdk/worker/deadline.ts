// The deadline of a step on this machine's clock. It sets no timer.
import { type ExecuteStep, MAX_UINT32 } from "../protocol/index.js";

/** Epoch milliseconds. By the time that is left, because the clocks of two machines differ, as far as the message can say it: with its largest
 * number a step has that time or longer. */
export function deadlineOf({ timeout_ms: left, deadline_at }: Pick<ExecuteStep, "timeout_ms" | "deadline_at">): number {
  return left > 0 && left !== MAX_UINT32 ? Date.now() + left : Date.parse(deadline_at);
}
