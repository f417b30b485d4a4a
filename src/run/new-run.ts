// What the rows of a new run are made of, whether a client starts it (starter.ts) or its parent creates it, which machines/ decides; and how the
// rows of its first steps join those of its start.
import {
  auditRow,
  type FencedChild,
  type JsonObject,
  newRun,
  newRunRow,
  type Program,
  type Row,
  type Rows,
  type RunContext,
  type RunId,
  type RunIdentity,
} from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { RunCommit } from "../store/engine/commit/run-commit.js";
import type { CommittedEvent } from "./ports.js";
import { STEPPING_GRACE_MS, wakeTime } from "./run-rows.js";

/** The event of a run that its parent, not a client, has created. */
export function createdByParent(identity: RunIdentity): CommittedEvent {
  return startedEvent(identity, "coordinator");
}

/** The first audit event of every run. `startup`: where its startup variables come from. */
export function startedEvent(identity: RunIdentity, actor: string, startup?: JsonObject): CommittedEvent {
  const { id: runId, workflowId, version, entrypoint, triggerId, rerunOf, startedAt: at } = identity;
  const cause = { ...(triggerId && { trigger_id: triggerId }), ...(rerunOf && { rerun_of: rerunOf }) };
  const given = { ...cause, ...(startup && { startup_variables: startup }) };
  const metadata = { workflow_id: workflowId, version, entrypoint, ...given };
  return { runId, seq: 1, type: "saga.started", attempt: 0, from: "pending", to: "pending", actor, at, metadata };
}

export function variableRows({ run, variables }: RunContext): Row<"variable">[] {
  return Object.keys(variables).map((name) => ({ run_id: run.id, name, value: variables[name] }));
}

/** The due time of a new run's wake row: if the node dies before the run steps, the poll takes it up then. */
export function firstWake(context: RunContext): number {
  const { startedAt } = context.run;
  return wakeTime(context, startedAt) ?? startedAt + STEPPING_GRACE_MS;
}

/** A run that another run creates, in that run's commit. */
export function childRows(child: FencedChild, parent: RunId) {
  const { identity, inherited, idempotencyKey, fence } = child;
  const context = newRun(identity, {}, 0);
  const started = createdByParent(identity);
  return {
    new_run: [newRunRow(context, { requestHash: "", idempotencyKey, fence }, parent)],
    audit_event: [auditRow(identity.id, started.seq, started)],
    variable: inherited ? [] : variableRows(newRun(identity, child.variables ?? {}, child.variablesSize)),
    wake: [{ run_id: identity.id, shard: shardOf(identity.id), due_at: firstWake(context) }],
  } satisfies Rows;
}

/** A run that begins on this node: its first actor need not be loaded. */
export interface StartedRun {
  readonly context: RunContext;
  readonly program: Program;
  readonly started: CommittedEvent;
  /** The token of its row (law 1). */
  readonly fence: string;
  /** It asks for its slot with its start. */
  readonly ticket?: Row<"ticket">;
}

/** A start that is not committed yet. */
export interface Start {
  readonly commit: RunCommit;
  readonly started: CommittedEvent;
  /** What is suspected if the process dies of it: a repeat of the request has the same key. */
  readonly key: string;
}

/** The columns that the first steps of a run leave otherwise than its start made them. */
type SteppedColumn = Exclude<
  keyof Row<"run_update"> & keyof Row<"new_run">,
  "id" | "fence" | "version" | "definition_id"
>;

/**
 * The commit that creates the run as its first steps leave it. Undefined: the start has to be committed first, because only the
 * compare-and-set of a stored run decides who takes a signal or an event, and whether a run that is created under a key is told of.
 */
export function startWith({ runId, rows: start }: RunCommit, { rows: steps }: RunCommit): RunCommit | undefined {
  const { run_update: [row] = [], new_run: children = [], variable = [], ...owed } = steps;
  const [created] = start.new_run ?? [];
  const isFenced =
    steps.signal_claim ?? steps.promise ?? steps.event_claim ?? children.find(({ key }) => key !== undefined);
  if (!row || !created || isFenced) return undefined;
  const { state, step, last_seq, last_event_at, terminal_at, review, awaited_signal, paused_reason } = row;
  const { record, call, frames, items, output } = row;
  const begun = {
    ...{ state, step, last_seq, last_event_at, terminal_at, review, awaited_signal, paused_reason },
    ...{ record, call, frames, items, output },
  } satisfies Record<SteppedColumn, unknown>;
  const changed = new Set(variable.filter(({ run_id }) => run_id === runId).map(({ name }) => name));
  const rows = {
    ...start,
    ...owed,
    new_run: [{ ...created, ...begun }, ...children],
    audit_event: [...(start.audit_event ?? []), ...(steps.audit_event ?? [])],
    variable: [...(start.variable ?? []).filter(({ name }) => !changed.has(name)), ...variable],
    outgoing_event: [...(start.outgoing_event ?? []), ...(steps.outgoing_event ?? [])],
    ticket: [...(start.ticket ?? []), ...(steps.ticket ?? [])],
    // The run is woken as its first steps say.
    wake: steps.wake ?? [],
  };
  return { runId, rows };
}
