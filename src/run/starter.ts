// The starter: makes a run durable, once. An idempotency key or a run id that was used before finds its first run again. What
// the run then does is its resident's.
import type { Sql } from "postgres";
import {
  entryStep,
  type Json,
  type JsonObject,
  newRun,
  type Program,
  type RunContext,
  type RunIdentity,
} from "../../machines/index.js";
import type { Clock } from "../clock.js";
import { badRequest, conflict, notFound, overloaded, SagaError, unprocessable } from "../errors.js";
import { shardOf, uuidv7 } from "../ids.js";
import type { RunCommit } from "../store/commit-rows.js";
import { isStoreAway } from "../store/failure.js";
import { findStart, type StartedRow } from "../store/load.js";
import { eventRow, newRunRow, STEPPING_GRACE_MS, startedEvent, startKey, variableRows, wakeTime } from "./birth.js";
import { type Committer, OutcomeUnknown } from "./committer.js";
import type { Catalog, CommittedEvent, StartAnswer, StartRequest } from "./ports.js";
import { requestHash } from "./request-hash.js";
import { backOff } from "./room.js";

const START_TRIES = 5;

export interface StarterOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly committer: Pick<Committer, "submit">;
  readonly catalog: Pick<Catalog, "published">;
  readonly schemas: { conforms(schema: JsonObject, value: Json): readonly string[] };
  /** What the configured providers give a run of this tenant to start with. */
  readonly startupVariables?: (request: StartRequest) => Promise<JsonObject>;
}

/** A run that this node has just made durable: its first actor need not be loaded. */
export interface StartedRun {
  readonly context: RunContext;
  readonly program: Program;
  readonly started: CommittedEvent;
}

export class Starter {
  constructor(
    private readonly options: StarterOptions,
    private readonly begun: (run: StartedRun) => void,
  ) {}

  async start(request: StartRequest): Promise<StartAnswer> {
    const hash = hashOf(request);
    const run = await this.newRun(request).catch(async (error: unknown) => {
      // What was started under this key or id stays started, whatever became of the workflow since.
      const first = error instanceof SagaError ? await this.first(request, hash, request.runId) : undefined;
      if (!first) throw error;
      return first;
    });
    return "runId" in run ? run : this.insert(request, run, hash);
  }

  private async newRun(request: StartRequest): Promise<StartedRun> {
    const { catalog, schemas, clock, startupVariables } = this.options;
    const { workflowId, version, entrypoint = "", inputs, tenantId } = request;
    const found = await catalog.published(workflowId, version);
    if (!found || (found.program.tenantId !== undefined && found.program.tenantId !== tenantId))
      throw notFound(`there is no published workflow ${workflowId}${version ? ` version ${version}` : ""}`);
    const { program, definitionId } = found;
    if (entryStep(program, entrypoint) === undefined)
      throw badRequest(`the workflow ${workflowId} has no entrypoint ${entrypoint}`);
    const problems = program.inputSchema ? schemas.conforms(program.inputSchema, inputs) : [];
    if (problems.length > 0) {
      const details = problems.map((message) => ({ path: "$.inputs", message }));
      throw unprocessable("the inputs do not conform to the workflow's input_schema", details);
    }
    const provided = (await startupVariables?.(request)) ?? {};
    const identity = identityOf(request, program, definitionId, clock.now());
    const context = newRun(identity, { ...provided, ...request.variables });
    return { context, program, started: startedEvent(identity, request.actor) };
  }

  /** The run is durable, with `saga.started`, before anyone hears of it; who asked for the same before gets the first one. */
  private async insert(request: StartRequest, run: StartedRun, hash: string): Promise<StartAnswer> {
    const { id } = run.context.run;
    const commit = creation(request, run, hash, this.options.clock.now());
    for (let nth = 0; nth < START_TRIES; nth++) {
      try {
        if (await this.options.committer.submit(commit)) {
          this.begun(run);
          return startAnswer(run.context.run);
        }
        const first = await this.first(request, hash, id);
        if (first) return first;
      } catch (error) {
        if (!(error instanceof OutcomeUnknown) && !isStoreAway(error)) throw error;
      }
      await backOff(nth);
    }
    throw overloaded("the outcome could not be learnt in time");
  }

  private async first(
    request: StartRequest,
    hash: string,
    runId: string | undefined,
  ): Promise<StartAnswer | undefined> {
    const key = startKey(request, request.idempotencyKey);
    const row = runId === undefined && !key ? undefined : await findStart(this.options.sql, runId, key);
    if (!row) return undefined;
    if (row.request_hash === hash) return firstAnswer(row, row.id !== runId || request.runId !== undefined);
    throw conflict(
      request.idempotencyKey === undefined
        ? `the run ${row.id} exists with another body`
        : "the idempotency key was used with another body",
    );
  }
}

function identityOf(request: StartRequest, program: Program, definitionId: string, startedAt: number): RunIdentity {
  const { delayMs = 0, timeoutMs = program.timeoutMs } = request;
  return {
    id: request.runId ?? uuidv7(),
    workflowId: program.workflowId,
    version: program.version,
    definitionId,
    tenantId: request.tenantId,
    businessKey: request.businessKey,
    dryRun: request.dryRun,
    features: request.features,
    inputs: request.inputs,
    entrypoint: request.entrypoint ?? "",
    startedAt,
    ...(delayMs > 0 && { delayedUntil: startedAt + delayMs }),
    ...(timeoutMs !== undefined && { expiresAt: startedAt + delayMs + timeoutMs }),
  };
}

/** What a repeat must match: everything that was asked for. */
function hashOf({ actor: _, idempotencyKey: __, ...body }: StartRequest): string {
  return requestHash(body);
}

function creation(
  { idempotencyKey }: StartRequest,
  { context, started }: StartedRun,
  hash: string,
  now: number,
): RunCommit {
  return {
    runId: context.run.id,
    shard: shardOf(context.run.id),
    create: newRunRow(context, { hash, idempotencyKey }),
    events: [eventRow(started)],
    variables: variableRows(context),
    wake: wakeTime(context, now) ?? now + STEPPING_GRACE_MS,
  };
}

function startAnswer({ id, workflowId, version, definitionId }: RunIdentity): StartAnswer {
  return { runId: id, workflowId, version, definitionId, state: "pending", deduplicated: false };
}

function firstAnswer(row: StartedRow, deduplicated: boolean): StartAnswer {
  const { id, workflow_id: workflowId, version, definition_id: definitionId, state } = row;
  return { runId: id, workflowId, version, definitionId, state, deduplicated };
}
