// The acts of an operator on a run: each is a command to it, answered once it is durable. What an act does is decided in
// machines/decide; whether it may be done now, `explain` says.
import type { Sql } from "postgres";
import type { Static, TObject } from "typebox";
import type { Acted, Json, JsonObject, OperatorAct, RunId } from "../../machines/index.js";
import { badRequest, conflict, overloaded } from "../errors.js";
import { undoOrdinal } from "../store/history.js";
import { accepted } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, NoMembers, refuseLargePayload, refuseNames } from "./http/body.js";
import { commandOptions, IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { path, RunIdText } from "./http/parameters.js";
import { object, responses } from "./http/responses.js";
import { Type } from "./http/type.js";
import type { Api } from "./http/validation.js";

const MAX_REASON = 2000;
/** The format of the records that acts may write: a node that does not read it could not go on with the run. */
const ACTS_RECORD_FORMAT = 3;

const Reason = Type.String({ maxLength: MAX_REASON });
const Why = Type.Object({ reason: Type.Optional(Reason) }, { default: {} });
const Retry = Type.Object(
  { variables: Type.Optional(AnyObject({ description: "Corrected first; the others stay." })) },
  { default: {} },
);
const Skip = Type.Object(
  { output: Type.Optional(Type.Unknown({ description: "The step's output; null if absent." })) },
  { default: {} },
);
const Undo = Type.Object(
  {
    ordinal: Type.Optional(
      Type.Integer({ minimum: 1, description: "As the run's undo list has it; it must be the one that failed." }),
    ),
  },
  { default: {} },
);
const Terminate = Type.Object({ reason: Type.String({ minLength: 1, maxLength: MAX_REASON }) });

interface Asked<B> {
  readonly deps: ApiDeps;
  readonly runId: RunId;
  readonly body: B;
}

/** An act as its route has it. `name` is also how `explain` and bulk acts call it. */
export interface ActRoute<B extends TObject = TObject> {
  readonly name: string;
  readonly summary: string;
  readonly body: B;
  command(asked: Asked<Static<B>>): Promise<OperatorAct> | OperatorAct;
}

const actor = "api";
const act = <B extends TObject>(route: ActRoute<B>): ActRoute => route as unknown as ActRoute;

export const ACT_ROUTES: readonly ActRoute[] = [
  act({
    name: "pause",
    summary: "Pause a run and its children: nothing new is begun, and answers that come are kept",
    body: Why,
    command: ({ body: { reason } }) => ({ type: "pause", ...(reason && { reason }), actor }),
  }),
  act({
    name: "resume",
    summary: "Resume a run that an operator paused, with its children",
    body: Why,
    command: ({ body: { reason } }) => ({ type: "resume", ...(reason && { reason }), actor }),
  }),
  act({
    name: "retry_step",
    summary: "Retry the step of an incident, or of a backoff, with a new series of attempts",
    body: Retry,
    command({ deps, body: { variables } }) {
      refuseNames(variables ?? {}, "$.variables");
      refuseLargePayload(variables ?? {}, deps.config.limits.outputBytes);
      return { type: "retry_step", ...(variables && { variables: variables as JsonObject }), actor };
    },
  }),
  act({
    name: "skip_step",
    summary: "Let the step of an incident count as succeeded",
    body: Skip,
    command({ deps, body: { output } }) {
      refuseLargePayload({ output: (output ?? null) as Json }, deps.config.limits.outputBytes);
      return { type: "skip_step", ...(output !== undefined && { output: output as Json }), actor };
    },
  }),
  act({
    name: "fail",
    summary: "Let the error of an incident take its course",
    body: Why,
    command: ({ body: { reason } }) => ({ type: "fail", ...(reason && { reason }), actor }),
  }),
  act({
    name: "compensations/retry",
    summary: "Retry the undo that a rollback stands at",
    body: Undo,
    command: async ({ deps, runId, body }) => ({
      type: "retry_undo",
      ...(await storedOrdinal(deps.sql, runId, body)),
      actor,
    }),
  }),
  act({
    name: "compensations/skip",
    summary: "Pass over the undo that a rollback stands at; a manual review is required then",
    body: Undo,
    command: async ({ deps, runId, body }) => ({
      type: "skip_undo",
      ...(await storedOrdinal(deps.sql, runId, body)),
      actor,
    }),
  }),
  act({
    name: "terminate",
    summary: "End a run without waiting for anything, also in a rollback; what is still owed is abandoned",
    body: Terminate,
    command: ({ body: { reason } }) => ({ type: "terminate", reason, actor }),
  }),
];

/** Clients count the undos of a run from 1; the run knows them by the ordinals of the store. */
async function storedOrdinal(sql: Sql, runId: RunId, { ordinal: nth }: Static<typeof Undo>) {
  if (nth === undefined) return {};
  const ordinal = await undoOrdinal(sql, runId, nth);
  if (ordinal === undefined) throw badRequest(`the undo list of the run has no entry ${nth}`);
  return { ordinal };
}

const ACTED = {
  run_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  changed: { type: "boolean", description: "False: the run was as the act wants it." },
};

export function actRoutes(app: Api, deps: ApiDeps): void {
  for (const route of ACT_ROUTES) actRoute(app, deps, route);
  releaseRoute(app, deps);
}

function actRoute(app: Api, deps: ApiDeps, { name, summary, body, command }: ActRoute): void {
  const schema = {
    tags: ["operating"],
    summary,
    params: path({ id: RunIdText }),
    body,
    headers: IdempotencyHeader,
    response: responses({ 202: object("The act is done, or was before.", ACTED) }, 400, 404, 409, 413, 415, 422, 503),
  };
  app.post(`/api/v1/sagas/:id/${name}`, { schema }, async (request, reply) => {
    const { id } = request.params;
    refuseOlderNodes(deps);
    const options = commandOptions(idempotencyKey(request), { runId: id, target: [name, id], body: request.body });
    const asked = await command({ deps, runId: id, body: request.body });
    const answer = accepted<Acted>(await deps.runs.command(id, asked, options));
    if (answer.reason !== undefined) throw conflict(answer.reason);
    reply.status(202);
    return { run_id: id, state: answer.state, changed: answer.changed };
  });
}

function releaseRoute(app: Api, { runs }: ApiDeps): void {
  const schema = {
    tags: ["operating"],
    summary: "Release a run from quarantine",
    params: path({ id: RunIdText }),
    body: NoMembers,
    headers: IdempotencyHeader,
    response: responses({ 202: object("The run goes on.", ACTED) }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/:id/release", { schema }, async (request, reply) => {
    const { id } = request.params;
    const options = commandOptions(idempotencyKey(request), { runId: id, target: ["release", id], body: {} });
    const answer = accepted<Acted>(await runs.command(id, { type: "release", actor }, options));
    reply.status(202);
    return { run_id: id, state: answer.state, changed: true };
  });
}

/** During a rolling update nodes of the earlier version could not go on with a run that was paused, or with what a retry leaves. */
function refuseOlderNodes({ recordFormat }: ApiDeps): void {
  if (recordFormat() < ACTS_RECORD_FORMAT)
    throw overloaded("a node of an earlier version is still running, and it does not know this act: ask again later");
}
