// The mode that a run of the tests is in: with SAGA_TEST_ACCESS=on the services of the tests that support it have access control, and every
// client and worker shows one key. It is an admin's, a worker's and a scraper's of one tenant, so that every command also passes the fence
// of its tenant. Without it, all of this is nothing.
import type { Sql } from "postgres";
import { inject } from "vitest";
import { ANYONE, makeApiKey } from "../../src/access/index.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** With access on: the text of the key, of the platform's, and their rows as JSON. Empty: off. */
    accessKey: string;
    platformKey: string;
    accessKeyRows: string;
  }
}

export const TESTS_TENANT = "0190a000-0000-7000-8000-0000000000e1";

export interface TestsKeys {
  readonly key: string;
  /** For the view of the cluster, which is no tenant's. */
  readonly platformKey: string;
  /** Both, as JSON. */
  readonly rows: string;
}

/** In the template of all test databases. */
export async function makeTestsKeys(sql: Sql): Promise<TestsKeys> {
  const may = { roles: ["admin", "worker", "scrape"] as const, services: ["*"], secrets: ["*"] };
  const grant = { name: "tests", tenantId: TESTS_TENANT, ...may };
  const by = { now: Date.now(), createdBy: "command" };
  const { key } = await makeApiKey(sql, ANYONE, grant, by);
  const { key: platformKey } = await makeApiKey(sql, ANYONE, { name: "platform", roles: ["platform"] }, by);
  const [made] = await sql<[{ rows: string }]>`select json_agg(api_keys)::text as rows from api_keys`;
  return { key, platformKey, rows: made.rows };
}

/** Into a database that was emptied, or is no copy of the template. They may be there. */
export async function putKeysBack(sql: Sql): Promise<void> {
  const rows = inject("accessKeyRows");
  if (rows !== "")
    await sql`insert into api_keys select * from json_populate_recordset(null::api_keys, ${rows}::text::json)
      on conflict do nothing`;
}

/** Throws if a test has left something that is not its tenant's. The keys are not its own. */
export async function expectOneTenant(sql: Sql): Promise<void> {
  if (!accessIsOn()) return;
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attname = 'tenant_id' and not a.attisdropped
      and c.relname <> 'api_keys'`;
  for (const { name } of tables) {
    const [row] = await sql`select * from ${sql(name)} where tenant_id is distinct from ${TESTS_TENANT} limit 1`;
    if (row) throw new Error(`a row of ${name} is not of the tenant of the tests: ${JSON.stringify(row)}`);
  }
}

/** The tenant of everything that a test makes. */
export const testsTenant = (): string | undefined => (accessIsOn() ? TESTS_TENANT : undefined);

export const accessIsOn = (): boolean => inject("accessKey") !== "";

/** For the settings of a service. */
export const accessSettings = (): Readonly<Record<string, string>> =>
  accessIsOn() ? { SAGA_AUTH: "api_key", SAGA_WORKER_ALLOW: "127.0.0.1" } : {};

const OF_PLATFORM = /^\/(cluster|data_keys\/)/;

/** For the headers of a request to this path. */
export const credential = (path = ""): Readonly<Record<string, string>> =>
  accessIsOn() ? { authorization: `Bearer ${inject(OF_PLATFORM.test(path) ? "platformKey" : "accessKey")}` } : {};

/** For what is published to the exchange of the events, where a header names the tenant. */
export const tenantHeader = (): Readonly<Record<string, string>> =>
  accessIsOn() ? { "saga-tenant": TESTS_TENANT } : {};

/** Who has done what a test asked for: with access on the credential, whoever the request names. */
export const actor = (named = "api"): string => (accessIsOn() ? `key:${inject("accessKey").split("_")[1]}` : named);

/** For an entry of a file of secrets: absent, it is for the platform's definitions only. */
export const secretTenants = (): { readonly tenants?: readonly string[] } =>
  accessIsOn() ? { tenants: [TESTS_TENANT] } : {};

/** For the options of an SDK worker, and for a hello. */
export const workerToken = (): { readonly token?: string } => (accessIsOn() ? { token: inject("accessKey") } : {});
