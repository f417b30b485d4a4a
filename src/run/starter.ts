// The starter: the port of starts. It makes a run durable, once: a repeat of the idempotency key or of the run id gets the first run. The steps
// of the run are its resident's matter.

import type { Sql } from "postgres";
import {
  type Command,
  type CommittedEvent,
  detailOf,
  entryStep,
  type GivenAtStart,
  inboxRow,
  type JsonObject,
  newRun,
  newRunRows,
  type Program,
  type Row,
  type Rows,
  type RunCommit,
  type RunContext,
  type RunId,
  type RunIdentity,
  type Schemas,
  type SentCommand,
  type Slices,
  startedEvent,
  startKey,
  type UnitHost,
  withSecrets,
} from "../../machines/index.js";
import { type Catalog, isFor } from "../catalog/catalog.js";
import type { Clock } from "../clock.js";
import type { SlotKeeper } from "../concurrency/slot-granter.js";
import { slotForStart, turnForStart, withdrawStart } from "../concurrency/start-slot.js";
import { badRequest, conflict, notFound, overloaded, SagaError, unprocessable } from "../errors.js";
import { derivedUuid, newRunId, requestHashSlices, type ShardId } from "../ids.js";
import { isStoreAway } from "../store/engine/failure.js";
import { findStart, holderOf, isStartErased, type StartedRow } from "../store/engine/load.js";
import type { StartupVariables } from "../tenants/startup-provider.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { OutcomeUnknown, pauseBeforeReplay } from "./committer.js";
import type { Gate, LastWords } from "./judge.js";
import { type Hold, holdAfter, keyToHold } from "./key-holder.js";
import type { RunStarter, StartAnswer, StartRequest } from "./ports.js";

const START_TRIES = 5;
/** How many may wait for a slot, or for their turn, of one key, unless a setting says otherwise. */
export const STANDARD_SLOT_ROOM = 10_000;

/** A run that begins on this node: its first actor need not be loaded. */
export interface StartedRun {
  readonly context: RunContext;
  readonly program: Program;
  readonly started: CommittedEvent;
  /** The token of its row (law 1). */
  readonly fence: string;
  /** It asks for its slot with its start. */
  readonly ticket?: Row<"ticket">;
  /** It asks for its turn with its start. */
  readonly turnTicket?: Row<"turn">;
}

/** A start that is not committed yet. */
export interface Start {
  readonly commit: RunCommit;
  readonly started: CommittedEvent;
  /** What is suspected if the process dies of it: a repeat of the request has the same key. */
  readonly key: string;
}

/** The runtime's side of a start. */
export interface StartHost {
  readonly units: Pick<UnitHost, "newFence" | "outgoing">;
  /** Makes the start durable and lets the run step, unless it has to be committed `alone`. Whether it won. */
  create(run: StartedRun, start: Start, alone: boolean): Promise<boolean>;
  /** A command to another run, which the commit of a start owes. */
  hand(command: SentCommand): void;
  /** The run is stored, and the commit of its start, which may have taken its first steps, was not answered. */
  resume(runId: RunId): void;
}

export interface StarterOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly catalog: Pick<Catalog, "published" | "stored">;
  readonly schemas: Pick<Schemas, "conforms" | "isAtHand" | "readSlices">;
  /** The variables that the configuration gives to runs of this tenant. Throws SagaError 503 if they cannot be had. */
  readonly startupVariables?: (request: StartRequest) => Promise<StartupVariables>;
  /** A start of the same request as one that a node has died of is tried first. Absent: none is. */
  readonly gate?: Pick<Gate, "isSuspect" | "start">;
  /** Absent: the tickets of starts wait for a granter's poll. */
  readonly slots?: SlotKeeper;
  /** How many may wait for a slot of one key. */
  readonly slotRoom?: number;
  /** Absent: the turns of starts wait for a granter's poll. */
  readonly turns?: SlotKeeper;
  /** How many may wait for their turn of one key. */
  readonly turnRoom?: number;
  /** False: a trial, which writes nothing. */
  readonly reserves?: boolean;
  /** The shard of a run whose id the client leaves to the service. Absent, or undefined: any. */
  readonly newShard?: () => ShardId | undefined;
  readonly runtime: StartHost;
  readonly lastWords?: LastWords;
  /** The scheduler of the event loop. What is done to a large start is done in pieces. */
  readonly scheduler: Pick<FairScheduler, "compute" | "computeSlices">;
}

export class Starter implements RunStarter {
  constructor(private readonly options: StarterOptions) {}

  async start(request: StartRequest, signal?: (runId: RunId) => Command<"signal">): Promise<StartAnswer> {
    const hash = await this.options.scheduler.computeSlices(request.workflowId, hashOf(request));
    const key = derivedUuid(`start:${hash}`);
    const isSuspect = this.options.gate?.isSuspect(key) ?? false;
    if (isSuspect) await this.options.gate?.start(request, key);
    const runId = request.runId ?? newRunId(this.options.newShard?.());
    const given = { hash, key, isSuspect, runId, signal: signal?.(runId) };
    const toHold = keyToHold(request);
    for (let nth = 0; nth < START_TRIES; nth++) {
      const found = toHold ? await this.holdOf(request, given, toHold, nth) : NO_HOLD;
      if ("holder" in found) return found.holder;
      const answer = await this.startAs(request, given, found.hold);
      if (answer) return answer;
      await pauseBeforeReplay(nth);
    }
    throw overloaded("other starts of the same business key were faster: send it again");
  }

  private async holdOf(
    request: StartRequest,
    { hash, runId }: Given,
    key: NonNullable<ReturnType<typeof keyToHold>>,
    nth: number,
  ): Promise<{ readonly hold: Hold } | { readonly holder: StartAnswer }> {
    const { sql, clock } = this.options;
    const found = await holderOf(sql, key);
    // A repeat is answered with its own run, and not as a conflict with it. Looked for last: the holder that was found may be that run.
    const first = await this.findFirst(request, hash, nth === 0 ? request.runId : runId);
    return first ? { holder: first } : holdAfter(found, request, { key, runId, now: clock.now() });
  }

  /** Undefined: another run holds the business key since its holder was looked for. */
  private async startAs(request: StartRequest, given: Given, hold: Hold): Promise<StartAnswer | undefined> {
    const run = await this.prepare(request, given, hold).catch(async (error: unknown) => {
      // A run that was started under this key or id stays started, even if the workflow has changed since.
      const first = error instanceof SagaError ? await this.findFirst(request, given.hash, request.runId) : undefined;
      if (!first) throw error;
      return first;
    });
    if ("runId" in run) return run;
    return this.commit(request, run, given, hold);
  }

  /** The run as it would start. Throws 404, 400 or 422 if the request does not fit the workflow. */
  private async prepare(request: StartRequest, { key, runId: id }: Given, { delayMs }: Hold): Promise<StartedRun> {
    const { workflowId, entrypoint = "", inputs } = request;
    const { program, definitionId } = await this.publishedFor(request);
    if (entryStep(program, entrypoint) === undefined)
      throw badRequest(`the workflow ${workflowId} has no entrypoint ${entrypoint}`);
    const { inputSchema } = program;
    const { schemas, scheduler } = this.options;
    if (inputSchema && !schemas.isAtHand(inputSchema))
      await scheduler.computeSlices(workflowId, schemas.readSlices(inputSchema));
    const conforms = () => (inputSchema ? schemas.conforms(inputSchema, inputs) : []);
    const problems = await this.inTurn(request, key, conforms);
    if (problems.length > 0) {
      const details = problems.map((problem) => detailOf(problem, "$.inputs"));
      throw unprocessable("the inputs do not conform to the workflow's input_schema", details);
    }
    const { variables: provided = {}, audit } = (await this.options.startupVariables?.(request)) ?? {};
    const made = {
      inputs: withSecrets(inputSchema, inputs),
      id,
      definitionId,
      startedAt: this.options.clock.now(),
      delayMs,
      startup: provided,
    };
    const identity = identityOf(request, program, made);
    const run = await this.inTurn(request, key, () => newRun(identity, together(provided, request.variables)));
    const { slot, ticket } = (program.concurrency && (await this.slotFor(run, program))) || {};
    const { turn, ticket: turnTicket } = (program.rateLimit && (await this.turnFor(run, program))) || {};
    const context = slot || turn ? { ...run, slot, turn } : run;
    const fence = this.options.runtime.units.newFence();
    return { context, program, ticket, turnTicket, started: startedEvent(identity, request.actor, audit), fence };
  }

  private inTurn<T>({ workflowId }: StartRequest, key: string, piece: () => T): Promise<T> {
    return this.options.scheduler.compute(workflowId, () => {
      this.options.lastWords?.say(key);
      return piece();
    });
  }

  private slotFor(run: RunContext, program: Program): ReturnType<typeof slotForStart> {
    const { sql, slotRoom: room = STANDARD_SLOT_ROOM, reserves = true } = this.options;
    return slotForStart(sql, run, program, { room, reserves });
  }

  private turnFor(run: RunContext, program: Program): ReturnType<typeof turnForStart> {
    const { sql, turnRoom = STANDARD_SLOT_ROOM } = this.options;
    return turnForStart(sql, run, program, turnRoom);
  }

  private async publishedFor({ workflowId, version, tenantId }: StartRequest) {
    const { catalog } = this.options;
    const found = await catalog.published(workflowId, version);
    if (found && isFor(found, tenantId)) return found;
    throw noPublishedWorkflow(workflowId, version, !found && (await catalog.stored(workflowId, version, tenantId)));
  }

  /** The run is durable, with `saga.started`, before it is announced or answered. A repeat is answered with the first run. */
  private async commit(
    request: StartRequest,
    run: StartedRun,
    { hash, key, isSuspect, signal }: Given,
    hold: Hold,
  ): Promise<StartAnswer | undefined> {
    const { id, tenantId } = run.context.run;
    const outgoing = this.options.runtime.units.outgoing?.(run.context.run, [run.started]);
    const own = await this.inTurn(request, key, () => startRows(request, run, hash, outgoing));
    const rows = hold.held || signal ? { ...own, ...owedRows(run.context.run, hold, signal) } : own;
    const commit: RunCommit = { runId: id, tenantId, rows };
    const start = { commit, started: run.started, key };
    // What has been tried of a suspect is its start alone. After an unknown outcome, too: the first steps may be stored already.
    let alone = isSuspect;
    let outcomeUnknown = false;
    for (let nth = 0; nth < START_TRIES; nth++) {
      try {
        if (await this.options.runtime.create(run, start, alone)) {
          if (run.context.slot) this.options.slots?.requested(run.context.slot);
          if (run.context.turn) this.options.turns?.requested(run.context.turn);
          if (hold.cancel) this.options.runtime.hand(hold.cancel);
          return startAnswer(run.context.run);
        }
        const first = await this.findFirst(request, hash, id).catch(async (error: unknown) => {
          if (error instanceof SagaError) await withdrawStart(this.options.sql, run.context);
          throw error;
        });
        if (first) {
          if (first.runId === id && outcomeUnknown) this.options.runtime.resume(id);
          if (first.runId !== id) await withdrawStart(this.options.sql, run.context);
          return first;
        }
        if (hold.held) {
          await withdrawStart(this.options.sql, run.context);
          return undefined;
        }
      } catch (error) {
        if (!(error instanceof OutcomeUnknown) && !isStoreAway(error)) throw error;
        outcomeUnknown = true;
        alone = true;
      }
      await pauseBeforeReplay(nth);
    }
    throw overloaded(
      "the outcome of the start is not known yet; send it again with the same idempotency key or run_id",
    );
  }

  /** The run that was started under the same key or id. Throws 409 if it was started with another body, or has been erased. */
  private async findFirst(
    request: StartRequest,
    hash: string,
    runId: RunId | undefined,
  ): Promise<StartAnswer | undefined> {
    const { idempotencyKey } = request;
    const key = idempotencyKey === undefined ? undefined : startKey(request, idempotencyKey);
    const row = runId === undefined && !key ? undefined : await findStart(this.options.sql, runId, key);
    if (!row) {
      if ((runId !== undefined || key) && (await isStartErased(this.options.sql, runId, key))) throw erased();
      return undefined;
    }
    if (row.request_hash === hash) return repeatedStart(row, row.id !== runId || request.runId !== undefined);
    throw conflict(
      idempotencyKey === undefined
        ? `the run ${row.id} exists with another body`
        : "the idempotency key was used with another body",
    );
  }
}

const NO_HOLD: { readonly hold: Hold } = { hold: {} };

/** Of a start, whatever becomes of its tries. */
interface Given {
  readonly hash: string;
  /** What is suspected if the process dies of it. */
  readonly key: string;
  readonly isSuspect: boolean;
  readonly runId: RunId;
  readonly signal?: Command<"signal">;
}

/** The answer is the same for a workflow that does not exist for who starts it. */
export function noPublishedWorkflow(workflowId: string, version: number | undefined, isDraft = false) {
  const named = `${workflowId}${version ? ` version ${version}` : ""}`;
  return notFound(`there is no published workflow ${named}${isDraft ? ": it is stored and not published" : ""}`);
}

/** Copied only where there are both: there may be many. */
function together(provided: JsonObject, given: JsonObject): JsonObject {
  return Object.keys(provided).length > 0 ? { ...provided, ...given } : given;
}

const erased = () =>
  conflict("the run that was started under this idempotency key or run_id has been erased: it is not started again");

function identityOf(
  request: StartRequest,
  program: Program,
  made: Pick<RunIdentity, "id" | "inputs" | "definitionId" | "startedAt" | "startup"> & Pick<Hold, "delayMs">,
): RunIdentity {
  const { id, inputs, definitionId, startedAt, delayMs = request.delayMs ?? 0, startup = {} } = made;
  const { timeoutMs = program.timeoutMs, rerunOf, traceparent, precedence } = request;
  // Spreads of members that may be absent are slow on Node 20, and every start has some.
  const identity: { -readonly [Member in keyof RunIdentity]: RunIdentity[Member] } = {
    id,
    workflowId: program.workflowId,
    version: program.version,
    definitionId,
    tenantId: request.tenantId,
    businessKey: request.businessKey,
    triggerId: request.triggerId,
    dryRun: request.dryRun,
    features: request.features,
    inputs,
    entrypoint: request.entrypoint ?? "",
    startedAt,
  };
  if (rerunOf) identity.rerunOf = rerunOf;
  if (traceparent !== undefined) identity.traceparent = traceparent;
  if (delayMs > 0) identity.delayedUntil = startedAt + delayMs;
  if (timeoutMs !== undefined) identity.expiresAt = startedAt + delayMs + timeoutMs;
  if (precedence) identity.precedence = precedence;
  if (Object.keys(startup).length > 0) identity.startup = startup;
  return identity;
}

/** A repeat must match every member of the request but its key, its sender and its trace. A default that is spelled out is as good as absent. */
function hashOf(request: StartRequest): Slices<string> {
  const { entrypoint, labels = {} } = request;
  // Written out: rests and spreads are slow on Node 20. A member that is not listed does not compile.
  const compared: Readonly<Record<Compared, unknown>> = {
    workflowId: request.workflowId,
    version: request.version,
    inputs: request.inputs,
    variables: request.variables,
    tenantId: request.tenantId,
    dryRun: request.dryRun,
    features: request.features,
    runId: request.runId,
    businessKey: request.businessKey,
    onConflict: request.onConflict,
    debounce: request.debounce,
    timeoutMs: request.timeoutMs,
    precedence: request.precedence,
    triggerId: request.triggerId,
    rerunOf: request.rerunOf,
    entrypoint: entrypoint === "" || entrypoint === "default" ? undefined : entrypoint,
    delayMs: request.delayMs || undefined,
    labels: Object.keys(labels).length > 0 ? labels : undefined,
  };
  return requestHashSlices(compared);
}

type Compared = Exclude<keyof StartRequest, "actor" | "idempotencyKey" | "traceparent">;

function startRows(request: StartRequest, run: StartedRun, hash: string, outgoing: Rows["outgoing_event"]): Rows {
  const { idempotencyKey, labels = {} } = request;
  const { context, started, fence, ticket, turnTicket } = run;
  const { id } = context.run;
  const mark = { requestHash: hash, idempotencyKey, labels: request.labels, given: givenBy(request, context), fence };
  return {
    ...newRunRows(context, started, mark),
    label: Object.entries(labels).map(([name, value]) => ({ run_id: id, name, value })),
    ticket: ticket && [ticket],
    turn: turnTicket && [turnTicket],
    outgoing_event: outgoing,
  };
}

/** What the start owes besides: its hold of the business key, the end of the run that has held it, and its first signal. */
function owedRows(run: RunIdentity, { held, cancel }: Hold, signal: Command<"signal"> | undefined): Rows {
  const commands = [...(cancel ? [cancel] : []), ...(signal ? [{ id: signal.id, to: run.id, command: signal }] : [])];
  const by = { run, now: run.startedAt };
  return {
    ...(held && { held_key: [{ run_id: run.id, ...held }] }),
    ...(commands.length > 0 && { inbox_row: commands.map((command) => inboxRow(by, command)) }),
  };
}

/** Characters of JSON. A run with larger variables would write, and load, them twice. */
const MOST_GIVEN = 16_384;

function givenBy({ variables, timeoutMs }: StartRequest, { variablesSize }: RunContext): GivenAtStart | undefined {
  const tooLarge = variablesSize > MOST_GIVEN;
  const given = {
    ...(tooLarge ? { tooLarge } : Object.keys(variables).length > 0 && { variables }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
  return Object.keys(given).length > 0 ? given : undefined;
}

function startAnswer({ id, workflowId, version, definitionId }: RunIdentity): StartAnswer {
  return { runId: id, workflowId, version, definitionId, state: "pending", deduplicated: false };
}

function repeatedStart(row: StartedRow, deduplicated: boolean): StartAnswer {
  const { id, workflow_id: workflowId, version, definition_id: definitionId, state } = row;
  return { runId: id, workflowId, version, definitionId, state, deduplicated };
}
