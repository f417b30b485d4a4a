// Starts a run again: a new run of the same workflow, with the inputs of the first unless others are given. The first run is only read.
import type { Sql } from "postgres";
import { inPlaceOf, isWithin, type JsonObject, type RunId } from "../../machines/index.js";
import type { Reach } from "../access/index.js";
import { conflict, notFound, SagaError } from "../errors.js";
import type { RunStarter, StartAnswer, StartRequest } from "../run/ports.js";
import { type FirstRun, firstRun } from "../store/lists/reruns.js";
import { runOwner } from "../store/lists/run-owner.js";

/** What may differ from the first run. */
export interface RerunChanges {
  readonly version?: number;
  readonly inputs?: JsonObject;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface RerunOptions {
  /** The id of the new run. A repeat with the same id and the same changes gets the first answer. */
  readonly runId: RunId;
  readonly actor: string;
  /** Whose runs the actor may start again. Others do not exist for it. */
  readonly reach: Reach;
}

export class Reruns {
  constructor(
    private readonly sql: Sql,
    private readonly starter: RunStarter,
  ) {}

  /** Throws 404 if there is no such run, 409 if it cannot be started again, and what a start throws. */
  async rerun(runId: RunId, changes: RerunChanges, options: RerunOptions): Promise<StartAnswer> {
    const { reach, ...made } = options;
    const first = await firstRun(this.sql, runId);
    if (!first || !isWithin(reach, ownerOf(first))) throw notFound(`there is no run ${runId}`);
    const refusal = refusalOf(first);
    if (refusal !== undefined) throw conflict(refusal);
    return this.start(made.runId, requestOf(first, changes, { ...made, rerunOf: runId }));
  }

  /** Only a repeat has the id of a run that exists. Of one that was erased since, the starter says so. */
  private async start(runId: RunId, request: StartRequest): Promise<StartAnswer> {
    try {
      return await this.starter.start(request);
    } catch (error) {
      const isConflict = error instanceof SagaError && error.code === "conflict";
      if (isConflict && (await runOwner(this.sql, runId))) throw conflict(OTHER_BODY);
      throw error;
    }
  }
}

const ownerOf = ({ tenantId, workflowId }: FirstRun) => ({ tenantId: tenantId ?? undefined, workflowId });

const OTHER_BODY = "the idempotency key was used with another body";

function refusalOf({ parentRunId, ended, state, identity }: FirstRun): string | undefined {
  if (parentRunId !== null) return `the run belongs to the run ${parentRunId}: only that one can be started again`;
  if (!ended) return `the run is ${state}: only a run that has ended is started again`;
  return identity.given?.tooLarge
    ? "its start gave more than 16 KiB of variables, which are not kept: start a new run"
    : undefined;
}

function requestOf(
  { workflowId, tenantId, businessKey, inputs, identity }: FirstRun,
  changes: RerunChanges,
  options: Omit<RerunOptions, "reach"> & { readonly rerunOf: RunId },
): StartRequest {
  return {
    workflowId,
    ...(changes.version !== undefined && { version: changes.version }),
    entrypoint: identity.entrypoint,
    // A client knows the secret inputs of the first run by their masks.
    inputs: changes.inputs ? (inPlaceOf(changes.inputs, inputs ?? {}) as JsonObject) : (inputs ?? {}),
    variables: identity.given?.variables ?? {},
    tenantId: tenantId ?? undefined,
    dryRun: identity.dryRun,
    features: identity.features,
    businessKey: businessKey ?? undefined,
    labels: changes.labels ?? identity.labels,
    ...(identity.precedence && { precedence: identity.precedence }),
    ...(identity.given?.timeoutMs !== undefined && { timeoutMs: identity.given.timeoutMs }),
    ...options,
  };
}
