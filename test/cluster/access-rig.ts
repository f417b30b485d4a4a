// A node with access control, in this process, with an issuer of tokens and a credential of both kinds for each role: in the tenant that owns
// things, in another one, or in none.

import { ROLES, type Role } from "../../src/access/index.js";
import { makeKey } from "../../src/access/key-text.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { insertKey, type NewKey } from "../../src/store/lists/api-keys.js";
import { ask, type WireAnswer, type WireRequest } from "../api/wire.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { AUDIENCE, Issuer } from "../harness/issuer.js";

export const [TENANT, OTHER] = [
  "0190a000-0000-7000-8000-0000000000f1",
  "0190a000-0000-7000-8000-0000000000f2",
] as const;

/** Roles that belong to no tenant. */
export const BESIDE: readonly Role[] = ["platform", "scrape"];
export const WITHIN: readonly Role[] = ROLES.filter((role) => !BESIDE.includes(role));

export const KINDS = ["JWT", "API key"] as const;
export type Kind = (typeof KINDS)[number];

/** `tenantId` absent: of none. */
export type Rights = Pick<NewKey, "roles" | "tenantId" | "tenants" | "workflows" | "services" | "secrets"> &
  Partial<Pick<NewKey, "name">>;

/** An API key, straight into the table. */
export async function newKeyIn({ sql }: Pick<TestDatabase, "sql">, rights: Rights): Promise<string> {
  const { id, key, secretHash } = makeKey();
  await insertKey(sql, { id, secretHash, name: "more", createdBy: "cli", ...rights });
  return key;
}

export interface Locked {
  readonly node: NodeHandle;
  readonly database: TestDatabase;
  /** `tenant` absent: of none. */
  bearer(kind: Kind, role: Role, tenant?: string): string;
  /** Another API key. */
  newKey(rights: Rights): Promise<string>;
  ask(request: WireRequest, bearer?: string): Promise<WireAnswer>;
  /** Every row of every table, as one hash for each table, but what a node writes by itself. */
  rows(): Promise<Readonly<Record<string, string>>>;
  stop(): Promise<void>;
}

export async function openLocked(env: Readonly<Record<string, string>> = {}): Promise<Locked> {
  const database = await createTestDatabase({ max: 2 });
  const issuer = await Issuer.open(() => Math.floor(Date.now() / 1_000));
  const { config } = loadConfig({
    ...{ HTTP_PORT: "0", GRPC_PORT: "0", SAGA_AUTH: "jwt,api_key" },
    ...{ SAGA_AUTH_JWT_ISSUER: issuer.name, SAGA_AUTH_JWT_AUDIENCE: AUDIENCE, SAGA_AUTH_JWKS_URL: issuer.keysUrl },
    ...env,
  });
  const node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  const bearers = new Map<string, string>();
  const name = (...parts: (string | undefined)[]) => parts.join(" ");
  for (const role of ROLES)
    for (const tenant of BESIDE.includes(role) ? [undefined] : [TENANT, OTHER]) {
      const about = { roles: [role], services: ["*"], secrets: ["*"] };
      const key = await newKeyIn(database, { name: role, ...about, ...(tenant && { tenantId: tenant }) });
      bearers.set(name("API key", role, tenant), key);
      const claims = {
        sub: `${role}@${tenant}`,
        ...about,
        tenant_id: tenant,
        exp: Math.floor(Date.now() / 1_000) + 3_600,
      };
      bearers.set(name("JWT", role, tenant), await issuer.sign(claims));
    }
  return {
    ...{ node, database },
    bearer: (kind, role, tenant) => {
      const bearer = bearers.get(name(kind, role, tenant));
      if (bearer === undefined) throw new Error(`there is no ${kind} for ${role} of ${tenant}`);
      return bearer;
    },
    newKey: (rights) => newKeyIn(database, rights),
    ask: (request, bearer) => {
      const headers = { ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }), ...request.headers };
      return ask(node.httpPort, { ...request, headers });
    },
    rows: () => rowsOf(database),
    stop: async () => {
      await node.stop();
      await issuer.close();
      await database.drop();
    },
  };
}

/** Heartbeats and leases of a node, what it counts for itself, and when a key was used last. */
const OF_THE_NODE = ["nodes", "shards", "end_horizon", "run_end_changes", "run_end_counts", "api_keys"];

/** The same for any test database. */
export async function rowsOf({ sql }: Pick<TestDatabase, "sql">): Promise<Readonly<Record<string, string>>> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
      and relname <> all(${OF_THE_NODE}) order by relname`;
  const hash = (rows: string, name: string) =>
    `select '${name}' as name, md5(coalesce(string_agg(row::text, ',' order by row::text), '')) as hash from ${rows} as row`;
  const parts = tables.map(({ name }) => hash(`"${name}"`, name));
  const keys = "(select id, secret_hash, roles, tenant_id, revoked_at from api_keys)";
  const hashes = await sql.unsafe([...parts, hash(keys, "api_keys")].join(" union all "));
  return Object.fromEntries(hashes.map((one) => [one.name as string, one.hash as string]));
}
