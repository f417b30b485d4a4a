// A run as one row with everything that clients see: its hot row, its start, and its variables.
import { and, eq, isNotNull, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/pg-core";
import type { Sql } from "postgres";
import {
  type ActionCall,
  awaitedSignal,
  isTerminal,
  type JsonObject,
  pausedReason,
  RECORD_FORMATS,
  type RunContext,
} from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { keptScopes, runStarts, runs, runVariables } from "../schema.js";

/** A branch or an item has the inputs of the run that it is a part of. */
const familyStarts = alias(runStarts, "family_starts");

/** Rows of `runs`, to be narrowed down. */
export const pickedRuns = (database: Sql) => query(database).select().from(runs).$dynamic();

type Called = Pick<ActionCall, "service" | "action" | "version" | "transport">;

/** A run with its inputs and variables. */
export type RunViewRow = Awaited<ReturnType<typeof wholeRuns>>[number];

/** The picked runs with their starts and variables. They are picked before anything wide is read, so that rows under an offset cost nothing. */
export function wholeRuns(database: Sql, picked: ReturnType<typeof pickedRuns>) {
  const r = picked.as("r");
  const ofFamily = and(
    isNotNull(r.familyRunId),
    eq(keptScopes.runId, r.parentRunId),
    eq(keptScopes.entry, r.parentEntry),
  );
  const { name, value } = runVariables;
  const named = sql<JsonObject | null>`json_object_agg(${name}, ${value} order by ${name} collate "C")`;
  const own = query(database)
    .select({
      variables: sql<JsonObject | null>`${named} filter (where ${value} is not null)`.as("own_variables"),
      gone: sql<readonly string[] | null>`array_agg(${name}) filter (where ${value} is null)`.as("gone"),
    })
    .from(runVariables)
    .where(eq(runVariables.runId, r.id))
    .as("own");
  return query(database)
    .select({
      ...{ id: r.id, workflowId: r.workflowId, version: r.version, definitionId: r.definitionId, tenantId: r.tenantId },
      ...{ state: r.state, currentStep: r.currentStep, pausedReason: r.pausedReason, awaitedSignal: r.awaitedSignal },
      ...{ startedAt: r.startedAt, lastEventAt: r.lastEventAt, terminalAt: r.terminalAt, lastSeq: r.lastSeq },
      ...{ requiresManualReview: r.requiresManualReview, triggerId: r.triggerId, businessKey: r.businessKey },
      ...{ parentRunId: r.parentRunId, parentStepId: r.parentStepId, parentBranchId: r.parentBranchId },
      ...{ rootRunId: r.rootRunId, record: r.record, output: r.output, frames: r.frames },
      /** The action that waits for a worker. Only then is the call read: it may be large. */
      called: sql<Called | null>`(
        select json_build_object('service', c.service, 'action', c.action, 'version', c.version, 'transport', c.transport)
        from json_to_record(${r.call}) as c(service text, action text, version int, transport text)
        where ${r.record}->'wait'->>'kind' = 'queued')`.as("called"),
      identity: runStarts.identity,
      inputs: sql<JsonObject | null>`coalesce(${runStarts.inputs}, ${familyStarts.inputs})`.as("inputs"),
      inherited: sql<JsonObject | null>`case when ${keptScopes.holder} is not null
        then kept_variables(${keptScopes.holder}, ${keptScopes.manifest}, ${keptScopes.manifestHash}) end`.as(
        "inherited",
      ),
      variables: own.variables,
      gone: own.gone,
    })
    .from(r)
    .leftJoin(runStarts, eq(runStarts.runId, r.id))
    .leftJoin(familyStarts, eq(familyStarts.runId, r.familyRunId))
    .leftJoin(keptScopes, ofFamily)
    .leftJoinLateral(own, sql`true`);
}

export type Labels = Readonly<Record<string, string>>;

/** What of a run's row is not in its context. Times are epoch ms. */
export interface CommittedAt {
  readonly lastSeq: number;
  readonly lastEventAt: number;
  readonly labels?: Labels;
}

/**
 * The row of a run as `wholeRuns` reads it, made from the context of its last commit. A branch or an item has its own inputs and all of its
 * variables there, and inherits none.
 */
export function committedRow(context: RunContext, { lastSeq, lastEventAt, labels }: CommittedAt): RunViewRow {
  const { run, state, wait, call, frames, variables, output } = context;
  const { features, dryRun, delayedUntil, rerunOf, forkedFrom, precedence } = run;
  const names = Object.keys(variables).sort();
  return {
    id: run.id,
    workflowId: run.workflowId,
    version: run.version,
    definitionId: run.definitionId,
    tenantId: run.tenantId ?? null,
    state,
    currentStep: context.step ?? null,
    pausedReason: pausedReason(context) ?? null,
    awaitedSignal: awaitedSignal(wait) ?? null,
    startedAt: new Date(run.startedAt),
    lastEventAt: new Date(lastEventAt),
    terminalAt: isTerminal(state) ? new Date(lastEventAt) : null,
    lastSeq,
    requiresManualReview: context.requiresManualReview,
    triggerId: run.triggerId ?? null,
    businessKey: run.businessKey ?? null,
    parentRunId: run.parentRunId ?? null,
    parentStepId: run.parentStepId ?? null,
    parentBranchId: run.parentBranchId ?? null,
    rootRunId: run.rootRunId ?? null,
    record: RECORD_FORMATS.encode(context, RECORD_FORMATS.writes),
    output: output ?? null,
    frames: frames as unknown as JsonObject[],
    called: wait?.kind === "queued" ? (call ?? null) : null,
    identity: { features, dryRun, delayedUntil, rerunOf, forkedFrom, labels, precedence } as unknown as JsonObject,
    inputs: run.inputs,
    inherited: null,
    variables: Object.fromEntries(names.map((name) => [name, variables[name] ?? null])),
    gone: null,
  };
}
