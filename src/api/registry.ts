// The action registry over HTTP: what a service declares, checked and completed, and the list of it all.
import { Ajv2020 } from "ajv/dist/2020.js";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { JsonObject } from "../../machines/index.js";
import { badRequest, type ErrorDetail, invalidConfig } from "../errors.js";
import { listActions, type Registration, register } from "../store/registry.js";
import { AnyObject, checkBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { pageSchema, ref, responses } from "./schemas.js";

const opt = Type.Optional;
const Service = Type.String({ pattern: q.ID_PATTERN });
const Text = Type.String({ maxLength: 8192 });
/** Ten years. */
const Ms = (minimum: number) => Type.Integer({ minimum, maximum: q.MAX_INT32 });

const Retry = Type.Object({
  max_attempts: Type.Integer({ minimum: -1, maximum: q.MAX_INT32, not: { const: 0 }, description: "-1 is unlimited." }),
  initial_backoff_ms: Ms(0),
  max_backoff_ms: opt(Ms(0)),
  multiplier: opt(Type.Number({ minimum: 1, maximum: 1000 })),
  jitter: opt(Type.Boolean()),
  non_retryable_codes: opt(Type.Array(Text, { maxItems: 1000 })),
});

const Action = Type.Object({
  service: opt(Service),
  action_name: Type.String({ pattern: "^[A-Za-z0-9_:-]{1,128}$", description: "Without a dot." }),
  version: opt(Type.Integer({ minimum: 1, maximum: q.MAX_INT32 })),
  description: opt(Text),
  category: opt(Text),
  compensable: opt(Type.Boolean()),
  input_schema: opt(AnyObject()),
  output_schema: opt(AnyObject()),
  error_codes: opt(Type.Array(Text, { maxItems: 1000 })),
  default_retry: opt(Retry),
  default_timeout_ms: opt(Ms(1)),
  deprecated: opt(Type.Boolean()),
  service_version: opt(Text),
  dry_run_supported: opt(Type.Boolean()),
  license_group: opt(Text),
  transport: opt(Type.String({ enum: ["", "grpc", "http", "rmq"], description: "Empty means grpc." })),
  address: opt(Text),
  // Given by the service, so that a listed registration can be sent back as it is.
  id: opt(Type.Unknown()),
  registered_at: opt(Type.Unknown()),
});
type Action = Static<typeof Action>;

const Actions = Type.Array(Action, { minItems: 1, maxItems: 1000 });
const Register = Type.Object({ service: Service, service_version: opt(Text), actions: Actions });

const listQuery = q.queryReader({
  service: q.text({ max: 128 }),
  category: q.text({ max: 8192 }),
  search: q.text({ min: 0, max: 256 }),
  ...q.PAGE,
});

export function registryRoutes(app: FastifyInstance, deps: ApiDeps): void {
  const registered = {
    description: "All of them are registered.",
    type: "object",
    properties: { registered: { type: "integer" }, actions: { type: "array", items: ref("ActionRegistration") } },
  };
  const schema = {
    tags: ["registry"],
    summary: "Register actions: all or nothing, by service, action_name and version",
    body: Type.Union([Register, Actions]),
    response: responses({ 200: registered }, 400, 413, 415),
  };
  app.post("/api/v1/registry/register", { schema }, async (request, reply) => {
    const registrations = registrationsOf(request, reply, deps);
    const actions = await register(deps.sql, registrations);
    await deps.catalog.refresh();
    return { registered: actions.length, actions };
  });

  const response = responses({ 200: { description: "A page of actions.", ...pageSchema("ActionRegistration") } }, 400);
  const listSchema = {
    tags: ["registry"],
    summary: "List registered actions",
    querystring: listQuery.schema,
    response,
  };
  app.get("/api/v1/registry/actions", { schema: listSchema }, async (request) => {
    const { service, category, search, ...page } = listQuery.read(request.query);
    return listActions(deps.sql, { service, category, search: search || undefined }, q.pageOf(page));
  });
}

function registrationsOf(request: FastifyRequest, reply: FastifyReply, deps: ApiDeps): Registration[] {
  const bare = Array.isArray(request.body);
  const body = bare ? undefined : checkBody(request.body, reply, Register);
  const actions = body?.actions ?? checkBody(request.body, reply, Actions);
  const at = bare ? "$" : "$.actions";
  const problems: ErrorDetail[] = [];
  const registrations = actions.map((action, index) => {
    const place = `${at}[${index}]`;
    problems.push(...serviceProblems(action, body?.service, place), ...schemaProblems(action, place));
    problems.push(...addressProblems(action, place));
    return complete(action, action.service ?? body?.service ?? "", body?.service_version);
  });
  problems.push(...duplicates(registrations, at));
  const [first] = problems;
  if (first) throw badRequest(`the registration is not valid: ${first.path} ${first.message}`, problems.slice(0, 100));
  refuseRmq(registrations, at, deps);
  return registrations;
}

function complete(action: Action, service: string, serviceVersion: string | undefined): Registration {
  const { id: _id, registered_at: _at, ...given } = action;
  return {
    ...given,
    service,
    version: action.version ?? 1,
    compensable: action.compensable ?? false,
    deprecated: action.deprecated ?? false,
    dry_run_supported: action.dry_run_supported ?? false,
    input_schema: action.input_schema ?? {},
    output_schema: action.output_schema ?? {},
    service_version: action.service_version ?? serviceVersion,
    transport: transportOf(action),
  };
}

function transportOf({ transport }: Action): Registration["transport"] {
  return transport === "http" || transport === "rmq" ? transport : "grpc";
}

function serviceProblems(action: Action, service: string | undefined, place: string): ErrorDetail[] {
  if (action.service === undefined && service === undefined)
    return [{ path: `${place}.service`, message: "is required" }];
  const differs = action.service !== undefined && service !== undefined && action.service !== service;
  return differs ? [{ path: `${place}.service`, message: "is not the service that registers" }] : [];
}

function addressProblems(action: Action, place: string): ErrorDetail[] {
  const path = `${place}.address`;
  const transport = transportOf(action);
  if (transport === "http" && !isHttpUrl(action.address))
    return [{ path, message: "must be an absolute http or https URL" }];
  if (transport === "rmq" && !isQueueName(action.address))
    return [{ path, message: "must be a queue name of 1 to 255 bytes" }];
  return [];
}

function isHttpUrl(address = ""): boolean {
  return (
    URL.canParse(address) &&
    ["http:", "https:"].includes(new URL(address).protocol) &&
    /^https?:\/\/[^/]/i.test(address)
  );
}

function isQueueName(address = ""): boolean {
  return address !== "" && Buffer.byteLength(address) <= 255;
}

/** Only judges schemas against their own schema: nothing of them is compiled or fetched here. */
const judge = new Ajv2020({ strict: false, allErrors: false, logger: false, validateFormats: false });

function schemaProblems(action: Action, place: string): ErrorDetail[] {
  return (["input_schema", "output_schema"] as const).flatMap((member) => {
    const { $schema: _draft, ...schema }: JsonObject = action[member] ?? {};
    if (judge.validateSchema(schema) === true) return [];
    const [error] = judge.errors ?? [];
    const message = `is no JSON Schema 2020-12: ${error?.instancePath || "/"} ${error?.message ?? ""}`.trimEnd();
    return [{ path: `${place}.${member}`, message }];
  });
}

function duplicates(registrations: readonly Registration[], at: string): ErrorDetail[] {
  const seen = new Set<string>();
  return registrations.flatMap(({ service, action_name, version }, index) => {
    const identity = `${service}.${action_name}@${version}`;
    if (seen.has(identity)) return [{ path: `${at}[${index}]`, message: `registers ${identity} a second time` }];
    seen.add(identity);
    return [];
  });
}

function refuseRmq(registrations: readonly Registration[], at: string, { config }: ApiDeps): void {
  if (config.amqpUrl !== undefined) return;
  const details = registrations.flatMap(({ transport }, index) =>
    transport === "rmq" ? [{ path: `${at}[${index}].transport`, message: "rmq needs AMQP_URL, which is not set" }] : [],
  );
  if (details.length > 0) throw invalidConfig("transport rmq cannot be registered: AMQP_URL is not set", details);
}
