// The action registry: registering, and listing what is registered. Which registration a step gets is decided by the catalog.
import { isDeepStrictEqual } from "node:util";
import { and, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import type { SelectResultFields } from "drizzle-orm/query-builders/select.types";
import type { Sql, TransactionSql } from "postgres";
import type { JsonObject, RetryPolicy } from "../../../machines/index.js";
import { forbidden } from "../../errors.js";
import { uuidv7 } from "../../ids.js";
import { query } from "../engine/query.js";
import { actions } from "../schema.js";
import { present } from "./item.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";
import { type Reach, within } from "./reach.js";

/** A registration as it is written: complete, checked, its defaults filled in. */
export interface Registration {
  readonly service: string;
  readonly action_name: string;
  readonly version: number;
  readonly description?: string;
  readonly category?: string;
  readonly compensable: boolean;
  readonly input_schema: JsonObject;
  readonly output_schema: JsonObject;
  readonly error_codes?: readonly string[];
  readonly default_retry?: Partial<RetryPolicy>;
  readonly default_timeout_ms?: number;
  readonly deprecated: boolean;
  readonly service_version?: string;
  readonly dry_run_supported: boolean;
  readonly license_group?: string;
  readonly transport: "grpc" | "http" | "rmq";
  readonly address?: string;
}

const columns = {
  id: actions.id,
  service: actions.service,
  action_name: actions.actionName,
  version: actions.version,
  description: actions.description,
  category: actions.category,
  compensable: actions.compensable,
  input_schema: actions.inputSchema,
  output_schema: actions.outputSchema,
  error_codes: actions.errorCodes,
  default_retry: actions.defaultRetry,
  default_timeout_ms: actions.defaultTimeoutMs,
  deprecated: actions.deprecated,
  registered_at: actions.registeredAt,
  service_version: actions.serviceVersion,
  dry_run_supported: actions.dryRunSupported,
  license_group: actions.licenseGroup,
  transport: actions.transport,
  address: actions.address,
};
type ActionRow = SelectResultFields<typeof columns>;

/** The driver gives an int8 as text. */
function withNumber<Row extends Pick<ActionRow, "default_timeout_ms">>(row: Row): Row {
  const { default_timeout_ms: ms } = row;
  return { ...row, default_timeout_ms: ms === null ? null : Number(ms) };
}

/** A registration that was there before, and is another one now. */
export interface ChangedRegistration {
  readonly service: string;
  readonly action_name: string;
  readonly version: number;
  /** The members that differ. */
  readonly members: readonly string[];
}

export interface Registered {
  readonly actions: readonly JsonObject[];
  readonly changed: readonly ChangedRegistration[];
}

/** Names a schema by its text. Calls carry it: it must never change. */
const schemaHash = "encode(substring(sha256(convert_to(output_schema::text, 'UTF8')) from 1 for 16), 'hex')::uuid";

/** Who registers: what it may change, and whose new services are. */
export interface Registrant {
  /** Null: the platform. */
  readonly tenantId: string | null;
  /** Whether it may change a service of this owner. Null: the platform's. */
  changes(owner: string | null): boolean;
  /** Whether it may send what goes to a worker elsewhere: change a transport or a host. */
  readonly readdresses: boolean;
}

/** With access off. */
const ANYONE: Registrant = { tenantId: null, changes: () => true, readdresses: true };

/**
 * All or nothing, by (service, action_name, version). A service belongs to who registered it first. Of another's, what is registered as it is changes
 * nothing; over gRPC it becomes known to the registrant's tenant. `onlyMissing`: what is registered stays as it is, and the answer has only the rest.
 * Throws 403.
 */
export function register(
  database: Sql,
  registrations: readonly Registration[],
  registrant: Registrant = ANYONE,
  onlyMissing = false,
): Promise<Registered> {
  return database.begin(async (transaction) => {
    await lockServices(transaction, [...new Set(registrations.map(({ service }) => service))]);
    const given = await withKnown(transaction, registrations);
    const plans = given.map((one) => ({ ...one, to: planFor(one, registrant, onlyMissing) }));
    const own = plans
      .filter(({ to }) => to === "write")
      .map(({ given, owner = registrant.tenantId }) => ({ ...given, tenant_id: owner }));
    const written = own.length > 0 ? await write(transaction, own, onlyMissing) : [];
    const ids = plans.flatMap(({ to, same }) => (to === "share" && same ? [same.id] : []));
    const shared = ids.length > 0 ? await share(transaction, ids, registrant.tenantId) : [];
    const left = plans.flatMap(({ to, same }) => {
      const isNamed = to !== "write" && (!onlyMissing || shared.some(({ id }) => id === same?.id));
      return isNamed && same ? [{ ...same, registered_at: new Date(same.registered_at), before: null }] : [];
    });
    const byIdentity = new Map([...written, ...left].map((row) => [identity(row), withNumber(row)]));
    const found = registrations.flatMap((given) => byIdentity.get(identity(given)) ?? []);
    return {
      actions: found.map(({ before: _, ...row }) => present(row)),
      changed: found.flatMap(changesOf),
    };
  });
}

/** Registrations of one service are checked and written one at a time; the locks end with the transaction. Their text must never change. */
export async function lockServices(transaction: TransactionSql, services: readonly string[]): Promise<void> {
  await transaction`
    select pg_advisory_xact_lock(hashtextextended('service:' || service, 0))
    from (select service from unnest(${[...services].sort()}::text[]) service) in_order`;
}

/** A registration, and what is registered of its service. */
interface Given {
  readonly given: Registration;
  /** Undefined: the service is new. Null: it is the platform's. */
  readonly owner?: string | null;
  /** What is registered under its version. */
  readonly same?: ActionRow;
  /** Where calls of its newest version go. */
  readonly newest?: Whereto;
}

type Whereto = Pick<ActionRow, "transport" | "address">;

async function withKnown(
  transaction: TransactionSql,
  registrations: readonly Registration[],
): Promise<readonly Given[]> {
  const named = registrations.map(({ service, action_name, version }) => ({ service, action_name, version }));
  const rows = await transaction<{ owner?: { id: string | null }; same?: ActionRow; newest?: Whereto }[]>`
    select
      (select json_build_object('id', a.tenant_id) from actions a where a.service = g.service limit 1) as owner,
      (select to_json(same) from (select ${transaction(Object.keys(columns))} from actions a
        where (a.service, a.action_name, a.version) = (g.service, g.action_name, g.version)) same) as same,
      (select json_build_object('transport', a.transport, 'address', a.address) from actions a
        where (a.service, a.action_name) = (g.service, g.action_name) order by a.version desc limit 1) as newest
    from rows from (json_to_recordset(${JSON.stringify(named)}::text::json) as (service text, action_name text, version int))
      with ordinality as g (service, action_name, version, nth)
    order by nth`;
  return registrations.map((given, nth) => {
    const { owner, same, newest } = rows[nth] ?? {};
    return { given, ...(owner && { owner: owner.id }), ...(same && { same }), ...(newest && { newest }) };
  });
}

/** `leave`: it stands there already. Throws 403. */
function planFor(one: Given, registrant: Registrant, onlyMissing: boolean): "write" | "share" | "leave" {
  const { given, owner, same, newest } = one;
  const { service, action_name, version } = given;
  const isNew = owner === undefined;
  if (registrant.changes(isNew ? registrant.tenantId : owner)) {
    const replaced = onlyMissing ? undefined : same;
    const before = same ? replaced : newest;
    if (before && !registrant.readdresses && goesElsewhere(before, given))
      throw forbidden(`the role admin may change the transport or the host of ${service}.${action_name}@${version}`);
    return "write";
  }
  if (isNew)
    throw forbidden(
      `the service ${service} is new, and the credential is for some tenants only: the platform registers it, or one of them`,
    );
  const isSame = same !== undefined && isAsRegistered(given, same);
  if (owner === null && same && (isSame || onlyMissing)) return "leave";
  if (isSame && given.transport === "grpc" && registrant.tenantId !== null) return "share";
  throw forbidden(`the service ${service} is registered already: only its owner may change it`);
}

/** Calls of a queue go to whoever reads it. */
function goesElsewhere(before: Whereto, { transport, address }: Registration): boolean {
  if (before.transport !== transport) return true;
  if (transport === "grpc") return false;
  return transport === "http" ? originOf(before.address) !== originOf(address) : before.address !== address;
}

const originOf = (address: string | null | undefined) => URL.parse(address ?? "")?.origin;

function isAsRegistered(given: Registration, stored: ActionRow): boolean {
  const { id: _, registered_at: __, ...members } = stored;
  const wanted: Readonly<Record<string, unknown>> = { ...given };
  return Object.entries(members).every(([name, value]) => isDeepStrictEqual(wanted[name] ?? null, value ?? null));
}

/** Those that were not shared before. */
async function share(transaction: TransactionSql, ids: readonly string[], tenantId: string | null) {
  return transaction<{ id: string }[]>`
    insert into shared_actions (action_id, tenant_id)
    select id, ${tenantId}::uuid from unnest(${[...ids].sort()}::uuid[]) id
    on conflict do nothing returning action_id as id`;
}

/** The tenants that have registered another one's action as it is, by its id. */
export async function sharedActionsOf(database: Sql): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const shared = new Map<string, Set<string>>();
  for (const { id, tenant } of await database<{ id: string; tenant: string }[]>`
    select action_id as id, tenant_id as tenant from shared_actions`) {
    const tenants = shared.get(id) ?? new Set();
    shared.set(id, tenants.add(tenant));
  }
  return shared;
}

/**
 * One statement. Ids and the first `registered_at` stay, and so does an
 * output schema that is replaced: calls in flight are checked by it. Rows are written in key order. `onlyMissing`: nothing is written for what is
 * registered. SQL, not the builder: the statement is the same for any number of rows, so it is prepared once.
 */
async function write(
  database: TransactionSql,
  registrations: readonly (Registration & { readonly tenant_id: string | null })[],
  onlyMissing: boolean,
) {
  const rows = JSON.stringify(registrations.map((registration) => ({ id: uuidv7(), ...registration })));
  return database<(ActionRow & { readonly before: JsonObject | null })[]>`
    with given as (
      select * from json_to_recordset(${rows}::text::json) as g (id uuid, service text, action_name text, version int,
        description text, category text, compensable bool, input_schema json, output_schema json, error_codes json,
        default_retry json, default_timeout_ms bigint, deprecated bool, service_version text, dry_run_supported bool,
        license_group text, transport text, address text, tenant_id uuid)
      where not (${onlyMissing}::bool and exists (
        select from actions a where (a.service, a.action_name, a.version) = (g.service, g.action_name, g.version)))
    ), before as (
      select a.* from actions a join given using (service, action_name, version)
    ), kept as (
      insert into replaced_schemas (hash, schema)
      select distinct on (1) ${database.unsafe(schemaHash)}, output_schema from before
      where (service, action_name, version, output_schema::text) not in (
        select service, action_name, version, output_schema::text from given)
      order by 1 on conflict do nothing
    ), written as (
      insert into actions (id, service, action_name, version, description, category, compensable, input_schema,
        output_schema, error_codes, default_retry, default_timeout_ms, deprecated, service_version, dry_run_supported,
        license_group, transport, address, tenant_id)
      select id, service, action_name, version, description, category, compensable, input_schema, output_schema, error_codes,
        default_retry, default_timeout_ms, deprecated, service_version, dry_run_supported, license_group, transport, address, tenant_id
      from given order by service, action_name, version
      on conflict (service, action_name, version) do update set description = excluded.description,
        category = excluded.category, compensable = excluded.compensable, input_schema = excluded.input_schema,
        output_schema = excluded.output_schema, error_codes = excluded.error_codes, default_retry = excluded.default_retry,
        default_timeout_ms = excluded.default_timeout_ms, deprecated = excluded.deprecated,
        service_version = excluded.service_version, dry_run_supported = excluded.dry_run_supported,
        license_group = excluded.license_group, transport = excluded.transport, address = excluded.address
      returning ${database(Object.keys(columns))}
    )
    select written.*, to_json(before) as before from written left join before using (id)`;
}

function identity({
  service,
  action_name,
  version,
}: Pick<Registration, "service" | "action_name" | "version">): string {
  return `${service} ${action_name} ${version}`;
}

function changesOf({ before, ...row }: ActionRow & { readonly before: JsonObject | null }): ChangedRegistration[] {
  if (!before) return [];
  const { service, action_name, version, registered_at: _, ...now } = row;
  const members = Object.entries(now).filter(([name, value]) => !isDeepStrictEqual(value, before[name] ?? null));
  return members.length === 0 ? [] : [{ service, action_name, version, members: members.map(([name]) => name) }];
}

/** The output schema that calls with this hash were made with. Null: no registration has replaced it. */
export async function replacedSchema(database: Sql, hash: string): Promise<JsonObject | null> {
  const [row] = await database<{ schema: JsonObject }[]>`select schema from replaced_schemas where hash = ${hash}`;
  return row?.schema ?? null;
}

/** A row that is written again has another state; so has the table then. */
const rowState = sql<string>`xmin || ' ' || ctid`;

export function actionStates(database: Sql) {
  return query(database).select({ id: actions.id, state: rowState }).from(actions);
}

export type StoredAction = Awaited<ReturnType<typeof actionsById>>[number];

export function actionsById(database: Sql, ids: readonly string[]) {
  const hash = sql<string>`${sql.raw(schemaHash)}`.as("output_hash");
  return query(database)
    .select({ ...getTableColumns(actions), outputHash: hash, state: rowState })
    .from(actions)
    .where(sql`${actions.id} = any(${sql.param([...ids])}::uuid[])`);
}

export interface ActionFilter {
  readonly service?: string;
  readonly category?: string;
  /** A part of service, name, description or category, in any case. */
  readonly search?: string;
}

export function listActions(
  database: Sql,
  reach: Reach,
  filter: ActionFilter,
  page: PageQuery,
): Promise<Page<JsonObject>> {
  const where = and(conditions(filter), known(reach));
  return readPage(
    database,
    {
      name: "actions",
      reach,
      key: [
        { column: actions.service, kind: "text" },
        { column: actions.actionName, kind: "text" },
        { column: actions.version, kind: "integer" },
      ],
      rows: (range) => inRange(query(database).select(columns).from(actions).$dynamic(), where, range),
      matching: { from: actions, where },
      item: (action) => present(action),
      position: ({ service, action_name, version }) => [service, action_name, String(version)],
    },
    page,
  );
}

/** A tenant knows those of the platform, its own, and those of others that it has registered as they are. */
function known(reach: Reach): SQL | undefined {
  const own = within(reach, { tenant: "actions.tenant_id", shared: true });
  const sharedWith = within(reach, { tenant: "shared_actions.tenant_id" });
  if (!own || !sharedWith) return undefined;
  return sql`(${own} or exists (select from shared_actions where action_id = ${actions.id} and ${sharedWith}))`;
}

function conditions({ service, category, search }: ActionFilter): SQL | undefined {
  return and(
    service === undefined ? undefined : eq(actions.service, service),
    category === undefined ? undefined : eq(actions.category, category),
    search === undefined ? undefined : contains(search),
  );
}

function contains(search: string): SQL {
  const { service, actionName, description, category } = actions;
  const text = sql`lower(concat_ws(chr(10), ${service}, ${actionName}, ${description}, ${category}))`;
  return sql`position(lower(${search}) in ${text}) > 0`;
}
