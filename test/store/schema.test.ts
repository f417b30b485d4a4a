// The schema that the query builder is given, against the tables that the migrations make.
import { getTableColumns, getTableName, is, Table } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as schema from "../../src/store/schema.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const tables = Object.values(schema).filter((member) => is(member, Table));

/** As information_schema names the types that schema.ts uses. */
const TYPES: Readonly<Record<string, string>> = {
  bigserial: "bigint",
  "timestamp (3) with time zone": "timestamp(3) with time zone",
};

describe("the schema", () => {
  it.each(tables.map((table) => [getTableName(table), table] as const))(
    "%s has the columns of its table",
    async (name, table) => {
      const found = await database.sql<{ column: string; type: string; required: boolean }[]>`
      select attname as "column", format_type(atttypid, atttypmod) as type, attnotnull as required from pg_attribute
      where attrelid = ${name}::text::regclass and attnum > 0 and not attisdropped`;
      const known = Object.values(getTableColumns(table)).map((column) => ({
        column: column.name,
        type: TYPES[column.getSQLType()] ?? column.getSQLType(),
        required: column.notNull || column.primary,
      }));
      const byName = (left: { column: string }, right: { column: string }) => left.column.localeCompare(right.column);
      expect(known.sort(byName)).toEqual([...found].sort(byName));
    },
  );

  it("knows every table", async () => {
    const found = await database.sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`;
    expect(tables.map((table) => getTableName(table)).sort()).toEqual(found.map(({ name }) => name).sort());
  });
});
