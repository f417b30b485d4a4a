// The actor runtime of a node: delivers commands to residents and lets effects out after their commits. It implements the port
// Runs. It does not start runs (starter.ts), does not poll (stager.ts) and does not know who owns a shard (shard/).
import type { Sql } from "postgres";
import {
  type ActionFact,
  type Answer,
  decodeRun,
  type Effect,
  type Fetched,
  type Need,
  type NewChild,
  newRun,
  type RunCommand,
  type RunContext,
  type RunIdentity,
  type RunLimits,
  STANDARD_RUN_LIMITS,
  startActor,
  wakeAt,
} from "../../machines/index.js";
import { overloaded, SagaError } from "../errors.js";
import { derivedUuid, shardOf, uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import { loadRun, repeatedAnswer } from "../store/load.js";
import { startedEvent } from "./birth.js";
import type { Committer } from "./committer.js";
import type {
  Catalog,
  CommandOptions,
  CommitListener,
  CommittedEvent,
  Couriers,
  Dispatcher,
  EventAnnouncer,
  Runs,
  StartAnswer,
  StartRequest,
} from "./ports.js";
import { Reader } from "./reader.js";
import { type Loaded, Resident } from "./resident.js";
import { Residents, type ResidentsOptions } from "./residents.js";
import type { RoomFacts, RunRoom } from "./room.js";
import { type StartedRun, Starter, type StarterOptions } from "./starter.js";

/** Timers in memory reach this far; what is due later is the poll's. */
const TIMER_HORIZON_MS = 60_000;

/** What a runtime must know of other nodes: what it does for their runs it leaves to them to go on with. */
export interface Neighbours {
  isMine(runId: string): boolean;
  /** `saga.advance` to the owner. A hint. */
  advance(runId: string): void;
  /** Dispatches are the owner's: what was committed here for its run is told to it. A hint; the outbox is the truth. */
  tell(runId: string, effects: readonly Effect[]): void;
}

export interface RuntimeOptions extends StarterOptions {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly committer: Committer;
  readonly catalog: Catalog;
  readonly dispatcher: Dispatcher;
  /** Absent, or without one for a kind: what is posted waits in its row. */
  readonly couriers?: Couriers;
  /** Absent: events wait for an announcer's poll. */
  readonly announcer?: EventAnnouncer;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  readonly onCommit: CommitListener;
  readonly limits?: RunLimits;
  readonly stepsPerCommit: number;
  /** Who else there is; absent: this node owns every run. */
  readonly neighbours?: Neighbours;
  /** Whether a node died a moment ago. */
  readonly careful?: () => boolean;
  /** How many runs stay in memory. */
  readonly residents?: ResidentsOptions;
  /** Hints may all be lost: off, runs advance by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Runtime implements Runs, RunRoom {
  readonly committer: Committer;
  readonly metrics: Metrics;
  readonly stepsPerCommit: number;
  readonly store: RunRoom["store"];
  readonly residents: Residents;
  private readonly sql: Sql;
  private readonly starter: Starter;
  private readonly reader: Reader;
  private stopped = false;

  constructor(private readonly options: RuntimeOptions) {
    this.sql = options.sql;
    this.residents = new Residents(options.residents);
    this.committer = options.committer;
    this.metrics = options.metrics;
    this.stepsPerCommit = options.stepsPerCommit;
    this.starter = new Starter(options, (started) => this.begun(started));
    this.reader = new Reader(options.sql, options.catalog, options.limits ?? STANDARD_RUN_LIMITS);
    this.store = { repeatedAnswer: (runId, id) => repeatedAnswer(this.sql, runId, id) };
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
      this.residents
        .rouse(runId, () => new Resident(runId, this))
        .deliver({ command, keep: false, ...about, resolve, reject });
    });
  }

  start(request: StartRequest): Promise<StartAnswer> {
    return this.starter.start(request);
  }

  /** `saga.advance`, as a hint to ourselves: if it is lost, the wake row makes good for it. */
  private begun({ context, program, started }: StartedRun, complete = true): void {
    this.options.onCommit(context.run.id, [started]);
    if (this.options.hints === false || (context.run.delayedUntil ?? 0) > this.now()) return;
    if (!this.isMine(context.run.id)) return this.options.neighbours?.advance(context.run.id);
    if (complete && !this.residents.has(context.run.id)) {
      const actor = startActor(program, context);
      const loaded: Loaded = { actor, program, revision: 1, lastSeq: 1, lastEventAt: started.at };
      this.residents.rouse(context.run.id, () => new Resident(context.run.id, this, loaded));
    }
    this.advance(context.run.id);
  }

  private isMine(runId: string): boolean {
    return this.options.neighbours?.isMine(runId) ?? true;
  }

  /** The shards went to other nodes: their runs' actors are theirs to make. Who is busy finishes, and then leaves. */
  handOver(): void {
    this.residents.passivate((runId) => !this.isMine(runId));
  }

  /** A hint to look at a run. */
  advance(runId: string): void {
    this.deliver(runId, { type: "advance" }, {}).catch((error) => this.stuck(runId, error));
  }

  isBusy(runId: string): boolean {
    return this.residents.isBusy(runId);
  }

  /** Stops taking commands, finishes those in hand, drops the residents. Safe twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    while (this.residents.busy > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    this.residents.clear();
  }

  // ---- RunRoom: what a resident finds around it

  now(): number {
    return this.options.clock.now();
  }

  facts(): RoomFacts {
    const { catalog, schemas, licences } = this.options;
    const missed = { action: false };
    return {
      missed,
      limits: this.options.limits ?? STANDARD_RUN_LIMITS,
      now: this.now(),
      random: Math.random(),
      uuid: (runId, seed) => derivedUuid(seed, shardOf(runId)),
      action: (service, name, version): ActionFact | undefined => {
        const found = catalog.action(service, name, version);
        missed.action ||= found === undefined;
        return found;
      },
      rule: (ruleId) => catalog.rule(ruleId),
      licensed: (tenantId, group) => licences.licensed(tenantId, group),
      conforms: (schema, value) => schemas.conforms(schema, value),
    };
  }

  get careful(): boolean {
    return this.options.careful?.() ?? false;
  }

  learnActions(): Promise<void> {
    return this.options.catalog.refresh();
  }

  fetch(run: RunIdentity, need: Need): Promise<Fetched> {
    return this.reader.fetch(run, need);
  }

  async load(runId: string): Promise<Loaded | undefined> {
    const found = await loadRun(this.sql, runId);
    if (!found) return undefined;
    const context = decodeRun(found.stored);
    const program = await this.options.catalog.program(context.run.definitionId);
    const { revision, lastSeq, lastEventAt } = found;
    return { actor: startActor(program, context), program, revision, lastSeq, lastEventAt };
  }

  offerFor({ run, wait, call, quarantined }: RunContext): ReturnType<RunRoom["offerFor"]> {
    if (wait?.kind !== "queued" || !call || quarantined || !this.isMine(run.id)) return undefined;
    const slot = this.options.dispatcher.reserve(wait.dispatchId, call);
    return slot && { type: "offer", dispatchId: wait.dispatchId, workerId: slot.workerId };
  }

  released(runId: string, events: readonly CommittedEvent[], effects: readonly Effect[]): void {
    if (events.length > 0) this.options.onCommit(runId, events);
    if (this.isMine(runId)) this.carryOut(runId, effects);
    else if (effects.length > 0) this.options.neighbours?.tell(runId, effects);
  }

  /** Carries out what is owed outside the database. */
  carryOut(runId: string, effects: readonly Effect[]): void {
    const sent = new Set<string>();
    for (const effect of effects) if (effect.kind === "dispatch.send") sent.add(effect.dispatch.dispatchId);
    for (const effect of effects) this.carryOutOne(runId, effect, sent);
  }

  private carryOutOne(runId: string, effect: Effect, sent: ReadonlySet<string>): void {
    const { dispatcher, couriers, hints } = this.options;
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
      case "child.start":
        void this.born(effect.child);
        break;
      case "post":
        if (hints !== false) couriers?.[effect.to]?.carry(effect.id);
        break;
      case "event.published":
        this.options.announcer?.announce(effect.event.id);
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

  /** A child that was just created: its first actor need not be loaded, where its parent's memory has what it begins with. */
  private async born({ identity, variables, variablesSize }: NewChild): Promise<void> {
    try {
      const program = await this.options.catalog.program(identity.definitionId);
      const context = newRun(identity, variables ?? {}, variablesSize);
      this.begun({ context, program, started: startedEvent(identity, "coordinator") }, variables !== undefined);
    } catch (error) {
      this.stuck(identity.id, error);
    }
  }

  withdrawn(dispatchIds: readonly string[]): void {
    for (const dispatchId of dispatchIds) this.options.dispatcher.resolved(dispatchId);
  }

  arm(runId: string, context: RunContext): NodeJS.Timeout | undefined {
    if (this.options.hints === false || !this.isMine(runId)) return undefined;
    const wake = wakeAt(context);
    if (typeof wake !== "number") return undefined;
    const ahead = wake - this.now();
    return ahead > TIMER_HORIZON_MS ? undefined : setTimeout(() => this.advance(runId), Math.max(1, ahead + 1)).unref();
  }

  rested(resident: Resident, context: RunContext): void {
    if (this.isMine(resident.runId)) return this.residents.rest(resident, context);
    // Its owner has an actor of its own: one here would only be out of date.
    resident.discard();
    this.leave(resident);
  }

  leave(resident: Resident): void {
    this.residents.leave(resident);
  }

  stuck(runId: string, error: unknown): void {
    if (error instanceof SagaError && (error.status === 404 || error.status === 503)) return;
    this.options.log.error({ err: error, runId }, "a run could not be advanced; its wake row brings it back");
  }
}

/** Commands whose repetition must be recognised have an id; hints and offers are recognised by the run's state. */
export function commandId({ type }: RunCommand): string | undefined {
  const named = type === "signal" || type === "submit" || type === "cancel" || type === "result" || type === "failure";
  return named ? uuidv7() : undefined;
}
