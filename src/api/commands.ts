import type { FastifyRequest } from "fastify";
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  type Answer,
  type Command,
  isObject,
  type JsonObject,
  type Refused,
  type RunId,
} from "../../machines/index.js";
import { badRequest, conflict, notConfigured, notFound } from "../errors.js";
import { shardOf, uuidv7 } from "../ids.js";
import { notAwaited } from "../operate/index.js";
import type { CommandOptions } from "../run/ports.js";
import type { ApiDeps, Shared } from "./deps.js";
import { AnyObject, refuseLargePayload, shaped } from "./http/body.js";
import { commandOptions, IdempotencyHeader, IdempotencyKey, idempotencyKey } from "./http/idempotency.js";
import { path, query, RunIdText, SignalName, Text } from "./http/parameters.js";
import { object, ref, responses } from "./http/responses.js";
import { CommandHeaders, traceOf } from "./http/trace.js";
import type { Api } from "./http/validation.js";
import { atRest, WAIT } from "./waiting.js";

/** Characters of why a person does something. */
export const MAX_REASON = 2_000;

export const Cancel = Type.Object(
  {
    reason: Type.Optional(Type.String({ maxLength: MAX_REASON })),
    compensate: Type.Optional(Type.Boolean({ description: "Undo the completed steps.", default: true })),
  },
  { default: {} },
);

const Signal = Type.Object(
  { payload: Type.Optional(AnyObject({ default: {} })), idempotency_key: Type.Optional(IdempotencyKey) },
  { default: {} },
);

const WholePayload = AnyObject();
const SignalBody = shaped<Static<typeof Signal> | JsonObject>(Signal, (body) =>
  isWholePayload(body) ? WholePayload : Signal,
);

const runPath = path({ id: RunIdText });
/** The names that a step may await. */
const signalPath = path({ run_id: RunIdText, name: SignalName });
const cancelQuery = query({ reason: Text({ min: 0, max: MAX_REASON }) });

const RUN_ID = { run_id: { type: "string", format: "uuid" } };

export function commandRoutes(app: Api, deps: ApiDeps & Shared): void {
  cancelRoute(app, deps);
  signalRoute(app, deps);
}

function cancelRoute(app: Api, { canceller }: ApiDeps): void {
  const properties = { ...RUN_ID, state: { type: "string" }, already_terminal: { type: "boolean" } };
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "operator" as const,
    summary: "Cancel a run; the body may be omitted",
    params: runPath,
    querystring: cancelQuery,
    body: Cancel,
    headers: IdempotencyHeader,
    response: responses({ 202: object("The cancel is accepted.", properties) }, 400, 404, 409, 413, 415, 422, 501),
  };
  app.post("/api/v1/sagas/:id/cancel", { schema }, async (request, reply) => {
    if (!canceller) throw notConfigured("no canceller is configured: this service cancels no runs");
    const { principal } = request;
    const { id } = request.params;
    const asked = {
      reason: request.body.reason || request.query.reason || undefined,
      compensate: request.body.compensate ?? true,
    };
    const about = { principal, runId: id, target: ["cancel", id], body: asked };
    const options = commandOptions(idempotencyKey(request), about);
    const answer = await canceller.command(id, { type: "cancel", ...asked, actor: principal.actor }, options);
    reply.status(202);
    return { run_id: id, state: answer.state, already_terminal: answer.alreadyTerminal };
  });
}

export const SIGNAL_ANSWER = {
  signal_id: { type: "string", format: "uuid" },
  matched: { type: "boolean", description: "A step awaited the signal and took it." },
};
const TAKEN = object("A run awaited the signal and took it.", SIGNAL_ANSWER);
const AT_REST = object("The run waits again, or has ended, within `wait_ms`.", {
  ...SIGNAL_ANSWER,
  run: ref("SagaRun"),
});

function signalRoute(app: Api, { runs, config, waiters }: ApiDeps & Shared): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "operator" as const,
    summary: "Deliver a signal; a body without payload that has other members is the payload itself",
    params: signalPath,
    querystring: query(WAIT),
    body: SignalBody,
    headers: CommandHeaders,
    response: responses({ 200: AT_REST, 202: TAKEN }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/:run_id/signal/:name", { schema }, async (request, reply) => {
    const { run_id: runId, name } = request.params;
    refuseReserved(name, "$.path.name");
    const { payload, member } = signalOf(request.body);
    refuseLargePayload(payload, config.limits.outputBytes);
    const { command, options } = newSignal(request, { name, payload, key: idempotencyKey(request, member) })(runId);
    const answer = accepted(await runs.command(runId, command, options));
    if (!answer.matched) throw conflict(notAwaited(name, answer.ended), { signal_id: answer.id, recorded: true });
    const run = await atRest(runId, waiters, request, reply);
    reply.status(run ? 200 : 202);
    return { signal_id: answer.id, matched: true, ...(run && { run }) };
  });
}

/** The signal of a request as a command to a run, which is the same command each time. */
export function newSignal(
  request: FastifyRequest,
  { name, payload, key }: { readonly name: string; readonly payload: JsonObject; readonly key?: string },
) {
  const { principal } = request;
  const unkeyed = new Map<RunId, string>();
  return (runId: RunId): { readonly command: Command<"signal">; readonly options: CommandOptions } => {
    const keyed = commandOptions(key, { principal, runId, target: ["signal", runId, name] });
    const { reach, id = unkeyed.get(runId) ?? uuidv7(shardOf(runId)), keep = false } = keyed;
    if (key === undefined) unkeyed.set(runId, id);
    const command = { type: "signal" as const, id, name, payload, actor: principal.actor, ...traceOf(request) };
    return { command, options: { reach, id, keep } };
  };
}

/** `path`: of the name. */
export function refuseReserved(name: string, path: string): void {
  if (!name.startsWith("user_task.")) return;
  const details = [{ path, message: "must not begin with user_task." }];
  throw badRequest("signals named user_task.… come from submitted user tasks only", details);
}

/** A `payload` that is null counts as absent. */
function isWholePayload(body: unknown): body is JsonObject {
  if (!isObject(body) || (body.payload ?? null) !== null) return false;
  return Object.keys(body).some((name) => name !== "payload" && name !== "idempotency_key");
}

function signalOf(body: Static<typeof SignalBody>): { payload: JsonObject; member?: string } {
  if (isWholePayload(body)) {
    const { payload: _, ...payload } = body;
    return { payload };
  }
  const { payload = {}, idempotency_key: member } = body as Static<typeof Signal>;
  return { payload, member };
}

/** The answer of the run. A refusal is sent as a conflict, with all its reasons, or as 404 where the command names what does not exist. */
export function accepted<A extends Answer>(answer: A | Refused): Exclude<A, Refused> {
  if (answer.type !== "refused") return answer as Exclude<A, Refused>;
  const { reason, reasons, missing, invalid } = answer as Refused;
  if (missing) throw notFound(reason);
  if (invalid) throw badRequest(reason);
  throw conflict(
    reason,
    undefined,
    reasons?.map(({ path = "$", message }) => ({ path, message })),
  );
}
