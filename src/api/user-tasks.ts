// User tasks: listing and submitting them. The run that waits for the task decides on the submit; this file finds that run and
// translates its answer.
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  detailOf,
  isLongerThan,
  isObject,
  isWithin,
  type JsonObject,
  type RunCommand,
  type RunId,
} from "../../machines/index.js";
import { type Principal, reachOf } from "../access/index.js";
import { conflict, notFound, unprocessable } from "../errors.js";
import type { CommandOptions } from "../run/ports.js";
import { listUserTasks, TASK_STATUSES, taskOwner } from "../store/lists/user-tasks.js";
import type { ApiDeps, Shared } from "./deps.js";
import { attributed } from "./http/attribution.js";
import { AnyObject, shaped } from "./http/body.js";
import { commandOptions, idempotencyKey } from "./http/idempotency.js";
import { OneOf, PAGE, pageOf, path, query, RunIdText, Text, Uuid } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, page, ref, responses } from "./http/responses.js";
import { CommandHeaders, traceOf } from "./http/trace.js";
import type { Api } from "./http/validation.js";
import { atRest, WAIT } from "./waiting.js";

const MAX_NAME = 256;

const Submit = Type.Object(
  {
    result: Type.Optional(AnyObject({ description: "If absent, the whole body is the result." })),
    submitted_by: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_NAME })),
  },
  { default: {} },
);

const WholeResult = AnyObject();
const SubmitBody = shaped<Static<typeof Submit> | JsonObject>(Submit, (body) =>
  isWholeResult(body) ? WholeResult : Submit,
);

const listQuery = query({ assignee: Text({ max: 512 }), status: OneOf(...TASK_STATUSES), run_id: RunIdText, ...PAGE });
const taskPath = path({ run_id: RunIdText, task_id: Uuid });

const ANSWER = {
  task_id: { type: "string", format: "uuid" },
  submitted_at: { type: "string", format: "date-time" },
  matched: {
    type: "boolean",
    description: "False if the run is in quarantine: it takes the result once it is released.",
  },
};
const SUBMITTED = object("The result is the step's output, and the run continues.", ANSWER);
const AT_REST = object("The run waits again, or has ended, within `wait_ms`.", { ...ANSWER, run: ref("SagaRun") });

export function userTaskRoutes(app: Api, deps: ApiDeps & Shared): void {
  listRoute(app, deps);
  submitRoute(app, deps);
}

function listRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: page("A page of user tasks.", "UserTask") }, 400);
  const schema = {
    tags: ["user tasks"],
    "x-saga-role": "viewer" as const,
    summary: "List user tasks",
    querystring: listQuery,
    response,
  };
  app.get("/api/v1/user_tasks", { schema }, async (request, reply) => {
    const { assignee, status, run_id: runId, ...page } = request.query;
    return readPool.run(readerOf(request, reply), (sql, reach) =>
      listUserTasks(sql, reach, { assignee, status, runId }, pageOf(page)),
    );
  });
}

function submitRoute(app: Api, { runs, sql, waiters }: ApiDeps & Shared): void {
  const schema = {
    tags: ["user tasks"],
    "x-saga-role": "operator" as const,
    summary: "Submit a user task; a body without result is the result itself",
    params: taskPath,
    querystring: query(WAIT),
    body: SubmitBody,
    headers: CommandHeaders,
    response: responses({ 200: AT_REST, 202: SUBMITTED }, 400, 404, 409, 413, 415, 422),
  };
  const url = "/api/v1/sagas/:run_id/user_task/:task_id/submit";
  app.post(url, { schema }, async (request, reply) => {
    const { principal } = request;
    const { run_id: runId, task_id: taskId } = request.params;
    const owner = await ownerWithin(sql, taskId, runId, principal);
    if (owner === undefined) throw notFound(`the run ${runId} has no user task ${taskId}`);
    const asked = submitted(request.body);
    const about = { principal, runId: owner, target: ["submit", taskId], body: asked };
    const options = commandOptions(idempotencyKey(request), about);
    const submittedBy = attributed("submitted_by", asked.submittedBy, request, reply);
    const by = { actor: principal.actor, submittedBy, ...traceOf(request) };
    const answer = await submit(runs, owner, { type: "submit", taskId, result: asked.result, ...by }, options);
    const run = await atRest(runId, waiters, request, reply);
    reply.status(run ? 200 : 202);
    const submittedAt = new Date(answer.submittedAt).toISOString();
    return { task_id: taskId, submitted_at: submittedAt, matched: answer.matched, ...(run && { run }) };
  });
}

/** The run that waits for the task. One that is another's is none. */
async function ownerWithin(
  sql: ApiDeps["sql"],
  taskId: string,
  runId: RunId,
  principal: Principal,
): Promise<RunId | undefined> {
  const owner = await taskOwner(sql, taskId, runId);
  if (!owner) return undefined;
  const { tenantId, workflowId } = owner;
  return isWithin(reachOf(principal), { tenantId: tenantId ?? undefined, workflowId }) ? owner.runId : undefined;
}

/** A `result` that is null counts as absent. */
function isWholeResult(body: unknown): body is JsonObject {
  return isObject(body) && (body.result ?? null) === null;
}

/** A body without `result` is the result as a whole, `submitted_by` included. */
function submitted(body: Static<typeof SubmitBody>): { result: JsonObject; submittedBy?: string } {
  if (!isWholeResult(body)) {
    const { result = {}, submitted_by: submittedBy } = body as Static<typeof Submit>;
    return { result, submittedBy };
  }
  const { result: _, ...result } = body;
  const { submitted_by: by } = result;
  const isName = typeof by === "string" && by.length > 0 && !isLongerThan(by, MAX_NAME);
  return { result, ...(isName && { submittedBy: by }) };
}

async function submit(
  runs: ApiDeps["runs"],
  runId: RunId,
  command: Extract<RunCommand, { type: "submit" }>,
  options: CommandOptions,
) {
  const answer = await runs.command(runId, command, options);
  if (answer.type === "submit") return answer;
  if (answer.type === "closed") throw conflict(answer.reason);
  const details = answer.problems.map((problem) => detailOf(problem, "$.result"));
  throw unprocessable("the result does not conform to the task's form; the task stays open", details);
}
