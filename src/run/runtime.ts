// The actor runtime of a node: brings commands to residents, is their host, and makes starts durable. It does not poll (poller.ts), does not
// check starts (starter.ts) and does not know the owners of shards (router.ts).

import {
  type Answer,
  type AnswerTo,
  type FencedChild,
  firstOfMade,
  measure,
  parseTraceparent,
  type QuarantineProof,
  type RunCommand,
  type RunContext,
  type RunId,
  type RunLimits,
  type SentCommand,
  STANDARD_RUN_LIMITS,
  type UnitHost,
} from "../../machines/index.js";
import { EVERYTHING, plainReach } from "../access/index.js";
import { delay, setImmediate } from "../ambient.js";
import type { Clock } from "../clock.js";
import type { SlotKeeper } from "../concurrency/slot-granter.js";
import { overloaded, SagaError } from "../errors.js";
import type { EventAnnouncer } from "../events/announcer.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { forgetKeptInputs } from "../store/engine/kept-inputs.js";
import { type RecordedAnswer, repeatedAnswer } from "../store/engine/load.js";
import { sealingOf } from "../store/sealed/sealing.js";
import { FairScheduler } from "../work/fair-scheduler.js";
import type { Committer } from "./committer.js";
import { Effects, type PeerNodes } from "./effects.js";
import { type FactOptions, FactSource } from "./facts.js";
import type { Gate, LastWords } from "./judge.js";
import { createdRun, type LoadedRun, restoreRun } from "./loaded-run.js";
import type { CommandOptions, CommitListener, Couriers, Dispatcher, Runs } from "./ports.js";
import { type Beginning, type Begun, commandId, type QueuedCommand, Resident, type ResidentHost } from "./resident.js";
import type { Start, StartedRun, StartHost } from "./starter.js";
import { type UnitOptions, unitHost } from "./unit-host.js";

/** What the poll adds: the leased row that brings the command. `tried`: the poll has had it tried already. */
type LocalOptions = CommandOptions &
  Pick<QueuedCommand, "inboxId" | "wakeLeased" | "afterUnknown"> & { readonly tried?: boolean };

export interface RuntimeOptions extends Omit<FactOptions, "limits" | "scheduler">, UnitOptions {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly committer: Committer;
  readonly dispatcher: Dispatcher;
  /** A post without a courier for its kind waits in its row. */
  readonly couriers?: Couriers;
  /** Absent: events wait for an announcer's poll. */
  readonly announcer?: EventAnnouncer;
  /** Absent: slots wait for a granter's poll. */
  readonly slots?: SlotKeeper;
  /** Absent: turns wait for a granter's poll. */
  readonly turns?: SlotKeeper;
  readonly onCommit: CommitListener;
  readonly limits?: RunLimits;
  readonly stepsPerCommit: number;
  /** Absent: this node owns every run. */
  readonly peers?: PeerNodes;
  /** Whether a node may have died a moment ago: also for a while after this node's start, and after it has gained shards. */
  readonly hasLostNode?: () => boolean;
  /** Whether this node has seen one go a moment ago. */
  readonly seenNodeLoss?: () => boolean;
  /** The turns of the process's event loop. Absent: nothing else in the process takes any. */
  readonly scheduler?: FairScheduler;
  /** Suspects are tried there before they are decided on here. Absent: there are none. */
  readonly gate?: Gate;
  /** Where this process says what it decides on. */
  readonly lastWords?: LastWords;
  /** How many runs stay in memory. */
  readonly residents?: Omit<ResidentsOptions, "isMine">;
  /** False: timers and in-memory deliveries are off, and runs advance by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Runtime implements Runs, ResidentHost, StartHost {
  readonly committer: Committer;
  readonly dispatcher: Dispatcher;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly scheduler: FairScheduler;
  readonly lastWords?: LastWords;
  readonly stepsPerCommit: number;
  readonly hints: boolean;
  readonly units: UnitHost;
  readonly facts: FactSource;
  readonly effects: Effects;
  readonly residents: Residents;
  private stopped = false;
  /** Starts that wait for the end of this turn of the event loop. */
  private readonly beginning: (Beginning & { readonly run: StartedRun; readonly reject: QueuedCommand["reject"] })[] =
    [];

  constructor(private readonly options: RuntimeOptions) {
    const { limits = STANDARD_RUN_LIMITS, hints = true, couriers = {}, onCommit, peers } = options;
    this.committer = options.committer;
    this.dispatcher = options.dispatcher;
    this.clock = options.clock;
    this.metrics = options.metrics;
    this.scheduler = options.scheduler ?? new FairScheduler();
    this.lastWords = options.lastWords;
    this.stepsPerCommit = options.stepsPerCommit;
    this.hints = hints;
    this.units = unitHost({ ...options, seals: sealingOf(options.sql) !== undefined });
    this.facts = new FactSource({ ...options, limits, scheduler: this.scheduler });
    this.effects = new Effects({
      ...{ onCommit, peers, dispatcher: this.dispatcher, couriers, hints },
      ...{ announcer: options.announcer, slots: options.slots, turns: options.turns },
      deliver: ({ to, id, command }) => this.commandByHint(to, command, { id, inboxId: id }),
      childCreated: (child) => void this.childCreated(child),
      outdated: (runId) => this.residents.dropIdle(runId),
    });
    this.residents = new Residents({ ...options.residents, isMine: (runId) => this.isMine(runId) });
  }

  // ---- Commands

  /** Resolves with the answer of the committed transition. A suspect is tried first. */
  command<C extends RunCommand>(runId: RunId, command: C, options: LocalOptions): Promise<AnswerTo<C>> {
    const { id = commandId(command), reach, tried, wakeLeased } = options;
    const { gate } = this.options;
    const queue = () => this.queue(runId, command, id, options);
    if (tried || !gate?.isSuspect(runId)) return queue() as Promise<AnswerTo<C>>;
    const quarantine = (proof: QuarantineProof) =>
      this.queue(runId, { type: "quarantine", proof }, undefined, { reach: EVERYTHING, wakeLeased });
    return gate.command({ runId, command, id, reach: plainReach(reach) }, queue, quarantine) as Promise<AnswerTo<C>>;
  }

  private queue(runId: RunId, command: RunCommand, id: string | undefined, options: LocalOptions): Promise<Answer> {
    if (this.stopped) return Promise.reject(overloaded("the node is stopping"));
    const { reach, keep = false, requestHash, inboxId, wakeLeased, afterUnknown } = options;
    return new Promise((resolve, reject) => {
      this.residents
        .activate(runId, () => new Resident(runId, this))
        .deliver({ command, id, reach, keep, requestHash, inboxId, wakeLeased, afterUnknown, resolve, reject });
    });
  }

  /** A command of the service itself. */
  private commandByHint(runId: RunId, command: RunCommand, options: Omit<LocalOptions, "reach"> = {}): void {
    this.command(runId, command, { ...options, reach: EVERYTHING }).catch((error) => this.advanceFailed(runId, error));
  }

  /** A hint that the run may be due. */
  advance(runId: RunId): void {
    this.commandByHint(runId, { type: "advance" });
  }

  hand(command: SentCommand): void {
    this.effects.afterCommit(command.to, [], [{ kind: "command", ...command }]);
  }

  resume(runId: RunId): void {
    // Without hints its wake row brings it back.
    if (this.hints) this.commandByHint(runId, { type: "advance" }, { afterUnknown: true });
  }

  /** After shards moved to other nodes: drops the idle runs that are no longer ours. A busy one leaves when it is done. */
  handOver(): void {
    this.residents.passivate((runId) => !this.isMine(runId));
  }

  /**
   * The server may have lost commits: the idle runs are read again when they are needed. A busy one is fenced by its token (law 1): if
   * it does not match the store, its commit is lost and the actor discarded.
   */
  forget(): void {
    this.residents.passivate(() => true);
  }

  /** Keys were destroyed: no run stays in memory that was loaded before. A busy one leaves when it is done. */
  forgetValues(): void {
    forgetKeptInputs(this.options.sql);
    this.residents.dropAll();
  }

  /** Accepts no more commands, finishes those in progress and drops the residents. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    while (this.residents.busy > 0) await delay(5);
    this.residents.clear();
  }

  // ---- What residents ask their node for

  get hasLostNode(): boolean {
    return this.options.hasLostNode?.() ?? false;
  }

  isMine(runId: RunId): boolean {
    return this.options.peers?.isMine(runId) ?? true;
  }

  load(runId: RunId): Promise<LoadedRun | undefined> {
    const { sql, catalog, formats } = this.options;
    return restoreRun(sql, catalog, runId, formats);
  }

  recordedAnswer(runId: RunId, commandId: string): Promise<RecordedAnswer | undefined> {
    return repeatedAnswer(this.options.sql, runId, commandId);
  }

  advanceFailed(runId: RunId, error: unknown): void {
    if (error instanceof SagaError && (error.status === 404 || error.status === 503)) return;
    const about = { runId, ...this.residents.whereaboutsOf(runId) };
    this.options.log.error({ err: error, ...about }, "run not advanced, its wake row will bring it back");
  }

  // ---- New runs

  /** Makes a start durable, with the first steps of the run where that can be. Whether it won. */
  async create(run: StartedRun, start: Start, alone: boolean): Promise<boolean> {
    const begun = alone || !this.mayBegin(run) ? "alone" : await this.begin(run, start);
    if (begun !== "alone") return begun === "won";
    const won = await this.committer.submit(start.commit, start.key);
    if (won) this.created(run);
    return won;
  }

  /**
   * After a node loss a start is committed alone: the node may have died of first steps that were in no row, and the client repeats its request.
   * The steps of a stored run have a wake row, which counts how often they are tried. A node that has just begun need not do so: it has read
   * what others died of before it decides on anything, and the start of a suspect is committed alone, too.
   */
  private mayBegin({ context: { run } }: StartedRun): boolean {
    if (!this.hints || this.stopped || this.options.seenNodeLoss?.()) return false;
    return (run.delayedUntil ?? 0) <= this.clock.now() && this.isMine(run.id) && !this.residents.has(run.id);
  }

  /** The starts of one turn of the event loop are decided together, after all have been read: the processor has the code at hand. */
  private begin(run: StartedRun, start: Start): Promise<Begun> {
    return new Promise((resolve, reject) => {
      if (this.beginning.length === 0) setImmediate(() => this.beginAll());
      this.beginning.push({ run, start, settle: resolve, reject });
    });
  }

  private beginAll(): void {
    for (const { run, start, settle, reject } of this.beginning.splice(0)) {
      if (!this.mayBegin(run)) {
        settle("alone");
        continue;
      }
      const { id } = run.context.run;
      const loaded = createdRun(run, start.started.at, false);
      this.residents
        .activate(id, () => new Resident(id, this, loaded))
        .deliver({
          command: { type: "advance" },
          reach: EVERYTHING,
          keep: false,
          beginning: { start, settle },
          resolve: () => {},
          reject,
        });
    }
  }

  /** A child that was just created. With its variables at hand, its first actor need not be loaded. */
  private async childCreated(child: FencedChild): Promise<void> {
    const { identity, variables, fence } = child;
    try {
      const program = await this.options.catalog.program(identity.definitionId);
      await this.scheduler.compute(identity.workflowId, () => {
        this.created({ ...firstOfMade(child), program, fence }, variables !== undefined);
      });
    } catch (error) {
      this.advanceFailed(identity.id, error);
    }
  }

  /** `saga.advance` as a hint to this node or to the owner. If it is lost, the wake row starts the run. */
  private created(run: StartedRun, complete = true): void {
    const { context, started } = run;
    const runId = context.run.id;
    this.options.onCommit(runId, [started]);
    // A node that stops delivers nothing more: a resident made now would stay busy.
    if (!this.hints || this.stopped || (context.run.delayedUntil ?? 0) > this.clock.now()) return;
    if (!this.isMine(runId)) return this.options.peers?.advance(runId);
    if (complete && !this.residents.has(runId)) {
      const loaded = createdRun(run, started.at);
      this.residents.activate(runId, () => new Resident(runId, this, loaded));
    }
    this.advance(runId);
  }
}

export interface ResidentsOptions {
  /** Runs in memory. Busy runs count and are never dropped: load shedding and the bound of the poll limit those. */
  readonly max?: number;
  /** Estimated bytes of all idle runs together. */
  readonly maxBytes?: number;
  /** Absent: this node owns every run. */
  readonly isMine?: (runId: RunId) => boolean;
}

/** An actor, its mailbox, its timer and its record: measured at 4 KB with few variables. */
const ACTOR_BYTES = 4_096;
/** Memory per character of JSON text: small objects take more, long strings less. */
const BYTES_PER_CHARACTER = 2;

/**
 * The residents of a node: the runs in memory, by id. Idle ones stay while there is room by count and by weight; the one that has been idle longest is
 * passivated first. A parked run then costs its rows, and no memory and no timer here.
 */
export class Residents {
  private readonly all = new Map<RunId, Resident>();
  /** Idle runs and their estimated bytes, the longest idle first. */
  private readonly idle = new Map<RunId, number>();
  /** Busy runs that leave when they are done. */
  private readonly leaving = new Set<RunId>();
  private bytes = 0;
  private readonly max: number;
  private readonly maxBytes: number;
  private readonly isMine: (runId: RunId) => boolean;

  constructor({ max = 10_000, maxBytes = 256 * 1024 * 1024, isMine = () => true }: ResidentsOptions = {}) {
    this.max = max;
    this.maxBytes = maxBytes;
    this.isMine = isMine;
  }

  get size(): number {
    return this.all.size;
  }

  /** Runs with a command, a load or a commit in progress. */
  get busy(): number {
    return this.all.size - this.idle.size;
  }

  /** Estimated bytes of the idle runs. */
  get idleBytes(): number {
    return this.bytes;
  }

  has(runId: RunId): boolean {
    return this.all.has(runId);
  }

  /** For the log. */
  whereaboutsOf(runId: RunId): Readonly<Record<string, unknown>> {
    const context = this.all.get(runId)?.context;
    if (!context) return {};
    const { run, step, wait } = context;
    const attempt = wait && "attempt" in wait ? wait.attempt : undefined;
    return { stepId: step, attempt, tenantId: run.tenantId, traceId: parseTraceparent(run.traceparent)?.traceId };
  }

  isBusy(runId: RunId): boolean {
    return this.all.get(runId)?.busy ?? false;
  }

  /** The poll has leased the run's wake row. Whether the run is busy: then it gives the row its due time itself. */
  movesLeasedWake(runId: RunId): boolean {
    const resident = this.all.get(runId);
    if (!resident?.busy) return false;
    resident.wakeLeased();
    return true;
  }

  /** The run's resident, which is busy from now on. */
  activate(runId: RunId, create: () => Resident): Resident {
    const resident = this.all.get(runId) ?? create();
    this.all.set(runId, resident);
    this.notIdle(runId);
    return resident;
  }

  /** The run has nothing to do; it stays while there is room. The owner of a run has an actor of its own, so one here would only go stale. */
  keepIdle(runId: RunId, context: RunContext): void {
    if (!this.isMine(runId) || this.leaving.has(runId)) return this.drop(runId);
    this.notIdle(runId);
    const bytes = estimatedBytes(context);
    this.idle.set(runId, bytes);
    this.bytes += bytes;
    this.shrinkTo(this.max, this.maxBytes);
  }

  remove(runId: RunId): void {
    this.all.delete(runId);
    this.leaving.delete(runId);
    this.notIdle(runId);
  }

  /** Passivation: the actor is dropped, the store has everything. */
  drop(runId: RunId): void {
    this.all.get(runId)?.discard();
    this.remove(runId);
  }

  /** A busy run stays: its commit finds out what has changed. */
  dropIdle(runId: RunId): void {
    if (this.idle.has(runId)) this.drop(runId);
  }

  /** Drops the idle runs that `which` selects. */
  passivate(which: (runId: RunId) => boolean): void {
    for (const runId of [...this.idle.keys()]) if (which(runId)) this.drop(runId);
  }

  /** A busy run leaves when it is done. */
  dropAll(): void {
    for (const runId of this.all.keys()) if (!this.idle.has(runId)) this.leaving.add(runId);
    this.passivate(() => true);
  }

  /** The heap is short: drops the half that has been idle longest. */
  passivateHalf(): void {
    this.shrinkTo(this.busy + Math.floor(this.idle.size / 2), this.maxBytes);
  }

  /** For a node that stops, once no run is busy. */
  clear(): void {
    for (const resident of this.all.values()) resident.discard();
    this.all.clear();
    this.leaving.clear();
    this.idle.clear();
    this.bytes = 0;
  }

  private shrinkTo(count: number, bytes: number): void {
    for (const longestIdle of this.idle.keys()) {
      if (this.all.size <= count && this.bytes <= bytes) return;
      this.drop(longestIdle);
    }
  }

  private notIdle(runId: RunId): void {
    this.bytes -= this.idle.get(runId) ?? 0;
    this.idle.delete(runId);
  }
}

/** Inputs and calls never change, so each is measured once. */
const measured = new WeakMap<object, number>();

function sizeOf(value: object | undefined): number {
  if (value === undefined) return 0;
  const known = measured.get(value);
  if (known !== undefined) return known;
  const found = measure(value);
  const size = typeof found === "number" ? found : 0;
  measured.set(value, size);
  return size;
}

function estimatedBytes({ run, call, variablesSize }: RunContext): number {
  return ACTOR_BYTES + BYTES_PER_CHARACTER * (variablesSize + sizeOf(run.inputs) + sizeOf(call));
}
