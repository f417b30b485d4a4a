// API keys over HTTP: make, list, revoke. Who may grant what is decided in access/; a key is in one answer, and no answer may be kept.
import * as Type from "typebox";
import { UUID_PATTERN } from "../../machines/index.js";
import {
  expiryIn,
  KEY_ID_PATTERN,
  type KeyGrant,
  MOST_NAME,
  MOST_PATTERNS,
  makeApiKey,
  narrowingOf,
  PATTERN,
  type Principal,
  ROLES,
  tenantsOf,
} from "../access/index.js";
import { badRequest, notFound } from "../errors.js";
import { type KeyReach, keyItem, listKeys, revokeKey } from "../store/lists/api-keys.js";
import type { ApiDeps } from "./deps.js";
import { refuseKey } from "./http/idempotency.js";
import { OneOf, PAGE, pageOf, path, query, Text, Uuid } from "./http/parameters.js";
import { empty, one, page, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";

const URL = "/api/v1/api_keys";
const ITEM = `${URL}/:id`;
const keyPath = path({ id: Type.String({ pattern: KEY_ID_PATTERN }) });

const Tenant = Type.String({ pattern: UUID_PATTERN });
const patterns = (description: string) =>
  Type.Optional(Type.Array(Type.String({ pattern: PATTERN }), { maxItems: MOST_PATTERNS, description }));

const Body = Type.Object({
  name: Text({ max: MOST_NAME }),
  roles: Type.Array(OneOf(...ROLES), { minItems: 1, maxItems: ROLES.length }),
  tenant_id: Type.Optional(Tenant),
  tenants: Type.Optional(
    Type.Array(Tenant, { maxItems: MOST_PATTERNS, description: "The only tenants that a key of the platform serves." }),
  ),
  workflows: patterns("Ids, or the beginnings of ids and `*`. Absent: all workflows that the maker has."),
  services: patterns("Likewise, of the services that a worker may serve. Absent: none."),
  secrets: patterns("Likewise, of the secrets that definitions may name. Absent: none."),
  expires_at: Type.Optional(
    Type.String({ maxLength: 64, description: "RFC 3339. Absent: when the key ends that made it, if it does." }),
  ),
});

export function apiKeyRoutes(app: Api, deps: ApiDeps): void {
  app.addHook("onSend", (_request, reply, _payload, done) => {
    reply.header("Cache-Control", "no-store");
    done();
  });
  createRoute(app, deps);
  listRoute(app, deps);
  revokeRoute(app, deps);
}

function createRoute(app: Api, { sql, now }: ApiDeps): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "admin" as const,
    summary: "Make an API key; its text is in this answer only",
    body: Body,
    response: responses({ 201: one("The key, with its text.", "NewApiKey") }, 400, 413, 415),
  };
  app.post(URL, { schema }, async (request, reply) => {
    refuseKey(request);
    const { principal } = request;
    const { key, view } = await makeApiKey(sql, principal, grantIn(request.body), { now: now() });
    request.did("API key made", { key: view.id, roles: view.roles });
    reply.status(201);
    return { ...keyItem(view), key };
  });
}

function grantIn({
  name,
  roles,
  tenant_id,
  tenants,
  workflows,
  services,
  secrets,
  expires_at,
}: Type.Static<typeof Body>) {
  const expiresAt = expires_at === undefined ? undefined : timeIn(expires_at);
  const grant: KeyGrant = {
    ...{ name, roles },
    ...(tenant_id !== undefined && { tenantId: tenant_id.toLowerCase() }),
    ...(tenants && { tenants: tenants.map((tenant) => tenant.toLowerCase()) }),
    ...(workflows && { workflows }),
    ...(services && { services }),
    ...(secrets && { secrets }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
  return grant;
}

function timeIn(text: string): number {
  const time = expiryIn(text);
  if (time !== undefined) return time;
  const message = "must be a date-time of RFC 3339";
  throw badRequest(`the body is not valid: $.expires_at ${message}`, [{ path: "$.expires_at", message }]);
}

function listRoute(app: Api, { sql }: ApiDeps): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "admin" as const,
    summary: "List API keys, without their secrets; revoked and expired ones for 90 days",
    querystring: query({ tenant_id: Uuid, ...PAGE }),
    response: responses({ 200: page("A page of API keys, in the order of creation.", "ApiKey") }, 400),
  };
  // Not by the sessions of reads: they have no right to see keys.
  app.get(URL, { schema }, async ({ principal, query: { tenant_id: tenantId, ...asked } }) =>
    listKeys(sql, keyReachOf(principal), { ...(tenantId !== undefined && { tenantId }) }, pageOf(asked)),
  );
}

function revokeRoute(app: Api, { sql, apiKeys }: ApiDeps): void {
  const schema = {
    tags: ["access"],
    "x-saga-role": "admin" as const,
    summary: "Revoke an API key: it is refused on every node within 5 s",
    params: keyPath,
    response: responses({ 204: empty("It is revoked, now or before.") }, 400, 404),
  };
  app.delete(ITEM, { schema }, async (request, reply) => {
    const { id } = request.params;
    const { principal } = request;
    const revoked = await revokeKey(sql, id, keyReachOf(principal));
    if (!revoked) throw notFound(`there is no API key ${id}`);
    apiKeys?.keyRevoked(id);
    request.did("API key revoked", { key: id });
    return reply.status(204).send();
  });
}

/** Whose keys someone may see and revoke. */
function keyReachOf(principal: Principal): KeyReach {
  const workflows = narrowingOf(principal);
  return { tenants: tenantsOf(principal), ...(workflows && { workflows }) };
}
