// Shared by the steps about events: topics, headers, and the match of an event with a wait. The run looks for events that were
// published before its wait in decide/events.ts.

import { type Kind, object } from "../attribute/kinds.js";
import {
  asText,
  type Expression,
  ExpressionError,
  equalities,
  firstItem,
  isSecretText,
  type Scalar,
  type Scope,
  type Template,
} from "../expression/index.js";
import type { EventFact } from "../messages/fact.js";
import type { EventConditions } from "../messages/owed.js";
import type { Wait } from "../state/wait.js";
import { isObject, type JsonObject, measure } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import { isLongerThan } from "../values/text.js";
import { objectOf, textOf } from "./step.js";

export type EventWait = Extract<Wait, { kind: "event" }>;

/** A RabbitMQ routing key has at most 255 bytes. */
const TOPIC = new RegExp(misfit.TOPIC_PATTERN);
const TOPIC_RULE = misfit.unlike(misfit.TOPIC_PATTERN);
export const MAX_EVENT_HEADERS = 32;
export const HEADER_NAME_PATTERN = misfit.ID_PATTERN;
const HEADER_NAME = new RegExp(HEADER_NAME_PATTERN);
export const MAX_HEADER_CHARS = 1_024;
/** At the broker it names the tenant of an event, so no event has such a header of its own. A wire format. */
export const TENANT_HEADER = "saga-tenant";
export const RESERVED_HEADER = "is the service's own header: it names the tenant of an event";
/** In any case, for consumers that compare names without it. */
export const isTenantHeader = (name: string): boolean => name.toLowerCase() === TENANT_HEADER;
/** Conditions of a wait, and the characters of each path and of each text. What is more is left to `match` alone. */
const MAX_CONDITIONS = 8;
const MAX_CONDITION_CHARS = 256;

export function topicFault(topic: Template): string | undefined {
  return topic.constant && !TOPIC.test(String(topic.render({}))) ? TOPIC_RULE : undefined;
}

export function topicOf(topic: Template, scope: Scope): string {
  const rendered = textOf(topic, scope, "topic");
  if (!TOPIC.test(rendered)) throw new ExpressionError(`topic ${TOPIC_RULE}`);
  return rendered;
}

export const eventHeaders: Kind<Template> = {
  ...object,
  parse(raw, place) {
    let valid = true;
    for (const name of isObject(raw) ? Object.keys(raw) : []) {
      if (!HEADER_NAME.test(name)) valid = Boolean(place.at(name).problem(misfit.unlikeName(HEADER_NAME_PATTERN)));
      if (isTenantHeader(name)) valid = Boolean(place.at(name).problem(RESERVED_HEADER));
    }
    const template = object.parse(raw, place);
    return valid ? template : undefined;
  },
};

/** Values become text; null leaves a header out. */
export function eventHeadersOf(template: Template | undefined, scope: Scope): Record<string, string> {
  const entries = Object.entries(objectOf(template, scope, "headers")).filter(([, value]) => value !== null);
  if (entries.length > MAX_EVENT_HEADERS)
    throw new ExpressionError(`the headers ${misfit.tooManyMembers(MAX_EVENT_HEADERS)}`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      if (!HEADER_NAME.test(name))
        throw new ExpressionError(`a member of headers ${misfit.unlikeName(HEADER_NAME_PATTERN)}`);
      if (isTenantHeader(name)) throw new ExpressionError(`headers.${name} ${RESERVED_HEADER}`);
      if (typeof value === "object")
        throw new ExpressionError(
          isSecretText(value)
            ? `headers.${name} is not secret, so it cannot depend on a secret value`
            : `headers.${name} ${misfit.wrongType("string")}`,
        );
      const text = asText(value);
      if (isLongerThan(text, MAX_HEADER_CHARS))
        throw new ExpressionError(`headers.${name} ${misfit.tooLong(MAX_HEADER_CHARS)}`);
      return [name, text];
    }),
  );
}

/** An event as `match` sees it, and as the output of the step that consumes it. */
export function eventValue({ topic, headers, payload }: EventFact): JsonObject {
  return { topic, headers: { ...headers }, payload };
}

/**
 * What an event must equal for `match` to pass, as far as the store can look it up: paths of its headers and its payload. `entry` is that of
 * the waiting step.
 */
export function eventConditions(match: Expression, scope: Scope, entry: number): EventConditions | undefined {
  const found = equalities(match, "event", scope)
    .filter(({ path }) => /^(payload|headers)$/.test(path[0] ?? "") && path.every(isShort))
    .map(({ path, value }): [string, Scalar] => [JSON.stringify(path), value])
    .filter(([path, value]) => isShort(path) && isShort(value));
  return found.length === 0 ? undefined : { entry, equal: Object.fromEntries(found.slice(0, MAX_CONDITIONS)) };
}

/** And can be stored. */
function isShort(value: Scalar): boolean {
  return typeof value !== "string" || (value.length <= MAX_CONDITION_CHARS && typeof measure(value) === "number");
}

/** The first event that matches. Without `match`, every event does. */
export function pick(events: readonly EventFact[], match: Expression | undefined, scope: Scope) {
  return firstItem(events, match?.weight ?? 0, (event) => match?.test({ ...scope, event: eventValue(event) }) ?? true);
}
