// Moves runs to another version of their workflow, over HTTP: the act on one run, and whether it, or all runs of a workflow, could be moved.
// What is against it is found out in machines/migrate.
import type { Static } from "typebox";
import * as Type from "typebox";
import type { Acted } from "../../machines/index.js";
import { reachOf } from "../access/index.js";
import { badRequest, conflict } from "../errors.js";
import { commandOf, type Look } from "../operate/index.js";
import type { Reader } from "../store/lists/read-pool.js";
import { ACTED } from "./acts.js";
import { accepted } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { withoutDefaults } from "./http/absent.js";
import { refuseNames } from "./http/body.js";
import { commandOptions, IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { Id, path, RunIdText, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

/** Runs that one report looks at. */
const STANDARD_LIMIT = 1_000;
const MAX_LIMIT = 10_000;
const MAX_STEPS = 1_000;

const Steps = Type.Record(Type.String(), Id, {
  maxProperties: MAX_STEPS,
  default: {},
  description: "Step id of the run's version to step id of the new one; over the `migrations` of the new version.",
});

export const Migrate = Type.Object({
  version: Version,
  steps: Type.Optional(Steps),
  check: Type.Optional(
    Type.Boolean({
      description: "true: nothing is changed, and the answer says what is against it.",
      default: false,
    }),
  ),
});

const Report = Type.Object({
  version: Version,
  from_version: Type.Optional(Version),
  steps: Type.Optional(Steps),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: STANDARD_LIMIT })),
});

const REASON = {
  path: { type: "string", description: "A place in the definition of the new version, or in `steps` of the request." },
  message: { type: "string" },
};
const reasonList = (more: object = {}) => ({
  type: "array",
  items: {
    type: "object",
    properties: { ...REASON, ...more },
    required: ["message", ...Object.keys(more)],
  },
});

export function migrateRoutes(app: Api, deps: ApiDeps): void {
  actRoute(app, deps);
  reportRoute(app, deps);
}

function actRoute(app: Api, deps: ApiDeps): void {
  const allowed = { allowed: { type: "boolean" }, reasons: reasonList() };
  const schema = {
    tags: ["operating"],
    "x-saga-role": "operator" as const,
    summary: "Let a run that waits go on under another published version",
    params: path({ id: RunIdText }),
    body: Migrate,
    headers: IdempotencyHeader,
    response: responses(
      {
        200: object("With `check`: whether it is allowed, and all that is against it.", allowed),
        202: object("The run is one of that version.", ACTED),
      },
      ...[400, 404, 409, 413, 415, 422],
    ),
  };
  app.post("/api/v1/sagas/:id/migrate", { schema }, async (request, reply) => {
    const { principal } = request;
    const { id } = request.params;
    const { version, steps, check } = request.body;
    refuseSteps(steps);
    const asked = { version, ...(steps && { steps }) };
    if (check) {
      const look = lookOf(deps, readerOf(request, reply));
      const reasons = await deps.migrations.check(look, id, { ...asked, reach: reachOf(principal) });
      return { allowed: reasons.length === 0, reasons };
    }
    const asks = { principal, runId: id, target: ["migrate", id], body: withoutDefaults(Migrate, asked) };
    const options = commandOptions(idempotencyKey(request), asks);
    const acting = { runId: id, body: asked, sql: deps.sql, actor: principal.actor, reach: options.reach };
    const command = await commandOf("migrate", acting);
    const answer = accepted<Acted>(await deps.runs.command(id, command, options));
    if (answer.reason !== undefined) throw conflict(answer.reason);
    reply.status(202);
    return { run_id: id, state: answer.state, changed: answer.changed };
  });
}

/** What `params` of a bulk job may not have. */
export function refuseCheck({ check, steps }: Static<typeof Migrate>): void {
  refuseSteps(steps, "$.params.steps");
  if (check) throw badRequest("a bulk job changes runs: ask for a report, or check one run", [CHECK]);
}

const CHECK = { path: "$.params.check", message: "must not be true" };

function refuseSteps(steps: Readonly<Record<string, string>> = {}, at = "$.steps"): void {
  refuseNames(steps, at);
}

/** Each read has a session for itself, and none is held between two runs. */
function lookOf({ readPool }: ApiDeps, reader: Reader): Look {
  return (read) => readPool.look(reader, read);
}

function reportRoute(app: Api, deps: ApiDeps): void {
  const count = { type: "integer" };
  const named = { type: "array", items: { type: "string", format: "uuid" }, description: "The first of them." };
  const report = {
    matched: {
      ...count,
      description: "Runs that were looked at: of the workflow, and neither ended nor of that version.",
    },
    movable: count,
    refused: count,
    reasons: reasonList({ count, run_ids: named }),
    truncated: { type: "boolean", description: "More runs match than the limit." },
    left_off: { ...count, description: "Of refusals, whose reasons did not fit." },
  };
  const schema = {
    tags: ["workflows"],
    "x-saga-role": "operator" as const,
    summary: "Report how many runs could move to a version, and why the others cannot",
    params: path({ wf_id: Id }),
    body: Report,
    response: responses({ 200: object("Nothing is changed.", report, ["truncated", "left_off"]) }, 400, 404, 413, 415),
  };
  app.post("/api/v1/workflows/:wf_id/migrations/check", { schema }, async (request, reply) => {
    const { params, body, principal } = request;
    const { from_version: fromVersion, steps, version, limit = STANDARD_LIMIT } = body;
    refuseSteps(steps);
    const asked = { workflowId: params.wf_id, version, limit, ...(steps && { steps }), reach: reachOf(principal) };
    const look = lookOf(deps, readerOf(request, reply));
    return deps.migrations.report(look, { ...asked, ...(fromVersion !== undefined && { fromVersion }) });
  });
}
