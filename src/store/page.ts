// Pages of a list: by offset or by key, bounded in rows and bytes, with a bounded count. What a list selects and how a row
// becomes an item is the list's own business.

import type { Fragment, ISql, Sql } from "postgres";
import type { Json, JsonObject } from "../../machines/index.js";
import { badRequest } from "../errors.js";
import { isUuid } from "../ids.js";

export interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  /** Wins over `offset`. */
  readonly cursor?: string;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  readonly total_is_lower_bound?: true;
  readonly limit: number;
  readonly offset: number;
  readonly next_cursor?: string;
}

/** The part of the list that is asked for, as SQL to be put into the list's own select. */
export interface Range {
  readonly after: Fragment;
  readonly order: Fragment;
  readonly window: Fragment;
}

const KINDS = {
  uuid: /^[0-9a-f-]{36}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  integer: /^\d{1,18}$/,
  text: /^[^\0]{0,512}$/u,
} as const;
const CASTS = { uuid: "uuid", time: "timestamptz", integer: "int8", text: "text" } as const;

export interface KeyColumn {
  readonly column: string;
  readonly kind: keyof typeof KINDS;
}

export interface Listing<Row, Item> {
  /** Stands in the cursor, so that one list refuses the cursor of another. */
  readonly name: string;
  /** Together unique. All ascending or, with `descending`, all descending. */
  readonly key: readonly KeyColumn[];
  readonly descending?: boolean;
  /** Rows of the range, with the key columns under their own names; `after`, `order` and `window` must stand in it. */
  rows(range: Range): Fragment;
  /** `from … where …` of all rows that match. */
  readonly matching: Fragment;
  item(row: Row): Item;
  /** The row's key, as the text of the cursor. */
  position(row: Row): readonly string[];
}

/** A page ends at this many bytes, or after its first item. */
export const PAGE_BYTES = 8 * 1024 * 1024;
/** Rows are measured before they are sent, so no statement may touch too many. */
const SLICE_ROWS = 100;
const COUNT_MS = 1000;

export async function readPage<Row extends object, Item>(
  sql: Sql,
  listing: Listing<Row, Item>,
  query: PageQuery,
): Promise<Page<Item>> {
  const first = query.cursor === undefined ? undefined : readCursor(listing, query.cursor);
  const { items, next } = await readItems(sql, listing, query, first);
  const seen = (first ? 0 : query.offset) + items.length + (next ? 1 : 0);
  const whole = !first && !next && (items.length > 0 || query.offset === 0);
  const total = whole ? seen : await countAll(sql, listing.matching);
  return {
    items,
    ...(total === undefined ? { total: items.length === 0 ? 0 : seen, total_is_lower_bound: true } : { total }),
    limit: query.limit,
    offset: first ? 0 : query.offset,
    ...(next && { next_cursor: writeCursor(listing, next) }),
  };
}

async function readItems<Row extends object, Item>(
  sql: Sql,
  listing: Listing<Row, Item>,
  query: PageQuery,
  first: readonly string[] | undefined,
) {
  const items: Item[] = [];
  let bytes = PAGE_BYTES;
  let position = first;
  while (items.length < query.limit && bytes > 0) {
    const ask = {
      position,
      offset: position ? 0 : query.offset,
      rows: Math.min(SLICE_ROWS, query.limit - items.length),
      bytes: items.length === 0 ? bytes : -bytes,
    };
    const slice = await readSlice(sql, listing, ask);
    for (const row of slice.rows) items.push(listing.item(row));
    const last = slice.rows.at(-1);
    if (last) position = listing.position(last);
    bytes -= slice.bytes;
    if (!slice.more) return { items };
    if (slice.rows.length < ask.rows) break;
  }
  return { items, next: position };
}

interface Ask {
  readonly position: readonly string[] | undefined;
  readonly offset: number;
  readonly rows: number;
  /** Positive: the first row may exceed it. */
  readonly bytes: number;
}

interface Measured {
  readonly _bytes: string;
  readonly _found: number;
}

/** One statement, so that every row is what its filter says. Rows are cut off by size before they leave the database. */
async function readSlice<Row extends object, Item>(sql: Sql, listing: Listing<Row, Item>, ask: Ask) {
  const order = orderOf(sql, listing);
  const rows = await sql<(Row & Measured)[]>`
    with page as (${listing.rows({
      after: afterOf(sql, listing, ask.position),
      order,
      window: sql`limit ${ask.rows + 1} offset ${ask.offset}`,
    })}), measured as (
      select page.*, row_number() over (order by ${order}) as _nth, (count(*) over ())::int as _found,
        sum(octet_length(page::text)) over (order by ${order} rows unbounded preceding) as _bytes
      from page
    )
    select * from measured
    where _nth <= ${ask.rows} and (_bytes <= ${Math.abs(ask.bytes)} or (_nth = 1 and ${ask.bytes > 0}))
    order by _nth`;
  const found = rows[0]?._found ?? (ask.bytes > 0 ? 0 : 1);
  return { rows: rows as readonly Row[], more: rows.length < found, bytes: Number(rows.at(-1)?._bytes ?? 0) };
}

function orderOf<Row, Item>(sql: Sql, { key, descending }: Listing<Row, Item>): Fragment {
  return sql.unsafe(key.map(({ column }) => `${column}${descending ? " desc" : ""}`).join(", "));
}

function afterOf<Row, Item>(sql: Sql, listing: Listing<Row, Item>, position: readonly string[] | undefined): Fragment {
  if (!position) return sql`true`;
  const columns = sql.unsafe(listing.key.map(({ column }) => column).join(", "));
  const values = listing.key.map(({ kind }, index) => sql`${position[index] ?? ""}::text::${sql.unsafe(CASTS[kind])}`);
  const list = values.reduce((left, right) => sql`${left}, ${right}`);
  return listing.descending ? sql`(${columns}) < (${list})` : sql`(${columns}) > (${list})`;
}

/** Exact, or undefined where counting takes too long: nobody waits minutes for a number beside a page. */
async function countAll(sql: Sql, matching: Fragment): Promise<number | undefined> {
  try {
    return await sql.begin("read only", async (transaction) => {
      await transaction.unsafe(`set local statement_timeout = ${COUNT_MS}`);
      const [row] = await transaction<{ total: number }[]>`select count(*)::float8 as total ${matching}`;
      return row?.total ?? 0;
    });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "57014") return undefined;
    throw error;
  }
}

function writeCursor<Row, Item>(listing: Listing<Row, Item>, position: readonly string[]): string {
  return Buffer.from(JSON.stringify([listing.name, ...position]), "utf8").toString("base64url");
}

function readCursor<Row, Item>(listing: Listing<Row, Item>, cursor: string): readonly string[] {
  const parts = parsed(Buffer.from(cursor, "base64url").toString("utf8"));
  const fits =
    Array.isArray(parts) &&
    parts.length === listing.key.length + 1 &&
    parts[0] === listing.name &&
    listing.key.every(({ kind }, index) => fitsKind(kind, parts[index + 1]));
  if (fits) return parts.slice(1);
  throw badRequest("cursor is not one that this list gave", [
    { path: "$.query.cursor", message: "is not one of this list" },
  ]);
}

function fitsKind(kind: KeyColumn["kind"], value: unknown): value is string {
  if (typeof value !== "string" || !KINDS[kind].test(value)) return false;
  if (kind === "time") return !Number.isNaN(Date.parse(value));
  return kind !== "uuid" || isUuid(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A column of time as RFC 3339 with milliseconds, whatever the driver would make of it. */
export function timeText(sql: ISql, column: string): Fragment {
  return sql.unsafe(
    `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column.split(".").at(-1)}`,
  );
}

/** A column of JSON, selected as its text: what it means does not depend on the driver's settings. */
export function parsedText(text: string | null): Json {
  return text === null ? null : (JSON.parse(text) as Json);
}

/** Optional fields that have no value are omitted, never null. */
export function present(fields: Readonly<Record<string, unknown>>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as JsonObject;
}
