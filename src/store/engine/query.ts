// The query builder for plain reads and writes: drizzle on the one schema (schema.ts), over the sessions that the rest of the store
// uses. It opens no session and begins no transaction: it writes statements, as the SQL in the open does.
import { DrizzleQueryError, type Query } from "drizzle-orm";
import {
  PgDatabase,
  PgDialect,
  type PgPreparedQuery,
  type PreparedQueryConfig,
  type SelectedFieldsOrdered,
} from "drizzle-orm/pg-core";
import { type PostgresJsQueryResultHKT, PostgresJsSession } from "drizzle-orm/postgres-js";
import type { ISql, Sql } from "postgres";

export type Queries = PgDatabase<PostgresJsQueryResultHKT>;

const dialect = new PgDialect();
const builders = new WeakMap<ISql, Queries>();

/** The builder on a pool, or on a transaction: `sql.begin((transaction) => query(transaction).insert(…))`. */
export function query(sql: ISql): Queries {
  const builder = builders.get(sql) ?? new PgDatabase(dialect, new Session(sql as Sql, dialect, undefined), undefined);
  builders.set(sql, builder);
  return builder;
}

/** A statement that is built once for each pool, its values left open: building one costs 25 to 300 µs, which frequent reads save. */
export function builtOnce<Statement>(build: (pool: Sql) => Statement): (pool: Sql) => Statement {
  const statements = new WeakMap<Sql, Statement>();
  return (pool) => {
    const statement = statements.get(pool) ?? build(pool);
    statements.set(pool, statement);
    return statement;
  };
}

/**
 * drizzle's own session but for two things. Every statement is prepared: otherwise each costs a round trip more. And an error is
 * the one that Postgres gave, which failure.ts reads: drizzle's wrapper hides it, and quotes the parameters in its message.
 *
 * It is made here, not by `drizzle()`, because that replaces the client's parsers for all its users.
 */
class Session extends PostgresJsSession<Sql, Record<string, never>, Record<string, never>> {
  override prepareQuery<T extends PreparedQueryConfig>(
    statement: Query,
    fields: SelectedFieldsOrdered | undefined,
    _name: string | undefined,
    inArrays: boolean,
    mapper?: (rows: unknown[][]) => T["execute"],
  ): PgPreparedQuery<T> {
    const prepared = super.prepareQuery<T>(statement, fields, "prepared", inArrays, mapper);
    const execute = prepared.execute.bind(prepared);
    prepared.execute = (values) => execute(values).catch(throwCause);
    return prepared;
  }
}

function throwCause(error: unknown): never {
  throw error instanceof DrizzleQueryError && error.cause ? error.cause : error;
}
