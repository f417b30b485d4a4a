// Bulk jobs over HTTP: an act on all runs that a filter matches. The filter is read as the list's, and the parameters by the schema of the
// act itself; a job is created, driven and stopped in operate/.
import type { Static, TSchema } from "typebox";
import * as Type from "typebox";
import { firstCharacters, type JsonObject, jsonPath, MAX_INT32, UUID_PATTERN } from "../../machines/index.js";
import { meets, ownerFor, type Principal, reachOf, whileGood } from "../access/index.js";
import { badRequest, forbidden, notConfigured } from "../errors.js";
import { isOperatorAct, MAX_LIMIT, ProgressWaits, STANDARD_LIMIT } from "../operate/index.js";
import { listJobs } from "../store/lists/bulk-jobs.js";
import { ACT_ROUTES } from "./acts.js";
import { Cancel, refuseReserved } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { withoutDefaults, withoutNulls } from "./http/absent.js";
import { AnyObject, NoMembers, refuseLargePayload, refuseNames, shaped } from "./http/body.js";
import { IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { Int, memberCheck, OneOf, PageParameters, pageOf, path, query, SignalName, Uuid } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, one, page, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { Migrate, refuseCheck } from "./migrate.js";
import { Rerun } from "./rerun.js";
import { filterOf, RUN_FILTERS } from "./run-filters.js";
import { WAIT } from "./waiting.js";

const URL = "/api/v1/bulk";
const ITEM = `${URL}/:id`;
const bulkPath = path({ id: Uuid });

const SignalParams = Type.Object({
  signal_name: SignalName,
  payload: Type.Optional(AnyObject({ default: {} })),
});

const ERASE = "erase";

/** What `params` may be, by the name of the action. */
const PARAMS: ReadonlyMap<string, TSchema & { readonly default?: unknown }> = new Map<string, TSchema>([
  ...ACT_ROUTES.map(({ name, body }): [string, TSchema] => [name, body]),
  ["migrate", Migrate],
  ["release", NoMembers],
  ["cancel", Cancel],
  ["signal", SignalParams],
  ["rerun", Rerun],
  [ERASE, NoMembers],
]);

const Limit = Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: STANDARD_LIMIT });
const bodyWith = (filter: TSchema, params: TSchema) =>
  Type.Object({
    filter,
    action: OneOf(...PARAMS.keys()),
    params,
    limit: Type.Optional(Limit),
    tenant_id: Type.Optional(
      Type.String({ pattern: UUID_PATTERN, description: "The job acts on the runs of this tenant only." }),
    ),
  });

const filters = query(RUN_FILTERS);
const { "label.{name}": _, ...NAMED } = RUN_FILTERS;
/** Not `patternProperties`: types of clients cannot say that some members are texts beside others that are not. */
const Filter = {
  ...query(NAMED),
  additionalProperties: true,
  description: "As the list's; `label.<name>` is the value of a label.",
};
const Documented = bodyWith(Filter, Type.Optional(AnyObject({ description: "The body of the act." })));
const AnyAct = bodyWith(AnyObject(), Type.Optional(AnyObject()));
const BODIES = new Map(
  [...PARAMS].map(([action, params]) => [
    action,
    bodyWith(AnyObject(), "default" in params ? Type.Optional(params) : params),
  ]),
);

interface Asked {
  readonly filter: JsonObject;
  readonly action: string;
  readonly params?: JsonObject;
  readonly limit?: number;
  readonly tenant_id?: string;
}
const Body = shaped<Asked>(Documented, (body) => BODIES.get((body as Asked | null)?.action ?? "") ?? AnyAct);

const filterCheck = memberCheck("$.filter", filters);

function readFilter(filter: JsonObject) {
  const checked = filterCheck(filter);
  if ("error" in checked) throw checked.error;
  return filterOf(checked.value as Static<typeof filters>);
}

/** Names that a refusal has, and how much of each. */
const MAX_DETAILS = 20;
const MAX_NAME = 140;
const isFilter = (name: string) => Object.hasOwn(NAMED, name) || name.startsWith("label.");

/**
 * Who writes a filter beside `filter` means fewer runs than those of `filter` alone: ignored, it would cancel the others too. `tenant_id` says whose
 * the job is.
 */
function refuseFiltersBeside(body: object): void {
  const names = Object.entries(body).flatMap(([name, value]) =>
    value !== null && name !== "tenant_id" && isFilter(name) ? [name] : [],
  );
  const details = names.slice(0, MAX_DETAILS).map((name) => ({
    path: jsonPath("$", firstCharacters(name, MAX_NAME)),
    message: "is a filter that stands beside $.filter: it must be a member of $.filter",
  }));
  const [first] = details;
  if (first) throw badRequest(`the body is not valid: ${first.path} ${first.message}`, details);
}

export function bulkRoutes(app: Api, deps: ApiDeps): void {
  const waits = new ProgressWaits(deps.upkeep, deps.log);
  app.addHook("preClose", async () => waits.stop());
  createRoute(app, deps);
  listRoute(app, deps);
  getRoute(app, deps, waits);
  changeRoute(app, deps, "stop");
  changeRoute(app, deps, "resume");
}

const BULK_ID = { bulk_id: { type: "string", format: "uuid" } };

function createRoute(app: Api, deps: ApiDeps): void {
  const created = object("The job and its targets are durable.", { ...BULK_ID, matched: { type: "integer" } });
  const schema = {
    tags: ["operating"],
    "x-saga-role": "operator" as const,
    summary: "Act on all runs that a filter matches",
    body: Body,
    headers: IdempotencyHeader,
    response: responses({ 202: created }, 400, 409, 413, 415, 422, 501),
  };
  app.post(URL, { schema }, async (request, reply) => {
    const { principal } = request;
    const { filter: asGiven, action, params = {}, limit, tenant_id: named } = request.body;
    refuseFiltersBeside(request.body);
    const runs = readFilter(asGiven);
    const filter = withoutNulls(filters, asGiven) as JsonObject;
    checkParams(action, params, deps);
    const normal = withoutDefaults(PARAMS.get(action) ?? {}, params) as JsonObject;
    const tenantId = ownerFor(principal, named?.toLowerCase());
    refuseErasure(principal, action);
    const { actor } = principal;
    const reach = { ...reachOf(principal), ...(tenantId !== undefined && { tenants: [tenantId] }) };
    const by = { actor, reach, ...(tenantId !== undefined && { tenantId }) };
    const asked = { action, filter, runs, params, normal, ...(limit !== undefined && { limit }), ...by };
    const { id, matched } = await deps.bulk.create(asked, idempotencyKey(request));
    if (action === ERASE) request.did("bulk erasure asked for", { bulk: id, matched });
    reply.status(202).header("Location", `${URL}/${id}`);
    return { bulk_id: id, matched };
  });
}

/** What the routes of the acts refuse besides what their schemas do. */
function checkParams(action: string, params: JsonObject, { canceller, config }: ApiDeps): void {
  const { outputBytes } = config.limits;
  if (action === "migrate") return refuseCheck(params as Static<typeof Migrate>);
  if (isOperatorAct(action))
    return ACT_ROUTES.find(({ name }) => name === action)?.check?.(
      params as Readonly<Record<PropertyKey, unknown>>,
      outputBytes,
    );
  if (action === "cancel" && !canceller)
    throw notConfigured("no canceller is configured: this service cancels no runs");
  if (action === "signal") {
    const { signal_name: name, payload = {} } = params as Static<typeof SignalParams>;
    refuseReserved(name, "$.params.signal_name");
    refuseLargePayload(payload, outputBytes);
  }
  if (action === "rerun") refuseNames((params as Static<typeof Rerun>).labels ?? {}, "$.params.labels");
}

function listRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: page("A page of bulk jobs, newest first.", "BulkJob") }, 400);
  const schema = {
    tags: ["operating"],
    "x-saga-role": "viewer" as const,
    summary: "List bulk jobs",
    querystring: PageParameters,
    response,
  };
  app.get(URL, { schema }, async (request, reply) =>
    readPool.run(readerOf(request, reply), (sql, reach) => listJobs(sql, reach, pageOf(request.query))),
  );
}

function getRoute(app: Api, { readPool, bulk, now }: ApiDeps, waits: ProgressWaits): void {
  const querystring = query({ ...WAIT, after_done: Int(0, MAX_INT32) });
  const response = responses({ 200: one("The job, with its first refusals.", "BulkJob") }, 400, 404);
  const summary = "Get a bulk job; with wait_ms the answer waits for its end, or until more than after_done are done";
  const schema = {
    tags: ["operating"],
    "x-saga-role": "viewer" as const,
    summary,
    params: bulkPath,
    querystring,
    response,
  };
  app.get(ITEM, { schema }, async (request, reply) => {
    const { id } = request.params;
    const reader = readerOf(request, reply);
    const read = () => readPool.look(reader, (sql, reach) => bulk.read(sql, reach, id));
    const { wait_ms: ms = 0, after_done: afterDone } = request.query;
    const job = await read();
    const isOver = job.state !== "running" || (afterDone !== undefined && Number(job.done) > afterDone);
    if (ms === 0 || isOver) return job;
    await whileGood(request.principal, now, { ms, wait: waits.wait(id, { ms, afterDone, closed: reader.closed }) });
    return read();
  });
}

const CHANGES = {
  stop: {
    summary: "Stop a bulk job: acts that are on their way are finished and counted",
    done: "The job begins no more acts.",
    unchanged: "False: the job was not running.",
  },
  resume: {
    summary: "Resume a bulk job that was stopped, with the runs that are left",
    done: "The job goes on.",
    unchanged: "False: the job was not stopped.",
  },
};

function changeRoute(app: Api, { bulk }: ApiDeps, name: keyof typeof CHANGES): void {
  const { summary, done, unchanged } = CHANGES[name];
  const changed = { type: "boolean", description: unchanged };
  const schema = {
    ...{
      tags: ["operating"],
      "x-saga-role": "operator" as const,
      summary,
      params: bulkPath,
      body: NoMembers,
      headers: IdempotencyHeader,
    },
    response: responses({ 202: object(done, { ...BULK_ID, state: { type: "string" }, changed }) }, 400, 404, 413, 415),
  };
  app.post(`${ITEM}/${name}`, { schema }, async (request, reply) => {
    const { id } = request.params;
    const { principal } = request;
    const answer = await bulk[name](id, reachOf(principal), idempotencyKey(request), (action) =>
      refuseErasure(principal, action),
    );
    reply.status(202);
    return { bulk_id: id, ...answer };
  });
}

/** Throws 403: its job needs a finer right than the route, also where it goes on after a stop. */
function refuseErasure({ roles }: Principal, action: string): void {
  if (action === ERASE && !meets(roles, "admin")) throw forbidden("the role admin may erase runs");
}
