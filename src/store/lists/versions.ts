// Versioned documents, the common part of workflows and rules: version numbers, the replacement of drafts, publishing. The content of each
// kind is in definitions.ts and rules.ts.
import {
  and,
  desc,
  eq,
  getTableColumns,
  getTableName,
  isNull,
  max,
  not,
  or,
  type SQL,
  type SQLWrapper,
  sql,
} from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import type { ISql, Sql, TransactionSql } from "postgres";
import { type JsonObject, MAX_VERSION } from "../../../machines/index.js";
import { conflict } from "../../errors.js";
import { uuidv7 } from "../../ids.js";
import { query } from "../engine/query.js";
import type { VersionedTable, VersionRow } from "../schema.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";

/** A valid document on its way into the store. */
export interface VersionDraft {
  /** The name that all versions share. */
  readonly key: string;
  /** Absent: the highest + 1, unless a stored version equals the draft. */
  readonly version?: number;
  readonly tenantId?: string;
  readonly name: string;
  readonly publish: boolean;
  readonly createdBy?: string;
}

export interface StoredVersion {
  /** The id of this version's content: other content has another id. */
  readonly id: string;
  /** The name that all versions share. */
  readonly key: string;
  readonly version: number;
  readonly published: boolean;
  /** The document as clients see it; it compiles. */
  readonly item: JsonObject;
}

export interface DocumentKind<Draft extends VersionDraft, Row extends VersionRow> {
  /** The word for the kind in messages: `workflow`. */
  readonly noun: string;
  readonly table: PgTable & { readonly $inferSelect: Row };
  /** The kind's own columns. */
  content(draft: Draft, version: number): Partial<Row>;
  /** Whether a stored version has the draft's content, whatever it says of its storage. */
  equals(draft: Draft): SQL | undefined;
  item(row: Row): JsonObject;
}

export class Versions<Draft extends VersionDraft, Row extends VersionRow> {
  /** The table, as far as both kinds have the same columns. */
  private readonly table: VersionedTable;

  constructor(private readonly kind: DocumentKind<Draft, Row>) {
    this.table = kind.table as unknown as VersionedTable;
  }

  /** `stored` is false if a version with this content exists. 409 if the version was published with other content. */
  store(database: Sql, draft: Draft): Promise<{ readonly document: StoredVersion; readonly stored: boolean }> {
    const { key } = draft;
    return database.begin(async (transaction) => {
      await this.lock(transaction, key);
      const [same] = await this.select(transaction, key, this.atVersion(draft.version), this.kind.equals(draft));
      if (same && (same.published || !draft.publish)) return { document: this.stored(same), stored: false };
      if (same) return { document: await this.setPublished(transaction, same, true), stored: false };
      const version = draft.version ?? (await this.next(transaction, key));
      return { document: await this.write(transaction, draft, version), stored: true };
    });
  }

  /** Undefined: no such version. Once published a version is immutable, also after it is unpublished. */
  async publish(database: Sql, key: string, version: number, published: boolean): Promise<StoredVersion | undefined> {
    const { document } = await database.begin(async (transaction) => {
      await this.lock(transaction, key);
      const [found] = await this.select(transaction, key, this.atVersion(version));
      return { document: found && (await this.setPublished(transaction, found, published)) };
    });
    return document;
  }

  /** The version whether it is published or not; without `version` the latest published one. */
  async read(database: Sql, key: string, version?: number): Promise<StoredVersion | undefined> {
    const [row] = await this.select(database, key, this.atVersion(version) ?? this.table.published);
    return row && this.stored(row);
  }

  /** Whether it exists. Without `version`: in any version. With `tenantId`, null for none: in one that names no tenant, or this one. */
  async exists(
    database: Sql,
    key: string,
    { version, tenantId }: { readonly version?: number | undefined; readonly tenantId?: string | null } = {},
  ): Promise<boolean> {
    const { table } = this;
    const owned = tenantId === null ? undefined : eq(table.tenantId, tenantId ?? "");
    const visible = tenantId === undefined ? undefined : or(isNull(table.tenantId), owned);
    const found = await query(database)
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.key, key), this.atVersion(version), visible))
      .limit(1);
    return found.length > 0;
  }

  /** One item each: its latest published version, or its latest draft. */
  list(database: Sql, page: PageQuery): Promise<Page<JsonObject>> {
    const { key, published, version } = this.table;
    const latest = query(database)
      .selectDistinctOn([key])
      .from(this.table)
      .orderBy(key, desc(published), desc(version))
      .as("latest");
    return readPage(
      database,
      {
        name: getTableName(this.table),
        key: [{ column: key, kind: "text" }],
        rows: (range) => inRange(query(database).select().from(latest).$dynamic(), undefined, range),
        matching: { from: sql`(select distinct ${key} from ${this.table}) d` },
        item: (row) => this.kind.item(row as Row),
        position: (row) => [row.key],
      },
      page,
    );
  }

  /** Newest first. */
  versions(database: Sql, key: string, page: PageQuery): Promise<Page<JsonObject>> {
    const { table } = this;
    const where = eq(table.key, key);
    return readPage(
      database,
      {
        name: `${getTableName(table)} versions`,
        key: [{ column: table.version, kind: "integer" }],
        descending: true,
        rows: (range) => inRange(query(database).select().from(table).$dynamic(), where, range),
        matching: { from: table, where },
        item: (row) => this.kind.item(row as Row),
        position: (row) => [String(row.version)],
      },
      page,
    );
  }

  stored(row: Row): StoredVersion {
    const { id, key, version, published } = row;
    return { id, key, version, published, item: this.kind.item(row) };
  }

  /** Versions of one name are given out one at a time; the lock ends with the transaction. Its text must never change. */
  private async lock(transaction: TransactionSql, key: string): Promise<void> {
    await transaction`select pg_advisory_xact_lock(hashtextextended(${`${getTableName(this.table)}:${key}`}, 0))`;
  }

  /** The newest version that matches. */
  private async select(database: ISql, key: string, ...conditions: (SQL | SQLWrapper | undefined)[]): Promise<Row[]> {
    const { table } = this;
    const where = and(eq(table.key, key), ...conditions);
    const rows = await query(database).select().from(table).where(where).orderBy(desc(table.version)).limit(1);
    return rows as Row[];
  }

  private atVersion(version: number | undefined): SQL | undefined {
    return version === undefined ? undefined : eq(this.table.version, version);
  }

  private async next(database: ISql, key: string): Promise<number> {
    const { table, kind } = this;
    const [row] = await query(database)
      .select({ highest: max(table.version) })
      .from(table)
      .where(eq(table.key, key));
    const highest = row?.highest ?? 0;
    if (highest < MAX_VERSION) return highest + 1;
    throw conflict(`${kind.noun} ${key} has its last version, ${MAX_VERSION}: post it with a version that is free`);
  }

  /**
   * Inserts the version, or replaces it if it was never published. The replacement has an id of its own: other content is never
   * seen under a known id.
   */
  private async write(database: ISql, draft: Draft, version: number): Promise<StoredVersion> {
    const { kind, table } = this;
    const { key, tenantId, name, publish: published, createdBy } = draft;
    const values = { id: uuidv7(), key, version, tenantId, name, published, everPublished: published, createdBy };
    const [row] = await query(database)
      .insert(table)
      .values({ ...values, ...kind.content(draft, version) })
      .onConflictDoUpdate({
        target: [table.key, table.version],
        set: replacement(table),
        setWhere: not(table.everPublished),
      })
      .returning();
    if (row) return this.stored(row as Row);
    const document = `version ${version} of ${kind.noun} ${key}`;
    throw conflict(`${document} was published with other content; post it as a new version`);
  }

  private async setPublished(database: ISql, before: Row, published: boolean): Promise<StoredVersion> {
    const { table, kind } = this;
    const everPublished = before.everPublished || published;
    const [row] = await query(database)
      .update(table)
      .set({ published, everPublished })
      .where(eq(table.id, before.id))
      .returning();
    if (!row) throw new Error(`a version of a ${kind.noun} was deleted while it was locked`);
    return this.stored(row as Row);
  }
}

/** All columns but the key, as the insert would have written them. */
function replacement(table: VersionedTable): Record<string, SQL> {
  const { key: _, version: __, ...columns } = getTableColumns(table);
  const taken = Object.entries(columns).map(([name, column]) => [name, sql`excluded.${sql.identifier(column.name)}`]);
  return Object.fromEntries(taken);
}
