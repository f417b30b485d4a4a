// The action registry over HTTP: services declare their actions, which are checked and completed; all of them can be listed.
import type { FastifyBaseLogger } from "fastify";
import type { Static } from "typebox";
import * as Type from "typebox";
import {
  draftFault,
  type JsonObject,
  LONGEST_WAIT_MS,
  MAX_INT32,
  misfit,
  type Slices,
  schemaSize,
  sizeFault,
} from "../../machines/index.js";
import { isPlatform, meets, type Principal, refuseNarrowed, tenantsOf } from "../access/index.js";
import { badRequest, type ErrorDetail, forbidden, invalidConfig } from "../errors.js";
import { topologyOf } from "../events/topology.js";
import {
  type ChangedRegistration,
  listActions,
  type Registrant,
  type Registration,
  register,
} from "../store/lists/registry.js";
import { isIn } from "../store/owners.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, shaped } from "./http/body.js";
import { PAGE, pageOf, query, Text, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, page, ref, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const MAX_DETAILS = 100;
/** Objects and boolean schemas in all schemas of one message. They are checked now, in 7 µs each, and compiled when they are first used. */
const MAX_MESSAGE_WEIGHT = 40_000;

const opt = Type.Optional;
const Service = Type.String({ pattern: misfit.NEW_ID_PATTERN });
const LongText = Type.String({ maxLength: 8192 });
const Ms = (minimum: number) => Type.Integer({ minimum, maximum: LONGEST_WAIT_MS });

const Retry = Type.Object({
  max_attempts: Type.Integer({ minimum: -1, maximum: MAX_INT32, not: { const: 0 }, description: "-1 is unlimited." }),
  initial_backoff_ms: Ms(0),
  max_backoff_ms: opt(Ms(0)),
  multiplier: opt(Type.Number({ minimum: 1, maximum: 1000 })),
  jitter: opt(Type.Boolean()),
  non_retryable_codes: opt(Type.Array(LongText, { maxItems: 1000 })),
});

const Action = Type.Object({
  service: opt(Service),
  action_name: Type.String({ pattern: misfit.ACTION_PATTERN, description: "Without a dot." }),
  version: opt(Version),
  description: opt(LongText),
  category: opt(LongText),
  compensable: opt(Type.Boolean()),
  input_schema: opt(AnyObject()),
  output_schema: opt(AnyObject()),
  error_codes: opt(Type.Array(LongText, { maxItems: 1000 })),
  default_retry: opt(Retry),
  default_timeout_ms: opt(Ms(1)),
  deprecated: opt(Type.Boolean()),
  service_version: opt(LongText),
  dry_run_supported: opt(Type.Boolean()),
  license_group: opt(LongText),
  transport: opt(Type.String({ enum: ["", "grpc", "http", "rmq"], description: "Empty means grpc." })),
  address: opt(LongText),
  // Set by the service, and ignored: a listed registration can be sent back unchanged.
  id: opt(Type.Unknown()),
  registered_at: opt(Type.Unknown()),
});
type Action = Static<typeof Action>;

const Actions = Type.Array(Action, { minItems: 1, maxItems: 1000 });
const Register = Type.Object({
  service: Service,
  service_version: opt(LongText),
  only_missing: opt(
    Type.Boolean({ description: "Leave registrations that exist as they are. The answer has the new ones only." }),
  ),
  actions: Actions,
});
type Sender = Partial<Static<typeof Register>> & Pick<Static<typeof Register>, "actions">;

const RegisterBody = shaped<Static<typeof Register> | Static<typeof Actions>>(
  Type.Union([Register, Actions]),
  (body) => (Array.isArray(body) ? Actions : Register),
);

const listQuery = query({
  service: Text({ max: 128 }),
  category: Text({ max: 8192 }),
  search: Text({ min: 0, max: 256 }),
  ...PAGE,
});

export function registryRoutes(app: Api, deps: ApiDeps): void {
  registerRoute(app, deps);
  listRoute(app, deps);
}

function registerRoute(app: Api, deps: ApiDeps): void {
  const registered = object("All of them are registered.", {
    registered: { type: "integer" },
    actions: { type: "array", items: ref("ActionRegistration") },
    changed: {
      type: "array",
      description:
        "Registrations that were there before and are others now. Dispatches in flight keep what they were sent with.",
      items: ref("ChangedRegistration"),
    },
  });
  const schema = {
    tags: ["registry"],
    "x-saga-role": ["worker", "author"] as const,
    summary: "Register actions: all or nothing, by service, action_name and version",
    body: RegisterBody,
    response: responses({ 200: registered }, 400, 413, 415),
  };
  app.post("/api/v1/registry/register", { schema }, async (request) => {
    const { body, log, principal } = request;
    const registrations = await deps.scheduler.computeSlices("registrations", registrationsOf(body, deps));
    refuseServices(principal, registrations);
    const onlyMissing = !Array.isArray(body) && body.only_missing === true;
    const { actions, changed } = await register(deps.sql, registrations, registrantOf(principal), onlyMissing);
    for (const change of changed) {
      logChange(change, log);
      const { members } = change;
      if (members.some((member) => ADDRESS.has(member)))
        request.did("address of a registration changed", { action: nameOf(change), members });
    }
    for (const { transport, service } of registrations)
      if (transport === "http") deps.signing?.warnOfGap(service, deps.log);
    await deps.catalog.refresh();
    return { registered: actions.length, actions, changed };
  });
}

/** A worker registers its own services, an author any of its tenant. Throws 403. */
function refuseServices(principal: Principal, registrations: readonly Registration[]): void {
  refuseNarrowed(principal, "register actions");
  if (meets(principal.roles, "author")) return;
  const foreign = registrations.find(({ service }) => !principal.services.match(service));
  if (foreign) throw forbidden(`the credential is not for the service ${foreign.service}: its services lack it`);
}

/** How the store sees who registers. */
export function registrantOf(principal: Principal): Registrant {
  const tenants = tenantsOf(principal);
  return {
    tenantId: isPlatform(principal) ? null : (principal.tenantId ?? null),
    changes: (owner) => isIn(owner, tenants),
    readdresses: meets(principal.roles, "admin"),
  };
}

/** What workers and runs rely on. A change of anything else is for people only. */
const RELIED_ON: ReadonlySet<string> = new Set(["input_schema", "output_schema", "transport", "address"]);

/** Where what is sent to a worker goes. */
const ADDRESS: ReadonlySet<string> = new Set(["transport", "address"]);

function logChange(change: ChangedRegistration, log: FastifyBaseLogger): void {
  const { members } = change;
  const fields = { action: nameOf(change), members };
  if (members.some((member) => RELIED_ON.has(member))) log.warn(fields, "registered action changed under its version");
  else log.info(fields, "registered action described anew");
}

function nameOf({ service, action_name, version }: ChangedRegistration): string {
  return `${service}.${action_name}@${version}`;
}

function listRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: page("A page of actions.", "ActionRegistration") }, 400);
  const schema = {
    tags: ["registry"],
    "x-saga-role": "viewer" as const,
    summary: "List registered actions",
    querystring: listQuery,
    response,
  };
  app.get("/api/v1/registry/actions", { schema }, async (request, reply) => {
    const { service, category, search, ...page } = request.query;
    const filter = { service, category, search: search || undefined };
    return readPool.run(readerOf(request, reply), (sql, reach) => listActions(sql, reach, filter, pageOf(page)));
  });
}

/** The actions, completed, one in a slice. Throws 400 with every problem. */
function* registrationsOf(body: Static<typeof RegisterBody>, deps: ApiDeps): Slices<Registration[]> {
  const bare = Array.isArray(body);
  const { actions, service, service_version }: Sender = bare ? { actions: body } : body;
  const at = bare ? "$" : "$.actions";
  const problems: ErrorDetail[] = [];
  let weight = 0;
  for (const [index, action] of actions.entries()) {
    weight += schemaWeightOf(action);
    if (weight > MAX_MESSAGE_WEIGHT) throw badRequest(`the schemas up to ${at}[${index}] ${OVERWEIGHT}`);
    problems.push(...actionProblems(action, service, `${at}[${index}]`));
    yield;
  }
  const registrations = actions.map((action) => complete(action, action.service ?? service ?? "", service_version));
  problems.push(...duplicates(registrations, at), ...queueProblems(registrations, at, deps));
  refuse(problems);
  if (deps.config.amqpUrl === undefined) refuseRmq(registrations, at);
  return registrations;
}

const OVERWEIGHT = `have over ${MAX_MESSAGE_WEIGHT} objects and boolean schemas together, the most for one message: register the actions in several`;

const schemaWeightOf = ({ input_schema = {}, output_schema = {} }: Action) =>
  schemaSize(input_schema) + schemaSize(output_schema);

function refuse(problems: readonly ErrorDetail[]): void {
  const [first] = problems;
  if (!first) return;
  const details = problems.slice(0, MAX_DETAILS);
  throw badRequest(`the registration is not valid: ${first.path} ${first.message}`, details);
}

function actionProblems(action: Action, service: string | undefined, place: string): ErrorDetail[] {
  return [
    ...serviceProblems(action, service, place),
    ...schemaProblems(action, place),
    ...addressProblems(action, place),
  ];
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
    return [{ path: `${place}.service`, message: misfit.REQUIRED }];
  const differs = action.service !== undefined && service !== undefined && action.service !== service;
  return differs ? [{ path: `${place}.service`, message: "differs from the registering service" }] : [];
}

function addressProblems(action: Action, place: string): ErrorDetail[] {
  const path = `${place}.address`;
  const transport = transportOf(action);
  if (transport === "http" && !isHttpUrl(action.address))
    return [{ path, message: "must be an absolute http or https URL without credentials" }];
  if (transport === "rmq" && !isQueueName(action.address))
    return [{ path, message: "must be a queue name of 1 to 255 bytes" }];
  return [];
}

function isHttpUrl(address = ""): boolean {
  const url = /^https?:\/\/[^/]/i.test(address) ? URL.parse(address) : null;
  return url !== null && url.username === "" && url.password === "";
}

function isQueueName(address = ""): boolean {
  return address !== "" && Buffer.byteLength(address) <= 255;
}

/** Calls are checked with them, so one that could not be compiled is refused. Nothing is compiled or fetched here. */
function schemaProblems(action: Action, place: string): ErrorDetail[] {
  return (["input_schema", "output_schema"] as const).flatMap((member) => {
    const message = schemaFault(action[member] ?? {});
    return message === undefined ? [] : [{ path: `${place}.${member}`, message }];
  });
}

function schemaFault({ $schema: _draft, ...schema }: JsonObject): string | undefined {
  const size = sizeFault(schema);
  if (size !== undefined) return `is too large a JSON Schema: ${size}`;
  const fault = draftFault(schema);
  return fault === undefined ? undefined : `is not a JSON Schema 2020-12: ${fault}`;
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

/** The queues of the events are no worker's. With access on, a service's queues begin with its name, which has no `/`: they are no other's. */
function queueProblems(
  registrations: readonly Registration[],
  at: string,
  { config: { eventsExchange }, verifier }: Pick<ApiDeps, "config" | "verifier">,
): ErrorDetail[] {
  const { queue, dead } = topologyOf(eventsExchange ?? "");
  return registrations.flatMap(({ transport, service, address = "" }, index) => {
    const path = `${at}[${index}].address`;
    if (transport !== "rmq") return [];
    if (eventsExchange !== undefined && (address === queue || address === dead))
      return { path, message: "is a queue of the events" };
    const isOwn = address === service || (address.startsWith(`${service}/`) && address.length > service.length + 1);
    return verifier && !isOwn ? { path, message: `must be ${service}, or ${service}/ and a name` } : [];
  });
}

function refuseRmq(registrations: readonly Registration[], at: string): void {
  const details = registrations.flatMap(({ transport }, index) =>
    transport === "rmq" ? [{ path: `${at}[${index}].transport`, message: "rmq needs AMQP_URL, which is not set" }] : [],
  );
  if (details.length > 0) throw invalidConfig("transport rmq cannot be registered: AMQP_URL is not set", details);
}
