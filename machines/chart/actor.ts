// One active run as an XState actor: created from a context, stepped by transitions, and checked against its chart. The actor
// holds the state of the run in memory; whether it may go on from there is decided by the commit.
import { type AnyActorRef, createActor } from "xstate";
import type { Transition } from "../messages/transition.js";
import { patched, type RunContext } from "../state/context.js";
import { type ChartValue, chartValue } from "./position.js";
import type { Program } from "./program.js";

/** The chart has no such edge at this place, or it leads elsewhere: the decision and the chart disagree, which is a bug. */
export class ChartMismatch extends Error {
  override readonly name = "ChartMismatch";
}

export interface RunActor {
  readonly context: RunContext;
  /** Steps the actor. Throws ChartMismatch if the chart refuses the transition; the actor must then be discarded. */
  apply(transition: Transition): void;
  /** The XState actor, for inspection. */
  readonly ref: AnyActorRef;
  stop(): void;
}

/** An ended run gets an actor in a final state, which refuses every transition; decide() has none for it (law 4). */
export function startActor({ logic }: Program, context: RunContext): RunActor {
  const ref = createActor(logic, { snapshot: logic.snapshotOf(context), id: context.run.id });
  let taken: Transition | undefined;
  let fault: unknown;
  // Without an error observer a throw inside the actor would become an uncaught exception and take the process.
  ref.subscribe({ error: (error) => (fault = error) });
  ref.on("transition", ({ transition }) => {
    taken = transition;
  });
  ref.start();
  return {
    get context() {
      return ref.getSnapshot().context;
    },
    ref,
    apply(transition) {
      taken = undefined;
      ref.send(transition);
      if (fault) throw fault;
      const { value, context: after } = ref.getSnapshot();
      if (taken !== transition || !sameValue(value, chartValue(after)))
        throw new ChartMismatch(`run ${after.run.id}: the edge ${transition.type} led to ${JSON.stringify(value)}`);
    },
    stop: () => ref.stop(),
  };
}

/** The actor of a run that the transition moves to another version: a new one, of the program of that version. */
export function movedActor(actor: RunActor, program: Program, { patch, moved }: Transition): RunActor {
  const { context } = actor;
  actor.stop();
  return startActor(program, { ...patched(context, patch), run: { ...context.run, ...moved } });
}

function sameValue(left: ChartValue, right: ChartValue): boolean {
  if (typeof left === "string" || typeof right === "string") return left === right;
  return left.active === right.active;
}
