// Triggers over HTTP: create, list, get, change, delete, fire now; past fires and the next ones. The registrar checks them.
import type { Sql } from "postgres";
import type { Static } from "typebox";
import * as Type from "typebox";
import { type CronConfig, parseInstant, readTriggerConfig } from "../../machines/index.js";
import { badRequest } from "../errors.js";
import { listFires } from "../store/engine/trigger-fires.js";
import type { Reach } from "../store/lists/reach.js";
import { listTriggers, readTrigger, type TriggerRow, triggerItem } from "../store/lists/triggers.js";
import { delayOf, noSuchTrigger, Schedule } from "../trigger/index.js";
import { MAX_REASON } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, refuseLargePayload, shaped } from "./http/body.js";
import { IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { Flag, Id, Int, OneOf, PAGE, PageParameters, pageOf, path, query, Uuid } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { empty, object, one, page, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const URL = "/api/v1/triggers";
const ITEM = `${URL}/:id`;
const triggerPath = path({ id: Uuid });
const MAX_NEXT = 100;

const ANYTHING = Type.Unknown();
/** Only the registrar checks the document: it names every problem. */
const Document = shaped<unknown>(
  AnyObject({ description: "A SagaTrigger. Unknown fields are refused." }),
  () => ANYTHING,
);

const Change = Type.Object({
  enabled: Type.Optional(Type.Boolean()),
  config: Type.Optional(AnyObject({ description: "Replaces the whole config." })),
  reason: Type.Optional(
    Type.String({ maxLength: MAX_REASON, description: "Why it is disabled: with `enabled: false` only." }),
  ),
});
const moment = (description: string) => Type.String({ maxLength: 64, description: `RFC 3339. ${description}` });
const Backfill = Type.Object({
  from: moment("The first moment of the range."),
  to: Type.Optional(moment("The last one, which is not in the future. Absent: now.")),
  dry_run: Type.Optional(Type.Boolean({ description: "Lists what would be fired, and fires nothing." })),
});
const Fire = Type.Object(
  {
    payload: Type.Optional(AnyObject({ description: "Of a record_transition trigger: the payload of the event." })),
  },
  { default: {} },
);

export function triggerRoutes(app: Api, deps: ApiDeps): void {
  createRoute(app, deps);
  listRoute(app, deps);
  getRoute(app, deps);
  changeRoute(app, deps);
  deleteRoute(app, deps);
  fireRoute(app, deps);
  backfillRoute(app, deps);
  firesRoute(app, deps);
  nextRoute(app, deps);
}

function createRoute(app: Api, { triggers }: ApiDeps): void {
  const response = responses({ 201: one("The trigger.", "SagaTrigger") }, 400, 403, 404, 409, 413, 415);
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "author" as const,
    summary: "Create a trigger",
    body: Document,
    headers: IdempotencyHeader,
    response,
  };
  app.post(URL, { schema }, async (request, reply) => {
    const row = await triggers.create(request.body, request.principal, idempotencyKey(request));
    reply.status(201).header("Location", `${URL}/${row.id}`);
    return triggerItem(row);
  });
}

function listRoute(app: Api, { readPool }: ApiDeps): void {
  const querystring = query({ type: OneOf("cron", "record_transition"), enabled: Flag, workflow_id: Id, ...PAGE });
  const response = responses({ 200: page("A page of triggers.", "SagaTrigger") }, 400);
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "viewer" as const,
    summary: "List triggers",
    querystring,
    response,
  };
  app.get(URL, { schema }, async (request, reply) => {
    const { type, enabled, workflow_id: workflowId, ...asked } = request.query;
    return readPool.run(readerOf(request, reply), (sql, reach) =>
      listTriggers(sql, reach, { type, enabled, workflowId }, pageOf(asked)),
    );
  });
}

/** The trigger, for a client that reads. Throws 404. */
async function found(sql: Sql, reach: Reach, id: string): Promise<TriggerRow> {
  const row = await readTrigger(sql, reach, id);
  if (!row) throw noSuchTrigger(id);
  return row;
}

function getRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: one("The trigger.", "SagaTrigger") }, 400, 404);
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "viewer" as const,
    summary: "Get a trigger",
    params: triggerPath,
    response,
  };
  app.get(ITEM, { schema }, async (request, reply) => {
    const { id } = request.params;
    return triggerItem(await readPool.look(readerOf(request, reply), (sql, reach) => found(sql, reach, id)));
  });
}

function changeRoute(app: Api, { triggers }: ApiDeps): void {
  const response = responses({ 200: one("The trigger.", "SagaTrigger") }, 400, 404, 413, 415);
  const summary = "Enable or disable a trigger, or replace its config";
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "author" as const,
    summary,
    params: triggerPath,
    body: Change,
    response,
  };
  app.patch(ITEM, { schema }, async ({ params: { id }, body, principal }) =>
    triggerItem(await triggers.change(principal, id, { ...body, reason: body.reason || undefined })),
  );
}

function deleteRoute(app: Api, { triggers }: ApiDeps): void {
  const response = responses({ 204: empty("It is gone. A run that it has started goes on.") }, 400, 404);
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "author" as const,
    summary: "Delete a trigger",
    params: triggerPath,
    response,
  };
  app.delete(ITEM, { schema }, async ({ params: { id }, principal }, reply) => {
    await triggers.delete(principal, id);
    return reply.status(204).send();
  });
}

const FIRE = {
  fire_id: { type: "string", format: "uuid" },
  run_id: {
    type: "string",
    format: "uuid",
    description: "Absent: the fire ended with an error, or its run is still owed.",
  },
};
const FIRED = object("The fire is durable.", FIRE, ["run_id"]);

function fireRoute(app: Api, { triggers, config }: ApiDeps): void {
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "operator" as const,
    summary: "Fire a trigger now, enabled or not",
    params: triggerPath,
    body: Fire,
    headers: IdempotencyHeader,
    response: responses({ 202: FIRED }, 400, 404, 409, 413, 415),
  };
  app.post(`${ITEM}/fire`, { schema }, async (request, reply) => {
    const { payload } = request.body as Static<typeof Fire>;
    refuseLargePayload(payload ?? null, config.limits.outputBytes);
    const { fireId, runId } = await triggers.fire(
      request.principal,
      request.params.id,
      payload,
      idempotencyKey(request),
    );
    reply.status(202);
    return { fire_id: fireId, ...(runId !== undefined && { run_id: runId }) };
  });
}

const BACKFILLED = object(
  "The fires are durable; their runs are started one after the other, or some at once.",
  {
    ticks: { type: "integer", description: "Of the range, whether they were fired before or not." },
    fired: { type: "integer", description: "Those that had started no run, and are fired now." },
    dry_run: { type: "boolean", description: "Present and true: none was fired." },
    items: {
      type: "array",
      description: "What is fired now, in the order of the ticks.",
      items: object("", { fire_id: FIRE.fire_id, scheduled_at: { type: "string", format: "date-time" } }),
    },
  },
  ["dry_run"],
);

function backfillRoute(app: Api, { triggers }: ApiDeps): void {
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "operator" as const,
    summary: "Fire the ticks of a past range that have started no run, enabled or not",
    params: triggerPath,
    body: Backfill,
    response: responses({ 202: BACKFILLED }, 400, 404, 413, 415, 422),
  };
  app.post(`${ITEM}/backfill`, { schema }, async ({ params: { id }, principal, body }, reply) => {
    const { dry_run: dryRun = false } = body;
    const to = body.to === undefined ? {} : { to: timeIn("to", body.to) };
    const range = { from: timeIn("from", body.from), ...to };
    const { ticks, fires } = await triggers.backfill(principal, id, range, dryRun);
    const items = fires.map((fire) => ({ fire_id: fire.id, scheduled_at: fire.scheduledAt.toISOString() }));
    reply.status(202);
    return { ticks, fired: items.length, ...(dryRun && { dry_run: true }), items };
  });
}

function timeIn(member: string, text: string): number {
  const time = parseInstant(text);
  if (time !== undefined) return time;
  const message = "must be a date-time of RFC 3339";
  throw badRequest(`the body is not valid: $.${member} ${message}`, [{ path: `$.${member}`, message }]);
}

function firesRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: page("A page of fires, newest first.", "TriggerFireRow") }, 400, 404);
  const schema = {
    ...{ tags: ["triggers"], "x-saga-role": "viewer" as const, summary: "List a trigger's fires, skips and errors" },
    ...{ params: triggerPath, querystring: PageParameters, response },
  };
  app.get(`${ITEM}/fires`, { schema }, async (request, reply) => {
    const { id } = request.params;
    return readPool.run(readerOf(request, reply), async (sql, reach) => {
      await found(sql, reach, id);
      return listFires(sql, reach, id, pageOf(request.query));
    });
  });
}

function nextRoute(app: Api, { readPool, now }: ApiDeps): void {
  const times = { type: "array", items: { type: "string", format: "date-time" } };
  const schema = {
    tags: ["triggers"],
    "x-saga-role": "viewer" as const,
    summary: "List when a cron trigger fires next",
    params: triggerPath,
    querystring: query({ count: Int(1, MAX_NEXT) }),
    response: responses({ 200: object("The times of the next fires.", { items: times }) }, 400, 404),
  };
  app.get(`${ITEM}/next`, { schema }, async (request, reply) => {
    const { id } = request.params;
    const { count = 10 } = request.query;
    const row = await readPool.look(readerOf(request, reply), (sql, reach) => found(sql, reach, id));
    const config = cronConfigOf(row);
    const delay = delayOf(id, config);
    const next = row.nextFireAt?.getTime();
    const from = next === undefined ? now() : Math.max(now(), next - 1) - delay;
    const ticks = Schedule.of(config).next(count, from);
    return { items: ticks.map((tick) => new Date(tick + delay).toISOString()) };
  });
}

function cronConfigOf({ triggerType, config }: TriggerRow): CronConfig {
  const { value } = readTriggerConfig("cron", triggerType === "cron" ? config : {});
  if (value?.type !== "cron") throw badRequest("only a cron trigger has next ticks");
  return value.config;
}
