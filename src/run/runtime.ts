// The actor runtime of a node: brings commands to residents, and is their host. It implements the port Runs. It does not poll
// (poll/) and does not know the owners of shards (router.ts).
import type { Sql } from "postgres";
import {
  type Answer,
  type AnswerTo,
  type DispatchId,
  type FencedChild,
  newRun,
  RECORD_FORMATS,
  type RecordFormats,
  type RunCommand,
  type RunContext,
  type RunId,
  type RunLimits,
  type Send,
  STANDARD_RUN_LIMITS,
  wakeAt,
} from "../../machines/index.js";
import { overloaded, SagaError } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import { type RecordedAnswer, repeatedAnswer } from "../store/engine/load.js";
import { FairScheduler } from "../work/fair-scheduler.js";
import type { Committer } from "./committer.js";
import { type Beginning, type Begun, commandId, type Delivery } from "./delivery.js";
import { Effects } from "./effects.js";
import { FactSource } from "./facts.js";
import { createdRun, type LoadedRun, restoreRun } from "./loaded-run.js";
import { createdByParent, type Start } from "./new-run.js";
import type { OutgoingEvents } from "./outgoing-events.js";
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
import { Resident } from "./resident.js";
import type { ResidentHost } from "./resident-host.js";
import { Residents, type ResidentsOptions } from "./residents.js";
import { type StartedRun, Starter, type StarterOptions } from "./starter.js";
import type { Gate } from "./trial/gate.js";
import type { LastWords } from "./trial/last-words.js";
import type { RecordOf } from "./unit.js";

/** Timers in memory reach this far; the poll finds later due times. */
const TIMER_HORIZON_MS = 60_000;

/** The other nodes of the service. Each continues its own runs after this node has carried out a command for them. */
export interface PeerNodes {
  isMine(runId: RunId): boolean;
  /** `saga.advance` to the owner. A hint. */
  advance(runId: RunId): void;
  /** The owner carries out effects that were committed here for its run. A hint: the outbox is the truth. */
  sendEffects(runId: RunId, sends: readonly Send[]): void;
}

/** What the poll adds: the leased row that brings the command. `tried`: the poll has had it tried already. */
type DeliveryOptions = CommandOptions &
  Pick<Delivery, "inboxId" | "wakeLeased" | "afterUnknown"> & { readonly tried?: boolean };

export interface RuntimeOptions extends Omit<StarterOptions, "scheduler"> {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly committer: Committer;
  readonly catalog: Catalog;
  readonly dispatcher: Dispatcher;
  /** A post without a courier for its kind waits in its row. */
  readonly couriers?: Couriers;
  /** Absent: events wait for an announcer's poll. */
  readonly announcer?: EventAnnouncer;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
  readonly onCommit: CommitListener;
  readonly limits?: RunLimits;
  readonly stepsPerCommit: number;
  /** The record format that is written: all live nodes read it (law 13). Absent: this node is alone. */
  readonly recordFormat?: () => number;
  /** A test's switch, for a node of another release. */
  readonly formats?: RecordFormats;
  /** Absent: this node owns every run. */
  readonly peers?: PeerNodes;
  /** Whether a node died a moment ago. */
  readonly recentNodeLoss?: () => boolean;
  /** Whether this node has seen one go a moment ago. */
  readonly seenNodeLoss?: () => boolean;
  /** The turns of the process's event loop. Absent: nothing else in the process takes any. */
  readonly scheduler?: FairScheduler;
  /** Suspects are tried there before they are decided on here. Absent: there are none. */
  readonly gate?: Gate;
  /** Where this process says what it decides on. */
  readonly lastWords?: Pick<LastWords, "say">;
  /** How many runs stay in memory. */
  readonly residents?: ResidentsOptions;
  /** False: timers and in-memory deliveries are off, and runs advance by the poll alone. A test's switch. */
  readonly hints?: boolean;
}

export class Runtime implements Runs, ResidentHost {
  readonly committer: Committer;
  readonly metrics: Metrics;
  readonly scheduler: FairScheduler;
  readonly stepsPerCommit: number;
  readonly outgoing?: OutgoingEvents;
  readonly facts: FactSource;
  readonly residents: Residents;
  private readonly sql: Sql;
  private readonly starter: Starter;
  private readonly effects: Effects;
  private readonly hints: boolean;
  private stopped = false;
  /** Starts that wait for the end of this turn of the event loop. */
  private readonly beginning: (Beginning & { readonly run: StartedRun; readonly reject: Delivery["reject"] })[] = [];

  constructor(private readonly options: RuntimeOptions) {
    const { limits = STANDARD_RUN_LIMITS, hints = true, couriers = {} } = options;
    this.sql = options.sql;
    this.hints = hints;
    this.residents = new Residents(options.residents);
    this.committer = options.committer;
    this.metrics = options.metrics;
    this.scheduler = options.scheduler ?? new FairScheduler();
    this.stepsPerCommit = options.stepsPerCommit;
    this.outgoing = options.outgoing;
    const deciding = (key: string) => options.lastWords?.say(key);
    const resume = (runId: RunId) => this.deliverHint(runId, { type: "advance" }, { afterUnknown: true });
    const ofStarts = { ...options, scheduler: this.scheduler, deciding, ...(hints && { resume }) };
    this.starter = new Starter(ofStarts, (...start) => this.create(...start));
    this.facts = new FactSource({ ...options, limits });
    this.effects = new Effects({
      ...{ dispatcher: options.dispatcher, couriers, announcer: options.announcer, slots: options.slots, hints },
      deliver: ({ to, id, command }) => this.deliverHint(to, command, { id, inboxId: id }),
      childCreated: (child) => void this.childCreated(child),
      outdated: (runId) => this.residents.dropIdle(runId),
    });
  }

  // ---- Runs: the port for the layers above

  start(request: StartRequest): Promise<StartAnswer> {
    return this.starter.start(request);
  }

  command<C extends RunCommand>(runId: RunId, command: C, options: CommandOptions = {}): Promise<AnswerTo<C>> {
    const { id = commandId(command), keep = false, requestHash } = options;
    return this.deliver(runId, command, { id, keep, requestHash }) as Promise<AnswerTo<C>>;
  }

  deliver(runId: RunId, command: RunCommand, about: DeliveryOptions): Promise<Answer> {
    const { gate } = this.options;
    const { id, wakeLeased, tried } = about;
    const carryOut = () => this.carryOutNow(runId, command, about);
    if (tried || !gate?.isSuspect(runId)) return carryOut();
    return gate.command({ runId, command, id }, carryOut, (proof) =>
      this.carryOutNow(runId, { type: "quarantine", proof }, { wakeLeased }),
    );
  }

  private carryOutNow(runId: RunId, command: RunCommand, about: DeliveryOptions): Promise<Answer> {
    if (this.stopped) return Promise.reject(overloaded("the node is stopping"));
    return new Promise((resolve, reject) => {
      this.residents
        .activate(runId, () => new Resident(runId, this))
        .deliver({ command, keep: false, ...about, resolve, reject });
    });
  }

  /** A hint that the run may be due. */
  advance(runId: RunId): void {
    this.deliverHint(runId, { type: "advance" });
  }

  isBusy(runId: RunId): boolean {
    return this.residents.isBusy(runId);
  }

  /** Carries out committed effects of a run of this node, also for another node that committed them. */
  carryOut(runId: RunId, sends: readonly Send[]): void {
    this.effects.carryOut(runId, sends);
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

  /** Accepts no more commands, finishes those in progress and drops the residents. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    while (this.residents.busy > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    this.residents.clear();
  }

  // ---- ResidentHost: the services that residents need

  get recentNodeLoss(): boolean {
    return this.options.recentNodeLoss?.() ?? false;
  }

  readonly recordOf: RecordOf = (context) => {
    const { formats = RECORD_FORMATS, recordFormat } = this.options;
    return formats.encode(context, recordFormat?.() ?? formats.writes);
  };

  now(): number {
    return this.options.clock.now();
  }

  deciding(suspect: string): void {
    this.options.lastWords?.say(suspect);
  }

  load(runId: RunId): Promise<LoadedRun | undefined> {
    return restoreRun(this.sql, this.options.catalog, runId, this.options.formats);
  }

  recordedAnswer(runId: RunId, commandId: string): Promise<RecordedAnswer | undefined> {
    return repeatedAnswer(this.sql, runId, commandId);
  }

  offerFor({ run, wait, call, quarantined }: RunContext): ReturnType<ResidentHost["offerFor"]> {
    if (wait?.kind !== "queued" || !call || quarantined || !this.isMine(run.id)) return undefined;
    const slot = this.options.dispatcher.reserve(wait.dispatchId, call);
    return slot && { type: "offer", dispatchId: wait.dispatchId, workerId: slot.workerId };
  }

  afterCommit(runId: RunId, events: readonly CommittedEvent[], sends: readonly Send[], after?: RunContext): void {
    if (events.length > 0) this.options.onCommit(runId, events, after);
    if (this.isMine(runId)) this.carryOut(runId, sends);
    else if (sends.length > 0) this.options.peers?.sendEffects(runId, sends);
  }

  holdsDispatch(dispatchId: DispatchId): boolean {
    return this.options.dispatcher.holds(dispatchId);
  }

  returnCredit(dispatchIds: readonly DispatchId[]): void {
    for (const dispatchId of dispatchIds) this.options.dispatcher.resolved(dispatchId);
  }

  armTimer(runId: RunId, context: RunContext): NodeJS.Timeout | undefined {
    if (!this.hints || !this.isMine(runId)) return undefined;
    const wake = wakeAt(context);
    if (typeof wake !== "number") return undefined;
    const ahead = wake - this.now();
    return ahead > TIMER_HORIZON_MS ? undefined : setTimeout(() => this.advance(runId), Math.max(1, ahead + 1)).unref();
  }

  idle(runId: RunId, context: RunContext): void {
    if (this.isMine(runId)) this.residents.keepIdle(runId, context);
    // The owner has an actor of its own, so one here would only go stale.
    else this.residents.drop(runId);
  }

  gone(runId: RunId): void {
    this.residents.remove(runId);
  }

  advanceFailed(runId: RunId, error: unknown): void {
    if (error instanceof SagaError && (error.status === 404 || error.status === 503)) return;
    this.options.log.error({ err: error, runId }, "run not advanced, its wake row will bring it back");
  }

  // ---- New runs

  /** Makes a start durable, with the first steps of the run where that can be. Whether it won. */
  private async create(run: StartedRun, start: Start, alone: boolean): Promise<boolean> {
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
    return (run.delayedUntil ?? 0) <= this.now() && this.isMine(run.id) && !this.residents.has(run.id);
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
          keep: false,
          beginning: { start, settle },
          resolve: () => {},
          reject,
        });
    }
  }

  /** A child that was just created. With its variables at hand, its first actor need not be loaded. */
  private async childCreated({ identity, variables, variablesSize, fence }: FencedChild): Promise<void> {
    try {
      const program = await this.options.catalog.program(identity.definitionId);
      await this.scheduler.compute(identity.workflowId, () => {
        const context = newRun(identity, variables ?? {}, variablesSize);
        this.created({ context, program, started: createdByParent(identity), fence }, variables !== undefined);
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
    if (!this.hints || this.stopped || (context.run.delayedUntil ?? 0) > this.now()) return;
    if (!this.isMine(runId)) return this.options.peers?.advance(runId);
    if (complete && !this.residents.has(runId)) {
      const loaded = createdRun(run, started.at);
      this.residents.activate(runId, () => new Resident(runId, this, loaded));
    }
    this.advance(runId);
  }

  private isMine(runId: RunId): boolean {
    return this.options.peers?.isMine(runId) ?? true;
  }

  private deliverHint(runId: RunId, command: RunCommand, about: DeliveryOptions = {}): void {
    this.deliver(runId, command, about).catch((error) => this.advanceFailed(runId, error));
  }
}
