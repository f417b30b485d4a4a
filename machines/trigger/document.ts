// Reads a trigger document into a trigger, or lists its problems, each with its JSON path.

import { Budget } from "../attribute/budget.js";
import { beginSalvage, normalForm, own, readAttributes, refuseUnknown, shape } from "../attribute/composite.js";
import { Findings, type Problem } from "../attribute/findings.js";
import {
  dataObject,
  defaulted,
  flag,
  id,
  type Kind,
  object,
  oneOf,
  optional,
  type Parsed,
  plainNumber,
  plainText,
  required,
  tenant,
} from "../attribute/kinds.js";
import { Place } from "../attribute/problem.js";
import { writtenObject } from "../attribute/written.js";
import { LEVELS, MAX_FAIRNESS_KEY, type Precedence, precedenceOf, WEIGHTS } from "../state/precedence.js";
import { isObject, type JsonObject, measure } from "../values/json.js";
import { MAX_VERSION } from "../values/limits.js";
import * as misfit from "../values/misfit.js";
import { inOnePiece } from "../values/slices.js";
import { isLongerThan } from "../values/text.js";
import { LONGEST_WAIT_MS, parseInstant } from "../values/time.js";

const moment: Kind<number> = {
  name: "time",
  written: { type: "string", format: "date-time" },
  parse(raw, place) {
    const time = typeof raw === "string" ? parseInstant(raw) : undefined;
    return (
      time ?? place.problem(typeof raw === "string" ? misfit.notOfFormat("date-time") : misfit.wrongType("string"))
    );
  },
};

const fairnessKey: Kind<string> = {
  name: "string",
  written: { type: "string", minLength: 1, maxLength: MAX_FAIRNESS_KEY },
  parse(raw, place) {
    const text = plainText.parse(raw, place);
    if (text === undefined) return undefined;
    if (text === "") return place.problem(misfit.tooShort(1));
    return isLongerThan(text, MAX_FAIRNESS_KEY) ? place.problem(misfit.tooLong(MAX_FAIRNESS_KEY)) : text;
  },
};

/** The turn of the runs among those that wait for a worker or a slot. */
const PRECEDENCE = {
  priority: optional(
    plainNumber({ min: 1, max: LEVELS, whole: true }),
    "Of its runs: 1 is the highest, 3 the usual one.",
  ),
  fairness_key: optional(fairnessKey, "Of its runs: keys share by their weights what they wait for."),
  fairness_weight: optional(plainNumber(WEIGHTS), "Of the fairness key. Default: 1."),
};

const CRON = {
  schedule: required(plainText, "Five fields, in the local time of `time_zone`."),
  time_zone: defaulted(plainText, "UTC", "A time zone of the IANA database, such as Europe/Vienna."),
  start_at: optional(moment, "Ticks before it do not fire."),
  end_at: optional(moment, "Ticks after it do not fire."),
  jitter_ms: defaulted(
    plainNumber({ min: 0, max: 3_600_000, whole: true }),
    0,
    "It fires later than its ticks, by a part of this that is its own.",
  ),
  inputs: optional(dataObject, "The inputs of every run, beside `trigger`."),
  overlap_policy: defaulted(
    oneOf("allow", "skip"),
    "allow",
    "Whether it fires while a run of an earlier fire goes on.",
  ),
  catchup: defaulted(oneOf("latest", "none"), "latest", "Whether the latest missed tick is fired late."),
  catchup_window_ms: defaulted(
    plainNumber({ min: 0, max: LONGEST_WAIT_MS, whole: true }),
    3_600_000,
    "How late that may be.",
  ),
  ...PRECEDENCE,
};

const RECORD_TRANSITION = {
  record_type: required(plainText, "Compared with the event's."),
  from_state: required(plainText, "Compared with the event's."),
  to_state: required(plainText, "Compared with the event's."),
  input_mapping: optional(object, "The inputs of the run: templates over `record` and `event`."),
  ...PRECEDENCE,
};

export type CronConfig = Parsed<typeof CRON>;
export type RecordTransitionConfig = Parsed<typeof RECORD_TRANSITION>;

/** What fires a trigger. */
export type TriggerRule =
  | { readonly type: "cron"; readonly config: CronConfig }
  | { readonly type: "record_transition"; readonly config: RecordTransitionConfig };
export type TriggerType = TriggerRule["type"];

/** A checked trigger. */
export interface Trigger {
  readonly rule: TriggerRule;
  readonly workflowId: string;
  readonly version?: number;
  readonly enabled: boolean;
  readonly tenantId?: string;
  /** The config as it was posted. */
  readonly config: JsonObject;
}

export interface Reading<T> {
  /** Absent if there are problems. */
  readonly value?: T;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

const CONFIGS = { cron: shape("cron config", CRON), record_transition: shape("config", RECORD_TRANSITION) } as const;

const anyObject: Kind<JsonObject> = {
  name: "object",
  written: { type: "object" },
  parse: (raw, place) => (isObject(raw) ? raw : place.problem(misfit.wrongType("object"))),
};

/** Of a trigger as it is read. A client that has one class for both writes null, which counts as absent. */
const setByService: Kind<never> = {
  name: "null",
  written: { type: "null" },
  parse: (_raw, place) => place.problem("is set by the service: leave it out"),
};

const DOCUMENT = {
  $schema: optional(plainText, "For editors; the service does not read it."),
  trigger_type: required(oneOf("cron", "record_transition"), "What fires it."),
  workflow_id: required(id, "The workflow that a fire starts."),
  version: optional(plainNumber({ min: 1, max: MAX_VERSION, whole: true }), "Absent: the latest published one."),
  config: required(anyObject, "By trigger_type."),
  enabled: defaulted(flag, true, "Whether it fires by itself."),
  tenant_id: optional(tenant, "The tenant of its runs."),
  id: optional(setByService, "Set by the service."),
  created_at: optional(setByService, "Set by the service."),
  created_by: optional(setByService, "Set by the service."),
  next_fire_at: optional(setByService, "Set by the service."),
  last_fired_at: optional(setByService, "Set by the service."),
  paused: optional(setByService, "Set by the service."),
  in_words: optional(setByService, "Set by the service."),
};

/** The JSON Schema of a trigger document, for editors. */
export function writtenTrigger(): JsonObject {
  const config = (type: TriggerType) => ({
    if: { properties: { trigger_type: { const: type } }, required: ["trigger_type"] },
    then: { properties: { config: CONFIGS[type].written ?? {} } },
  });
  return { ...writtenObject(DOCUMENT), allOf: [config("cron"), config("record_transition")] };
}

/** The names that templates of `input_mapping` see. */
const SCOPE: ReadonlySet<string> = new Set(["record", "event", "now"]);

export function readTrigger(document: unknown): Reading<Trigger> {
  return readingOf((place) => triggerAt(document, place));
}

/** A valid document as it is compared with another: what says no more than its absence is left out. */
export function normalTrigger(document: JsonObject): JsonObject {
  const { config, ...head } = normalForm(DOCUMENT, document);
  const attributes = head.trigger_type === "cron" ? CRON : RECORD_TRANSITION;
  return { ...head, config: isObject(config) ? normalForm(attributes, config) : {} };
}

/** A config that replaces another one. */
export function readTriggerConfig(type: TriggerType, config: unknown): Reading<TriggerRule> {
  return readingOf((place) => ruleAt(type, config, place.at("config")));
}

function readingOf<T>(read: (place: Place) => T | undefined): Reading<T> {
  beginSalvage();
  const [problems, warnings] = [new Findings("problems"), new Findings("warnings")];
  const place = Place.of("$", { problems, warnings, names: { scope: SCOPE }, budget: new Budget() });
  const value = read(place);
  inOnePiece(place.checks());
  const found = { problems: problems.all(), warnings: warnings.all() };
  return { ...(problems.count === 0 && value !== undefined && { value }), ...found };
}

function triggerAt(document: unknown, place: Place): Trigger | undefined {
  if (!isObject(document)) return place.problem(misfit.wrongType("object"));
  const size = measure(document);
  if (typeof size !== "number") return place.below(size.path).problem(size.message);
  refuseUnknown(document, DOCUMENT, place);
  const { parsed, valid } = readAttributes(DOCUMENT, (name) => ({ raw: own(document, name), place: place.at(name) }));
  const { trigger_type: type, config } = parsed;
  // The config is checked beside faulty members, so that one answer lists every problem.
  const rule = type && config && ruleAt(type, config, place.at("config"));
  if (!valid || !rule || !config) return undefined;
  const { workflow_id: workflowId, version, enabled, tenant_id: tenantId } = parsed as Parsed<typeof DOCUMENT>;
  return { rule, workflowId, version, enabled, tenantId, config };
}

function ruleAt(type: TriggerType, config: unknown, place: Place): TriggerRule | undefined {
  if (!isObject(config)) return place.problem(misfit.wrongType("object"));
  const parsed = CONFIGS[type].parse(config, place);
  if (parsed?.fairness_weight !== undefined && parsed.fairness_key === undefined)
    return place.at("fairness_key").problem("is required with fairness_weight");
  return parsed && ({ type, config: parsed } as TriggerRule);
}

/** The precedence of the runs that a trigger with this config starts. The config was checked when it was stored. */
export function triggeredPrecedence(config: JsonObject): Precedence | undefined {
  const { priority, fairness_key: key, fairness_weight: weight } = config;
  return precedenceOf({
    ...(typeof priority === "number" && { priority }),
    ...(typeof key === "string" && { key }),
    ...(typeof weight === "number" && { weight }),
  });
}
