// The action registry: registering, and listing what is registered. Which registration a step gets is the catalog's to say.
import type { Fragment, Sql } from "postgres";
import type { JsonObject, RetryPolicy } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";
import { type Page, type PageQuery, parsedText, present, readPage, timeText } from "./page.js";

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

interface ActionRow {
  readonly id: string;
  readonly service: string;
  readonly action_name: string;
  readonly version: number;
  readonly description: string | null;
  readonly category: string | null;
  readonly compensable: boolean;
  readonly input_schema: string;
  readonly output_schema: string;
  readonly error_codes: string | null;
  readonly default_retry: string | null;
  readonly default_timeout_ms: number | null;
  readonly deprecated: boolean;
  readonly registered_at: string;
  readonly service_version: string | null;
  readonly dry_run_supported: boolean;
  readonly license_group: string | null;
  readonly transport: string;
  readonly address: string | null;
}

const actionColumns = (
  sql: Sql,
) => sql`a.id, a.service, a.action_name, a.version, a.description, a.category, a.compensable,
  a.input_schema::text as input_schema, a.output_schema::text as output_schema, a.error_codes::text as error_codes,
  a.default_retry::text as default_retry, a.default_timeout_ms, a.deprecated, ${timeText(sql, "a.registered_at")},
  a.service_version, a.dry_run_supported, a.license_group, a.transport, a.address`;

/**
 * Upserts by (service, action_name, version): all or nothing, in one statement. Ids and the first `registered_at` stay. Rows are
 * written in key order, so that two services that register the same actions do not deadlock.
 */
export async function register(sql: Sql, registrations: readonly Registration[]): Promise<readonly JsonObject[]> {
  const rows = JSON.stringify(registrations.map((registration) => ({ id: uuidv7(), ...registration })));
  const written = await sql<ActionRow[]>`
    insert into actions as a (id, service, action_name, version, description, category, compensable, input_schema,
      output_schema, error_codes, default_retry, default_timeout_ms, deprecated, service_version, dry_run_supported,
      license_group, transport, address)
    select id, service, action_name, version, description, category, compensable, input_schema, output_schema, error_codes,
      default_retry, default_timeout_ms, deprecated, service_version, dry_run_supported, license_group, transport, address
    from json_to_recordset(${rows}::text::json) as given (id uuid, service text, action_name text, version int,
      description text, category text, compensable bool, input_schema json, output_schema json, error_codes json,
      default_retry json, default_timeout_ms int, deprecated bool, service_version text, dry_run_supported bool,
      license_group text, transport text, address text)
    order by service, action_name, version
    on conflict (service, action_name, version) do update set description = excluded.description,
      category = excluded.category, compensable = excluded.compensable, input_schema = excluded.input_schema,
      output_schema = excluded.output_schema, error_codes = excluded.error_codes, default_retry = excluded.default_retry,
      default_timeout_ms = excluded.default_timeout_ms, deprecated = excluded.deprecated,
      service_version = excluded.service_version, dry_run_supported = excluded.dry_run_supported,
      license_group = excluded.license_group, transport = excluded.transport, address = excluded.address
    returning ${actionColumns(sql)}`;
  const identity = ({ service, action_name, version }: Registration | ActionRow) =>
    `${service} ${action_name} ${version}`;
  const byIdentity = new Map(written.map((row) => [identity(row), actionItem(row)]));
  return registrations.map((given) => byIdentity.get(identity(given))).filter((item) => item !== undefined);
}

export interface ActionFilter {
  readonly service?: string;
  readonly category?: string;
  /** A part of service, name, description or category, in any case. */
  readonly search?: string;
}

export function listActions(sql: Sql, filter: ActionFilter, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from actions a where ${conditions(sql, filter)}`;
  return readPage<ActionRow, JsonObject>(
    sql,
    {
      name: "actions",
      key: [
        { column: "service", kind: "text" },
        { column: "action_name", kind: "text" },
        { column: "version", kind: "integer" },
      ],
      rows: ({ after, order, window }) =>
        sql`select ${actionColumns(sql)} ${where} and ${after} order by ${order} ${window}`,
      matching: where,
      item: actionItem,
      position: (row) => [row.service, row.action_name, String(row.version)],
    },
    page,
  );
}

function conditions(sql: Sql, { service, category, search }: ActionFilter): Fragment {
  const all: Fragment[] = [];
  if (service !== undefined) all.push(sql`service = ${service}`);
  if (category !== undefined) all.push(sql`category = ${category}`);
  if (search !== undefined) {
    const text = sql`lower(concat_ws(chr(10), service, action_name, description, category))`;
    all.push(sql`position(lower(${search}) in ${text}) > 0`);
  }
  return all.reduce((left, right) => sql`${left} and ${right}`, sql`true`);
}

function actionItem(row: ActionRow): JsonObject {
  const { id, service, action_name, version, description, category, compensable, deprecated } = row;
  const { registered_at, service_version, dry_run_supported, license_group, transport, address } = row;
  return present({
    id,
    service,
    action_name,
    version,
    description,
    category,
    compensable,
    input_schema: parsedText(row.input_schema),
    output_schema: parsedText(row.output_schema),
    error_codes: parsedText(row.error_codes),
    default_retry: parsedText(row.default_retry),
    default_timeout_ms: row.default_timeout_ms,
    deprecated,
    registered_at,
    service_version,
    dry_run_supported,
    license_group,
    transport,
    address,
  });
}
