// User tasks: lists of them, and submitting one. The submit is decided by the run that waits for the task; this file only finds
// that run and tells what it answered.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { isObject, type JsonObject, type RunCommand } from "../../machines/index.js";
import { conflict, notFound, unprocessable } from "../errors.js";
import { listUserTasks, TASK_STATUSES, taskOwner } from "../store/user-tasks.js";
import { AnyObject, jsonPath, readBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { pageSchema, responses } from "./schemas.js";

const MAX_NAME = 256;

const Submit = Type.Object({
  result: Type.Optional(AnyObject({ description: "Absent: the whole body is the result." })),
  submitted_by: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_NAME })),
});

const listQuery = q.queryReader({
  assignee: q.text({ max: 512 }),
  status: q.oneOf(...TASK_STATUSES),
  run_id: q.uuid,
  ...q.PAGE,
});
const taskPath = q.pathReader({ run_id: q.uuid, task_id: q.uuid });

const SUBMITTED = {
  description: "The result is the step's, and the run goes on.",
  type: "object",
  properties: {
    task_id: { type: "string", format: "uuid" },
    submitted_at: { type: "string", format: "date-time" },
    matched: { type: "boolean", description: "False: the run is in quarantine, and takes the result once released." },
  },
};

export function userTaskRoutes(app: FastifyInstance, deps: ApiDeps): void {
  listRoute(app, deps);
  submitRoute(app, deps);
}

function listRoute(app: FastifyInstance, { sql }: ApiDeps): void {
  const response = responses({ 200: { description: "A page of user tasks.", ...pageSchema("UserTask") } }, 400);
  const schema = { tags: ["user tasks"], summary: "List user tasks", querystring: listQuery.schema, response };
  app.get("/api/v1/user_tasks", { schema }, async (request) => {
    const { assignee, status, run_id, ...page } = listQuery.read(request.query);
    return listUserTasks(sql, { assignee, status, runId: run_id }, q.pageOf(page));
  });
}

function submitRoute(app: FastifyInstance, { runs, sql }: ApiDeps): void {
  const schema = {
    tags: ["user tasks"],
    summary: "Submit a user task; a body without `result` is the result itself",
    params: taskPath.schema,
    body: Submit,
    response: responses({ 202: SUBMITTED }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/:run_id/user_task/:task_id/submit", { schema }, async (request, reply) => {
    const { run_id: runId, task_id: taskId } = taskPath.read(request.params);
    const command = { type: "submit", taskId, actor: "api", ...submitted(request, reply) } as const;
    const owner = await taskOwner(sql, taskId, runId);
    if (owner === undefined) throw notFound(`the run ${runId} has no user task ${taskId}`);
    const answer = await submit(runs, owner, command);
    reply.status(202);
    return { task_id: taskId, submitted_at: new Date(answer.submittedAt).toISOString(), matched: answer.matched };
  });
}

/** What is handed in, and by whom. Without `result` the whole body is it, `submitted_by` included. */
function submitted(request: FastifyRequest, reply: FastifyReply): { result: JsonObject; submittedBy?: string } {
  const { body = {} } = request;
  if (!isObject(body) || body.result !== undefined) {
    const { result = {}, submitted_by: submittedBy } = readBody(request, reply, Submit);
    return { result, submittedBy };
  }
  const { submitted_by: by } = body;
  const named = typeof by === "string" && by.length > 0 && by.length <= MAX_NAME;
  return { result: body, ...(named && { submittedBy: by }) };
}

async function submit(runs: ApiDeps["runs"], runId: string, command: Extract<RunCommand, { type: "submit" }>) {
  const answer = await runs.command(runId, command);
  if (answer.type === "submit") return answer;
  if (answer.type === "closed") throw conflict(answer.reason);
  if (answer.type !== "unfit") throw new Error(`a submit was answered with ${answer.type}`);
  throw unprocessable("the result is not what the task asks for; it stays open", answer.problems.map(detailOf));
}

/** The run names the place by a JSON pointer. */
function detailOf(problem: string) {
  const [pointer = ""] = problem.split(" ", 1);
  const keys = pointer.split("/").slice(1).filter(Boolean);
  const path = keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(jsonPath, "$.result");
  return { path, message: problem.slice(pointer.length + 1) };
}
