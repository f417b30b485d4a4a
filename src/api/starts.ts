// Starts of runs, alone or with a signal.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  LEVELS,
  LONGEST_WAIT_MS,
  MAX_FAIRNESS_KEY,
  misfit,
  parseRunId,
  precedenceOf,
  type RunId,
  UUID_PATTERN,
  WEIGHTS,
} from "../../machines/index.js";
import { ownerFor } from "../access/index.js";
import { badRequest, conflict, notConfigured } from "../errors.js";
import { uuidVersion } from "../ids.js";
import { notAwaited } from "../operate/index.js";
import type { OnConflict, StartAnswer, StartRequest } from "../run/ports.js";
import { noPublishedWorkflow } from "../run/starter.js";
import { accepted, newSignal, refuseReserved, SIGNAL_ANSWER } from "./commands.js";
import type { ApiDeps, Shared } from "./deps.js";
import { AnyObject, refuseLargePayload, refuseNames } from "./http/body.js";
import { IdempotencyKey, idempotencyKey } from "./http/idempotency.js";
import { endOfWork } from "./http/load-shedding.js";
import { query, SignalName, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, ref, responses } from "./http/responses.js";
import { CommandHeaders, traceOf } from "./http/trace.js";
import type { Api } from "./http/validation.js";
import { MAX_LABEL } from "./run-filters.js";
import { atRest, WAIT, type Waiters } from "./waiting.js";

export const Labels = Type.Unsafe<Readonly<Record<string, string>>>({
  type: "object",
  propertyNames: { pattern: misfit.NEW_ID_PATTERN },
  additionalProperties: { type: "string", minLength: 1, maxLength: MAX_LABEL },
  maxProperties: 16,
  description: "They stay with the run, and are filters of the list.",
});

const BusinessKey = Type.String({ minLength: 1, maxLength: 256 });
const Debounced = Type.Object(
  {
    window_ms: Type.Integer({ minimum: 1, maximum: LONGEST_WAIT_MS }),
    max_ms: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LONGEST_WAIT_MS, description: "From the first start of the burst." }),
    ),
  },
  {
    description: "Of starts of a business key, each within the window of the one before, the last one is carried out.",
  },
);

const MEMBERS = {
  workflow_id: Type.String({ pattern: misfit.ID_PATTERN }),
  version: Type.Optional(Version),
  entrypoint: Type.Optional(
    Type.String({ maxLength: 128, description: "Empty or `default`: the definition's start." }),
  ),
  inputs: Type.Optional(AnyObject()),
  variables: Type.Optional(AnyObject()),
  tenant_id: Type.Optional(Type.String({ pattern: UUID_PATTERN })),
  dry_run: Type.Optional(Type.Boolean()),
  feature_overrides: Type.Optional(
    Type.Unsafe<Record<string, boolean>>({ type: "object", additionalProperties: { type: "boolean" } }),
  ),
  run_id: Type.Optional(Type.String({ pattern: UUID_PATTERN })),
  idempotency_key: Type.Optional(IdempotencyKey),
  business_key: Type.Optional(BusinessKey),
  labels: Type.Optional(Labels),
  priority: Type.Optional(Type.Integer({ minimum: 1, maximum: LEVELS, description: "1 is the highest; default 3." })),
  fairness_key: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_FAIRNESS_KEY,
      description: "Keys share by their weights what their runs wait for, within a tenant and a priority.",
    }),
  ),
  fairness_weight: Type.Optional(
    Type.Number({ minimum: WEIGHTS.min, maximum: WEIGHTS.max, description: "Of the fairness key; default 1." }),
  ),
  delay_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: LONGEST_WAIT_MS })),
  timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: LONGEST_WAIT_MS })),
};
const Members = Type.Object(MEMBERS);
const Start = Type.Object({
  ...MEMBERS,
  on_conflict: Type.Optional(
    Type.Unsafe<OnConflict>({
      type: "string",
      enum: ["reject", "return", "cancel_old"],
      description: "What happens while another run that was started with this member holds the business key.",
    }),
  ),
  debounce: Type.Optional(Debounced),
});
const SignalledStart = Type.Object({
  ...MEMBERS,
  business_key: BusinessKey,
  signal: Type.Object({
    name: SignalName,
    payload: Type.Optional(AnyObject({ default: {} })),
    idempotency_key: Type.Optional(IdempotencyKey),
  }),
});

const START_ANSWER = {
  run_id: { type: "string", format: "uuid" },
  workflow_id: { type: "string" },
  version: { type: "integer" },
  definition_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  deduplicated: {
    type: "boolean",
    description: "A run with this idempotency key or run id existed, or had the business key; this is that run.",
  },
};
const STARTED = object("The run is durable.", START_ANSWER);
const ENDED = object("The run has ended within `wait_ms`.", { ...START_ANSWER, run: ref("SagaRun") });

const SIGNALLED = { ...START_ANSWER, ...SIGNAL_ANSWER };
const DELIVERED = object("The run is durable, and has recorded the signal.", SIGNALLED);
const RESTING = object("The run waits again, or has ended, within `wait_ms`.", { ...SIGNALLED, run: ref("SagaRun") });

export function startRoutes(app: Api, deps: ApiDeps & Shared): void {
  startRoute(app, deps);
  signalWithStartRoute(app, deps);
}

function startRoute(app: Api, { starter, waiters, canceller }: ApiDeps & Shared): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "operator" as const,
    summary: "Start a run; with wait_ms the answer waits for its end",
    body: Start,
    headers: CommandHeaders,
    querystring: query(WAIT),
    response: responses({ 200: ENDED, 202: STARTED }, 400, 404, 409, 413, 415, 422, 429, 501),
  };
  app.post("/api/v1/sagas/start", { schema }, async (request, reply) => {
    const policy = policyIn(request.body);
    if (policy.onConflict === "cancel_old" && !canceller)
      throw notConfigured("no canceller is configured: this service cancels no runs");
    const answer = await starter.start(startRequest(request, policy));
    reply.status(202).header("Location", `/api/v1/sagas/${answer.runId}`);
    const { wait_ms: ms = 0 } = request.query;
    const run = ms > 0 ? await endOf(answer, waiters, ms, request, reply) : undefined;
    if (run) reply.status(200);
    return { ...startItem(answer), ...(run && { state: run.state, run }) };
  });
}

/** What becomes of the start while another run holds its business key. Throws 400 where there is no key, or a delay besides. */
function policyIn(body: Static<typeof Start>): Policy {
  const { business_key: key, on_conflict: onConflict, debounce, delay_ms: delayMs } = body;
  if ((onConflict || debounce) && key === undefined)
    throw wrong("business_key", `is required with ${onConflict ? "on_conflict" : "debounce"}`);
  if (debounce && delayMs !== undefined)
    throw wrong("delay_ms", "must not be given with debounce, which delays the run itself");
  const { window_ms: windowMs, max_ms: maxMs } = debounce ?? {};
  return {
    onConflict,
    ...(windowMs !== undefined && { debounce: { windowMs, ...(maxMs !== undefined && { maxMs }) } }),
  };
}

const wrong = (member: string, message: string) =>
  badRequest(`$.${member} ${message}`, [{ path: `$.${member}`, message }]);

/** A run that holds the key may end before the signal reaches it: then another one is started. */
const MOST_HOLDERS = 5;

function signalWithStartRoute(app: Api, deps: ApiDeps & Shared): void {
  const { starter, runs, config, waiters } = deps;
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "operator" as const,
    summary: "Deliver a signal to the run that has the business key, or to one that is started with it",
    body: SignalledStart,
    headers: CommandHeaders,
    querystring: query(WAIT),
    response: responses({ 200: RESTING, 202: DELIVERED }, 400, 404, 409, 413, 415, 422, 429),
  };
  app.post("/api/v1/sagas/signal_with_start", { schema }, async (request, reply) => {
    const { name, payload = {}, idempotency_key: ownKey } = request.body.signal;
    refuseReserved(name, "$.signal.name");
    refuseLargePayload(payload, config.limits.outputBytes, "$.signal.payload");
    const start = startRequest(request, { onConflict: "return" });
    const signal = newSignal(request, { name, payload, key: ownKey ?? start.idempotencyKey });
    for (let nth = 1; ; nth++) {
      const answer = await starter.start(start, (runId) => signal(runId).command);
      const { runId, held } = answer;
      const { command, options } = signal(runId);
      const { id, matched, ended } = accepted(await runs.command(runId, command, options));
      if (ended && held && nth < MOST_HOLDERS) continue;
      if (ended) throw conflict(notAwaited(name, ended), { run_id: runId, signal_id: id, recorded: true });
      const run = await atRest(runId, waiters, request, reply);
      reply.status(run ? 200 : 202).header("Location", `/api/v1/sagas/${runId}`);
      return { ...startItem(answer), signal_id: id, matched, ...(run && { state: run.state, run }) };
    }
  });
}

function startItem({ runId, workflowId, version, definitionId, state, deduplicated }: StartAnswer) {
  return { run_id: runId, workflow_id: workflowId, version, definition_id: definitionId, state, deduplicated };
}

/** The run as it ended in time. It is durable, so whatever keeps the request from waiting does not fail the start. */
async function endOf(
  { runId, deduplicated }: StartAnswer,
  waiters: Waiters,
  ms: number,
  request: FastifyRequest<{ Body: Static<typeof Start> }>,
  reply: FastifyReply,
) {
  endOfWork(request);
  try {
    // A run that was there before was started by another request, which need not have said the same to the letter.
    const started = deduplicated ? undefined : { labels: request.body.labels };
    const view = await waiters.end(runId, { ms, reply, reader: readerOf(request, reply) }, started);
    return view?.terminal ? view.run : undefined;
  } catch {
    return undefined;
  }
}

type Policy = Pick<StartRequest, "onConflict" | "debounce">;

function startRequest(request: FastifyRequest<{ Body: Static<typeof Members> }>, policy: Policy): StartRequest {
  const { body, principal } = request;
  const { workflows } = principal;
  const runId = parseRunId(body.run_id);
  if (runId !== undefined && principal.kind !== "anyone") refuseDerived(runId);
  refuseNames(body.variables ?? {}, "$.variables");
  refuseNames(body.feature_overrides ?? {}, "$.feature_overrides");
  refuseNames(body.labels ?? {}, "$.labels");
  const tenantId = ownerFor(principal, body.tenant_id?.toLowerCase());
  // Before a run that was started under the same key is looked for.
  if (workflows?.match(body.workflow_id) === false) throw noPublishedWorkflow(body.workflow_id, body.version);
  return {
    workflowId: body.workflow_id,
    version: body.version,
    entrypoint: body.entrypoint,
    inputs: body.inputs ?? {},
    variables: body.variables ?? {},
    tenantId,
    dryRun: body.dry_run ?? false,
    features: body.feature_overrides ?? {},
    runId,
    idempotencyKey: idempotencyKey(request, body.idempotency_key),
    businessKey: body.business_key,
    labels: body.labels,
    delayMs: body.delay_ms,
    timeoutMs: body.timeout_ms,
    precedence: precedenceIn(body),
    traceparent: traceOf(request).traceparent,
    actor: principal.actor,
    onConflict: policy.onConflict,
    debounce: policy.debounce,
  };
}

/** Throws 400 for a weight without a key. */
function precedenceIn({ priority, fairness_key: key, fairness_weight: weight }: Static<typeof Members>) {
  if (weight !== undefined && key === undefined) throw wrong("fairness_key", "is required with fairness_weight");
  return precedenceOf({ priority, key, weight });
}

/** The service derives such ids for runs that are still to be started: who took one would take the place of that run. */
function refuseDerived(runId: RunId): void {
  if (uuidVersion(runId) !== 8) return;
  throw wrong("run_id", "must not be a UUID of version 8: those are the ids that the service derives");
}
