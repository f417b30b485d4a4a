// The migrations as files: SQL in the order of the journal, which drizzle's tools also read. How they are applied is in migrate.ts.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Migration {
  readonly name: string;
  /** Epoch milliseconds. A database has every migration up to the latest `when` that it has recorded. */
  readonly when: number;
  readonly hash: string;
  readonly statements: readonly Statement[];
}

export interface Statement {
  readonly text: string;
  /** The index that it builds without blocking writes. It must not be in a transaction. */
  readonly builds?: string;
}

interface Journal {
  readonly entries: readonly { readonly tag: string; readonly when: number }[];
}

const INDEX = /^create (?:unique )?index concurrently "(\w+)"/i;

/** The migrations in the order in which they are applied. Throws if a file mixes what needs a transaction with what allows none. */
export function readMigrations(folder: string): readonly Migration[] {
  const journal = JSON.parse(readFileSync(join(folder, "meta", "_journal.json"), "utf8")) as Journal;
  return journal.entries.map(({ tag, when }) =>
    migrationOf(tag, when, readFileSync(join(folder, `${tag}.sql`), "utf8")),
  );
}

function migrationOf(name: string, when: number, text: string): Migration {
  const statements = text.split("--> statement-breakpoint").map((part) => statementOf(withoutComments(part)));
  const builds = statements.filter((statement) => statement.builds !== undefined).length;
  if (builds > 0 && builds < statements.length)
    throw new Error(`migration ${name}: indexes that are built concurrently need a migration of their own`);
  return { name, when, hash: createHash("sha256").update(text).digest("hex"), statements };
}

function statementOf(text: string): Statement {
  return { text, builds: INDEX.exec(text)?.[1] };
}

function withoutComments(statement: string): string {
  return statement.replaceAll(/^\s*--.*$/gm, "").trim();
}
