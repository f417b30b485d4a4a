// The rules of migrations (CONTRIBUTING.md): what a release adds, nodes of the previous release must bear, and no start may wait for it.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { type Migration, readMigrations } from "../../src/store/migration-files.js";

const FOLDER = join(packageRoot(), "src", "store", "migrations");
/** It makes an empty database: nothing works on it yet. */
const BASELINE = "0000_baseline";

const RULES: readonly (readonly [pattern: RegExp, why: string])[] = [
  [/^drop (table|view|function|trigger|sequence|type)\b/i, "the previous release may use it"],
  [/^drop index (?!concurrently)/i, "it waits for every reader: drop it concurrently"],
  [/^alter table .*\bdrop (column|constraint)\b/is, "the previous release may use it"],
  [/\brename\b/i, "the previous release knows the old name"],
  [
    /^alter table .*\balter column "\w+" (set data )?type\b/is,
    "it rewrites the table, and changes the results of prepared statements",
  ],
  [
    /^alter table .*\bset not null\b/is,
    "it reads the whole table under a lock: add a check as not valid, and validate it in a later migration",
  ],
  [
    /^alter table .*\badd constraint\b(?!.*\bnot valid\b)/is,
    "it reads the whole table under a lock: add it as not valid",
  ],
  [/^alter table .*\badd column\b(?!.*\bdefault\b).*\bnot null\b/is, "the previous release inserts rows without it"],
  [
    /^alter table .*\badd column\b.*\bdefault\b.*(random|uuid|nextval|serial|xact_id|clock_timestamp)/is,
    "it rewrites the table",
  ],
  [/^alter table .*\b(add column\b.*\bgenerated always|set expression)\b/is, "it rewrites the table"],
  [/^alter table .*\badd column\b.*\b(unique|primary key|references)\b/is, "it builds or checks under a lock"],
  [/^create (unique )?index (?!concurrently)/i, "writes wait until it is built: build it concurrently"],
  [/^(update|delete from|truncate)\b/i, "it works on all rows in one transaction: nodes do that, in batches"],
];

/** What is wrong with the statements of one migration. A table that it creates has no rows, and no other session knows it. */
function violations(statements: readonly string[]): string[] {
  const created = new Set(
    statements.flatMap((text) => /^create table (?:if not exists )?"(\w+)"/i.exec(text)?.[1] ?? []),
  );
  const isOnCreated = (text: string) =>
    created.has(/^(?:alter table|create (?:unique )?index "\w+" on) "(\w+)"/i.exec(text)?.[1] ?? "");
  return statements.flatMap((text) =>
    isOnCreated(text)
      ? []
      : RULES.filter(([pattern]) => pattern.test(text)).map(([, why]) => `${text.slice(0, 80)}: ${why}`),
  );
}

const textsOf = ({ statements }: Migration) => statements.map(({ text }) => text.replace(/;$/, ""));

describe("migrations", () => {
  const migrations = readMigrations(FOLDER);

  it("are all in the journal, in the order of their times", () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith(".sql"));
    expect(migrations.map(({ name }) => `${name}.sql`)).toEqual(files.sort());
    const times = migrations.map(({ when }) => when);
    expect(times).toEqual([...new Set(times)].sort((one, other) => one - other));
  });

  it("begin with the baseline", () => {
    expect(migrations[0]?.name).toBe(BASELINE);
  });

  it.each(migrations.slice(1).map((migration) => [migration.name, migration] as const))(
    "%s leaves the previous release working and holds up no start",
    (_, migration) => expect(violations(textsOf(migration))).toEqual([]),
  );
});

describe("the rules", () => {
  it.each([
    ['DROP TABLE "runs"', "the previous release may use it"],
    ['ALTER TABLE "runs" DROP COLUMN "call"', "the previous release may use it"],
    ['DROP INDEX "runs_by_start"', "drop it concurrently"],
    ['ALTER TABLE "runs" RENAME COLUMN "call" TO "called"', "knows the old name"],
    ['ALTER TABLE "runs" ALTER COLUMN "revision" SET DATA TYPE bigint', "rewrites the table"],
    ['ALTER TABLE "runs" ALTER COLUMN "fence" SET NOT NULL', "validate it in a later migration"],
    ['ALTER TABLE "runs" ADD CONSTRAINT "c" CHECK (revision > 0)', "add it as not valid"],
    ['ALTER TABLE "runs" ADD COLUMN "x" integer NOT NULL', "inserts rows without it"],
    ['ALTER TABLE "runs" ADD COLUMN "x" uuid DEFAULT gen_random_uuid()', "rewrites the table"],
    ['ALTER TABLE "runs" ADD COLUMN "x" text GENERATED ALWAYS AS (lower(state)) STORED', "rewrites the table"],
    ['ALTER TABLE "runs" ALTER COLUMN "held_as" SET EXPRESSION AS (null)', "rewrites the table"],
    ['CREATE INDEX "i" ON "runs" USING btree ("state")', "build it concurrently"],
    ['UPDATE "runs" SET "call" = null', "in batches"],
  ])("refuse %s", (statement, why) => expect(violations([statement]).join()).toContain(why));

  it.each([
    [['ALTER TABLE "runs" ADD COLUMN "x" integer']],
    [['ALTER TABLE "runs" ADD COLUMN "x" integer DEFAULT 0 NOT NULL']],
    [['ALTER TABLE "runs" ADD CONSTRAINT "c" CHECK (revision > 0) NOT VALID']],
    [['ALTER TABLE "runs" ALTER COLUMN "x" DROP NOT NULL']],
    [['CREATE INDEX CONCURRENTLY "i" ON "runs" USING btree ("state")']],
    [['CREATE TABLE "new" ("id" uuid)', 'CREATE INDEX "i" ON "new" USING btree ("id")']],
  ])("allow %j", (statements) => expect(violations(statements)).toEqual([]));
});
