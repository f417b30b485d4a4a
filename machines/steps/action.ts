// `action`: one piece of work for a worker, dispatched as often as its retry policy allows. This file evaluates the call;
// decide/answers.ts decides on its attempts.
import { naming, number, object, optional, required, text } from "../attribute/kinds.js";
import { compileTemplate, ExpressionError, type Scope, type Template } from "../expression/index.js";
import { withSecrets } from "../schema/secrets.js";
import { MAX_VERSION } from "../values/limits.js";
import { completeRetry, ENGINE_RETRY, type RetryPolicy } from "../values/retry.js";
import { LONGEST_WAIT_MS } from "../values/time.js";
import { stepConcurrency, stepSlot } from "./concurrency.js";
import { constantText } from "./named.js";
import { stepRate, stepTurn } from "./rate.js";
import type { Known } from "./step.js";
import {
  type Doubt,
  durationOf,
  type Failure,
  failed,
  millis,
  numberOf,
  objectOf,
  type RetrySource,
  type StepPlan,
  stepType,
  textOf,
} from "./step.js";
import { written } from "./words.js";

/** The time of an attempt if neither the step nor the registration gives one. */
export const DEFAULT_TIMEOUT_MS = 300_000;

const TIMEOUT = { min: 1, max: LONGEST_WAIT_MS };

export const action = stepType({
  name: "action",
  summary: "A worker executes a registered action.",
  attributes: {
    action: required(naming("action", text), '"service.name" or "service.name@version".'),
    inputs: optional(object, "Evaluated once per step entry; the same for every attempt."),
    timeout_ms: optional(
      number(TIMEOUT),
      "The time of an attempt, from its dispatch; else that of the registration, else 300000.",
    ),
    queue_timeout_ms: optional(number(TIMEOUT), "The time to wait for a worker; unlimited if absent."),
    heartbeat_timeout_ms: optional(number(TIMEOUT), "An attempt without a heartbeat for this time has failed."),
    concurrency: optional(
      stepConcurrency,
      "At most `limit` steps at once have the action carried out for the key, over all runs.",
    ),
    rate_limit: optional(
      stepRate,
      "At most `limit` attempts in `per_ms` milliseconds begin for the key, over all runs.",
    ),
  },
  output: "the worker's result",
  errors:
    "the worker's own, `action_not_registered`, `license_rejected`, `schema_mismatch`, `timeout`, `heartbeat_timeout`, `queue_timeout`",
  retries: true,
  effectful: true,
  mock: { output: "object", failures: "any" },
  chartText: ({ action }) => `Calls ${written(action)}.`,
  dryRunSkips: () => true,
  check({ action }, place) {
    if (!action.constant) return;
    const parsed = parseActionName(String(action.render({})));
    if (!parsed) place.at("action").problem(ACTION_NAME_RULE);
    else if ((parsed.version ?? 1) > MAX_VERSION) place.at("action").problem(`its version is at most ${MAX_VERSION}`);
  },
  outputSchema: ({ action }, known) => knownAction(action, known)?.outputSchema,
  fits({ action, inputs }, known) {
    const schema = knownAction(action, known)?.inputSchema;
    const by = `the input schema of the action ${constantText(action)}`;
    return schema ? [{ at: ["inputs"], given: inputs ?? NO_INPUTS, schema, by }] : [];
  },
  times: ({ timeout_ms, queue_timeout_ms, heartbeat_timeout_ms }) => ({
    ...(timeout_ms !== undefined && { timeout_ms: millis(timeout_ms) }),
    ...(queue_timeout_ms !== undefined && { queue_timeout_ms: millis(queue_timeout_ms) }),
    ...(heartbeat_timeout_ms !== undefined && { heartbeat_timeout_ms: millis(heartbeat_timeout_ms) }),
  }),
  doubts({ action, timeout_ms, heartbeat_timeout_ms: beat }, { plan, known }) {
    const attempt = timeout_ms === undefined ? knownAction(action, known)?.defaultTimeoutMs : timeout_ms;
    const doubts: Doubt[] = cappedBackoff(plan);
    if (typeof beat === "number" && typeof attempt === "number" && beat >= attempt)
      doubts.push({
        code: "heartbeat_never",
        at: ["heartbeat_timeout_ms"],
        message: `${beat} ms are not shorter than the ${attempt} ms of the attempt`,
      });
    return doubts;
  },
  enter({ attributes, scope, facts, run, plan }) {
    const name = textOf(attributes.action, scope, "action");
    const parsed = parseActionName(name);
    const found = parsed && facts.action(parsed.service, parsed.name, parsed.version, run.tenantId);
    if (!found) return failed("action_not_registered", `no action ${name} is registered`);
    if (found.licenseGroup !== undefined && !facts.licensed(run.tenantId, found.licenseGroup)) {
      const metadata = { action: name, license_group: found.licenseGroup };
      const error: Failure = {
        code: "license_rejected",
        message: `the licence group ${found.licenseGroup} is not granted`,
      };
      return { kind: "failed", error, notes: [{ type: "license.gate.rejected", metadata }] };
    }
    const given = objectOf(attributes.inputs, scope, "inputs");
    const problems = facts.conforms(found.inputSchema, given);
    if (problems.length > 0)
      return failed("schema_mismatch", `the inputs of ${name}: ${problems.slice(0, 5).join("; ")}`);
    if (run.dryRun && !found.dryRunSupported) return { kind: "skipped", reason: "dry_run", output: {} };
    const { concurrency, rate_limit: rate } = attributes;
    const called = `${found.service}.${found.name}`;
    return {
      kind: "call",
      ...(concurrency && !run.dryRun && { concurrency: stepSlot(called, concurrency, scope) }),
      ...(rate && !run.dryRun && { turn: stepTurn(called, rate, scope) }),
      call: {
        service: found.service,
        action: found.name,
        version: found.version,
        transport: found.transport,
        address: found.address,
        outputHash: found.outputHash,
        inputs: withSecrets(found.inputSchema, given),
        timeoutMs: attempt(attributes.timeout_ms) ?? found.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS,
        heartbeatTimeoutMs: attempt(attributes.heartbeat_timeout_ms),
        queueTimeoutMs: attempt(attributes.queue_timeout_ms),
        retry: plan.retry ? resolveRetry(plan.retry, scope) : completeRetry(found.defaultRetry),
      },
    };

    function attempt(source: typeof attributes.timeout_ms): number | undefined {
      return source === undefined ? undefined : durationOf(source, scope, "a timeout", 1);
    }
  },
});

/** What a step without inputs gives. */
export const NO_INPUTS = compileTemplate({});

function knownAction(action: Template, known: Known) {
  const parsed = parseActionName(constantText(action) ?? "");
  return parsed && known.action?.(parsed.service, parsed.name, parsed.version);
}

/** Of a retry policy. */
export function cappedBackoff({ retry }: StepPlan): Doubt[] {
  const { initial_backoff_ms: initial, max_backoff_ms: max = ENGINE_RETRY.max_backoff_ms } = retry ?? {};
  if (typeof initial !== "number" || typeof max !== "number" || initial <= max) return [];
  const message = `the first backoff is cut to ${max} ms, the longest that the policy allows`;
  return [{ code: "backoff_capped", at: ["retry", "initial_backoff_ms"], message }];
}

export const ACTION_NAME_RULE = 'must be "service.name" or "service.name@version"';

/** Splits at the last dot: the name of an action has none. */
export function parseActionName(text: string): { service: string; name: string; version?: number } | undefined {
  const match = /^([A-Za-z0-9_.:-]{1,128})\.([A-Za-z0-9_:-]{1,128})(?:@(\d{1,10}))?$/.exec(text);
  if (!match?.[1] || !match[2]) return undefined;
  return { service: match[1], name: match[2], ...(match[3] && { version: Number(match[3]) }) };
}

export function resolveRetry(source: RetrySource, scope: Scope): RetryPolicy {
  const resolved = Object.entries(source).map(([key, member]) => [
    key,
    typeof member === "object" && "render" in member ? retryNumber(key, member, scope) : member,
  ]);
  return completeRetry(Object.fromEntries(resolved) as Partial<RetryPolicy>);
}

/** Applies to a computed number the bounds of a number in the definition. */
function retryNumber(key: string, member: Template, scope: Scope): number {
  const name = `retry.${key}`;
  if (key === "multiplier") return numberOf(member, scope, name, 1);
  if (key !== "max_attempts") return durationOf(member, scope, name);
  const attempts = numberOf(member, scope, name, -1);
  if (attempts === 0 || !Number.isInteger(attempts)) throw new ExpressionError(`${name} must be a whole number, not 0`);
  return attempts;
}
