// What workers report over HTTP: results, errors and heartbeats of dispatched actions. Each is stamped when it arrives,
// and answers with the outcome of the run's committed transition. The same over gRPC is dispatch/grpc/.
import type { FastifyReply, FastifyRequest, preParsingHookHandler } from "fastify";
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  type Command,
  type EngineErrorCode,
  MAX_INT32,
  parseDispatchId,
  type Refused,
  type Reported,
  type ReportedDispatch,
  type RunId,
  UUID_PATTERN,
} from "../../machines/index.js";
import { EVERYTHING, type Reach, tenantsOf } from "../access/index.js";
import { storableMessage, storableName } from "../dispatch/worker-report.js";
import { FOREIGN_TENANT } from "../dispatch/workers.js";
import { badRequest, forbidden, SagaError } from "../errors.js";
import { accepted } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject } from "./http/body.js";
import { sendError } from "./http/envelope.js";
import { DispatchIdText, Id, Int, parameterCheck, path, query, RunIdText } from "./http/parameters.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const UuidText = Type.String({ pattern: UUID_PATTERN });

/** Optional: if present, they must agree with the URL. */
const Report = {
  attempt: Type.Optional(Int(1, MAX_INT32)),
  dispatch_id: Type.Optional(UuidText),
  run_id: Type.Optional(UuidText),
  step_id: Type.Optional(Type.String()),
};
const Heartbeat = Type.Object(Report, { default: {} });
const Result = Type.Object({
  ...Report,
  result: Type.Optional(AnyObject()),
  error: Type.Optional(
    Type.Object({
      code: Type.String({ minLength: 1 }),
      message: Type.String(),
      retryable: Type.Optional(Type.Boolean({ description: "True if absent." })),
      outcome_unknown: Type.Optional(Type.Boolean({ description: "The effect may have happened." })),
    }),
  ),
});

const stepPath = path({ run_id: RunIdText, step_id: Id });
const reportQuery = query({ attempt: Int(1, MAX_INT32), dispatch_id: DispatchIdText });
const checkStepPath = parameterCheck("path", stepPath);
const checkReportQuery = parameterCheck("query", reportQuery);

const REPORTED = { accepted: { type: "boolean" }, stale: { type: "boolean" } } as const;
const ACCEPTED = object("Recorded; or stale, and without effect.", REPORTED);
const CANCELLED = { type: "boolean", description: "The run asks the worker to stop, and waits for its answer." };
const HEARD = object("Recorded; or stale, and without effect.", { ...REPORTED, cancelled: CANCELLED }, ["cancelled"]);

export function reportRoutes(app: Api, deps: ApiDeps): void {
  resultRoute(app, deps);
  heartbeatRoute(app, deps);
}

/** A report ends work in progress, so it is refused last when load is shed. */
const ANSWER = { work: "answer" } as const;

const REPORT = {
  tags: ["sagas"],
  "x-saga-role": "callback" as const,
  params: stepPath,
  querystring: reportQuery,
  response: responses({ 202: ACCEPTED }, 400, 404, 409, 413, 415, 422),
};

function resultRoute(app: Api, deps: ApiDeps): void {
  const { runs, now, config } = deps;
  const schema = { ...REPORT, summary: "Report an action's result or error", body: Result };
  const url = "/api/v1/sagas/:run_id/actions/:step_id/result";
  const errorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) =>
    overlongBody(error, request, reply, deps);
  app.post(url, { schema, config: ANSWER, errorHandler, preParsing: stamped(deps) }, async (request, reply) => {
    const { params, body } = request;
    const command = outcomeCommand(reportedDispatch(request), body, config.limits.outputBytes);
    const arrivedAt = arrivals.get(request) ?? now();
    if (isLate(request, arrivedAt)) return reported(LATE, reply);
    return reported(await told(runs, request, params.run_id, { ...command, arrivedAt }), reply);
  });
}

/** When the body of a report was whole, in database time: it is not late for the turns of the loop that it waits for. */
const arrivals = new WeakMap<FastifyRequest, number>();

function stamped({ now }: Pick<ApiDeps, "now">): preParsingHookHandler {
  return (request, _, payload, done) => {
    payload.once("end", () => arrivals.set(request, now()));
    done(null, payload);
  };
}

/** The dispatch is named by the URL, so a result that is too large to be read fails its step as any other over the limit. */
async function overlongBody(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { runs, now, config }: ApiDeps,
) {
  const params = checkStepPath(request.params);
  const query = checkReportQuery(request.query);
  const isOverlong = error instanceof SagaError && error.status === 413;
  if (!isOverlong || "error" in params || "error" in query) return sendError(error, request, reply);
  try {
    const { run_id: runId, step_id: stepId } = params.value as Static<typeof stepPath>;
    const { attempt, dispatch_id: dispatchId } = query.value as Static<typeof reportQuery>;
    const limit = `the body is over ${config.limits.bodyBytes} bytes (SAGA_LIMIT_BODY_BYTES)`;
    const named = request.callback ?? { attempt, dispatchId };
    const about = { stepId, attempt: named.attempt, dispatchId: parseDispatchId(named.dispatchId) };
    const command = overLimit({ ...about, ...rightsOf(request) }, limit);
    const arrivedAt = now();
    const answer = isLate(request, arrivedAt) ? LATE : await told(runs, request, runId, { ...command, arrivedAt });
    reply.send(reported(answer, reply));
  } catch (refusal) {
    sendError(refusal, request, reply);
  }
}

function heartbeatRoute(app: Api, deps: ApiDeps): void {
  const { runs, now } = deps;
  const response = responses({ 202: HEARD }, 400, 404, 409, 413, 415, 422);
  const schema = { ...REPORT, summary: "Report that an action is still in progress", body: Heartbeat, response };
  const url = "/api/v1/sagas/:run_id/actions/:step_id/heartbeat";
  app.post(url, { schema, config: ANSWER, preParsing: stamped(deps) }, async (request, reply) => {
    const { params } = request;
    const dispatch = reportedDispatch(request);
    const arrivedAt = arrivals.get(request) ?? now();
    if (isLate(request, arrivedAt)) return reported(LATE, reply);
    const command: Command<"heartbeat"> = { ...dispatch, type: "heartbeat", arrivedAt };
    return reported(await told(runs, request, params.run_id, command), reply);
  });
}

/** Its effect has happened. */
function overLimit(dispatch: ReportedDispatch, message: string): Command<"failure"> {
  const code: EngineErrorCode = "limit_exceeded";
  return { ...dispatch, type: "failure", code, message, retryable: false, outcomeUnknown: true };
}

function outcomeCommand(
  dispatch: ReportedDispatch,
  { result, error }: Static<typeof Result>,
  outputBytes: number,
): Command<"result" | "failure"> {
  if ((result === undefined) === (error === undefined)) {
    throw badRequest("the body must have exactly one of $.result and $.error", [
      { path: "$.result", message: "exactly one of result and error is required" },
    ]);
  }
  if (result !== undefined) {
    const bytes = Buffer.byteLength(JSON.stringify(result));
    if (bytes > outputBytes) return overLimit(dispatch, `the step output has ${bytes} bytes, more than ${outputBytes}`);
    return { ...dispatch, type: "result", result };
  }
  const {
    code = "error" satisfies EngineErrorCode,
    message = "",
    retryable = true,
    outcome_unknown: outcomeUnknown = false,
  } = error ?? {};
  // Cut as over any transport: what a step fails with does not depend on the way that its error came.
  const stored = { code: storableName(code), message: storableMessage(message) };
  return { ...dispatch, type: "failure", ...stored, retryable, outcomeUnknown };
}

/** A report, read and checked. */
type Asked = Pick<FastifyRequest, "callback" | "principal"> & {
  readonly params: Static<typeof stepPath>;
  readonly query: Static<typeof reportQuery>;
  readonly body: Static<typeof Heartbeat>;
};

/** The dispatch that a report is about. Path, query, body and the token, which is of this path and query, must agree. */
function reportedDispatch(request: Asked): ReportedDispatch {
  const { params: path, query, body, callback } = request;
  const dispatchId = parseDispatchId(body.dispatch_id);
  agree("run_id", body.run_id?.toLowerCase(), path.run_id);
  agree("step_id", body.step_id, path.step_id);
  agree("attempt", body.attempt, query.attempt);
  agree("dispatch_id", dispatchId, query.dispatch_id);
  agree("attempt", body.attempt, callback?.attempt, "the callback token");
  agree("dispatch_id", dispatchId, callback?.dispatchId, "the callback token");
  return {
    stepId: path.step_id,
    attempt: callback?.attempt ?? body.attempt ?? query.attempt,
    dispatchId: parseDispatchId(callback?.dispatchId) ?? dispatchId ?? query.dispatch_id,
    ...rightsOf(request),
  };
}

function agree(name: string, inBody: unknown, other: unknown, where = "the URL"): void {
  if (inBody === undefined || other === undefined || inBody === other) return;
  throw badRequest(`$.${name} differs from ${where}`, [{ path: `$.${name}`, message: `differs from ${where}` }]);
}

/** A token is for its dispatch. A worker's credential is for those of its services: the run checks it. */
function rightsOf({ principal, callback }: Reporting) {
  const { actor, services } = principal;
  return { actor, ...(!callback && !services.matchesAll && { services: services.texts }) };
}

/** A token is pinned to its run. A worker's credential is for the runs of its tenants. */
function reachOf({ principal, callback }: Reporting): Reach {
  return callback ? EVERYTHING : { tenants: tenantsOf(principal) };
}

type Reporting = Pick<FastifyRequest, "callback" | "principal">;

/** To a worker of some tenants a run that does not exist is as one of another tenant: it must not learn which of the two it has named. */
async function told(
  runs: ApiDeps["runs"],
  reporting: Reporting,
  runId: RunId,
  command: Command<"result" | "failure" | "heartbeat">,
): Promise<Reported | Refused> {
  const reach = reachOf(reporting);
  try {
    return await runs.command(runId, command, { reach });
  } catch (error) {
    const isOfSome = reach.tenants !== "*";
    if (!isOfSome || !(error instanceof SagaError) || error.status !== 404) throw error;
    return { type: "report", stale: true, reason: FOREIGN_TENANT };
  }
}

/** What comes with a token after its deadline has no effect, whatever has become of the run. */
const LATE: Reported = { type: "report", stale: true };

function isLate({ callback }: Pick<FastifyRequest, "callback">, arrivedAt: number): boolean {
  return callback !== undefined && callback.deadlineAt <= arrivedAt;
}

function reported(answer: Reported | Refused, reply: FastifyReply) {
  const { stale, cancelled, reason } = accepted(answer);
  // It was about a dispatch of another service or tenant, and has changed nothing.
  if (reason !== undefined) throw forbidden(reason);
  reply.status(202);
  return { accepted: true, stale, ...(cancelled && { cancelled }) };
}
