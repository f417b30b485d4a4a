// Pages of a list: by offset or by cursor, bounded in rows and bytes, with a bounded count. Each list has its own select and its own
// items.
import { and, type ColumnsSelection, lte, or, type SQL, sql } from "drizzle-orm";
import type { PgColumn, PgSelect, PgTable, WithSubqueryWithSelection } from "drizzle-orm/pg-core";
import type { TypedQueryBuilder } from "drizzle-orm/query-builders/query-builder";
import type { Sql } from "postgres";
import { overloaded } from "../../errors.js";
import { query } from "../engine/query.js";
import { KEY_TYPES, type KeyColumn, listOf, type Position, readCursor, writeCursor } from "./cursor.js";
import type { Reach } from "./reach.js";

export interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  /** Wins over `offset`. */
  readonly cursor?: string;
  /** Count all rows, however many there are. */
  readonly exact?: boolean;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  readonly total_is_lower_bound?: true;
  /** The page ended before its limit, for its size. */
  readonly truncated?: true;
  /** Where the next page begins, after a truncated page that was asked for by offset. */
  readonly next_offset?: number;
  readonly limit: number;
  readonly offset: number;
  readonly next_cursor?: string;
}

/** The part of a list that is asked for; `inRange` restricts a select to it. */
export interface Range {
  readonly after: SQL | undefined;
  readonly order: SQL;
  readonly limit: number;
  readonly offset: number;
}

export interface Listing<Row, Item> {
  /** Part of the cursor: one list refuses the cursor of another. */
  readonly name: string;
  /** Whose rows they are. The rows and the matching ones are restricted to it already. */
  readonly reach: Pick<Reach, "tenants">;
  /** Together unique. All ascending or, with `descending`, all descending. */
  readonly key: readonly KeyColumn[];
  readonly descending?: boolean;
  /** Its rows are small, and finding them costs more than measuring them: a page is one statement. */
  readonly inOnePiece?: boolean;
  /** The rows of the range, with the key columns under their own names. */
  rows(range: Range): TypedQueryBuilder<ColumnsSelection, Row[]>;
  /** All rows of the list, for its count. */
  readonly matching: { readonly from: PgTable | SQL; readonly where?: SQL | undefined };
  item(row: Row): Item;
  position(row: Row): Position;
}

export function inRange<Select extends PgSelect>(select: Select, where: SQL | undefined, range: Range): Select {
  const { after, order, limit, offset } = range;
  return select.where(and(where, after)).orderBy(order).limit(limit).offset(offset);
}

/** A page ends at this many bytes, or after its first item. */
export const PAGE_BYTES = 8 * 1024 * 1024;
/** Rows are measured before they are sent, so no statement may touch too many. */
export const SLICE_ROWS = 100;
/** Beyond it a total is a lower bound, unless it is asked for. */
const COUNTED_ROWS = 10_000;
const COUNT_MS = 1000;
const EXACT_COUNT_MS = 20_000;

export async function readPage<Row extends object, Item>(
  database: Sql,
  listing: Listing<Row, Item>,
  asked: PageQuery,
): Promise<Page<Item>> {
  const list = listOf(listing.name, listing.reach);
  const first = asked.cursor === undefined ? undefined : readCursor(list, listing.key, asked.cursor);
  const { items, next } = await readItems(database, listing, asked, first);
  const offset = first ? 0 : asked.offset;
  const truncated = next !== undefined && items.length < asked.limit;
  const seen = { seen: offset + items.length + (next ? 1 : 0), whole: !first && !next, none: items.length === 0 };
  return {
    items,
    ...(await totalOf(database, listing, asked, seen)),
    ...(truncated && { truncated, ...(!first && { next_offset: offset + items.length }) }),
    limit: asked.limit,
    offset,
    ...(next && { next_cursor: writeCursor(list, next) }),
  };
}

/** What a page tells of the total: the rows that there are at least, whether they are all, whether it has none itself. */
interface Seen {
  readonly seen: number;
  readonly whole: boolean;
  readonly none: boolean;
}

async function totalOf<Row, Item>(
  database: Sql,
  { matching }: Listing<Row, Item>,
  { exact = false, offset }: PageQuery,
  { seen, whole, none }: Seen,
): Promise<Pick<Page<Item>, "total" | "total_is_lower_bound">> {
  const known = whole && (!none || offset === 0);
  const total = known ? seen : await (exact ? countAll(database, matching) : countSome(database, matching));
  if (total === undefined) return { total: none ? 0 : seen, total_is_lower_bound: true };
  return total <= COUNTED_ROWS || exact ? { total } : { total: COUNTED_ROWS, total_is_lower_bound: true };
}

async function readItems<Row extends object, Item>(
  database: Sql,
  listing: Listing<Row, Item>,
  asked: PageQuery,
  first: Position | undefined,
) {
  const items: Item[] = [];
  let bytes = PAGE_BYTES;
  let position = first;
  while (items.length < asked.limit && bytes > 0) {
    const wanted = {
      position,
      offset: position ? 0 : asked.offset,
      rows: Math.min(listing.inOnePiece ? asked.limit : SLICE_ROWS, asked.limit - items.length),
      bytes,
      firstAnyway: items.length === 0,
    };
    const slice = await readSlice(database, listing, wanted);
    for (const row of slice.rows) items.push(listing.item(row));
    const last = slice.rows.at(-1);
    if (last) position = listing.position(last);
    bytes -= slice.bytes;
    if (!slice.more) return { items };
    if (slice.rows.length < wanted.rows) break;
  }
  return { items, next: position };
}

/** The items after a position, bounded in rows and bytes: at least one, if there is one. */
export async function readAfter<Row extends object, Item>(
  database: Sql,
  listing: Listing<Row, Item>,
  position: Position,
  bounds: { readonly rows: number; readonly bytes: number },
): Promise<readonly Item[]> {
  const { rows } = await readSlice(database, listing, { position, offset: 0, firstAnyway: true, ...bounds });
  return rows.map((row) => listing.item(row));
}

interface Slice {
  readonly position: Position | undefined;
  readonly offset: number;
  readonly rows: number;
  readonly bytes: number;
  /** The first row may exceed the bytes: a page has at least one item. */
  readonly firstAnyway: boolean;
}

/** One statement, so that every row matches its filter as of one moment. Rows are cut off by size before they leave the database. */
async function readSlice<Row extends object, Item>(database: Sql, listing: Listing<Row, Item>, slice: Slice) {
  const builder = query(database);
  const order = orderOf(listing);
  const range = { after: afterOf(listing, slice.position), order, limit: slice.rows + 1, offset: slice.offset };
  const page = builder.$with("page").as(listing.rows(range));
  const measured = builder.$with("measured").as(builder.select({ ...columnsOf(page), ...measures(order) }).from(page));
  const { _nth, _found, _bytes } = measured;
  const fits = or(lte(_bytes, slice.bytes), slice.firstAnyway ? sql`${_nth} = 1` : undefined);
  const rows = await builder
    .with(page, measured)
    .select({ row: columnsOf(page, measured), found: _found, bytes: _bytes })
    .from(measured)
    .where(and(lte(_nth, slice.rows), fits))
    .orderBy(_nth);
  const last = rows.at(-1);
  const more = rows.length < (last?.found ?? (slice.firstAnyway ? 0 : 1));
  return { rows: rows.map(({ row }) => row as Row), more, bytes: last?.bytes ?? 0 };
}

/** The row's number, how many rows the range has, and the bytes up to and including the row. */
function measures(order: SQL) {
  const bytes = sql<number>`sum(octet_length(page::text)) over (order by ${order} rows unbounded preceding)`;
  return {
    _nth: sql<number>`row_number() over (order by ${order})`.mapWith(Number).as("_nth"),
    _found: sql<number>`(count(*) over ())::int`.as("_found"),
    _bytes: bytes.mapWith(Number).as("_bytes"),
  };
}

type Selected = WithSubqueryWithSelection<ColumnsSelection, string>;

/** The columns that `page` selects, as columns of `source`. */
function columnsOf(page: Selected, source: object = page): Readonly<Record<string, PgColumn>> {
  const columns = source as Readonly<Record<string, PgColumn>>;
  return Object.fromEntries(
    Object.keys(page._.selectedFields).map((name) => [name, columns[name]] as const),
  ) as Readonly<Record<string, PgColumn>>;
}

function orderOf<Row, Item>({ key, descending }: Listing<Row, Item>): SQL {
  const columns = key.map(({ column }) => sql`${sql.identifier(column.name)}${sql.raw(descending ? " desc" : "")}`);
  return sql.join(columns, sql`, `);
}

/** A comparison of rows, which an index on the key answers. */
function afterOf<Row, Item>({ key, descending }: Listing<Row, Item>, position: Position | undefined): SQL | undefined {
  if (!position) return undefined;
  const columns = key.map(({ column }) => sql.identifier(column.name));
  const values = key.map(({ kind }, index) => sql`${position[index] ?? ""}::text::${sql.raw(KEY_TYPES[kind])}`);
  const isAfter = sql.raw(descending ? "<" : ">");
  return sql`(${sql.join(columns, sql`, `)}) ${isAfter} (${sql.join(values, sql`, `)})`;
}

type Matching = Listing<never, unknown>["matching"];

/** Up to one more than COUNTED_ROWS, or undefined if counting takes too long: a page does not wait minutes for its total. */
function countSome(database: Sql, { from, where }: Matching): Promise<number | undefined> {
  const condition = where ? sql`where ${where}` : sql``;
  const some = sql`(select 1 from ${from} ${condition} limit ${COUNTED_ROWS + 1}) counted`;
  return count(database, { from: some }, COUNT_MS);
}

async function countAll(database: Sql, matching: Matching): Promise<number> {
  const total = await count(database, matching, EXACT_COUNT_MS);
  if (total !== undefined) return total;
  throw overloaded("counting takes too long now; ask again without count=exact");
}

async function count(database: Sql, { from, where }: Matching, withinMs: number): Promise<number | undefined> {
  try {
    return await database.begin("read only", async (transaction) => {
      // Nobody waits for it alone: that would be a round trip.
      const limited = transaction.unsafe(`set local statement_timeout = ${withinMs}`).execute();
      const counted = query(transaction).select({ total: sql<number>`count(*)::float8` }).from(from).where(where);
      const [, [row]] = await Promise.all([limited, counted]);
      return row?.total ?? 0;
    });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "57014") return undefined;
    throw error;
  }
}
