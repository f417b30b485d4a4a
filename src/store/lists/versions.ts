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
import { type Reach, within } from "./reach.js";

/** A valid document on its way into the store. */
export interface VersionDraft {
  /** The name that all versions share. */
  readonly key: string;
  /** Absent: the highest + 1, unless a stored version equals the draft. */
  readonly version?: number;
  /** The only tenant that may use it. */
  readonly forTenant?: string;
  readonly name: string;
  readonly publish: boolean;
  readonly createdBy?: string;
}

/** For whom a version is stored. */
export interface Claim {
  /** Null: the platform. */
  readonly tenantId: string | null;
  /** Whether a name belongs to the one who stored it first. With access off it does not: each version is its document's tenant's. */
  readonly exclusive: boolean;
}

/** With access off, of a document that names no tenant. */
const UNCLAIMED: Claim = { tenantId: null, exclusive: false };

export interface Usability {
  readonly tenantId: string | null;
  /** Whether names belong to who stored them: access is on. */
  readonly owned: boolean;
}

export interface StoredVersion {
  /** The id of this version's content: other content has another id. */
  readonly id: string;
  /** The name that all versions share. */
  readonly key: string;
  readonly version: number;
  readonly published: boolean;
  /** Whose it is. Null: the platform's. */
  readonly tenantId: string | null;
  /** The document as clients see it; it compiles. */
  readonly item: JsonObject;
}

/** What became of a draft. */
export interface Posted {
  readonly document: StoredVersion;
  /** False: a version with the same content existed. */
  readonly stored: boolean;
  /** It was published by this, and was not before. */
  readonly published: boolean;
}

export interface DocumentKind<Draft extends VersionDraft, Row extends VersionRow> {
  /** The word for the kind in messages: `workflow`. */
  readonly noun: string;
  readonly table: PgTable & { readonly $inferSelect: Row };
  /** Its keys are ids of workflows. */
  readonly isWorkflow?: true;
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

  /**
   * 409 if the version was published with other content, or if the name is taken. What the
   * platform stores as it is stands already, whoever has been given the name since.
   */
  store(database: Sql, draft: Draft, claim: Claim = UNCLAIMED): Promise<Posted> {
    const { key } = draft;
    return database.begin(async (transaction) => {
      await this.lock(transaction, key);
      const owner = claim.exclusive ? await this.owner(transaction, key) : undefined;
      const isTaken = owner !== undefined && owner !== claim.tenantId;
      if (isTaken && claim.tenantId !== null) throw this.taken(key);
      const [same] = await this.select(transaction, key, this.atVersion(draft.version), this.kind.equals(draft));
      if (same && (same.published || !draft.publish))
        return { document: this.stored(same), stored: false, published: false };
      if (isTaken) throw this.taken(key);
      if (same) return { document: await this.setPublished(transaction, same, true), stored: false, published: true };
      const version = draft.version ?? (await this.next(transaction, key));
      const document = await this.write(transaction, draft, version, claim.tenantId);
      return { document, stored: true, published: draft.publish };
    });
  }

  /**
   * Undefined: no such version. Once published a version is immutable, also after it is unpublished. `id`: of the content that was checked; a draft may
   * have been replaced since.
   */
  async publish(
    database: Sql,
    key: string,
    version: number,
    published: boolean,
    id?: string,
  ): Promise<StoredVersion | undefined> {
    const isChecked = id === undefined ? undefined : eq(this.table.id, id);
    const { document } = await database.begin(async (transaction) => {
      await this.lock(transaction, key);
      const [found] = await this.select(transaction, key, this.atVersion(version), isChecked);
      return { document: found && (await this.setPublished(transaction, found, published)) };
    });
    return document;
  }

  /** The version whether it is published or not; without `version` the latest published one. `reach`: of a client. */
  async read(database: Sql, key: string, version?: number, reach?: Reach): Promise<StoredVersion | undefined> {
    const which = this.atVersion(version) ?? this.table.published;
    const [row] = await this.select(database, key, which, reach && this.within(reach));
    return row && this.stored(row);
  }

  /** Whether a client may see it, in any version. */
  async isSeen(database: Sql, reach: Reach, key: string): Promise<boolean> {
    const [row] = await this.select(database, key, this.within(reach));
    return row !== undefined;
  }

  /** Whether it exists. Without `version`: in any version. With `usableBy`: in one that runs of this tenant, null for none, may be of. */
  async exists(
    database: Sql,
    key: string,
    { version, usableBy }: { readonly version?: number | undefined; readonly usableBy?: Usability } = {},
  ): Promise<boolean> {
    const { table } = this;
    const visible = usableBy && this.usable(usableBy);
    const found = await query(database)
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.key, key), this.atVersion(version), visible))
      .limit(1);
    return found.length > 0;
  }

  /** One item each: its latest published version, or its latest draft. */
  list(database: Sql, reach: Reach, page: PageQuery): Promise<Page<JsonObject>> {
    const { key, published, version } = this.table;
    const where = this.within(reach);
    const latest = query(database)
      .selectDistinctOn([key])
      .from(this.table)
      .where(where)
      .orderBy(key, desc(published), desc(version))
      .as("latest");
    return readPage(
      database,
      {
        name: getTableName(this.table),
        reach,
        key: [{ column: key, kind: "text" }],
        rows: (range) => inRange(query(database).select().from(latest).$dynamic(), undefined, range),
        matching: { from: sql`(select distinct ${key} from ${this.table} where ${where ?? sql`true`}) d` },
        item: (row) => this.kind.item(row as Row),
        position: (row) => [row.key],
      },
      page,
    );
  }

  /** Newest first. */
  versions(database: Sql, reach: Reach, key: string, page: PageQuery): Promise<Page<JsonObject>> {
    const { table } = this;
    const where = and(eq(table.key, key), this.within(reach));
    return readPage(
      database,
      {
        name: `${getTableName(table)} versions`,
        reach,
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
    const { id, key, version, published, tenantId } = row;
    return { id, key, version, published, tenantId, item: this.kind.item(row) };
  }

  /** Undefined: the name is free. */
  private async owner(transaction: ISql, key: string): Promise<string | null | undefined> {
    const { table } = this;
    const [first] = await query(transaction)
      .select({ tenantId: table.tenantId })
      .from(table)
      .where(eq(table.key, key))
      .orderBy(table.version)
      .limit(1);
    return first?.tenantId;
  }

  /** Names nobody: a name is all that one tenant learns of another. */
  private taken(key: string) {
    return conflict(`the name ${key} is taken by another ${this.kind.noun}`);
  }

  private usable({ tenantId, owned }: Usability): SQL | undefined {
    const columns = [this.table.forTenant, ...(owned ? [this.table.tenantId] : [])];
    return and(...columns.map((only) => or(isNull(only), tenantId === null ? undefined : eq(only, tenantId))));
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

  /** Only workflows are narrowed: rules have no narrowing. */
  private within(reach: Reach): SQL | undefined {
    const name = getTableName(this.table);
    const workflow = this.kind.isWorkflow && { workflow: `${name}.${this.table.key.name}` };
    return within(reach, { tenant: `${name}.tenant_id`, ...workflow, shared: true, reserved: `${name}.for_tenant` });
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
  private async write(database: ISql, draft: Draft, version: number, tenantId: string | null): Promise<StoredVersion> {
    const { kind, table } = this;
    const { key, forTenant, name, publish: published, createdBy } = draft;
    const about = { id: uuidv7(), key, version, tenantId, forTenant, name };
    const values = { ...about, published, everPublished: published, createdBy };
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
