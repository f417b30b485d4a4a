// One run of a rehearsed family: its actor takes the transitions of decisions, as that of a resident run does.
import { type RunActor, startActor } from "../chart/actor.js";
import type { Program } from "../chart/program.js";
import { decide } from "../decide/decide.js";
import type { AuditEvent } from "../messages/audit.js";
import type { Answer, RunCommand } from "../messages/command.js";
import type { Facts, Fetched, Need } from "../messages/fact.js";
import type { Write } from "../messages/owed.js";
import type { Patch, RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import { entryStep } from "../steps/plan.js";
import type { RunId } from "../values/ids.js";
import { measure } from "../values/json.js";

/** The surroundings of a run: its facts, and the place of its writes. */
export interface RehearsalHost {
  facts(): Facts;
  fetch(run: RehearsedRun, need: Need): Fetched;
  committed(run: RehearsedRun, events: readonly AuditEvent[], writes: readonly Write[]): void;
}

export class RehearsedRun {
  private readonly actor: RunActor;
  /** The dispatch or step entry that gets no answer. */
  unanswered?: string | number;
  lastEventAt = 0;
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

  /** Carries out the command. If the host throws, nothing has changed yet. */
  command(command: RunCommand): Answer {
    const { host } = this;
    let facts = host.facts();
    for (;;) {
      const decision = decide(this.program, this.context, command, facts);
      if ("need" in decision) {
        facts = { ...facts, ...host.fetch(this, decision.need) };
        continue;
      }
      const events: AuditEvent[] = [];
      const writes = [...(decision.owed?.writes ?? [])];
      for (const transition of decision.transitions) {
        this.countChars(transition.patch);
        this.actor.apply(transition);
        events.push(...transition.audit);
        writes.push(...transition.writes);
      }
      this.lastEventAt = events.at(-1)?.at ?? this.lastEventAt;
      host.committed(this, events, writes);
      return decision.answer;
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
