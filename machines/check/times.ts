// The times of a workflow beside each other: a time that is over later than one around it never counts.
import type { WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import { ENGINE_RETRY } from "../values/retry.js";
import type { Finding } from "./finding.js";
import { containersOf } from "./graph.js";
import { type At, type PlacedStep, pathIn } from "./sources.js";

interface Limit {
  readonly ms: number;
  /** For messages. */
  readonly of: string;
}

type Report = (found: Omit<Finding, "severity" | "step">) => void;

export function reviewTimes(step: PlacedStep, workflow: WorkflowPlan, report: Report): void {
  const { plan } = step;
  const around = limitAround(plan.id, workflow);
  const say = (code: Finding["code"], at: At, message: string) => report({ code, path: pathIn(step, at), message });
  if (plan.type.waitsForGood?.(plan.attributes) && !isLimited(plan.id, workflow))
    say(
      "wait_without_timeout",
      [],
      `the step "${plan.id}" may wait for good: it has no time limit, and there is none around it`,
    );
  if (!around) return;
  for (const [name, ms] of Object.entries(plan.type.times?.(plan.attributes) ?? {}))
    if (ms !== undefined && ms >= around.ms)
      say(
        "timeout_never",
        [name],
        `${ms} ms are not shorter than the ${around.ms} ms of ${around.of}, which are over before`,
      );
  const effort = backoffs(plan);
  if (effort !== undefined && effort >= around.ms)
    say(
      "retry_too_long",
      ["retry"],
      `the backoffs alone take at least ${effort} ms, and ${around.of} has ${around.ms} ms`,
    );
}

/** A time limit of the run, or of something around the step, whatever it is. */
function isLimited(id: string, workflow: WorkflowPlan): boolean {
  return (
    workflow.timeoutMs !== undefined ||
    containersOf(id, workflow).some(({ type, attributes }) => Object.keys(type.times?.(attributes) ?? {}).length > 0)
  );
}

/** The shortest one that is known. */
function limitAround(id: string, workflow: WorkflowPlan): Limit | undefined {
  const limits: Limit[] = containersOf(id, workflow).flatMap(({ id: holder, type, attributes }) =>
    Object.values(type.times?.(attributes) ?? {}).flatMap((ms) =>
      ms === undefined ? [] : [{ ms, of: `the step "${holder}"` }],
    ),
  );
  if (workflow.timeoutMs !== undefined) limits.push({ ms: workflow.timeoutMs, of: "the workflow" });
  return limits.reduce<Limit | undefined>((least, limit) => (least && least.ms <= limit.ms ? least : limit), undefined);
}

/** Attempts beyond are not counted: no policy that is written in earnest has as many. */
const MOST_ATTEMPTS = 1_000;

/** The least time that all pauses of a policy take together. Undefined: it is computed, or has no end. */
function backoffs({ retry }: StepPlan): number | undefined {
  if (!retry) return undefined;
  const {
    max_attempts: attempts,
    initial_backoff_ms: initial,
    max_backoff_ms: max = ENGINE_RETRY.max_backoff_ms,
    multiplier = ENGINE_RETRY.multiplier,
    jitter = true,
  } = retry;
  if (
    typeof attempts !== "number" ||
    typeof initial !== "number" ||
    typeof max !== "number" ||
    typeof multiplier !== "number"
  )
    return undefined;
  if (attempts < 0) return undefined;
  let [sum, pause] = [0, initial];
  for (let nth = 1; nth < Math.min(attempts, MOST_ATTEMPTS); nth++) {
    sum += Math.min(pause, max) * (jitter ? 0.5 : 1);
    pause = Math.min(pause * multiplier, Number.MAX_SAFE_INTEGER);
  }
  return Math.floor(sum);
}
