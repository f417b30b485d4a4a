// The action registry: registering, and listing what is registered. Which registration a step gets is decided by the catalog.
import { isDeepStrictEqual } from "node:util";
import { and, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import type { SelectResultFields } from "drizzle-orm/query-builders/select.types";
import type { Sql } from "postgres";
import type { JsonObject, RetryPolicy } from "../../../machines/index.js";
import { uuidv7 } from "../../ids.js";
import { query } from "../engine/query.js";
import { actions } from "../schema.js";
import { present } from "./item.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";

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

/**
 * Upserts by (service, action_name, version): all or nothing, in one statement. Ids and the first `registered_at` stay, and so does an
 * output schema that is replaced: calls in flight are checked by it. Rows are written in key order, so that two services that register
 * the same actions do not deadlock. `onlyMissing`: what is registered stays as it is, and nothing is written for it. SQL, not the builder: the statement is the same for any number of rows, so it is prepared once.
 */
export async function register(
  database: Sql,
  registrations: readonly Registration[],
  onlyMissing = false,
): Promise<Registered> {
  const rows = JSON.stringify(registrations.map((registration) => ({ id: uuidv7(), ...registration })));
  const written = await database<(ActionRow & { readonly before: JsonObject | null })[]>`
    with given as (
      select * from json_to_recordset(${rows}::text::json) as g (id uuid, service text, action_name text, version int,
        description text, category text, compensable bool, input_schema json, output_schema json, error_codes json,
        default_retry json, default_timeout_ms bigint, deprecated bool, service_version text, dry_run_supported bool,
        license_group text, transport text, address text)
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
        license_group, transport, address)
      select id, service, action_name, version, description, category, compensable, input_schema, output_schema, error_codes,
        default_retry, default_timeout_ms, deprecated, service_version, dry_run_supported, license_group, transport, address
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
  const byIdentity = new Map(written.map((row) => [identity(row), withNumber(row)]));
  const found = registrations.flatMap((given) => byIdentity.get(identity(given)) ?? []);
  return {
    actions: found.map(({ before: _, ...row }) => present(row)),
    changed: found.flatMap(changesOf),
  };
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

export function listActions(database: Sql, filter: ActionFilter, page: PageQuery): Promise<Page<JsonObject>> {
  const where = conditions(filter);
  return readPage(
    database,
    {
      name: "actions",
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
