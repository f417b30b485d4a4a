// What the memory store keeps of variables beside those of the run itself, and what a decision on a fork reads of it: the same reads as
// src/store/engine/forks.ts has in SQL.

import type { Inheritance, Need, StepEntries } from "../messages/fact.js";
import type { Row } from "../messages/relations.js";
import type { RunIdentity } from "../state/identity.js";
import { asRunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { StoredIdentity } from "../writes/run-row.js";
import { keyOf, type Tables } from "./tables.js";

/** As the function `kept_variables` of Postgres. The manifest is the format of src/run/unit-host.ts. */
export function keptVariables(
  { kept_values }: Tables,
  { holder, manifest, manifest_hash }: Pick<Row<"scope">, "holder" | "manifest" | "manifest_hash">,
): JsonObject {
  const kept = (hash: string) => kept_values.get(keyOf(holder, hash))?.value as Json;
  const { own, shared } = (manifest ?? kept(manifest_hash ?? "")) as {
    readonly own: JsonObject;
    readonly shared: Readonly<Record<string, string>>;
  };
  const names = Object.entries(shared);
  if (names.length === 0) return own;
  return { ...own, ...Object.fromEntries(names.map(([name, hash]) => [name, kept(hash)])) };
}

type AuditRow = Row<"audit_event">;

const member = ({ metadata }: AuditRow, name: string) => (metadata as JsonObject | undefined)?.[name];
const isForward = (row: AuditRow) => member(row, "phase") !== "compensation";

export function stepEntries({ run_events, kept_entries }: Tables, { id }: RunIdentity): StepEntries {
  const log = run_events.of(id);
  const moved = log.findLastIndex((row) => row.event_type === "log" && member(row, "kind") === "migrate");
  const isEntry = (row: AuditRow, nth: number) => row.event_type === "step.started" && isForward(row) && nth > moved;
  const last = log.findLastIndex(isEntry);
  const isDone = ({ event_type }: AuditRow) => event_type === "step.succeeded" || event_type === "step.skipped";
  const after = last < 0 ? [] : log.slice(last + 1).filter((row) => row.step_id === log[last]?.step_id);
  return {
    steps: log.filter(isEntry).map(({ step_id = "" }) => step_id),
    whole: moved < 0,
    corrected: log.some((row) => member(row, "kind") === "retry_step" && member(row, "variables") !== undefined),
    lastIsDone: after.some((row) => isDone(row) && isForward(row)),
    kept: moved < 0 ? kept_entries.of(id).map(({ entry, step_id }) => ({ entry, step: step_id })) : [],
  };
}

export function inheritanceOf(
  tables: Tables,
  { id }: RunIdentity,
  { before, undoing }: Extract<Need, { kind: "inheritance" }>,
): Inheritance {
  const heir = tables.forks.of(id).find(({ inherits }) => inherits)?.fork_id;
  const earlier = tables.undo.of(id).filter(({ entry }) => entry < before);
  const lost = earlier.filter(
    ({ state, ordinal }) => state === "done" || state === "failed" || String(ordinal) === undoing,
  );
  const review = earlier.filter(
    ({ action, state }) => action === undefined && (state === "owed" || state === "passed"),
  );
  const kept = tables.kept_entries.get(keyOf(id, before));
  const { labels, given } = (tables.run_starts.get(id)?.identity ?? {}) as Partial<StoredIdentity>;
  return {
    owed: earlier.filter(({ action, state }) => action !== undefined && state === "owed").length,
    review: [...new Set(review.map(({ step_id }) => step_id))].sort(),
    undone: lost.map(({ step_id: step, entry, state }) => ({
      ...{ step, entry },
      state: state === "owed" ? "undoing" : (state as "done" | "failed"),
    })),
    ...(heir !== undefined && { heir: asRunId(heir) }),
    ...(kept && { variables: keptVariables(tables, { ...kept, holder: id }) }),
    ...(labels && { labels }),
    ...(given && { given }),
  };
}
