// The facts that decisions ask a store for, read from the tables of the memory store: the same reads as src/store/engine has in SQL (family.ts,
// event-scan.ts, load.ts). What is published and registered is not in the store of runs: those facts are the caller's.

import type { EndedChild, Fetched, Need, RecordedSignal } from "../messages/fact.js";
import type { EventConditions, PublishedEvent } from "../messages/owed.js";
import type { RunContext } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { RunIdentity } from "../state/identity.js";
import type { UndoEntry } from "../state/rollback.js";
import { asRunId, type RunId } from "../values/ids.js";
import { type Json, type JsonObject, measure } from "../values/json.js";
import { MAX_KEPT_SIGNALS, type RunLimits } from "../values/limits.js";
import { revealed } from "../values/secret.js";
import { type StoredIdentity, startKey } from "../writes/run-row.js";
import { inheritanceOf, stepEntries } from "./kept.js";
import {
  type EventRow,
  isWaitingFor,
  keyOf,
  type RunRow,
  type SignalRow,
  type Tables,
  type UndoRow,
} from "./tables.js";

/** The needs that a store of runs answers. */
export type StoreNeed = Exclude<Need, { kind: "workflow" | "version" | "output_schema" | "schema" }>;

export interface ReadOptions {
  readonly limits: Pick<RunLimits, "output">;
  /** The most events of a page. */
  readonly page: number;
}

/** A character of an output takes at most this many bytes in Postgres, which counts bytes. */
const BYTES_PER_CHARACTER = 6;

export function readFact(tables: Tables, run: RunIdentity, need: StoreNeed, options: ReadOptions): Fetched {
  switch (need.kind) {
    case "signal":
      return { signal: signalFor(tables, run, need.name) };
    case "events":
      return { events: eventsFor(tables, run, need, options.page) };
    case "moment":
      return { moment: String(tables.events.size) };
    case "undo": {
      const { since } = need;
      const newest = owedUndos(tables, run.id, since).at(-1);
      return { undo: { since, newest: newest ? undoEntry(newest) : null } };
    }
    case "ended":
      return { ended: endedChildren(tables, run.id, need, options.limits.output * BYTES_PER_CHARACTER) };
    case "living":
      return { living: livingChildren(tables, run.id, need.from) };
    case "target": {
      const target = tables.runs.get(need.runId);
      return { target: target && target.tenant_id === run.tenantId ? { id: need.runId } : null };
    }
    case "waiter":
      return { waiter: waitersFor(tables, run, need.name)[freeSignals(tables, run.id, need.name).length] ?? null };
    case "unmatched": {
      const signals = freeSignals(tables, run.id, need.name);
      const pairs = waitersFor(tables, run, need.name).slice(0, signals.length);
      return { unmatched: pairs.map(({ id: waiter }, nth) => ({ signalId: signals[nth]?.id ?? "", waiter })) };
    }
    case "kept_signals": {
      const kept = tables.signals.of(run.id).filter(({ consumed_at }) => consumed_at === undefined);
      return { keptSignals: Math.min(kept.length, MAX_KEPT_SIGNALS) };
    }
    case "startup":
      return { startup: (identityOf(tables, need.runId).startup as JsonObject | undefined) ?? {} };
    case "entries":
      return { entries: stepEntries(tables, run) };
    case "inheritance":
      return { inheritance: inheritanceOf(tables, run, need) };
    case "keyed_run": {
      const { scope, key } = startKey({ tenantId: run.tenantId, workflowId: need.workflowId }, need.key);
      const found = tables.start_keys.get(keyOf(scope, key));
      return { keyedRun: found ? { id: asRunId(found.run_id), erased: false } : null };
    }
  }
}

function identityOf({ run_starts }: Tables, runId: string): Partial<StoredIdentity> {
  return (run_starts.get(runId)?.identity ?? {}) as Partial<StoredIdentity>;
}

// ---- Children

function endedChildren(
  { runs }: Tables,
  runId: RunId,
  { entry, child }: Extract<Need, { kind: "ended" }>,
  most: number,
): readonly EndedChild[] | null {
  const ended = runs
    .of(runId)
    .filter(
      ({ id, parent_entry, terminal_at }) =>
        terminal_at !== undefined && parent_entry === entry && (child ?? id) === id,
    );
  const size = ended.reduce((sum, { output = null }) => sum + Number(measure(output)), 0);
  return size > most ? null : ended.sort(byBranch).map(endedChild);
}

/** Items are named by their index: a shorter name is a lower number. */
function byBranch({ parent_branch_id: a = "" }: RunRow, { parent_branch_id: b = "" }: RunRow): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

function endedChild({ parent_branch_id: branch = "", state, output, record }: RunRow): EndedChild {
  const { ending } = record as { readonly ending?: RunContext["ending"] };
  const error: StepError = ending?.error ?? { code: "cancelled", message: ending?.reason ?? "cancelled" };
  const end = { branch, state: state as EndedChild["state"], output: (output as Json | undefined) ?? null };
  return state === "succeeded" ? end : { ...end, error };
}

function livingChildren({ runs }: Tables, runId: RunId, from: number): readonly RunId[] {
  const living = runs.of(runId).filter((run) => run.terminal_at === undefined && (run.parent_entry ?? -1) >= from);
  return living.map(({ id }) => id).sort();
}

// ---- Signals

/** The signal that the run was promised, or the oldest one of its own and of the runs that it is a part of that is free. */
function signalFor(tables: Tables, { id, family = [] }: RunIdentity, wanted: string): RecordedSignal | null {
  const seen = [id, ...family]
    .flatMap((runId) => tables.signals.of(runId))
    .filter(({ name, consumed_at }) => name === wanted && consumed_at === undefined)
    .sort((left, right) => left.ordinal - right.ordinal);
  const promised = seen.find(({ promised_to }) => promised_to === id);
  const found = promised ?? seen.find((signal) => isFree(tables, signal));
  if (!found) return null;
  const { id: signalId, run_id, payload } = found;
  return { id: signalId, runId: asRunId(run_id), payload: payload as Json, promised: promised !== undefined };
}

/** Neither consumed nor promised. The promise to a run that has ended is void. */
export function isFree({ runs }: Tables, { consumed_at, promised_to }: SignalRow): boolean {
  if (consumed_at !== undefined) return false;
  const waiter = promised_to === undefined ? undefined : runs.get(promised_to);
  return waiter === undefined || waiter.terminal_at !== undefined;
}

function freeSignals(tables: Tables, runId: RunId, wanted: string): readonly SignalRow[] {
  return tables.signals.of(runId).filter((signal) => signal.name === wanted && isFree(tables, signal));
}

/**
 * The run's branches and items, at any depth, that wait for the signal and have been promised none, those that have waited longest first. Not
 * those that a cancel is on its way to, or that are part of such a run.
 */
function waitersFor(tables: Tables, { id }: RunIdentity, name: string): readonly { readonly id: RunId }[] {
  const told = new Set<string>();
  for (const { run_id, command } of tables.inbox)
    if ((command as { readonly type: string }).type === "cancel") told.add(run_id);
  const waiting = [...tables.runs].filter((run) => {
    if (!isWaitingFor(run, name)) return false;
    const { family = [] } = identityOf(tables, run.id);
    return family.includes(id) && ![run.id, ...family].some((above) => told.has(above));
  });
  waiting.sort((left, right) => left.last_event_at - right.last_event_at || (left.id < right.id ? -1 : 1));
  return waiting.map(({ id: waiter }) => ({ id: waiter }));
}

// ---- Undos

/** Entries without an action are passed, not undone. */
function owedUndos({ undo }: Tables, owner: RunId, since: number): readonly UndoRow[] {
  const owed = undo
    .of(owner)
    .filter(({ state, action, entry }) => state === "owed" && action !== undefined && entry > since);
  return owed.sort((left, right) => left.ordinal - right.ordinal);
}

export function undoEntry(row: UndoRow): UndoEntry {
  const { ordinal, step_id, entry, action, inputs, forward_key, forward_trace, child_run_id } = row;
  return {
    ordinal: String(ordinal),
    ...{ stepId: step_id, entry, action, inputs: inputs as JsonObject | undefined },
    ...{ forwardIdempotencyKey: forward_key, forwardTrace: forward_trace },
    childRunId: child_run_id === undefined ? undefined : asRunId(child_run_id),
  };
}

// ---- Events

function eventsFor(
  { events, event_takes, runs }: Tables,
  { id, family, tenantId, startedAt }: RunIdentity,
  { topic, headers, since, after, named }: Extract<Need, { kind: "events" }>,
  most: number,
): Fetched["events"] {
  const begun = since === undefined ? (runs.get(family?.at(-1) ?? id)?.started_at ?? startedAt) : 0;
  const isLater = ({ ordinal, published_at }: EventRow) =>
    since === undefined ? published_at >= begun : ordinal > Number(since);
  const may = [...events].filter(
    (event) =>
      event.topic === topic &&
      bears(event, headers) &&
      isLater(event) &&
      (event.tenant_id === undefined || event.tenant_id === tenantId) &&
      !event_takes.has(keyOf(id, event.id)),
  );
  const above = may.filter(({ ordinal }) => ordinal > Number(after ?? since ?? 0));
  const listed = new Set(above.slice(0, most));
  const page = may.filter((event) => event.id === named || listed.has(event));
  return { page: page.map(eventFact), more: above.length > most };
}

function eventFact({ id, ordinal, topic, headers, payload }: EventRow) {
  const published = { topic, headers: headers as PublishedEvent["headers"], payload: payload as Json };
  return { id, ordinal: String(ordinal), ...published };
}

/** The runs that wait for the event, in the order of their ids: src/store/engine/correlation.ts. */
export function correlatedRuns({ event_waits, runs }: Tables, event: EventRow): readonly RunId[] {
  const plain = { headers: event.headers, payload: revealed(event.payload as Json) };
  const waiting = [...event_waits].filter(
    ({ run_id, topic, headers, conditions }) =>
      topic === event.topic &&
      bears(event, headers as PublishedEvent["headers"]) &&
      meets(plain, conditions as EventConditions | undefined) &&
      (event.tenant_id === undefined || runs.get(run_id)?.tenant_id === event.tenant_id),
  );
  return waiting.map(({ run_id }) => asRunId(run_id)).sort();
}

function bears({ headers }: Pick<EventRow, "headers">, wanted: PublishedEvent["headers"]): boolean {
  const given = headers as PublishedEvent["headers"];
  return Object.entries(wanted).every(([name, value]) => given[name] === value);
}

/** The store compares as JSON the value at a path; where there is none, it finds null. */
export function meets(
  event: { readonly headers: unknown; readonly payload: unknown },
  conditions: EventConditions | undefined,
): boolean {
  const at = (path: string) =>
    (JSON.parse(path) as string[]).reduce<unknown>((value, name) => memberOf(value, name), event) ?? null;
  return Object.entries(conditions?.equal ?? {}).every(([path, value]) => at(path) === value);
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
