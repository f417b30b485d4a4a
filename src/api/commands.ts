// Commands to a run: cancel, signal, action results and heartbeats, release. Each answers with what the run's committed
// transition says.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import {
  type Answer,
  isObject,
  type JsonObject,
  type ReportedDispatch,
  type RunCommand,
  UUID_PATTERN,
} from "../../machines/index.js";
import { badRequest, conflict } from "../errors.js";
import { derivedUuid, shardOf, uuidv7 } from "../ids.js";
import { AnyObject, readBody, readOptionalBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { responses } from "./schemas.js";

const REASON = { maxLength: 2000 };
const Uuid = Type.String({ pattern: UUID_PATTERN });
const Attempt = Type.Integer({ minimum: 1, maximum: q.MAX_INT32 });

const Cancel = Type.Object({
  reason: Type.Optional(Type.String(REASON)),
  compensate: Type.Optional(Type.Boolean({ description: "Undo what completed; true if absent." })),
});

const SignalBody = Type.Object({
  payload: Type.Optional(AnyObject()),
  idempotency_key: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
});

/** Checked against the path, if given: they must say what the dispatch said. */
const Report = {
  attempt: Type.Optional(Attempt),
  dispatch_id: Type.Optional(Uuid),
  run_id: Type.Optional(Uuid),
  step_id: Type.Optional(Type.String()),
};
const Heartbeat = Type.Object(Report);
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

const runPath = q.pathReader({ id: q.uuid });
const signalPath = q.pathReader({ run_id: q.uuid, name: q.text({ max: 256 }) });
const stepPath = q.pathReader({ run_id: q.uuid, step_id: q.id });
const cancelQuery = q.queryReader({ reason: q.text({ min: 0, max: REASON.maxLength }) });
const reportQuery = q.queryReader({ attempt: q.integer(1, q.MAX_INT32), dispatch_id: q.uuid });

const answered = (description: string, properties: object) => ({ description, type: "object", properties });
const RUN_ID = { run_id: { type: "string", format: "uuid" } };
const ACCEPTED = answered("Recorded, or stale and without effect.", {
  accepted: { type: "boolean" },
  stale: { type: "boolean" },
});

export function commandRoutes(app: FastifyInstance, deps: ApiDeps): void {
  cancelRoute(app, deps);
  signalRoute(app, deps);
  reportRoutes(app, deps);
  releaseRoute(app, deps);
}

function cancelRoute(app: FastifyInstance, { runs }: ApiDeps): void {
  const properties = { ...RUN_ID, state: { type: "string" }, already_terminal: { type: "boolean" } };
  const schema = {
    tags: ["sagas"],
    summary: "Cancel a run; its body may be left out",
    params: runPath.schema,
    querystring: cancelQuery.schema,
    body: Cancel,
    response: responses({ 202: answered("The cancel is accepted.", properties) }, 400, 404, 409, 413, 415),
  };
  app.post("/api/v1/sagas/:id/cancel", { schema }, async (request, reply) => {
    const { id } = runPath.read(request.params);
    const query = cancelQuery.read(request.query);
    const body = readOptionalBody(request, reply, Cancel);
    const reason = body?.reason || query.reason || undefined;
    const command: RunCommand = { type: "cancel", reason, compensate: body?.compensate ?? true, actor: "api" };
    const answer = expectAnswer("cancel", await runs.command(id, command));
    reply.status(202);
    return { run_id: id, state: answer.state, already_terminal: answer.alreadyTerminal };
  });
}

function signalRoute(app: FastifyInstance, { runs }: ApiDeps): void {
  const properties = { signal_id: { type: "string", format: "uuid" }, matched: { type: "boolean" } };
  const schema = {
    tags: ["sagas"],
    summary: "Deliver a signal; a body with other members is the payload itself",
    params: signalPath.schema,
    body: SignalBody,
    response: responses({ 202: answered("A run that awaited it took it.", properties) }, 400, 404, 409, 413, 415),
  };
  app.post("/api/v1/sagas/:run_id/signal/:name", { schema }, async (request, reply) => {
    const { run_id: runId, name } = signalPath.read(request.params);
    if (name.startsWith("user_task.")) {
      const details = [{ path: "$.path.name", message: "must not begin with user_task." }];
      throw badRequest("signals named user_task.… come from submitted user tasks only", details);
    }
    const { payload, key } = signalBody(request, reply);
    const id = key === undefined ? uuidv7(shardOf(runId)) : signalId(runId, name, key);
    const command: RunCommand = { type: "signal", id, name, payload, actor: "api" };
    const answer = expectAnswer("signal", await runs.command(runId, command, { id, keep: key !== undefined }));
    if (!answer.matched) {
      const extra = { signal_id: answer.id, recorded: true };
      throw conflict(`no run awaits the signal ${name} now; it is recorded for a later wait`, extra);
    }
    reply.status(202);
    return { signal_id: answer.id, matched: true };
  });
}

/** A repeat of a keyed signal is the same command. Must never change. */
function signalId(runId: string, name: string, key: string): string {
  return derivedUuid(JSON.stringify(["signal", runId, name, key]), shardOf(runId));
}

function signalBody(request: FastifyRequest, reply: FastifyReply): { payload: JsonObject; key?: string } {
  const { body } = request;
  if (isObject(body) && Object.keys(body).some((name) => name !== "payload" && name !== "idempotency_key")) {
    return { payload: body };
  }
  const read = readOptionalBody(request, reply, SignalBody);
  return { payload: read?.payload ?? {}, key: read?.idempotency_key };
}

/** Reports end work that is under way: they are refused last. */
const ANSWER = { work: "answer" } as const;

function reportRoutes(app: FastifyInstance, { runs }: ApiDeps): void {
  const common = { tags: ["sagas"], params: stepPath.schema, querystring: reportQuery.schema };
  const response = responses({ 202: ACCEPTED }, 400, 404, 413, 415);
  const resultSchema = { ...common, summary: "Report an action's result or error", body: Result, response };
  app.post(
    "/api/v1/sagas/:run_id/actions/:step_id/result",
    { schema: resultSchema, config: ANSWER },
    async (request, reply) => {
      const body = readBody(request, reply, Result);
      const { runId, dispatch } = reportOf(request, body);
      return report(await runs.command(runId, outcomeCommand(dispatch, body)), reply);
    },
  );
  const heartbeatSchema = {
    ...common,
    summary: "Say that an action is still being worked on",
    body: Heartbeat,
    response,
  };
  app.post(
    "/api/v1/sagas/:run_id/actions/:step_id/heartbeat",
    { schema: heartbeatSchema, config: ANSWER },
    async (request, reply) => {
      const { runId, dispatch } = reportOf(request, readOptionalBody(request, reply, Heartbeat) ?? {});
      return report(await runs.command(runId, { ...dispatch, type: "heartbeat" }), reply);
    },
  );
}

function outcomeCommand(dispatch: ReportedDispatch, { result, error }: Static<typeof Result>): RunCommand {
  if ((result === undefined) === (error === undefined)) {
    throw badRequest("the body must have exactly one of $.result and $.error", [
      { path: "$.result", message: "exactly one of result and error is required" },
    ]);
  }
  if (result !== undefined) return { ...dispatch, type: "result", result };
  const { code = "error", message = "", retryable = true, outcome_unknown: outcomeUnknown = false } = error ?? {};
  return { ...dispatch, type: "failure", code, message, retryable, outcomeUnknown };
}

/** Which dispatch it is about: what path, query and body say, which must not contradict each other. */
function reportOf(
  request: FastifyRequest,
  body: Static<typeof Heartbeat>,
): { runId: string; dispatch: ReportedDispatch } {
  const path = stepPath.read(request.params);
  const query = reportQuery.read(request.query);
  const dispatchId = body.dispatch_id?.toLowerCase();
  agree("run_id", body.run_id?.toLowerCase(), path.run_id);
  agree("step_id", body.step_id, path.step_id);
  agree("attempt", body.attempt, query.attempt);
  agree("dispatch_id", dispatchId, query.dispatch_id);
  return {
    runId: path.run_id,
    dispatch: {
      stepId: path.step_id,
      attempt: body.attempt ?? query.attempt,
      dispatchId: dispatchId ?? query.dispatch_id,
      actor: "api",
    },
  };
}

function agree(name: string, inBody: unknown, inUrl: unknown): void {
  if (inBody === undefined || inUrl === undefined || inBody === inUrl) return;
  throw badRequest(`$.${name} is not that of the URL`, [{ path: `$.${name}`, message: "is not that of the URL" }]);
}

function report(answer: Answer, reply: FastifyReply) {
  const { stale } = expectAnswer("report", answer);
  reply.status(202);
  return { accepted: true, stale };
}

function releaseRoute(app: FastifyInstance, { runs }: ApiDeps): void {
  const schema = {
    tags: ["sagas"],
    summary: "Let a quarantined run go on",
    params: runPath.schema,
    response: responses({ 202: answered("It goes on.", RUN_ID) }, 400, 404, 409),
  };
  app.post("/api/v1/sagas/:id/release", { schema }, async (request, reply) => {
    const { id } = runPath.read(request.params);
    const answer = await runs.command(id, { type: "release", actor: "api" });
    if (answer.type === "refused") throw conflict(answer.reason);
    reply.status(202);
    return { run_id: id };
  });
}

/** A refusal is the run's word and goes out as a conflict; an answer to another question is a bug. */
function expectAnswer<T extends Answer["type"]>(type: T, answer: Answer): Extract<Answer, { type: T }> {
  if (answer.type === type) return answer as Extract<Answer, { type: T }>;
  if (answer.type === "refused") throw conflict(answer.reason);
  throw new Error(`a ${type} was answered with ${answer.type}`);
}
