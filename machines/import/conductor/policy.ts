// Timeouts and retries of a Conductor task as the attributes of an action. They are in the task's definition, which the document may have or not.
import { isObject, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { LONGEST_WAIT_MS } from "../../values/time.js";
import type { Report } from "../report.js";

/** Fields of a task definition that say nothing of how its task is carried out. */
const DESCRIBING = [
  ...[
    "name",
    "description",
    "ownerApp",
    "ownerEmail",
    "createdBy",
    "updatedBy",
    "createTime",
    "updateTime",
    "inputKeys",
  ],
  ...[
    "outputKeys",
    "retryCount",
    "retryLogic",
    "retryDelaySeconds",
    "timeoutSeconds",
    "timeoutPolicy",
    "backoffScaleFactor",
  ],
  ...[
    "responseTimeoutSeconds",
    "concurrentExecLimit",
    "pollTimeoutSeconds",
    "maxRetryDelaySeconds",
    "rateLimitPerFrequency",
    "rateLimitFrequencyInSeconds",
  ],
  ...["accessPolicy", "totalTimeoutSeconds", "enforceSchema", "baseType", "version"],
];

const ms = (seconds: number) => Math.min(seconds * 1_000, LONGEST_WAIT_MS);

export function policyOf(task: JsonObject, path: FieldPath, report: Report): JsonObject {
  const definition = isObject(task.taskDefinition) ? task.taskDefinition : undefined;
  const own = typeof task.retryCount === "number" ? task.retryCount : undefined;
  if (!definition) {
    report.note(
      path,
      `the task definition ${String(task.name)}`,
      "it is not in this document, so its retries and timeouts are not known",
      own === undefined
        ? "those that the action is registered with"
        : "its own retryCount, and else those that the action is registered with",
    );
    return own === undefined
      ? {}
      : { retry: { max_attempts: own + 1, initial_backoff_ms: 60_000, multiplier: 1, jitter: false } };
  }
  const number = (name: string, otherwise: number) =>
    typeof definition[name] === "number" ? definition[name] : otherwise;
  const at = [...path, "taskDefinition"];
  for (const [name, value] of Object.entries(definition))
    if (!DESCRIBING.includes(name) && !isNothing(value))
      report.refuse([...at, name], `${name} of a task definition`, WHY[name] ?? "an action has nothing like it");
  const logic = String(definition.retryLogic ?? "FIXED");
  const retries = own ?? number("retryCount", 3);
  if (logic === "LINEAR_BACKOFF" && retries > 1)
    report.refuse([...at, "retryLogic"], "LINEAR_BACKOFF", "a backoff is multiplied, not added to", "a fixed delay");
  const policy = String(definition.timeoutPolicy ?? "TIME_OUT_WF");
  const timeout = policy === "ALERT_ONLY" ? 0 : number("timeoutSeconds", 0);
  const [response, poll, limit] = [
    number("responseTimeoutSeconds", 0),
    number("pollTimeoutSeconds", 0),
    number("concurrentExecLimit", 0),
  ];
  if (response > 0)
    report.note(
      [...at, "responseTimeoutSeconds"],
      "responseTimeoutSeconds",
      "a worker says that it is alive with heartbeats",
      "heartbeat_timeout_ms",
    );
  return {
    timeout_ms: timeout > 0 ? ms(timeout) : LONGEST_WAIT_MS,
    ...(response > 0 && { heartbeat_timeout_ms: ms(response) }),
    ...(poll > 0 && { queue_timeout_ms: ms(poll) }),
    ...(limit > 0 && { concurrency: { key: String(task.name), limit } }),
    ...rateOf(task, number, at, report),
    retry: {
      max_attempts: retries + 1,
      initial_backoff_ms: ms(number("retryDelaySeconds", 60)),
      max_backoff_ms: number("maxRetryDelaySeconds", 0) > 0 ? ms(number("maxRetryDelaySeconds", 0)) : LONGEST_WAIT_MS,
      multiplier: logic === "EXPONENTIAL_BACKOFF" ? 2 : 1,
      jitter: false,
      ...(policy === "TIME_OUT_WF" && { non_retryable_codes: ["timeout"] }),
    },
  };
}

/** In no window of that length are there more, because they are spread evenly; after a time without any, not all come at once. */
function rateOf(
  task: JsonObject,
  number: (name: string, otherwise: number) => number,
  at: FieldPath,
  report: Report,
): JsonObject {
  const [limit, seconds] = [number("rateLimitPerFrequency", 0), number("rateLimitFrequencyInSeconds", 1)];
  if (limit <= 0 || seconds <= 0) return {};
  const rate = { key: String(task.name), limit, per_ms: seconds * 1_000, burst: 1 };
  const where = [...at, "rateLimitPerFrequency"];
  const what = `rateLimitPerFrequency ${limit} in ${seconds} s`;
  if (![limit, rate.per_ms].every(Number.isInteger) || limit > MOST_IN_A_TIME || seconds > LONGEST_TIME_SECONDS) {
    report.refuse(
      where,
      what,
      "a rate limit has at most 10000 in at most 31 days",
      "a smaller number in a shorter time",
    );
    return {};
  }
  report.note(
    where,
    what,
    "attempts are spread evenly over that time",
    "a larger burst in rate_limit, if all may come at once",
  );
  return { rate_limit: rate };
}

const MOST_IN_A_TIME = 10_000;
const LONGEST_TIME_SECONDS = 31 * 86_400;

const WHY: Readonly<Record<string, string>> = {
  inputTemplate: "its defaults would have to be merged into the inputs",
};

/** What a document has in a field that says nothing. */
export const isNothing = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === false ||
  value === 0 ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0);
