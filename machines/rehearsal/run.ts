// One run of a rehearsed family: its actor takes what decisions say, as a resident run's does. Not who commands it, nor what
// becomes of its effects.
import { type RunActor, startActor } from "../actor.js";
import type { AuditEvent } from "../audit.js";
import type { Answer, RunCommand } from "../commands.js";
import type { Patch, RunContext } from "../context.js";
import { decide } from "../decide.js";
import type { Effect } from "../effects.js";
import type { Facts, Fetched, Need } from "../facts.js";
import { measure } from "../json.js";
import { isTerminal } from "../lifecycle.js";
import { entryStep, type Program } from "../program.js";

/** What a run finds around it. */
export interface Stage {
  facts(): Facts;
  fetch(run: RehearsedRun, need: Need): Fetched;
  committed(run: RehearsedRun, events: readonly AuditEvent[], effects: readonly Effect[]): void;
}

export class RehearsedRun {
  private readonly actor: RunActor;
  /** The dispatch, or the step entry, that nobody will answer. */
  silent?: string | number;
  lastEventAt = 0;
  /** Characters that its transitions have added to what is kept. */
  weight = 0;

  constructor(
    readonly program: Program,
    context: RunContext,
    private readonly stage: Stage,
  ) {
    this.actor = startActor(program, context);
  }

  get id(): string {
    return this.context.run.id;
  }

  get context(): RunContext {
    return this.actor.context;
  }

  /** The step it is in or about to enter, also where it has not begun. */
  get step(): string | undefined {
    const { step, run } = this.context;
    return step ?? run.startStep ?? entryStep(this.program, run.entrypoint);
  }

  get ended(): boolean {
    return isTerminal(this.context.state);
  }

  /** Carries the command out. What the stage throws, it throws before anything has changed. */
  command(command: RunCommand): Answer {
    const { stage } = this;
    let facts = stage.facts();
    for (;;) {
      const decision = decide(this.program, this.context, command, facts);
      if ("need" in decision) {
        facts = { ...facts, ...stage.fetch(this, decision.need) };
        continue;
      }
      const events: AuditEvent[] = [];
      const effects = [...(decision.effects ?? [])];
      for (const transition of decision.transitions) {
        this.weigh(transition.patch);
        this.actor.take(transition);
        events.push(...transition.audit);
        effects.push(...transition.effects);
      }
      this.lastEventAt = events.at(-1)?.at ?? this.lastEventAt;
      stage.committed(this, events, effects);
      return decision.answer;
    }
  }

  private weigh({ variablesSize, output, items, call }: Patch): void {
    if (variablesSize !== undefined) this.weight += Math.max(0, variablesSize - this.context.variablesSize);
    for (const value of [output, items, call]) if (value !== undefined) this.weight += Number(measure(value));
  }

  stop(): void {
    this.actor.stop();
  }
}
