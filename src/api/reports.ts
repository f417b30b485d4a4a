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
  UUID_PATTERN,
} from "../../machines/index.js";
import { badRequest, SagaError } from "../errors.js";
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
      code: Type.String({ minLength: 1, maxLength: 256 }),
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
    const { params, query, body } = request;
    const command = outcomeCommand(reportedDispatch(params, query, body), body, config.limits.outputBytes);
    const arrivedAt = arrivals.get(request) ?? now();
    return reported(await runs.command(params.run_id, { ...command, arrivedAt }), reply);
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
    const command = overLimit({ stepId, attempt, dispatchId, actor: "api" }, limit);
    reply.send(reported(await runs.command(runId, { ...command, arrivedAt: now() }), reply));
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
    const { params, query, body } = request;
    const dispatch = reportedDispatch(params, query, body);
    const arrivedAt = arrivals.get(request) ?? now();
    return reported(await runs.command(params.run_id, { ...dispatch, type: "heartbeat", arrivedAt }), reply);
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
  return { ...dispatch, type: "failure", code, message, retryable, outcomeUnknown };
}

/** The dispatch that a report is about. Path, query and body must agree. */
function reportedDispatch(
  path: Static<typeof stepPath>,
  query: Static<typeof reportQuery>,
  body: Static<typeof Heartbeat>,
): ReportedDispatch {
  const dispatchId = parseDispatchId(body.dispatch_id);
  agree("run_id", body.run_id?.toLowerCase(), path.run_id);
  agree("step_id", body.step_id, path.step_id);
  agree("attempt", body.attempt, query.attempt);
  agree("dispatch_id", dispatchId, query.dispatch_id);
  return {
    stepId: path.step_id,
    attempt: body.attempt ?? query.attempt,
    dispatchId: dispatchId ?? query.dispatch_id,
    actor: "api",
  };
}

function agree(name: string, inBody: unknown, inUrl: unknown): void {
  if (inBody === undefined || inUrl === undefined || inBody === inUrl) return;
  throw badRequest(`$.${name} differs from the URL`, [{ path: `$.${name}`, message: "differs from the URL" }]);
}

function reported(answer: Reported | Refused, reply: FastifyReply) {
  const { stale, cancelled } = accepted(answer);
  reply.status(202);
  return { accepted: true, stale, ...(cancelled && { cancelled }) };
}
