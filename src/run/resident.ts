// A resident: a run in memory, with its mailbox and its actor. It handles one command at a time: decide, step on until the run
// needs the outside world, commit, and only then let anything out. The store is right: when a commit is lost or its outcome is
// unknown, the actor is discarded and the command replayed on the stored state (law 2).

import {
  type Absent,
  type Answer,
  COMMAND_KINDS,
  type CommittedEvent,
  confirmationOf,
  confirmed,
  type Decision,
  type DispatchId,
  decide,
  type Fetched,
  isReady,
  isRefusal,
  isTerminal,
  isWithin,
  type Need,
  namesItsDispatch,
  owesLook,
  type ReceivedCommand,
  type RunCommand,
  type RunCommit,
  type RunContext,
  type RunId,
  startWith,
  Unit,
  type UnitHost,
  wakeAt,
} from "../../machines/index.js";
import { EVERYTHING, type Reach } from "../access/index.js";
import { clearTimeout, performance, setTimeout } from "../ambient.js";
import type { Clock } from "../clock.js";
import { conflict, internal, KeyDestroyed, notFound, overloaded } from "../errors.js";
import { uuidv7 } from "../ids.js";
import type { Metrics } from "../metrics/index.js";
import { isStoreAway } from "../store/engine/failure.js";
import type { RecordedAnswer } from "../store/engine/load.js";
import { nextRevision } from "../store/engine/revision.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import { type Committer, DataRejected, OutcomeUnknown, pauseBeforeReplay } from "./committer.js";
import type { Effects } from "./effects.js";
import type { FactSource } from "./facts.js";
import type { LastWords } from "./judge.js";
import { applyTo, type LoadedRun } from "./loaded-run.js";
import type { Dispatcher } from "./ports.js";
import type { Start } from "./starter.js";

/** A command on its way to a run, with the callbacks that answer its caller. */
export interface QueuedCommand extends ReceivedCommand {
  /** Whose runs its sender may command: for it, others do not exist. */
  readonly reach: Reach;
  /** The poll has leased the run's wake row for it. The next commit gives the row its due time, and no tries. */
  readonly wakeLeased?: boolean;
  /** Whether the run's last commit has won was not known: a dispatch that it owes may be with no node. */
  readonly afterUnknown?: boolean;
  /** The command is the first of a run whose start is not committed yet, and is told what became of that. */
  readonly beginning?: Beginning;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * `won`: the run is durable, with its first steps. `lost`: it exists already, or its key is taken. `alone`: nothing is committed, and the start
 * has to be committed without the first steps.
 */
export type Begun = "won" | "lost" | "alone";

export interface Beginning {
  readonly start: Start;
  readonly settle: (begun: Begun) => void;
}

/** Commands whose repeat must be recognised get an id before the first try. The run's state recognises hints and offers. */
export function commandId({ type }: RunCommand): string | undefined {
  return COMMAND_KINDS[type].isRepeatable ? uuidv7() : undefined;
}

/** The parts of a node that its residents share. The runtime is one host; that of a trial makes the rows of a commit and goes no further. */
export interface ResidentHost {
  readonly committer: Pick<Committer, "submit">;
  readonly facts: Pick<FactSource, "current" | "missedAction" | "read" | "refreshActions">;
  readonly effects: Pick<Effects, "afterCommit">;
  /** Credit is reserved for the dispatches of a commit, and given back if it is lost. */
  readonly dispatcher: Pick<Dispatcher, "reserve" | "holds" | "resolved">;
  /** The runs in memory, which the resident is one of until it is removed. */
  readonly residents: { keepIdle(runId: RunId, context: RunContext): void; remove(runId: RunId): void };
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, "commitConflicts" | "transitions">;
  /** The scheduler of the event loop, which all residents share. */
  readonly scheduler: Pick<FairScheduler, "compute" | "isFree" | "spent">;
  readonly lastWords?: LastWords;
  readonly stepsPerCommit: number;
  readonly units: UnitHost;
  /** False: no timers. */
  readonly hints: boolean;
  /** A node died a moment ago, possibly because of one of its runs: a command is made durable before the run steps on. */
  readonly hasLostNode: boolean;
  isMine(runId: RunId): boolean;
  /** Undefined: there is no such run. */
  load(runId: RunId): Promise<LoadedRun | undefined>;
  /** The recorded answer of a command whose outcome is committed already. */
  recordedAnswer(runId: RunId, commandId: string): Promise<RecordedAnswer | undefined>;
  /** A hint that the run is due. */
  advance(runId: RunId): void;
  /** The run could not go on by itself; its wake row brings it back. */
  advanceFailed(runId: RunId, error: unknown): void;
}

/** How often a command is replayed after a lost commit before its caller gets 503. */
const REPLAYS = 10;
/**
 * A run whose decision was short takes further steps for this long in the same commit, also if others have used up the slice of the
 * event loop: commits for single steps would cost more than they save.
 */
const STEPPING_MS = 5;
/** Timers in memory reach this far; the poll finds later due times. */
const TIMER_HORIZON_MS = 60_000;

type Decided = Extract<Decision, { answer: Answer }>;
type Asked = Pick<QueuedCommand, "command" | "reach">;

interface Turn {
  readonly decision: Decision | Absent;
  /** It asked for an action that this node does not know. */
  readonly missedAction: boolean;
}

/** A unit that grows, and what is given back if its commit is lost. */
interface GrowingCommit {
  readonly loaded: LoadedRun;
  readonly before: RunContext;
  readonly unit: Unit;
  /** Dispatches that a worker's credit was reserved for. */
  readonly reserved: DispatchId[];
  /** Queued commands that share its commit: the ends of children that waited in the mailbox. */
  readonly childEnds: QueuedCommand[];
  /** That of the command: its commit loses if the run is outside. */
  readonly reach: Reach;
}

export class Resident {
  private readonly mailbox: Mailbox;
  private timer: NodeJS.Timeout | undefined;
  /** Loaded from the store, and nothing committed since. */
  private justLoaded = false;
  /** The poll has leased the wake row while the run was busy: the row is due too late, or a dispatch waits for the look. */
  private owesWake = false;
  /** What is suspected if the process dies of a decision: the run, or the request that starts it. */
  private suspect: string;
  /** When the run's turn of the event loop began. */
  private turnBegan = 0;

  constructor(
    readonly runId: RunId,
    private readonly host: ResidentHost,
    private loaded?: LoadedRun,
  ) {
    this.suspect = runId;
    this.mailbox = new Mailbox({ handle: (queued) => this.handle(queued), onIdle: () => this.rest() });
  }

  /** As of its last transition. Undefined: the run is not loaded. */
  get context(): RunContext | undefined {
    return this.loaded?.actor.context;
  }

  get busy(): boolean {
    return this.mailbox.busy;
  }

  deliver(queued: QueuedCommand): void {
    this.mailbox.queue(queued);
  }

  /** The poll has leased the wake row of this run, which is busy: the next step gives the row its due time, or the run looks when it rests. */
  wakeLeased(): void {
    this.owesWake = true;
    if (this.loaded) this.loaded.wake = undefined;
  }

  /** Drops the actor; the next command loads the run again. */
  discard(): void {
    clearTimeout(this.timer);
    this.loaded?.actor.stop();
    this.loaded = undefined;
  }

  private async handle(queued: QueuedCommand): Promise<Answer> {
    const { wakeLeased, beginning } = queued;
    if (wakeLeased && this.loaded) this.loaded.wake = undefined;
    try {
      if (beginning && this.loaded) {
        beginning.settle(await this.begin(this.loaded, beginning.start));
        return { type: "advanced" };
      }
      if (wakeLeased) await this.takeUpDispatch(queued);
      const answer = await this.untilCommitted(queued);
      if (queued.afterUnknown) await this.resendDispatch();
      return answer;
    } catch (error) {
      // For all others the run is as it was.
      if (error instanceof OutOfReach) throw noSuchRun(this.runId);
      this.discard();
      throw error;
    }
  }

  /** The answer of the command's committed outcome. The command is replayed while commits are lost. */
  private async untilCommitted(queued: QueuedCommand): Promise<Answer> {
    let outcomeUnknown = false;
    for (let nth = 0; nth < REPLAYS; nth++) {
      try {
        const answer =
          (nth === 0 ? undefined : await this.recordedAnswer(queued)) ??
          (await this.attempt(this.loaded ?? (await this.load()), queued, nth === 0));
        if (answer && outcomeUnknown) await this.resendDispatch();
        if (answer) return answer;
        this.host.metrics.commitConflicts.inc();
      } catch (error) {
        if (!(error instanceof OutcomeUnknown) && !isStoreAway(error)) throw callerError(error);
        outcomeUnknown ||= error instanceof OutcomeUnknown;
      }
      this.discard();
      await pauseBeforeReplay(nth);
    }
    throw overloaded("the outcome of the command is not known yet; send it again with the same id");
  }

  /** A replay asks first: the try before it, or another node, may have committed the command already. */
  private async recordedAnswer({ id, requestHash: hash, reach }: QueuedCommand): Promise<Answer | undefined> {
    // What others were answered is not told to one for whom there is no run.
    if (id === undefined || !(await this.isWithin(reach))) return undefined;
    const recorded = await this.host.recordedAnswer(this.runId, id);
    const { requestHash: first = hash } = recorded ?? {};
    if (hash !== undefined && first !== hash) throw conflict("the idempotency key was used with another body");
    return recorded?.answer;
  }

  private async isWithin(reach: Reach): Promise<boolean> {
    if (reach.tenants === "*" && !reach.workflows) return true;
    return isWithin(reach, (this.loaded ?? (await this.load())).actor.context.run);
  }

  /** A commit of unknown outcome may owe a dispatch that was never handed over: the run asks for it again. */
  private async resendDispatch(): Promise<void> {
    const { wait } = (this.loaded ?? (await this.load())).actor.context;
    if (!wait || !("dispatchId" in wait)) return;
    const { dispatchId } = wait;
    this.commandSelf({ type: "carry", dispatchId, held: this.host.dispatcher.holds(dispatchId) });
  }

  /**
   * The poll has looked at the run, and its dispatch, which no row of its own owes, is not with this node: the former owner is gone. It is carried
   * before the silence of the worker is judged.
   */
  private async takeUpDispatch({ command }: QueuedCommand): Promise<void> {
    if (command.type !== "advance") return;
    const { context } = (this.loaded ?? (await this.load())).actor;
    const { wait } = context;
    if (!owesLook(context) || !wait || !("dispatchId" in wait) || this.host.dispatcher.holds(wait.dispatchId)) return;
    await this.untilCommitted(own({ type: "carry", dispatchId: wait.dispatchId }));
  }

  private async load(): Promise<LoadedRun> {
    const loaded = await this.host.load(this.runId);
    if (!loaded) throw noSuchRun(this.runId);
    this.loaded = loaded;
    this.justLoaded = true;
    return loaded;
  }

  /** One try of a command. Undefined: its commit was lost, and nothing has happened. */
  private attempt(loaded: LoadedRun, queued: QueuedCommand, first: boolean): Promise<Answer | undefined> {
    return loaded.dataLost ? this.attemptAfterEnd(loaded, queued) : this.attemptOne(loaded, queued, first);
  }

  /**
   * A run whose values cannot be read any more ends, before anything else is decided about it. Undefined: a commit was lost, and the command has not
   * happened.
   */
  private async attemptAfterEnd(loaded: LoadedRun, queued: QueuedCommand): Promise<Answer | undefined> {
    const { state, ending } = loaded.actor.context;
    if (!isTerminal(state) && !ending?.dataLost && !(await this.attemptOne(loaded, own({ type: "data_lost" }), false)))
      return undefined;
    // A fork would begin with them.
    if (queued.command.type === "fork") throw new KeyDestroyed();
    return this.attemptOne(loaded, queued, false);
  }

  private async attemptOne(loaded: LoadedRun, queued: QueuedCommand, first: boolean): Promise<Answer | undefined> {
    const decided = this.decide(loaded, queued);
    const decision = decided instanceof Promise ? await decided : decided;
    this.host.lastWords?.say(this.runId);
    if ("absent" in decision) return this.deny(loaded);
    if (decision.transitions.length === 0) return this.confirm(loaded, queued, decision);
    const growing = this.newUnit(loaded, queued.reach);
    const { unit } = growing;
    this.apply(growing, decision);
    unit.recordAnswer(queued, decision.answer);
    let won = false;
    try {
      const stepping = this.mayStepOn(queued) ? this.stepOn(growing, first) : undefined;
      if (stepping) await stepping;
      won = await this.submit(loaded, this.commitOf(growing));
    } finally {
      if (!won) this.lost(growing);
    }
    if (!won) return undefined;
    loaded.revision = nextRevision(loaded.revision);
    loaded.fence = unit.fence;
    this.committed(growing);
    // The command is answered by its own commit; the run's next steps have commits of their own.
    if (isReady(loaded.actor.context)) this.commandSelf({ type: "advance" });
    return decision.answer;
  }

  /**
   * The first steps of a run join the commit of its start: one statement less, and a worker gets its call as soon as the run is durable. If the
   * process dies of them, there is no run yet: the request is what is suspected, as for the start itself. Whatever goes wrong with the steps,
   * the start can be committed alone, and its wake row brings the run back.
   */
  private async begin(loaded: LoadedRun, start: Start): Promise<Begun> {
    this.suspect = start.key;
    const growing = this.newUnit(loaded, EVERYTHING);
    let begun: Begun = "alone";
    try {
      const commit = await this.firstSteps(growing);
      const joined = commit && startWith(start.commit, commit);
      if (joined) begun = (await this.submit(loaded, joined, start.key)) ? "won" : "lost";
    } catch (error) {
      if (error instanceof OutcomeUnknown || isStoreAway(error)) throw error;
      this.host.advanceFailed(this.runId, error);
    } finally {
      this.suspect = this.runId;
      if (begun !== "won") {
        this.lost(growing);
        this.discard();
      }
    }
    if (begun !== "won") return begun;
    this.committed(growing, start.started);
    if (isReady(loaded.actor.context)) this.commandSelf({ type: "advance" });
    return begun;
  }

  /** Undefined: the run cannot take a step yet. */
  private async firstSteps(growing: GrowingCommit): Promise<RunCommit | undefined> {
    const decided = this.decide(growing.loaded, { command: { type: "advance" }, reach: growing.reach });
    const decision = decided instanceof Promise ? await decided : decided;
    this.host.lastWords?.say(this.suspect);
    if ("absent" in decision || decision.transitions.length === 0) return undefined;
    this.apply(growing, decision);
    const stepping = this.stepOn(growing, false);
    if (stepping) await stepping;
    return this.commitOf(growing);
  }

  private newUnit(loaded: LoadedRun, reach: Reach): GrowingCommit {
    const { context: before } = loaded.actor;
    return { loaded, before, unit: new Unit(loaded, this.host.units), reserved: [], childEnds: [], reach };
  }

  private commitOf({ loaded, unit, reach }: GrowingCommit): RunCommit {
    // Another run may have decided since this one's last step.
    this.host.lastWords?.say(this.suspect);
    const { revision, fence, wake, actor } = loaded;
    return unit.toCommit({ context: actor.context, revision, fence, wake, reach }, this.host.clock.now());
  }

  private async submit(loaded: LoadedRun, commit: RunCommit, key?: string): Promise<boolean> {
    const won = await this.host.committer.submit(commit, key);
    const moved = won ? wakeOf(commit) : undefined;
    if (moved === undefined) return won;
    loaded.wake = moved;
    // A dispatch that no row of its own owes may be with a node that is gone: only a look finds that out.
    if (!owesLook(loaded.actor.context)) this.owesWake = false;
    return won;
  }

  /** At once where the event loop is free and no fact has to be read, as it mostly is: then nothing comes between a decision and its unit. */
  private decide(loaded: LoadedRun, asked: Asked): Decided | Absent | Promise<Decided | Absent> {
    if (!this.host.scheduler.isFree) return this.decideInTurns(loaded, asked);
    const taken = this.takeTurn(loaded, asked);
    return decidedBy(taken) ?? this.decideInTurns(loaded, asked, taken);
  }

  private async decideInTurns(loaded: LoadedRun, asked: Asked, first?: Turn): Promise<Decided | Absent> {
    const { facts: source, scheduler } = this.host;
    const { run } = loaded.actor.context;
    let fetched: Fetched = {};
    let taken = first;
    for (let refreshed = false; ; ) {
      taken ??= await scheduler.compute(run.workflowId, () => this.takeTurn(loaded, asked, fetched));
      const { decision, missedAction } = taken;
      if (missedAction && !refreshed) {
        // Perhaps it was registered on another node a moment ago: only an action that the store does not know is an error.
        await source.refreshActions();
        refreshed = true;
      } else if (!("need" in decision)) return decision;
      else fetched = { ...fetched, ...(await source.read(run, decision.need, loaded)) };
      taken = undefined;
    }
  }

  private takeTurn(loaded: LoadedRun, asked: Asked, fetched?: Fetched): Turn {
    this.beginTurn();
    return this.decideNow(loaded, asked, fetched);
  }

  private beginTurn(): void {
    this.host.lastWords?.say(this.suspect);
    this.turnBegan = performance.now();
  }

  private decideNow(loaded: LoadedRun, { command, reach }: Asked, fetched: Fetched = {}): Turn {
    const { program, actor, lastEventAt, owedUndos } = loaded;
    const { facts: source } = this.host;
    const facts = source.current(lastEventAt, owedUndos.facts, fetched);
    const decision = decide(program, actor.context, command, facts, reach);
    return { decision, missedAction: source.missedAction };
  }

  /**
   * A command that its client repeats could bring down node after node, and no row would count it: only wakes have tries. After
   * a node loss such a command is committed before the run steps on.
   */
  private mayStepOn({ id }: QueuedCommand): boolean {
    return !(this.justLoaded && this.host.hasLostNode && id !== undefined);
  }

  /**
   * Steps on in the same commit while the run needs nothing from outside and its turn lasts: then the other runs of the node have
   * theirs. The ends of children that wait in the mailbox join: many children end together, and a large foreach depends on one commit
   * for all of them. A replay goes without them, because an end that is recorded already would lose the commit each time. Undefined: it has stepped on
   * at once, as it mostly does.
   */
  private stepOn(growing: GrowingCommit, withChildEnds: boolean): Promise<void> | undefined {
    const need = this.stepAtOnce(growing, withChildEnds);
    return need && this.stepOnWith(need, growing, withChildEnds);
  }

  private async stepOnWith(first: Need, growing: GrowingCommit, withChildEnds: boolean): Promise<void> {
    const { loaded } = growing;
    for (let need: Need | undefined = first; need; need = this.stepAtOnce(growing, withChildEnds)) {
      await this.host.facts.read(loaded.actor.context.run, need, loaded);
      this.beginTurn();
    }
  }

  /** Nothing comes between these steps and the commit, as long as they need no fact that has to be read. */
  private stepAtOnce(growing: GrowingCommit, withChildEnds: boolean): Need | undefined {
    const { unit } = growing;
    const { stepsPerCommit } = this.host;
    while (unit.transitions < stepsPerCommit && !unit.createsKeyedRun && this.turnLasts) {
      if (withChildEnds && this.addChildEnd(growing)) continue;
      const stepped = this.addStep(growing);
      if (stepped !== true) return stepped || undefined;
    }
    return undefined;
  }

  private get turnLasts(): boolean {
    return !this.host.scheduler.spent || performance.now() - this.turnBegan < STEPPING_MS;
  }

  /** Adds the next command, if it is the end of a child and can be decided at once. */
  private addChildEnd(growing: GrowingCommit): boolean {
    const { loaded, unit, childEnds } = growing;
    const { next } = this.mailbox;
    if (next?.command.type !== "child" || next.reach.tenants !== "*" || unit.hasAnswerOf(next)) return false;
    const { decision } = this.decideAtOnce(loaded, next.command);
    if (!decision) return false;
    this.mailbox.removeNext();
    childEnds.push(next);
    this.apply(growing, decision);
    unit.recordAnswer(next, decision.answer);
    return true;
  }

  /** Adds the run's own next step, or the offer of a free worker. A need: with that fact, the first undo shares the failure's commit. */
  private addStep(growing: GrowingCommit): boolean | Need {
    const { loaded, unit, reserved } = growing;
    const { context } = loaded.actor;
    const offer = isReady(context) ? undefined : this.offerFor(context);
    if (offer) reserved.push(offer.dispatchId);
    else if (!isReady(context)) return false;
    const { decision, need } = this.decideAtOnce(loaded, offer ?? { type: "advance" });
    if (decision) this.apply(growing, decision);
    else if (need?.kind === "undo" && !unit.changesUndoList) return need;
    return decision !== undefined;
  }

  /** For a queued run: the offer of a worker that is free right now. Reserves the worker's credit. */
  private offerFor({ run, wait, call, quarantined }: RunContext): Extract<RunCommand, { type: "offer" }> | undefined {
    if (wait?.kind !== "queued" || !call || quarantined || !this.host.isMine(this.runId)) return undefined;
    const reservation = this.host.dispatcher.reserve(wait.dispatchId, call, run.tenantId);
    return reservation && { type: "offer", dispatchId: wait.dispatchId, workerId: reservation.workerId };
  }

  /** Neither a decision nor a need: nothing changes. Most needs are read after the commit: the rows may be the commit's own. */
  private decideAtOnce(loaded: LoadedRun, command: RunCommand): { decision?: Decided; need?: Need } {
    const taken = this.decideNow(loaded, { command, reach: EVERYTHING });
    if ("need" in taken.decision) return { need: taken.decision.need };
    const decision = decidedBy(taken);
    return decision && !("absent" in decision) && decision.transitions.length > 0 ? { decision } : {};
  }

  private apply({ loaded, unit }: GrowingCommit, { transitions }: Decided): void {
    for (const transition of transitions) {
      applyTo(loaded, transition);
      loaded.owedUndos.apply(transition.writes);
      unit.add(loaded.actor.context.run, transition);
    }
  }

  /** Nothing remains of a lost commit: credit is given back, and the ends of children wait again. */
  private lost({ reserved, childEnds }: GrowingCommit): void {
    for (const dispatchId of reserved) this.host.dispatcher.resolved(dispatchId);
    this.mailbox.putBack(childEnds);
  }

  /** `created`: the first event of a run that its first steps were committed with. */
  private committed({ loaded, before, unit, childEnds }: GrowingCommit, created?: CommittedEvent): void {
    this.justLoaded = false;
    loaded.lastSeq = unit.seq;
    loaded.lastEventAt = unit.events.at(-1)?.at ?? loaded.lastEventAt;
    this.host.metrics.transitions.inc(unit.transitions);
    const events = created ? [created, ...unit.events] : unit.events;
    this.host.effects.afterCommit(this.runId, events, unit.sends, { before, after: loaded.actor.context });
    for (const end of childEnds) this.mailbox.answer(end, { type: "advanced" });
  }

  /** A refusal or a no-op is a decision too: its revision is confirmed before it is answered (law 3). */
  private async confirm(
    loaded: LoadedRun,
    queued: QueuedCommand,
    { answer, owed = {} }: Decided,
  ): Promise<Answer | undefined> {
    const { actor, revision, fence, wake } = loaded;
    const { context } = actor;
    const { reach } = queued;
    const unchanged = { context, revision, fence, wake, reach, received: queued, answer, owed };
    const { commit, begin } = confirmationOf(unchanged, this.host.clock.now(), this.host.units);
    if (!(await this.submit(loaded, commit))) return undefined;
    this.host.effects.afterCommit(this.runId, [], [...(owed.sends ?? []), ...begin]);
    if (queued.wakeLeased && owesLook(context)) await this.resendDispatch();
    // The repeat of a command that was accepted may be refused, or stale, by now. Neither is recorded, so nothing has conflicted.
    const unrecorded = isRefusal(answer) || namesItsDispatch(queued);
    return (unrecorded ? await this.recordedAnswer(queued) : undefined) ?? answer;
  }

  /**
   * For its sender there is no such run. That is a refusal, too: the run may have changed hands (law 3). Only the revision is confirmed, which the
   * fence would not let its sender do. Undefined: it has another one.
   */
  private async deny({ actor: { context }, revision, fence }: LoadedRun): Promise<undefined> {
    const commit = confirmed({ context, revision, fence, reach: EVERYTHING });
    if (await this.host.committer.submit(commit)) throw new OutOfReach();
  }

  private commandSelf(command: RunCommand): void {
    this.mailbox.queueOwn(command, (error) => this.host.advanceFailed(this.runId, error));
  }

  /** Nothing to do: keeps the actor for the next command and arms its timer, or leaves if the run has ended or was discarded. */
  private rest(): void {
    clearTimeout(this.timer);
    const context = this.loaded?.actor.context;
    if (!context || isTerminal(context.state)) return this.host.residents.remove(this.runId);
    if (this.owesWake) return this.look();
    this.timer = this.armTimer(context);
    this.host.residents.keepIdle(this.runId, context);
  }

  /** As if the poll had brought the leased wake row now: nothing has to wait for the end of the lease. */
  private look(): void {
    this.owesWake = false;
    const reject = (error: unknown) => this.host.advanceFailed(this.runId, error);
    const look = { command: { type: "advance" }, reach: EVERYTHING, keep: false, wakeLeased: true } as const;
    this.deliver({ ...look, resolve: () => {}, reject });
  }

  /** A timer for the run's due time. A hint: the wake row is the truth. */
  private armTimer(context: RunContext): NodeJS.Timeout | undefined {
    const { host, runId } = this;
    const wake = host.hints && host.isMine(runId) ? wakeAt(context) : undefined;
    if (typeof wake !== "number") return undefined;
    const ahead = wake - host.clock.now();
    return ahead > TIMER_HORIZON_MS ? undefined : setTimeout(() => host.advance(runId), Math.max(1, ahead + 1)).unref();
  }
}

/** Commands waiting for one run; one more is answered with 503. */
const CAPACITY = 1_000;

interface MailboxHandlers {
  /** Carries out one command. A rejection is the caller's answer. */
  readonly handle: (queued: QueuedCommand) => Promise<Answer>;
  /** The mailbox is empty and nothing is being handled. */
  readonly onIdle: () => void;
}

class Mailbox {
  private readonly waiting: QueuedCommand[] = [];
  private working = false;

  constructor(private readonly handlers: MailboxHandlers) {}

  get busy(): boolean {
    return this.working || this.waiting.length > 0;
  }

  queue(queued: QueuedCommand): void {
    if (this.waiting.length >= CAPACITY) return queued.reject(overloaded("the run's mailbox is full"));
    this.waiting.push(queued);
    if (!this.working) void this.work();
  }

  /** A command of the run to itself goes behind those that wait: a run that never rests still receives a cancel. */
  queueOwn(command: RunCommand, reject: (error: unknown) => void): void {
    this.waiting.push({ ...own(command), reject });
  }

  /** The command that is handled next; it stays in the mailbox. */
  get next(): QueuedCommand | undefined {
    return this.waiting[0];
  }

  /** Removes `next`: it is handled together with the current one. */
  removeNext(): void {
    this.waiting.shift();
  }

  /** Commands that were removed, but whose commit was lost, wait in front again. */
  putBack(commands: readonly QueuedCommand[]): void {
    this.waiting.unshift(...commands);
  }

  /**
   * Answers a command that was carried out, and with it those that wait with the same inbox row: the poll brings again what has waited for
   * long. Carried out once more, each would lose a commit, and the actor with it.
   */
  answer(queued: QueuedCommand, answer: Answer): void {
    queued.resolve(answer);
    const { inboxId } = queued;
    if (inboxId === undefined) return;
    for (const again of this.waiting.filter((other) => other.inboxId === inboxId)) {
      this.waiting.splice(this.waiting.indexOf(again), 1);
      again.resolve(answer);
    }
  }

  private async work(): Promise<void> {
    this.working = true;
    for (let queued = this.waiting.shift(); queued; queued = this.waiting.shift()) {
      try {
        this.answer(queued, await this.handlers.handle(queued));
      } catch (error) {
        queued.reject(error);
      }
    }
    this.working = false;
    this.handlers.onIdle();
  }
}

/** A command that the node gives to a run of its own accord. */
const own = (command: RunCommand): QueuedCommand => ({
  ...{ command, reach: EVERYTHING, keep: false },
  ...{ resolve: () => {}, reject: () => {} },
});

/** Undefined: a fact is missing. */
function decidedBy({ decision, missedAction }: Turn): Decided | Absent | undefined {
  return missedAction || "need" in decision ? undefined : decision;
}

/** The run is outside of the reach of who sent the command. */
class OutOfReach extends Error {
  override readonly name = "OutOfReach";
}

/** The same for an id that exists nowhere, and for a run that does not exist for who sent the command. */
const noSuchRun = (runId: RunId) => notFound(`there is no run ${runId}`);

/** The due time that the commit gives the run's wake row; undefined: it leaves the row as it is. */
function wakeOf({ runId, rows: { wake = [], wake_gone: gone = [] } }: RunCommit): number | null | undefined {
  return gone.length > 0 ? null : wake.find((row) => row.run_id === runId)?.due_at;
}

/** The caller's error, where a replay cannot help. */
function callerError(error: unknown): unknown {
  return error instanceof DataRejected ? internal("the store rejected the run's data") : error;
}
