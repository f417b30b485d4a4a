// A resident: a run in memory, its actor and its mailbox. It takes one command at a time, steps until it needs the outside
// world, commits, and only then lets anything out (design: commit before effect). The store is right: whenever a commit is
// lost or its outcome unknown, the actor is discarded and the command replayed on what the store has (law 2).
import {
  type Answer,
  type Decision,
  decide,
  isReady,
  isTerminal,
  type Need,
  type RunActor,
  type RunCommand,
} from "../../machines/index.js";
import { notFound, overloaded, SagaError } from "../errors.js";
import { shardOf } from "../ids.js";
import type { RunCommit } from "../store/commit-rows.js";
import { isStoreAway } from "../store/failure.js";
import { Batch, owedRows } from "./batch.js";
import { wakeTime } from "./birth.js";
import { OutcomeUnknown, Poisoned } from "./committer.js";
import { backOff, type RunRoom } from "./room.js";

/** How often a command is replayed after a lost commit before the caller hears 503. */
const REPLAYS = 10;
/** A run steps no longer than this before it commits: the others of its node wait meanwhile. */
const STEPPING_MS = 20;
/** Commands waiting for one run; beyond it callers hear 503. */
const MAILBOX_LIMIT = 1_000;

export interface Delivery {
  readonly command: RunCommand;
  readonly id?: string;
  readonly keep: boolean;
  /** The inbox row that carried it: deleted in the commit that answers it. */
  readonly inboxId?: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** What is in memory of the run: the actor as of `revision`. */
export interface Loaded {
  readonly actor: RunActor;
  readonly program: Parameters<typeof decide>[0];
  revision: number;
  lastSeq: number;
  lastEventAt: number;
}

export class Resident {
  private mailbox: Delivery[] = [];
  private working = false;
  private timer: NodeJS.Timeout | undefined;
  /** Nothing was committed since it was loaded. */
  private cold = false;

  constructor(
    readonly runId: string,
    private readonly room: RunRoom,
    private loaded?: Loaded,
  ) {}

  get busy(): boolean {
    return this.working || this.mailbox.length > 0;
  }

  deliver(delivery: Delivery): void {
    if (this.mailbox.length >= MAILBOX_LIMIT) return delivery.reject(overloaded("the run's mailbox is full"));
    this.mailbox.push(delivery);
    if (!this.working) void this.work();
  }

  /** Drops the actor; the next command loads the run again. */
  discard(): void {
    clearTimeout(this.timer);
    this.loaded?.actor.stop();
    this.loaded = undefined;
  }

  private async work(): Promise<void> {
    this.working = true;
    for (let next = this.mailbox.shift(); next; next = this.mailbox.shift()) {
      try {
        next.resolve(await this.carryOut(next));
      } catch (error) {
        this.discard();
        next.reject(error);
      }
    }
    this.working = false;
    this.rest();
  }

  /** The answer of the committed outcome of one command; replays it while commits are lost. */
  private async carryOut(delivery: Delivery): Promise<Answer> {
    let unknown = false;
    for (let nth = 0; nth < REPLAYS; nth++) {
      try {
        const answer =
          (await this.recorded(delivery, nth)) ??
          (await this.attempt(this.loaded ?? (await this.load()), delivery, nth === 0));
        if (answer && unknown) await this.sayAgain();
        if (answer) return answer;
        this.room.metrics.commitConflicts.inc();
      } catch (error) {
        if (!(error instanceof OutcomeUnknown) && !isStoreAway(error)) throw unanswerable(error);
        unknown ||= error instanceof OutcomeUnknown;
      }
      this.discard();
      await backOff(nth);
    }
    throw overloaded("the outcome could not be learnt in time");
  }

  /** A replay asks first: the try before it, or another node, may have done it already. */
  private async recorded({ id }: Delivery, nth: number): Promise<Answer | undefined> {
    return nth === 0 || id === undefined ? undefined : this.room.store.repeatedAnswer(this.runId, id);
  }

  /** A commit of unknown outcome may have owed a dispatch that nobody carried: the run says again what it waits for. */
  private async sayAgain(): Promise<void> {
    const { wait } = (this.loaded ?? (await this.load())).actor.context;
    if (wait && "dispatchId" in wait) this.toItself({ type: "carry", dispatchId: wait.dispatchId });
  }

  private async load(): Promise<Loaded> {
    const loaded = await this.room.load(this.runId);
    if (!loaded) throw notFound(`there is no run ${this.runId}`);
    this.loaded = loaded;
    this.cold = true;
    return loaded;
  }

  /** One try. Undefined: the commit was lost, nothing was done. */
  private async attempt(loaded: Loaded, delivery: Delivery, inCompany: boolean): Promise<Answer | undefined> {
    const decision = await this.decide(loaded, delivery.command);
    if (decision.transitions.length === 0) return this.confirm(loaded, delivery, decision);
    const batch = new Batch(loaded.lastSeq, loaded.lastEventAt);
    this.take(loaded, batch, decision);
    batch.answer(delivery, decision.answer);
    // A command that its client repeats would bring down node after node, and no row would count it: only wakes have tries.
    const steps = !(this.cold && this.room.careful && delivery.id !== undefined);
    const companions = steps ? this.stepOn(loaded, batch, inCompany) : [];
    let won = false;
    try {
      won = await this.commit(loaded, batch);
    } finally {
      if (!won) this.mailbox.unshift(...companions);
    }
    if (!won) return undefined;
    for (const { resolve } of companions) resolve({ type: "advanced" });
    // The command is answered by its commit; what the run does next is committed on its own.
    if (isReady(loaded.actor.context)) this.toItself({ type: "advance" });
    return decision.answer;
  }

  /** Behind the commands that wait: a run that never rests still hears a cancel. */
  private toItself(command: RunCommand): void {
    const reject = (error: unknown) => this.room.stuck(this.runId, error);
    this.mailbox.push({ command, keep: false, resolve: () => {}, reject });
  }

  private async decide(loaded: Loaded, command: RunCommand): Promise<Exclude<Decision, { need: Need }>> {
    let facts = this.room.facts();
    for (let learnt = false; ; ) {
      const decision = decide(loaded.program, loaded.actor.context, command, facts);
      if (facts.missed.action && !learnt) {
        // Registered a moment ago, elsewhere? Only what the store does not know is an error of the run.
        await this.room.learnActions();
        [facts, learnt] = [this.room.facts(), true];
      } else if (!("need" in decision)) return decision;
      else facts = { ...facts, ...(await this.room.fetch(loaded.actor.context.run, decision.need)) };
    }
  }

  /**
   * Steps on in the same commit while nothing outside is needed; an offer of a free worker is taken at once. So are the ends of
   * children that wait in the mailbox: many end together, and one commit for all of them is what a foreach lives by. A replay
   * goes without: an end that is recorded already would lose the commit for its company each time.
   */
  private stepOn(loaded: Loaded, batch: Batch, inCompany: boolean): Delivery[] {
    const { actor, program } = loaded;
    const companions: Delivery[] = [];
    const until = performance.now() + STEPPING_MS;
    while (batch.transitions < this.room.stepsPerCommit && performance.now() < until) {
      const { context } = actor;
      const companion = inCompany ? this.nextChildEnd(loaded, batch) : undefined;
      if (companion) {
        companions.push(companion);
        continue;
      }
      const offer = isReady(context) ? undefined : this.room.offerFor(context);
      if (offer) batch.reserved.push(offer.dispatchId);
      else if (!isReady(context)) break;
      const command = offer ?? ({ type: "advance" } as const);
      const facts = this.room.facts();
      const decision = decide(program, context, command, facts);
      // What it must know first is read after the commit: the rows it asks for may be its own.
      if (facts.missed.action || "need" in decision || decision.transitions.length === 0) break;
      this.take(loaded, batch, decision);
    }
    return companions;
  }

  /** The next in the mailbox, if it is the end of a child and needs nothing more to be decided: it shares the commit. */
  private nextChildEnd({ actor, program }: Loaded, batch: Batch): Delivery | undefined {
    const [next] = this.mailbox;
    if (next?.command.type !== "child" || batch.answers(next)) return undefined;
    const facts = this.room.facts();
    const decision = decide(program, actor.context, next.command, facts);
    if (facts.missed.action || "need" in decision || decision.transitions.length === 0) return undefined;
    this.mailbox.shift();
    for (const transition of decision.transitions) {
      actor.take(transition);
      batch.take(this.runId, transition);
    }
    batch.answer(next, decision.answer);
    return next;
  }

  private take(loaded: Loaded, batch: Batch, { transitions }: Exclude<Decision, { need: Need }>): void {
    for (const transition of transitions) {
      loaded.actor.take(transition);
      batch.take(this.runId, transition);
    }
  }

  private async commit(loaded: Loaded, batch: Batch): Promise<boolean> {
    const commit = batch.commit(loaded.actor.context, loaded.revision, this.room.now());
    let won = false;
    try {
      won = await this.room.committer.submit(commit);
    } finally {
      if (!won) this.room.withdrawn(batch.reserved);
    }
    if (!won) return false;
    this.cold = false;
    loaded.revision++;
    loaded.lastSeq = batch.seq;
    loaded.lastEventAt = batch.events.at(-1)?.at ?? loaded.lastEventAt;
    this.room.metrics.transitions.inc(batch.transitions);
    this.room.released(this.runId, batch.events, batch.effects);
    return true;
  }

  /** A refusal or a no-op is a decision too: the revision it was based on is confirmed before it is answered (law 3). */
  private async confirm(
    loaded: Loaded,
    delivery: Delivery,
    { answer, effects = [] }: Exclude<Decision, { need: Need }>,
  ): Promise<Answer | undefined> {
    const now = this.room.now();
    const { context } = loaded.actor;
    // A refusal is not kept: the same command may be taken later (a report to a run in quarantine, once it is released).
    const recorded = delivery.id !== undefined && answer.type !== "refused";
    const commit: RunCommit = {
      runId: this.runId,
      shard: shardOf(this.runId),
      expected: loaded.revision,
      events: [],
      ...owedRows(this.runId, effects, now),
      // The poll lent the wake row out: put it back where it belongs.
      ...(delivery.command.type === "advance" && { wake: wakeTime(context, now) }),
      ...(recorded && {
        commands: [{ id: delivery.id ?? "", answer: JSON.stringify(answer), keep: delivery.keep, at: now }],
      }),
      takenInbox: delivery.inboxId === undefined ? [] : [delivery.inboxId],
    };
    if (!(await this.room.committer.submit(commit))) return undefined;
    this.room.released(this.runId, [], effects);
    return answer;
  }

  /** Nothing to do: keep the actor for what comes next, arm its timer, or let it go. */
  private rest(): void {
    clearTimeout(this.timer);
    const context = this.loaded?.actor.context;
    if (!context || isTerminal(context.state)) return this.room.leave(this);
    this.timer = this.room.arm(this.runId, context);
    this.room.rested(this, context);
  }
}

/** What the caller hears of an error that replaying cannot mend. */
function unanswerable(error: unknown): unknown {
  if (error instanceof Poisoned)
    return new SagaError(500, "internal", "the store refused the run's data", undefined, undefined);
  return error;
}
