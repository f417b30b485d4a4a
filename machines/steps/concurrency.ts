// `concurrency`: the attributes with which a workflow, or an action, limits how many go on at once for a key; and the key of a run.
import { shape } from "../attribute/composite.js";
import {
  defaulted,
  type Kind,
  type NumberSource,
  number,
  oneOf,
  plainNumber,
  required,
  text,
} from "../attribute/kinds.js";
import { ExpressionError, isSecretText, type Scope, type Template } from "../expression/index.js";
import type { RunIdentity } from "../state/identity.js";
import type { OnLimit, SlotKey } from "../state/slot.js";
import { isLongerThan } from "../values/text.js";

/** Characters of a key. */
const MAX_KEY = 256;
const LIMIT = { min: 1, max: 10_000, whole: true };
const KEY_WORDS = "What shares the slots: a string, a number or a boolean, at most 256 characters.";

/** How many runs of a workflow go on at once for a key. */
export interface RunConcurrency {
  readonly key: Template;
  readonly limit: number;
  readonly onLimit: OnLimit;
}

const ofRun = shape("concurrency", {
  key: required(text, KEY_WORDS),
  limit: required(plainNumber(LIMIT), "Runs that go on at once for a key, of each tenant: 1 to 10000."),
  on_limit: defaulted(
    oneOf("queue", "refuse", "cancel_oldest"),
    "queue",
    "The next run waits, is refused, or has the oldest cancelled.",
  ),
});

export const runConcurrency: Kind<RunConcurrency> = {
  name: ofRun.name,
  written: ofRun.written,
  parse(raw, place) {
    const read = ofRun.parse(raw, place);
    return read && { key: read.key, limit: read.limit, onLimit: read.on_limit };
  },
};

/** How many dispatches of an action there are at once for a key, over all runs. */
export interface StepConcurrency {
  readonly key: Template;
  readonly limit: NumberSource;
}

export const stepConcurrency: Kind<StepConcurrency> = shape("concurrency", {
  key: required(text, KEY_WORDS),
  limit: required(number(LIMIT), "Steps that have the action carried out at once for a key: 1 to 10000."),
});

/** The key is the tenant's own. Throws ExpressionError. */
export function runSlot({ workflowId, tenantId }: RunIdentity, { key }: RunConcurrency, scope: Scope): SlotKey {
  return {
    ...(tenantId !== undefined && { tenantId }),
    scope: workflowScope(workflowId),
    key: keyIn("concurrency", key, scope),
  };
}

/** What an action reaches is the same system for all tenants, so they share the key. Throws ExpressionError. */
export function stepSlot(action: string, { key, limit }: StepConcurrency, scope: Scope) {
  const slot = { scope: actionScope(action), key: keyIn("concurrency", key, scope) };
  return { slot, limit: wholeIn("the limit of concurrency", limit, LIMIT, scope) };
}

/** A storage format. */
export const workflowScope = (workflowId: string): string => `workflow:${workflowId}`;
export const actionScope = (action: string): string => `action:${action}`;

/** The key of the attribute `of`. Throws ExpressionError. */
export function keyIn(of: string, template: Template, scope: Scope): string {
  const rendered = template.render(scope);
  if (isSecretText(rendered))
    throw new ExpressionError(`the key of ${of} is not secret, so it cannot depend on a secret value`);
  if (!["string", "number", "boolean"].includes(typeof rendered))
    throw new ExpressionError(`the key of ${of} must be a string, a number or a boolean`);
  const key = String(rendered);
  if (!isLongerThan(key, MAX_KEY)) return key;
  throw new ExpressionError(`the key of ${of} has more than ${MAX_KEY} characters`);
}

/** A whole number within the bounds. Throws ExpressionError. */
export function wholeIn(
  what: string,
  source: NumberSource,
  { min, max }: { readonly min: number; readonly max: number },
  scope: Scope,
): number {
  const number = typeof source === "number" ? source : source.renderNumber(scope);
  if (typeof number === "number" && Number.isInteger(number) && number >= min && number <= max) return number;
  throw new ExpressionError(`${what} must be a whole number from ${min} to ${max}`);
}
