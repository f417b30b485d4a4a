// The baseline is what schema.ts says, in drizzle's own words, and what drizzle cannot say. The list of the latter is here, and nowhere else.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

const HOT = "autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,autovacuum_vacuum_cost_delay=1";

/** The tables of which a client may read some rows. No client reads any other. */
const READ_BY_CLIENTS = [
  ...[
    "runs",
    "run_starts",
    "run_labels",
    "run_variables",
    "run_events",
    "forks",
    "kept_entries",
    "kept_scopes",
    "kept_values",
    "signals",
    "undo",
  ],
  ...[
    "user_tasks",
    "concurrency_tickets",
    "rate_tickets",
    "triggers",
    "trigger_fires",
    "bulk_jobs",
    "bulk_targets",
    "definitions",
    "rules",
  ],
  ...[
    "actions",
    "shared_actions",
    "run_end_counts",
    "run_end_changes",
    "end_horizon",
    "nodes",
    "wakes",
    "inbox",
    "outbox",
  ],
];

/** What a database has that drizzle would not make of the schema. */
const BEYOND_DRIZZLE: readonly string[] = [
  "function give_turns(text,text,uuid,integer)",
  "function grant_in_turn(text,text,uuid,integer,integer)",
  "function grant_slots(text,text,uuid,integer)",
  "function is_passed_over(uuid,text)",
  "function keep_terminal_run()",
  "function kept_variables(uuid,json,uuid)",
  "function lock_slot_key(text,text,uuid)",
  "function note_run_end()",
  "function note_runs_gone()",
  "function read_scope()",
  "function read_tenants()",
  "function reads_all()",
  "function reserve_slot(text,text,uuid,integer,uuid,smallint,integer)",
  "function tell_run(uuid,smallint,json)",
  "options bulk_jobs {fillfactor=70}",
  "options concurrency_tickets {fillfactor=70,autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=500}",
  `options inbox {fillfactor=70,${HOT}}`,
  `options outbox {fillfactor=70,${HOT}}`,
  `options outgoing_events {${HOT}}`,
  "options rate_buckets {fillfactor=70,autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=500}",
  "options rate_tickets {fillfactor=70,autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=500}",
  "options run_variables {fillfactor=85}",
  `options runs {fillfactor=70,${HOT}}`,
  `options wakes {fillfactor=70,${HOT}}`,
  "partitioned run_events RANGE (recorded_at)",
  ...READ_BY_CLIENTS.map((table) => `policy readers of ${table}`),
  "trigger runs_end of runs",
  "trigger runs_ended_at_once of runs",
  "trigger runs_gone of runs",
  "trigger runs_terminal_guard of runs",
];

/** Everything in the catalogue that a table, its partitions aside, is made of. */
async function catalogueOf(sql: Sql): Promise<Set<string>> {
  const rows = await sql<{ line: string }[]>`
    with tables as (
      select * from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
    )
    select concat_ws(' ', 'column', relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attgenerated::text,
      pg_get_expr(adbin, adrelid)) as line
    from tables join pg_attribute on attrelid = tables.oid left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attnum > 0 and not attisdropped
    union all select 'index ' || replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') from tables join pg_index on indrelid = tables.oid
    union all select concat_ws(' ', 'constraint', relname, conname, pg_get_constraintdef(pg_constraint.oid))
      from tables join pg_constraint on conrelid = tables.oid
    union all select concat_ws(' ', 'options', relname, reloptions::text) from tables where reloptions is not null
    union all select concat_ws(' ', 'partitioned', relname, pg_get_partkeydef(oid)) from tables where relkind = 'p'
    union all select concat_ws(' ', 'trigger', tgname, 'of', relname) from tables join pg_trigger on tgrelid = tables.oid where not tgisinternal
    union all select concat_ws(' ', 'policy', polname, 'of', relname) from tables join pg_policy on polrelid = tables.oid
    union all select concat_ws(' ', 'no row-level security on', relname) from tables where relkind <> 'v' and not relrowsecurity
    union all select concat_ws(' ', 'a view of its owner''s rights', relname) from tables
      where relkind = 'v' and not coalesce(reloptions @> '{security_invoker=true}', false)
    union all select 'function ' || oid::regprocedure from pg_proc where pronamespace = 'public'::regnamespace
    union all select concat_ws(' ', 'sequence', sequencename, data_type, start_value, increment_by) from pg_sequences where schemaname = 'public'`;
  return new Set(rows.map(({ line }) => line));
}

const run = promisify(execFile);
const KIT = join(packageRoot(), "node_modules", "drizzle-kit", "bin.cjs");
const kit = async (command: string, ...options: string[]) =>
  (await run(process.execPath, [KIT, command, "--dialect", "postgresql", ...options], { cwd: packageRoot() })).stdout;
const SCHEMA = ["--schema", "./src/store/schema.ts"];

const contentsOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => [path.slice(folder.length), readFileSync(path, "utf8")]);

describe("the migrations, for drizzle", () => {
  let folder: string;
  beforeAll(() => {
    // drizzle-kit wants a folder below its working directory.
    folder = mkdtempSync(join(packageRoot(), "node_modules", ".migrations-"));
    cpSync(join(packageRoot(), "src", "store", "migrations"), folder, { recursive: true });
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("have the schema: there is nothing to generate, and their snapshots are sound", async () => {
    const before = contentsOf(folder);
    const out = `./${folder.slice(packageRoot().length + 1)}`;
    expect(await kit("generate", ...SCHEMA, "--out", out)).toContain("No schema changes");
    expect(contentsOf(folder)).toEqual(before);
    expect(await kit("check", "--out", out)).toContain("Everything's fine");
  });
});

describe("a database", () => {
  let [migrated, generated]: TestDatabase[] = [];
  beforeAll(async () => {
    migrated = await createTestDatabase({ fresh: true });
    generated = await createTestDatabase({ migrated: false });
    await generated.sql.unsafe(await kit("export", ...SCHEMA, "--sql"));
  });
  afterAll(async () => {
    await migrated?.drop();
    await generated?.drop();
  });

  it("of the migrations is one that drizzle makes of the schema, and what drizzle cannot say", async () => {
    const [has, said] = [
      await catalogueOf((migrated as TestDatabase).sql),
      await catalogueOf((generated as TestDatabase).sql),
    ];
    const missing = [...said].filter((line) => !has.has(line));
    expect(missing.filter((line) => !line.startsWith("no row-level security on"))).toEqual([]);
    expect([...has].filter((line) => !said.has(line)).sort()).toEqual([...BEYOND_DRIZZLE].sort());
  });
});
