// The tables of what runs keep of their variables for others, and of the forks that begin with it.
import { sql } from "drizzle-orm";
import { boolean, integer, pgTable, primaryKey, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import { json, runId, time } from "./columns.js";

/** The scope that the branches or items of a step entry begin with, kept once for all of them. Its inputs are those of the holder. */
export const keptScopes = pgTable(
  "kept_scopes",
  {
    runId: runId("run_id").notNull(),
    entry: integer("entry").notNull(),
    /** The run at the top of the family: its branches and items share values by content, however deep they fork. */
    holder: uuid("holder").notNull(),
    /** The variables (unit-host.ts); or, of a large manifest, the hash of the kept value that it is. */
    manifest: json("manifest"),
    manifestHash: uuid("manifest_hash"),
  },
  (t) => [primaryKey({ columns: [t.runId, t.entry] })],
);

/** The variables with which a step at the top level was entered, where the workflow keeps its history: a fork begins with them. */
export const keptEntries = pgTable(
  "kept_entries",
  {
    runId: runId("run_id").notNull(),
    entry: integer("entry").notNull(),
    stepId: text("step_id").notNull(),
    /** As that of a kept scope, whose holder is the run itself. */
    manifest: json("manifest"),
    manifestHash: uuid("manifest_hash"),
  },
  (t) => [primaryKey({ columns: [t.runId, t.entry] })],
);

/** A run that was forked, and its fork. The undo of a run is inherited once. */
export const forks = pgTable(
  "forks",
  {
    originId: runId("origin_id").notNull(),
    forkId: runId("fork_id").notNull(),
    step: text("step").notNull(),
    /** Among the entries of that step. */
    entry: integer("entry").notNull(),
    inherits: boolean("inherits").notNull(),
    at: time("at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.originId, t.forkId] }),
    uniqueIndex("forks_heir").on(t.originId).where(sql`inherits`),
  ],
);

/** Values that kept scopes share by content. They are removed after the holder has ended. */
export const keptValues = pgTable(
  "kept_values",
  { holder: uuid("holder").notNull(), hash: uuid("hash").notNull(), value: json("value").notNull() },
  (t) => [primaryKey({ columns: [t.holder, t.hash] })],
);
