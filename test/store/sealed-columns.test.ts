// Every column of type json is either sealed or plain for a reason: a new one has to be put into one of the two lists.
import { getTableColumns, getTableName, is } from "drizzle-orm";
import { PgTable } from "drizzle-orm/pg-core";
import { describe, expect, it } from "vitest";
import { RELATIONS, SEALED, SEALED_BESIDE, type SealedColumn } from "../../machines/index.js";
import * as schema from "../../src/store/schema.js";

/** Why each of them is not sealed. */
const PLAIN: Readonly<Record<string, string>> = {
  "definitions.document": "a document of the operator, which every tenant may use",
  "rules.spec": "likewise",
  "triggers.config": "likewise; an index reads it",
  "actions.input_schema": "a registration of a service",
  "actions.output_schema": "likewise",
  "actions.error_codes": "likewise",
  "actions.default_retry": "likewise",
  "replaced_schemas.schema": "likewise",
  "user_tasks.form_schema": "part of a document",
  "events.headers": "events are found by their headers",
  "event_waits.headers": "likewise",
  "event_waits.conditions": "waits are found by what they compare",
  "run_commands.answer": "outcomes and states",
  "bulk_jobs.filter": "states, names and labels",
  "bulk_jobs.reach": "tenants and workflows",
  "api_keys.roles": "rights",
  "api_keys.tenants": "rights",
  "api_keys.workflows": "rights",
  "api_keys.services": "rights",
  "api_keys.secrets": "rights",
  "sessions.stated": "rights",
};

const columns = (Object.values(schema) as unknown[])
  .filter((one): one is PgTable => is(one, PgTable))
  .flatMap((table) =>
    Object.values(getTableColumns(table))
      .filter((column) => /^jsonb?$/.test(column.getSQLType()))
      .map((column) => `${getTableName(table)}.${column.name}`),
  );

describe("columns with data", () => {
  it("every column of type json is sealed, or says why it is not", () => {
    const sealed = Object.values(SEALED).flatMap((relation) =>
      Object.values(relation).map(({ of }: SealedColumn) => of),
    );
    const known = [...sealed, ...SEALED_BESIDE, ...Object.keys(PLAIN)];
    expect([...new Set(known)].sort()).toEqual([...new Set(columns)].sort());
  });

  it("what is sealed of a relation are columns of it, and so is what identifies its rows", () => {
    for (const [relation, sealed] of Object.entries(SEALED)) {
      const of = RELATIONS[relation as keyof typeof RELATIONS] as Readonly<Record<string, string>>;
      for (const [column, { by }] of Object.entries(sealed as Readonly<Record<string, SealedColumn>>))
        for (const name of [column, ...by])
          expect([relation, name, Object.hasOwn(of, name)]).toEqual([relation, name, true]);
    }
  });
});
