// The deadline of a step on this machine's clock. It sets no timer.
import type { ExecuteStep } from "../protocol/index.js";

/** The most that the worker protocol can say: such a step has this time or longer. */
const MAX_UINT32 = 4_294_967_295;

/** Epoch milliseconds. By the time that is left, because the clocks of two machines differ, as far as the message can say it. */
export function deadlineOf({ timeout_ms: left, deadline_at }: Pick<ExecuteStep, "timeout_ms" | "deadline_at">): number {
  return left > 0 && left !== MAX_UINT32 ? Date.now() + left : Date.parse(deadline_at);
}
