// What each route needs: every one says it, one that says nothing is open to no one, and each role may do what its row in the table of roles
// has and nothing else. How a credential becomes a principal is tested with the credentials.
import diagnostics from "node:diagnostics_channel";
import { join } from "node:path";
import type { FastifyInstance, RouteOptions } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Need, ROLES, type Role } from "../../src/access/index.js";
import { packageRoot } from "../../src/config/package.js";
import { verifierOf } from "../harness/verifier.js";
import { otherApi, useRig } from "./rig.js";

const TENANT = "0190a000-0000-7000-8000-0000000000f1";
const FOLDER = join(packageRoot(), "dist", "console");
const rig = useRig();
const verifier = verifierOf(Object.fromEntries(ROLES.map((role) => [role, { roles: [role], tenantId: TENANT }])));

/** Every route of the service, hidden ones included, and one that a developer forgot. */
const routes: RouteOptions[] = [];
const FORGOTTEN = "/api/v1/forgotten";
let app: FastifyInstance;

beforeAll(async () => {
  const onServer = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook("onRoute", (route) => void routes.push(route));
    fastify.get(FORGOTTEN, { schema: { hide: true } }, async () => "open");
  };
  diagnostics.subscribe("fastify.initialization", onServer);
  app = await otherApi(rig, {}, { verifier, config: { console: { folder: FOLDER } } }).finally(() =>
    diagnostics.unsubscribe("fastify.initialization", onServer),
  );
});
afterAll(() => app?.close());

const ask = (method: "GET" | "POST", url: string, token?: string) =>
  app.inject({ method, url, ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }) });

describe("a route", () => {
  it("says what it needs", () => {
    const silent = routes.filter(({ schema, url }) => url !== FORGOTTEN && schema?.["x-saga-role"] === undefined);
    expect(silent.map(({ method, url }) => `${method} ${url}`)).toEqual([]);
    expect(routes.length).toBeGreaterThan(100);
  });

  it("that says nothing is open to no one", async () => {
    for (const role of ROLES) {
      const answer = await ask("GET", FORGOTTEN, role);
      expect([role, answer.statusCode, answer.json().error]).toEqual([role, 403, "forbidden"]);
    }
    expect((await ask("GET", FORGOTTEN)).statusCode).toBe(401);
  });

  it("is public only if it is a probe, a file, or the way to a session", () => {
    const open = routes.filter(({ schema }) => schema?.["x-saga-role"] === "public").map(({ url }) => url);
    const probes = ["/healthz", "/livez", "/health", "/health/live", "/readyz", "/health/ready"];
    const files = ["/", "/console", "/console/*", "/openapi.json"];
    const logins = ["/auth/login", "/auth/callback", "/auth/session"];
    const rest = [...new Set(open)].filter((url) => !url.startsWith("/docs"));
    expect(rest.sort()).toEqual([...probes, ...files, ...logins].sort());
  });
});

describe("the OpenAPI document", () => {
  it("says of every operation which role and which credentials it takes", async () => {
    const { paths, components } = (await ask("GET", "/openapi.json")).json();
    const operations = Object.values(paths as Record<string, Record<string, Operation>>).flatMap(Object.values);
    for (const { "x-saga-role": need, security, responses, operationId } of operations) {
      expect(need, operationId).toBeDefined();
      const named = security.flatMap((one: object) => Object.keys(one));
      const expected = need === "public" ? [] : need === "callback" ? ["callback", "bearer"] : ["bearer"];
      expect(named, operationId).toEqual(expected);
      for (const name of named) expect(Object.keys(components.securitySchemes)).toContain(name);
      if (need === "public") continue;
      expect(Object.keys(responses), operationId).toEqual(expect.arrayContaining(["401", "403", "429"]));
    }
  });
});

interface Operation {
  readonly operationId: string;
  readonly "x-saga-role"?: Need;
  readonly security: readonly object[];
  readonly responses: Readonly<Record<string, object>>;
}

/** The rows of the table of roles, by one route of each kind. */
const MAY: readonly (readonly [what: string, "GET" | "POST", url: string, roles: readonly Role[]])[] = [
  ["read runs", "GET", "/api/v1/sagas", ["viewer", "operator", "author", "admin"]],
  ["start", "POST", "/api/v1/sagas/start", ["operator", "author", "admin"]],
  ["post workflows", "POST", "/api/v1/workflows", ["author", "admin"]],
  ["register", "POST", "/api/v1/registry/register", ["author", "admin", "worker"]],
  ["see the workers", "GET", "/api/v1/workers", ["viewer", "operator", "author", "admin", "platform"]],
  ["see the cluster", "GET", "/api/v1/cluster", ["platform"]],
  ["read the metrics", "GET", "/metrics", ["scrape", "platform"]],
  ["probe", "GET", "/healthz", ROLES],
];

describe("a role", () => {
  it.each(MAY)("may %s if its row says so: %s %s", async (_what, method, url, allowed) => {
    const answers = await Promise.all(ROLES.map(async (role) => [role, await ask(method, url, role)] as const));
    const admitted = answers.filter(([, { statusCode }]) => statusCode !== 403).map(([role]) => role);
    expect(admitted.sort()).toEqual([...allowed].sort());
    for (const [, answer] of answers.filter(([, { statusCode }]) => statusCode === 403)) {
      const [, named] = /^the role (\w+) may do this$/.exec(answer.json().message) ?? [];
      expect(allowed).toContain(named);
    }
  });
});
