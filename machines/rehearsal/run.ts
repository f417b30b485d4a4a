// One run of a rehearsed family: its actor takes the transitions of decisions, as that of a resident run does.
import { type RunActor, startActor } from "../chart/actor.js";
import type { Program } from "../chart/program.js";
import { decide } from "../decide/decide.js";
import type { CarriedOut } from "../memory/commit.js";
import type { MemoryStore } from "../memory/store.js";
import type { Answer, RunCommand } from "../messages/command.js";
import type { Facts, Fetched, Need } from "../messages/fact.js";
import type { Decided } from "../messages/transition.js";
import type { Patch, RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import { EVERYTHING } from "../state/reach.js";
import { entryStep } from "../steps/plan.js";
import type { RunId } from "../values/ids.js";
import { measure } from "../values/json.js";

/** The surroundings of a run: its facts, and the store of its commits. */
export interface RehearsalHost {
  readonly store: MemoryStore;
  readonly now: number;
  facts(): Facts;
  fetch(run: RehearsedRun, need: Need): Fetched;
  committed(run: RehearsedRun, done: CarriedOut): void;
}

export class RehearsedRun {
  private readonly actor: RunActor;
  /** The dispatch or step entry that gets no answer. */
  unanswered?: string | number;
  /** The characters that its transitions have added to the kept data. */
  addedChars = 0;

  constructor(
    readonly program: Program,
    context: RunContext,
    private readonly host: RehearsalHost,
  ) {
    this.actor = startActor(program, context);
  }

  get id(): RunId {
    return this.context.run.id;
  }

  get context(): RunContext {
    return this.actor.context;
  }

  /** The step that it is in or about to enter, also before its start. */
  get step(): string | undefined {
    const { step, run } = this.context;
    return step ?? run.startStep ?? entryStep(this.program, run.entrypoint);
  }

  get ended(): boolean {
    return isTerminal(this.context.state);
  }

  /** Carries out the command, once if it has an id. If the host throws, nothing has changed yet. */
  command(command: RunCommand, id?: string): Answer {
    const { host } = this;
    const { store, now } = host;
    const recorded = id === undefined ? undefined : store.repeatedAnswer(this.id, id);
    if (recorded) return recorded;
    const place = store.placeOf(this.id);
    if (!place) throw new Error(`the run ${this.id} is not stored`);
    const { transitions, answer, owed } = this.decide(command);
    for (const transition of transitions) {
      this.countChars(transition.patch);
      this.actor.apply(transition);
    }
    host.committed(this, { context: this.context, place, command, id, answer, transitions, owed, now });
    return answer;
  }

  private decide(command: RunCommand): Decided {
    let facts = this.host.facts();
    for (;;) {
      const decision = decide(this.program, this.context, command, facts, EVERYTHING);
      if (!("need" in decision)) return decision;
      facts = { ...facts, ...this.host.fetch(this, decision.need) };
    }
  }

  private countChars({ variablesSize, output, items, call }: Patch): void {
    if (variablesSize !== undefined) this.addedChars += Math.max(0, variablesSize - this.context.variablesSize);
    for (const value of [output, items, call]) if (value !== undefined) this.addedChars += Number(measure(value));
  }

  stop(): void {
    this.actor.stop();
  }
}
