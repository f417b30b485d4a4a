// One act of a bulk job on one of its targets: the command, or the start, whose id follows from both. A node that repeats it gets the
// recorded answer.
import type { Sql } from "postgres";
import { asRunId, firstCharacters, type JsonObject, type RunCommand, type RunId } from "../../machines/index.js";
import { type Reach, reachOfPlain, type SecurityLog } from "../access/index.js";
import { SagaError } from "../errors.js";
import { derivedUuid, shardOf } from "../ids.js";
import type { Runs } from "../run/ports.js";
import type { Outcome, RunningJob } from "../store/lists/bulk-jobs.js";
import type { Erasure } from "../store/upkeep/erasure.js";
import { commandOf, isOperatorAct, isUnchanged, refusalIn } from "./acts.js";
import type { RerunChanges, Reruns } from "./rerun.js";

const MAX_MESSAGE = 1_000;

export interface TargetActOptions {
  readonly sql: Sql;
  readonly runs: Runs;
  readonly reruns: Pick<Reruns, "rerun">;
  readonly erasure: Pick<Erasure, "erase">;
  /** Absent: there is no access control. */
  readonly security?: Pick<SecurityLog, "jobDid">;
}

type Job = Pick<RunningJob, "id" | "action" | "params" | "actor" | "reach">;

/** The id of the command to a target. A storage format: it must never change. */
export function targetCommandId(jobId: string, runId: RunId): string {
  return derivedUuid(`bulk/${jobId}/${runId}`, shardOf(runId));
}

/** The id of the run that a job starts again from a target. A storage format: it must never change. */
export function targetRunId(jobId: string, runId: RunId): RunId {
  return asRunId(derivedUuid(`bulk-rerun/${jobId}/${runId}`));
}

/** Throws what may pass: the outcome is not known, load is shed, the store is away. */
export async function actOn(options: TargetActOptions, job: Job, runId: RunId): Promise<Outcome> {
  try {
    return await outcomeOf(options, job, runId);
  } catch (error) {
    if (!(error instanceof SagaError) || error.status >= 500) throw error;
    const details = (error.details ?? []).map(({ path, message }) => `${path} ${message}`);
    return refusedFor([error.message, ...details].join("; "));
  }
}

const refusedFor = (reason: string): Outcome => ({ message: firstCharacters(reason, MAX_MESSAGE) });

async function outcomeOf(options: TargetActOptions, job: Job, runId: RunId): Promise<Outcome> {
  const { sql, runs, reruns } = options;
  const { actor } = job;
  const reach = reachOfPlain(job.reach);
  if (job.action === "rerun") {
    await reruns.rerun(runId, job.params as RerunChanges, { runId: targetRunId(job.id, runId), actor, reach });
    return {};
  }
  if (job.action === "erase") return eraseFor(options, job, runId);
  const id = targetCommandId(job.id, runId);
  const command = await commandFor(job, runId, { sql, id, reach });
  const answer = await runs.command(runId, command, { id, reach });
  const refusal = refusalIn(answer, command);
  return refusal === undefined ? { unchanged: isUnchanged(answer) } : refusedFor(refusal);
}

async function eraseFor({ erasure, security }: TargetActOptions, job: Job, runId: RunId): Promise<Outcome> {
  const { id: bulkId, actor } = job;
  const onGone = () => security?.jobDid("run erased", actor, { run_id: runId, bulk: bulkId });
  const erased = await erasure.erase(runId, { actor, reach: reachOfPlain(job.reach), bulkId, onGone });
  return erased.bulkId === bulkId ? {} : refusedFor("the run had been erased before");
}

interface SignalParams {
  readonly signal_name: string;
  readonly payload?: JsonObject;
}
interface CancelParams {
  readonly reason?: string;
  readonly compensate?: boolean;
}

async function commandFor(
  { action, params, actor }: Job,
  runId: RunId,
  { sql, id, reach }: { readonly sql: Sql; readonly id: string; readonly reach: Reach },
): Promise<RunCommand> {
  if (isOperatorAct(action)) return commandOf(action, { runId, body: params, sql, actor, reach });
  if (action === "signal") {
    const { signal_name: name, payload = {} } = params as unknown as SignalParams;
    return { type: "signal", id, name, payload, actor };
  }
  if (action === "cancel") {
    const { reason, compensate = true } = params as CancelParams;
    return { type: "cancel", ...(reason && { reason }), compensate, actor };
  }
  if (action === "release") return { type: "release", actor };
  throw new Error(`the job asks for ${action}, which this release does not know`);
}
