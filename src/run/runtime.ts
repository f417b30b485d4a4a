// The actor runtime of a node: delivers commands to residents, starts runs, lets effects out after their commits. It implements
// the port Runs. It does not poll (stager.ts) and does not know who owns a shard (shard/).
import { createHash } from "node:crypto";
import type { Sql } from "postgres";
import {
  type ActionFact,
  type Answer,
  decodeRun,
  type Effect,
  encodeRecord,
  entryStep,
  type Facts,
  type Json,
  type JsonObject,
  type Need,
  newRun,
  type RunCommand,
  type RunContext,
  type RunIdentity,
  type RunLimits,
  STANDARD_RUN_LIMITS,
  startActor,
  wakeAt,
} from "../../machines/index.js";
import type { Clock } from "../clock.js";
import { badRequest, conflict, notFound, overloaded, SagaError, unprocessable } from "../errors.js";
import { derivedUuid, shardOf, uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import type { RunCommit } from "../store/commit.js";
import {
  findStart,
  loadRun,
  newestOwed,
  oldestSignal,
  recordedAnswer,
  type StartedRow,
  type StoredIdentity,
} from "../store/load.js";
import { STEPPING_GRACE_MS, wakeTime } from "./batch.js";
import { type Committer, OutcomeUnknown } from "./committer.js";
import type {
  Catalog,
  CommandOptions,
  CommitListener,
  CommittedEvent,
  Dispatcher,
  Runs,
  StartAnswer,
  StartRequest,
} from "./ports.js";
import { type Loaded, Resident } from "./resident.js";
import type { RunRoom } from "./room.js";

/** Timers in memory reach this far; what is due later is the poll's. */
const TIMER_HORIZON_MS = 60_000;
const START_TRIES = 5;

export interface RuntimeOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly committer: Committer;
  readonly catalog: Catalog;
  readonly dispatcher: Dispatcher;
  readonly schemas: { conforms(schema: JsonObject, value: Json): readonly string[] };
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  /** What the configured providers give a run of this tenant to start with. */
  readonly startupVariables?: (request: StartRequest) => Promise<JsonObject>;
  readonly onCommit: CommitListener;
  readonly limits?: RunLimits;
  readonly stepsPerCommit: number;
  /** Actors of resting runs kept in memory. */
  readonly maxResidents?: number;
  /** Hints may all be lost: off, runs advance by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Runtime implements Runs, RunRoom {
  readonly committer: Committer;
  readonly metrics: Metrics;
  readonly stepsPerCommit: number;
  readonly store: RunRoom["store"];
  /** In order of their last rest: the first is let go first. */
  private readonly residents = new Map<string, Resident>();
  private readonly sql: Sql;
  private stopped = false;

  constructor(private readonly options: RuntimeOptions) {
    this.sql = options.sql;
    this.committer = options.committer;
    this.metrics = options.metrics;
    this.stepsPerCommit = options.stepsPerCommit;
    this.store = { recordedAnswer: (runId, id) => recordedAnswer(this.sql, runId, id) };
  }

  // ---- Runs: what the rooms above ask

  command(runId: string, command: RunCommand, { id, keep = false }: CommandOptions = {}): Promise<Answer> {
    return this.deliver(runId, command, { id: id ?? commandId(command), keep });
  }

  /** A durable command from another run: its inbox row is deleted in the commit that answers it. */
  deliver(
    runId: string,
    command: RunCommand,
    about: { id?: string; keep?: boolean; inboxId?: string },
  ): Promise<Answer> {
    if (this.stopped) return Promise.reject(overloaded("the node is stopping"));
    return new Promise((resolve, reject) => {
      this.resident(runId).deliver({ command, keep: false, ...about, resolve, reject });
    });
  }

  async start(request: StartRequest): Promise<StartAnswer> {
    const { options } = this;
    const found = await options.catalog.published(request.workflowId, request.version);
    if (!found || (found.program.tenantId !== undefined && found.program.tenantId !== request.tenantId))
      throw notFound(
        `there is no published workflow ${request.workflowId}${request.version ? ` version ${request.version}` : ""}`,
      );
    const { program, definitionId } = found;
    if (entryStep(program, request.entrypoint ?? "") === undefined)
      throw badRequest(`the workflow ${request.workflowId} has no entrypoint ${request.entrypoint}`);
    const problems = program.inputSchema ? options.schemas.conforms(program.inputSchema, request.inputs) : [];
    if (problems.length > 0)
      throw unprocessable(
        "the inputs do not conform to the workflow's input_schema",
        problems.map((message) => ({ path: "$.inputs", message })),
      );
    const context = await this.newContext(request, definitionId, program);
    return this.insert(request, context, program);
  }

  private async newContext(
    request: StartRequest,
    definitionId: string,
    program: Loaded["program"],
  ): Promise<RunContext> {
    const startedAt = this.now();
    const provided = (await this.options.startupVariables?.(request)) ?? {};
    const timeoutMs = request.timeoutMs ?? program.timeoutMs;
    const run: RunIdentity = {
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
      ...(request.delayMs && { delayedUntil: startedAt + request.delayMs }),
      ...(timeoutMs !== undefined && { expiresAt: startedAt + (request.delayMs ?? 0) + timeoutMs }),
    };
    return newRun(run, { ...provided, ...request.variables });
  }

  /** The run is durable, with `saga.started`, before anyone hears of it; who asked for the same before gets the first one. */
  private async insert(request: StartRequest, context: RunContext, program: Loaded["program"]): Promise<StartAnswer> {
    const { run } = context;
    const started: CommittedEvent = {
      runId: run.id,
      seq: 1,
      type: "saga.started",
      attempt: 0,
      from: "pending",
      to: "pending",
      actor: request.actor,
      at: run.startedAt,
      metadata: { workflow_id: run.workflowId, version: run.version, entrypoint: run.entrypoint },
    };
    const commit = creation(request, context, started, this.now());
    for (let nth = 0; nth < START_TRIES; nth++) {
      try {
        if (await this.committer.submit(commit)) {
          this.begun(context, program, started);
          return startAnswer(run, "pending", false);
        }
      } catch (error) {
        if (!(error instanceof OutcomeUnknown)) throw error;
        await this.pause(nth);
      }
      const first = await this.foundStart(request, run.id, commit.create?.requestHash);
      if (first) return first;
    }
    throw overloaded("the outcome could not be learnt in time");
  }

  private async foundStart(
    request: StartRequest,
    runId: string,
    hash: string | undefined,
  ): Promise<StartAnswer | undefined> {
    const row = await findStart(this.sql, runId, startKey(request)).catch(() => undefined);
    if (!row) return undefined;
    if (row.request_hash !== hash)
      throw conflict(
        request.idempotencyKey === undefined
          ? `the run ${row.id} exists with another body`
          : "the idempotency key was used with another body",
      );
    return { ...startedAnswer(row), deduplicated: row.id !== runId || request.runId !== undefined };
  }

  /** `saga.advance`, as a hint to ourselves: if it is lost, the wake row makes good for it. */
  private begun(context: RunContext, program: Loaded["program"], started: CommittedEvent): void {
    this.options.onCommit(context.run.id, [started]);
    if (this.options.hints === false || (context.run.delayedUntil ?? 0) > this.now()) return;
    if (!this.residents.has(context.run.id)) {
      const actor = startActor(program, context);
      const loaded: Loaded = { actor, program, revision: 1, lastSeq: 1, lastEventAt: started.at };
      this.residents.set(context.run.id, new Resident(context.run.id, this, loaded));
    }
    this.advance(context.run.id);
  }

  /** A hint to look at a run. */
  advance(runId: string): void {
    this.deliver(runId, { type: "advance" }, {}).catch((error) => this.stuck(runId, error));
  }

  isBusy(runId: string): boolean {
    return this.residents.get(runId)?.busy ?? false;
  }

  private resident(runId: string): Resident {
    const known = this.residents.get(runId);
    if (known) return known;
    const resident = new Resident(runId, this);
    this.residents.set(runId, resident);
    this.metrics.runsResident.set(this.residents.size);
    return resident;
  }

  /** Stops taking commands, finishes those in hand, drops the residents. Safe twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    while ([...this.residents.values()].some((resident) => resident.busy))
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (const resident of this.residents.values()) resident.discard();
    this.residents.clear();
  }

  // ---- RunRoom: what a resident finds around it

  now(): number {
    return this.options.clock.now();
  }

  facts(): Facts {
    const { catalog, schemas, licences } = this.options;
    return {
      limits: this.options.limits ?? STANDARD_RUN_LIMITS,
      now: this.now(),
      random: Math.random(),
      uuid: (runId, seed) => derivedUuid(seed, shardOf(runId)),
      action: (service, name, version): ActionFact | undefined => catalog.action(service, name, version),
      licensed: (tenantId, group) => licences.licensed(tenantId, group),
      conforms: (schema, value) => schemas.conforms(schema, value),
    };
  }

  async fetch(runId: string, need: Need): Promise<Pick<Facts, "signal" | "undo">> {
    if (need.kind === "undo") return { undo: await newestOwed(this.sql, runId) };
    return { signal: await oldestSignal(this.sql, runId, need.name) };
  }

  async load(runId: string): Promise<Loaded | undefined> {
    const found = await loadRun(this.sql, runId);
    if (!found) return undefined;
    const context = decodeRun(found.stored);
    const program = await this.options.catalog.program(context.run.definitionId);
    const { revision, lastSeq, lastEventAt } = found;
    return { actor: startActor(program, context), program, revision, lastSeq, lastEventAt };
  }

  offerFor({ wait, call, quarantined }: RunContext): ReturnType<RunRoom["offerFor"]> {
    if (wait?.kind !== "queued" || !call || quarantined) return undefined;
    const slot = this.options.dispatcher.reserve(wait.dispatchId, call);
    return slot && { type: "offer", dispatchId: wait.dispatchId, workerId: slot.workerId };
  }

  released(runId: string, events: readonly CommittedEvent[], effects: readonly Effect[]): void {
    if (events.length > 0) this.options.onCommit(runId, events);
    const sent = new Set<string>();
    for (const effect of effects) if (effect.kind === "dispatch.send") sent.add(effect.dispatch.dispatchId);
    for (const effect of effects) this.carryOut(runId, effect, sent);
  }

  private carryOut(runId: string, effect: Effect, sent: ReadonlySet<string>): void {
    const { dispatcher, hints } = this.options;
    switch (effect.kind) {
      case "dispatch.request":
        if (!sent.has(effect.dispatchId)) dispatcher.enqueue(runId, effect.dispatchId, effect.call);
        break;
      case "dispatch.send":
        dispatcher.send(effect.dispatch);
        break;
      case "dispatch.cancel":
        dispatcher.cancel(effect.dispatchId, effect.reason);
        break;
      case "dispatch.resolved":
        dispatcher.resolved(effect.dispatchId);
        break;
      case "send":
        if (hints === false) break;
        this.deliver(effect.to, effect.command, { id: effect.id, inboxId: effect.id }).catch((error) =>
          this.stuck(effect.to, error),
        );
        break;
      default:
        break; // A row of the commit itself: done.
    }
  }

  withdrawn(dispatchIds: readonly string[]): void {
    for (const dispatchId of dispatchIds) this.options.dispatcher.resolved(dispatchId);
  }

  pause(nth: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, Math.min(5 * 2 ** nth, 500) * (0.5 + Math.random() / 2)));
  }

  arm(runId: string, context: RunContext): NodeJS.Timeout | undefined {
    if (this.options.hints === false) return undefined;
    const wake = wakeAt(context);
    if (typeof wake !== "number") return undefined;
    const ahead = wake - this.now();
    return ahead > TIMER_HORIZON_MS ? undefined : setTimeout(() => this.advance(runId), Math.max(1, ahead + 1)).unref();
  }

  rested(resident: Resident): void {
    this.residents.delete(resident.runId);
    this.residents.set(resident.runId, resident);
    if (this.residents.size <= (this.options.maxResidents ?? 10_000)) return;
    for (const oldest of this.residents.values()) {
      if (oldest.busy) continue;
      oldest.discard();
      return this.leave(oldest);
    }
  }

  leave(resident: Resident): void {
    if (this.residents.get(resident.runId) === resident) this.residents.delete(resident.runId);
    this.metrics.runsResident.set(this.residents.size);
  }

  stuck(runId: string, error: unknown): void {
    if (error instanceof SagaError && (error.status === 404 || error.status === 503)) return;
    this.options.log.error({ err: error, runId }, "a run could not be advanced; its wake row brings it back");
  }
}

/** Commands whose repetition must be recognised have an id; hints and offers are recognised by the run's state. */
function commandId({ type }: RunCommand): string | undefined {
  return type === "signal" || type === "cancel" || type === "result" || type === "failure" ? uuidv7() : undefined;
}

function startKey({ tenantId, workflowId, idempotencyKey }: StartRequest): { scope: string; key: string } | undefined {
  return idempotencyKey === undefined ? undefined : { scope: `${tenantId ?? ""}/${workflowId}`, key: idempotencyKey };
}

/** What a repeat must match: everything that was asked for. */
function requestHash({ actor: _, idempotencyKey: __, ...body }: StartRequest): string {
  return createHash("sha256").update(canonical(body)).digest("base64url");
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member,
  );
}

function creation(request: StartRequest, context: RunContext, started: CommittedEvent, now: number): RunCommit {
  const { run, variables } = context;
  const { entrypoint, features, dryRun, delayedUntil, expiresAt } = run;
  const identity: StoredIdentity = {
    entrypoint,
    features,
    dryRun,
    delayedUntil,
    expiresAt,
    idempotencyKey: request.idempotencyKey,
  };
  return {
    runId: run.id,
    shard: shardOf(run.id),
    create: {
      ...run,
      record: JSON.stringify(encodeRecord(context)),
      inputs: JSON.stringify(run.inputs),
      identity: JSON.stringify(identity),
      requestHash: requestHash(request),
      key: startKey(request),
    },
    events: [{ ...started, metadata: JSON.stringify(started.metadata) }],
    variables: new Map(Object.entries(variables).map(([name, value]) => [name, JSON.stringify(value)])),
    wake: wakeTime(context, now) ?? now + STEPPING_GRACE_MS,
  };
}

function startAnswer(run: RunIdentity, state: string, deduplicated: boolean): StartAnswer {
  const { id, workflowId, version, definitionId } = run;
  return { runId: id, workflowId, version, definitionId, state, deduplicated };
}

function startedAnswer(row: StartedRow): StartAnswer {
  const { id, workflow_id: workflowId, version, definition_id: definitionId, state } = row;
  return { runId: id, workflowId, version, definitionId, state, deduplicated: true };
}
