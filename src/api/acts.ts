// The acts of an operator on a run: each is a command to it (operate/acts.ts), answered once it is durable. What an act does is decided in
// machines/decide; whether it may be done now, `explain` says.
import type { Static, TObject } from "typebox";
import * as Type from "typebox";
import type { Acted, Json, OperatorActName } from "../../machines/index.js";
import { conflict } from "../errors.js";
import { type ActBody, commandOf } from "../operate/index.js";
import { accepted, MAX_REASON } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { withoutDefaults } from "./http/absent.js";
import { AnyObject, NoMembers, refuseLargePayload, refuseNames } from "./http/body.js";
import { commandOptions, IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { path, RunIdText } from "./http/parameters.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const Reason = Type.String({ maxLength: MAX_REASON });
const Why = Type.Object({ reason: Type.Optional(Reason) }, { default: {} });
const Retry = Type.Object(
  { variables: Type.Optional(AnyObject({ description: "Corrected first; the others stay.", default: {} })) },
  { default: {} },
);
const Skip = Type.Object(
  { output: Type.Optional(Type.Unknown({ description: "The step's output; null if absent." })) },
  { default: {} },
);
const Undo = Type.Object(
  {
    ordinal: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: "As the run's undo list has it; it must be the one that failed.",
      }),
    ),
  },
  { default: {} },
);
const Terminate = Type.Object({ reason: Type.String({ minLength: 1, maxLength: MAX_REASON }) });

/** An act as its route has it. `name` is also how `explain` and bulk jobs call it. */
export interface ActRoute<B extends TObject = TObject> {
  readonly name: OperatorActName;
  readonly summary: string;
  readonly body: B;
  /** Refuses what the schema of the body cannot. */
  check?(body: Static<B>, outputBytes: number): void;
}

const act = <B extends TObject>(route: ActRoute<B>): ActRoute => route as unknown as ActRoute;

export const ACT_ROUTES: readonly ActRoute[] = [
  act({
    name: "pause",
    summary: "Pause a run and its children: nothing new is begun, and answers that come are kept",
    body: Why,
  }),
  act({ name: "resume", summary: "Resume a run that an operator paused, with its children", body: Why }),
  act({
    name: "retry_step",
    summary: "Retry the step of an incident, or of a backoff, with a new series of attempts",
    body: Retry,
    check({ variables = {} }, outputBytes) {
      refuseNames(variables, "$.variables");
      refuseLargePayload(variables, outputBytes);
    },
  }),
  act({
    name: "skip_step",
    summary: "Let the step of an incident count as succeeded",
    body: Skip,
    check: ({ output = null }, outputBytes) => refuseLargePayload({ output: output as Json }, outputBytes),
  }),
  act({ name: "fail", summary: "Let the error of an incident take its course", body: Why }),
  act({ name: "compensations/retry", summary: "Retry the undo that a rollback stands at", body: Undo }),
  act({
    name: "compensations/skip",
    summary: "Pass over the undo that a rollback stands at; a manual review is required then",
    body: Undo,
  }),
  act({
    name: "terminate",
    summary: "End a run without waiting for anything, also in a rollback; what is still owed is abandoned",
    body: Terminate,
  }),
];

export const ACTED = {
  run_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  changed: { type: "boolean", description: "False: the run was as the act wants it." },
};

/** The schema of an act's route. `done`: what its answer says; `also`: statuses that other acts do not have. */
export function actSchema<B extends TObject>(
  summary: string,
  body: B,
  { done, also = [] }: { done: string; also?: (429 | 503)[] },
) {
  return {
    tags: ["operating"],
    "x-saga-role": "operator" as const,
    summary,
    params: path({ id: RunIdText }),
    body,
    headers: IdempotencyHeader,
    response: responses({ 202: object(done, ACTED) }, 400, 404, 409, 413, 415, 422, ...also),
  };
}

export function actRoutes(app: Api, deps: ApiDeps): void {
  for (const route of ACT_ROUTES) actRoute(app, deps, route);
  releaseRoute(app, deps);
}

function actRoute(app: Api, deps: ApiDeps, { name, summary, body, check }: ActRoute): void {
  const schema = actSchema(summary, body, { done: "The act is done, or was before.", also: [503] });
  app.post(`/api/v1/sagas/:id/${name}`, { schema }, async (request, reply) => {
    const { principal } = request;
    const { id } = request.params;
    check?.(request.body, deps.config.limits.outputBytes);
    const target = [name, id];
    const asks = { principal, runId: id, target, body: withoutDefaults(body, request.body) };
    const options = commandOptions(idempotencyKey(request), asks);
    const acting = { runId: id, body: request.body as ActBody, sql: deps.sql };
    const asked = await commandOf(name, { ...acting, actor: principal.actor, reach: options.reach });
    const answer = accepted<Acted>(await deps.runs.command(id, asked, options));
    if (answer.reason !== undefined) throw conflict(answer.reason);
    reply.status(202);
    return { run_id: id, state: answer.state, changed: answer.changed };
  });
}

function releaseRoute(app: Api, { runs }: ApiDeps): void {
  const schema = actSchema("Release a run from quarantine", NoMembers, { done: "The run goes on." });
  app.post("/api/v1/sagas/:id/release", { schema }, async (request, reply) => {
    const { principal } = request;
    const { id } = request.params;
    const asks = { principal, runId: id, target: ["release", id], body: {} };
    const options = commandOptions(idempotencyKey(request), asks);
    const answer = accepted<Acted>(await runs.command(id, { type: "release", actor: principal.actor }, options));
    reply.status(202);
    return { run_id: id, state: answer.state, changed: true };
  });
}
