// Versioned documents, the rules that workflows and decision tables share: how a version is given out, when it may be
// replaced, what publishing does. Not their columns: those are each kind's own (definitions.ts, rules.ts).
import type { Fragment, ISql, Sql, TransactionSql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { conflict } from "../errors.js";
import { type Listing, type Page, type PageQuery, readPage } from "./page.js";

/** A valid document on its way into the store. */
export interface VersionDraft {
  /** Absent: the highest + 1, unless a stored version equals it. */
  readonly version?: number;
  readonly publish: boolean;
}

export interface VersionRow {
  readonly version: number;
  readonly published: boolean;
}

export interface VersionedKind<Draft extends VersionDraft, Row extends VersionRow> {
  /** For sentences: `workflow`. */
  readonly what: string;
  readonly table: string;
  /** The column of the row's own id. */
  readonly id: string;
  /** The column of the name that all versions share. */
  readonly key: string;
  columns(sql: ISql): Fragment;
  idOf(row: Row): string;
  keyOf(of: Draft | Row): string;
  /** Whether a stored row has the draft's content, whatever it says of its storage. */
  equals(sql: ISql, draft: Draft): Fragment;
  /** Inserts the version, or replaces it where it was never published; no row: it was. */
  write(sql: ISql, draft: Draft & { readonly version: number }): Promise<Row | undefined>;
  /** As clients see it. */
  item(row: Row): JsonObject;
}

export class Versions<Draft extends VersionDraft, Row extends VersionRow> {
  constructor(private readonly kind: VersionedKind<Draft, Row>) {}

  /** `stored` is false where a version with this content was there already. 409 where the version was published with another. */
  async store(sql: Sql, draft: Draft): Promise<{ row: Row; stored: boolean }> {
    const { kind } = this;
    return sql.begin(async (transaction) => {
      await this.lock(transaction, kind.keyOf(draft));
      const same = await this.findEqual(transaction, draft);
      if (same && (same.published || !draft.publish)) return { row: same, stored: false };
      if (same) return { row: await this.setPublished(transaction, same, true), stored: false };
      const version = draft.version ?? (await this.highest(transaction, kind.keyOf(draft))) + 1;
      const row = await kind.write(transaction, { ...draft, version });
      if (row) return { row, stored: true };
      const name = `version ${version} of ${kind.what} ${kind.keyOf(draft)}`;
      throw conflict(`${name} was published with other content; post it as a new version`);
    });
  }

  /** Undefined: no such version. Once published a version is immutable, also after it is unpublished. */
  async publish(sql: Sql, key: string, version: number, published: boolean): Promise<Row | undefined> {
    const { row } = await sql.begin(async (transaction) => {
      await this.lock(transaction, key);
      const found = await this.read(transaction, key, version);
      return { row: found && (await this.setPublished(transaction, found, published)) };
    });
    return row;
  }

  /** The version whether it is published or not; without `version` the latest published one. */
  async read(sql: ISql, key: string, version?: number): Promise<Row | undefined> {
    const { table, key: column, columns } = this.kind;
    const which = version === undefined ? sql`published` : sql`version = ${version}`;
    const [row] = await sql<Row[]>`
      select ${columns(sql)} from ${sql(table)} where ${sql(column)} = ${key} and ${which} order by version desc limit 1`;
    return row;
  }

  async exists(sql: Sql, key: string): Promise<boolean> {
    const { table, key: column } = this.kind;
    return (await sql`select 1 from ${sql(table)} where ${sql(column)} = ${key} limit 1`).length > 0;
  }

  /** One item each: its latest published version, or its latest draft. */
  list(sql: Sql, page: PageQuery): Promise<Page<JsonObject>> {
    const { table, key, columns, keyOf } = this.kind;
    const latest = sql`(
      select distinct on (${sql(key)}) * from ${sql(table)} order by ${sql(key)}, published desc, version desc) d`;
    const listing: Listing<Row, JsonObject> = {
      name: table,
      key: [{ column: key, kind: "text" }],
      rows: ({ after, order, window }) =>
        sql`select ${columns(sql)} from ${latest} where ${after} order by ${order} ${window}`,
      matching: sql`from (select distinct ${sql(key)} from ${sql(table)}) d`,
      item: (row) => this.kind.item(row),
      position: (row) => [keyOf(row)],
    };
    return readPage(sql, listing, page);
  }

  /** Newest first. */
  versions(sql: Sql, of: string, page: PageQuery): Promise<Page<JsonObject>> {
    const { table, key, columns } = this.kind;
    const matching = sql`from ${sql(table)} where ${sql(key)} = ${of}`;
    const listing: Listing<Row, JsonObject> = {
      name: `${table} versions`,
      key: [{ column: "version", kind: "integer" }],
      descending: true,
      rows: ({ after, order, window }) =>
        sql`select ${columns(sql)} ${matching} and ${after} order by ${order} ${window}`,
      matching,
      item: (row) => this.kind.item(row),
      position: (row) => [String(row.version)],
    };
    return readPage(sql, listing, page);
  }

  /** Versions of one name are given out one at a time; the lock ends with the transaction. */
  private async lock(transaction: TransactionSql, key: string): Promise<void> {
    await transaction`select pg_advisory_xact_lock(hashtextextended(${`${this.kind.table}:${key}`}, 0))`;
  }

  private async findEqual(sql: ISql, draft: Draft): Promise<Row | undefined> {
    const { table, key, keyOf, columns, equals } = this.kind;
    const which = draft.version === undefined ? sql`true` : sql`version = ${draft.version}`;
    const [row] = await sql<Row[]>`
      select ${columns(sql)} from ${sql(table)}
      where ${sql(key)} = ${keyOf(draft)} and ${which} and ${equals(sql, draft)} order by version desc limit 1`;
    return row;
  }

  private async highest(sql: ISql, key: string): Promise<number> {
    const { table, key: column } = this.kind;
    const [row] = await sql<{ highest: number | null }[]>`
      select max(version) as highest from ${sql(table)} where ${sql(column)} = ${key}`;
    return row?.highest ?? 0;
  }

  private async setPublished(sql: ISql, before: Row, published: boolean): Promise<Row> {
    const { table, id, idOf, columns, what } = this.kind;
    const [row] = await sql<Row[]>`
      update ${sql(table)} set published = ${published}, ever_published = ever_published or ${published}
      where ${sql(id)} = ${idOf(before)} returning ${columns(sql)}`;
    if (!row) throw new Error(`a ${what} went while it was locked`);
    return row;
  }
}
