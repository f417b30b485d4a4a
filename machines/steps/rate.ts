// `rate_limit`: the attributes with which a workflow, or an action, limits how many begin in a time for a key; and the key of a run.
import { shape } from "../attribute/composite.js";
import { type Kind, type NumberSource, number, optional, plainNumber, required, text } from "../attribute/kinds.js";
import type { Scope, Template } from "../expression/index.js";
import type { RunIdentity } from "../state/identity.js";
import type { Rate, Turn } from "../state/turn.js";
import { actionScope, keyIn, wholeIn, workflowScope } from "./concurrency.js";

/** Tokens of one time, or of a full bucket. */
const COUNT = { min: 1, max: 10_000, whole: true };
/** 31 days. */
const PER_MS = { min: 1, max: 2_678_400_000, whole: true };
const KEY_WORDS = "What shares the limit: a string, a number or a boolean, at most 256 characters.";
const PER_WORDS = "The time in which so many begin, in milliseconds: 1 to 2678400000.";
const BURST_WORDS = "How many begin at once after a time without any: 1 to 10000. Absent: `limit`.";

/** How many runs of a workflow begin in a time for a key. */
export interface RunRate extends Rate {
  readonly key: Template;
}

const ofRun = shape("rate_limit", {
  key: required(text, KEY_WORDS),
  limit: required(plainNumber(COUNT), "Runs that begin in the time for a key, of each tenant: 1 to 10000."),
  per_ms: required(plainNumber(PER_MS), PER_WORDS),
  burst: optional(plainNumber(COUNT), BURST_WORDS),
});

export const runRate: Kind<RunRate> = {
  name: ofRun.name,
  written: ofRun.written,
  parse(raw, place) {
    const read = ofRun.parse(raw, place);
    return read && { key: read.key, limit: read.limit, perMs: read.per_ms, burst: read.burst ?? read.limit };
  },
};

/** How many attempts of an action begin in a time for a key, over all runs. */
export interface StepRate {
  readonly key: Template;
  readonly limit: NumberSource;
  readonly per_ms: NumberSource;
  readonly burst?: NumberSource | undefined;
}

export const stepRate: Kind<StepRate> = shape("rate_limit", {
  key: required(text, KEY_WORDS),
  limit: required(number(COUNT), "Attempts of the action that begin in the time for a key: 1 to 10000."),
  per_ms: required(number(PER_MS), PER_WORDS),
  burst: optional(number(COUNT), BURST_WORDS),
});

/** The key is the tenant's own. Throws ExpressionError. */
export function runTurn({ workflowId, tenantId }: RunIdentity, { key, ...rate }: RunRate, scope: Scope): Turn {
  const tenant = tenantId === undefined ? {} : { tenantId };
  return { ...tenant, scope: workflowScope(workflowId), key: keyIn("rate_limit", key, scope), ...rate };
}

/** What an action reaches is the same system for all tenants, so they share the key. Throws ExpressionError. */
export function stepTurn(action: string, { key, ...rate }: StepRate, scope: Scope): Turn {
  const limit = wholeIn("the limit of rate_limit", rate.limit, COUNT, scope);
  return {
    ...{ scope: actionScope(action), key: keyIn("rate_limit", key, scope), limit },
    perMs: wholeIn("the per_ms of rate_limit", rate.per_ms, PER_MS, scope),
    burst: rate.burst === undefined ? limit : wholeIn("the burst of rate_limit", rate.burst, COUNT, scope),
  };
}
