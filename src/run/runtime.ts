// The actor runtime of a node: delivers commands to residents and lets effects out after their commits. It implements the port
// Runs. It does not start runs (starter.ts), does not poll (stager.ts) and does not know who owns a shard (shard/).
import type { Sql } from "postgres";
import {
  type ActionFact,
  type Answer,
  decodeRun,
  type Effect,
  type Facts,
  type Need,
  type RunCommand,
  type RunContext,
  type RunLimits,
  STANDARD_RUN_LIMITS,
  startActor,
  wakeAt,
} from "../../machines/index.js";
import { overloaded, SagaError } from "../errors.js";
import { derivedUuid, shardOf, uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import { loadRun, newestOwed, oldestSignal, recordedAnswer } from "../store/load.js";
import type { Committer } from "./committer.js";
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
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  readonly onCommit: CommitListener;
  readonly limits?: RunLimits;
  readonly stepsPerCommit: number;
  /** Who else there is; absent: this node owns every run. */
  readonly neighbours?: Neighbours;
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
  private readonly starter: Starter;
  private stopped = false;

  constructor(private readonly options: RuntimeOptions) {
    this.sql = options.sql;
    this.committer = options.committer;
    this.metrics = options.metrics;
    this.stepsPerCommit = options.stepsPerCommit;
    this.starter = new Starter(options, (started) => this.begun(started));
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

  start(request: StartRequest): Promise<StartAnswer> {
    return this.starter.start(request);
  }

  /** `saga.advance`, as a hint to ourselves: if it is lost, the wake row makes good for it. */
  private begun({ context, program, started }: StartedRun): void {
    this.options.onCommit(context.run.id, [started]);
    if (this.options.hints === false || (context.run.delayedUntil ?? 0) > this.now()) return;
    if (!this.isMine(context.run.id)) return this.options.neighbours?.advance(context.run.id);
    if (!this.residents.has(context.run.id)) {
      const actor = startActor(program, context);
      const loaded: Loaded = { actor, program, revision: 1, lastSeq: 1, lastEventAt: started.at };
      this.residents.set(context.run.id, new Resident(context.run.id, this, loaded));
    }
    this.advance(context.run.id);
  }

  private isMine(runId: string): boolean {
    return this.options.neighbours?.isMine(runId) ?? true;
  }

  /** The shards went to other nodes: their runs' actors are theirs to make. Who is busy finishes, and then leaves. */
  handOver(): void {
    for (const resident of this.residents.values()) {
      if (resident.busy || this.isMine(resident.runId)) continue;
      resident.discard();
      this.leave(resident);
    }
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

  arm(runId: string, context: RunContext): NodeJS.Timeout | undefined {
    if (this.options.hints === false || !this.isMine(runId)) return undefined;
    const wake = wakeAt(context);
    if (typeof wake !== "number") return undefined;
    const ahead = wake - this.now();
    return ahead > TIMER_HORIZON_MS ? undefined : setTimeout(() => this.advance(runId), Math.max(1, ahead + 1)).unref();
  }

  rested(resident: Resident): void {
    this.residents.delete(resident.runId);
    // Its owner has an actor of its own: one here would only be out of date.
    if (!this.isMine(resident.runId)) {
      resident.discard();
      return this.leave(resident);
    }
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
export function commandId({ type }: RunCommand): string | undefined {
  return type === "signal" || type === "cancel" || type === "result" || type === "failure" ? uuidv7() : undefined;
}
