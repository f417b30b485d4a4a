// One active run as an XState actor: created from a context, stepped by transitions, and checked against its chart. The actor
// holds the state of the run in memory; whether it may go on from there is decided by the commit.
import {
  type ActorLogic,
  type ActorScope,
  type AnyActorRef,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createActor,
} from "xstate";
import type { Transition } from "../messages/transition.js";
import { isPausing, patched, type RunContext } from "../state/context.js";
import { isTerminal } from "../state/lifecycle.js";
import { pausedKey, stateKey } from "./labels.js";

export interface RunActor {
  readonly context: RunContext;
  /** Steps the actor. Throws ChartMismatch if the chart refuses the transition; the actor must then be discarded. */
  apply(transition: Transition): void;
  /** The XState actor, for inspection. */
  readonly ref: AnyActorRef;
  stop(): void;
}

/** The chart has no such edge at this place, or it leads elsewhere: the decision and the chart disagree, which is a bug. */
export class ChartMismatch extends Error {
  override readonly name = "ChartMismatch";
}

/** What an actor needs of its program. */
interface Running {
  readonly logic: RunLogic;
}

/** An ended run gets an actor in a final state, which refuses every transition; decide() has none for it (law 4). */
export function startActor({ logic }: Running, context: RunContext): RunActor {
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
export function movedActor(actor: RunActor, program: Running, { patch, moved }: Transition): RunActor {
  const { context } = actor;
  actor.stop();
  return startActor(program, { ...patched(context, patch), run: { ...context.run, ...moved } });
}

/** The name of a state at the top, or of the step in `active`. */
type ChartValue = string | Readonly<Record<string, string>>;

/**
 * The position of a run in its chart, computed from its context: the inverse of what the edges do. After every transition the actor must be there.
 * Nothing stores a position: a restored run starts at this one.
 */
export function chartValue(context: RunContext): ChartValue {
  if (isTerminal(context.state)) return context.state;
  // A try that is being left gets to its catch first; the ending follows.
  if (context.ending && !context.unwinding) return "undoing";
  if (context.step === undefined) return "pending";
  return { active: isPausing(context) ? pausedKey(context.step) : stateKey(context.step) };
}

function sameValue(left: ChartValue, right: ChartValue): boolean {
  if (typeof left === "string" || typeof right === "string") return left === right;
  return left.active === right.active;
}

// ---- The logic of the actors of a program

/** A transition that the chart has an edge for, as an actor emits it. */
interface EmittedTransition {
  readonly type: "transition";
  readonly transition: Transition;
}

/** A state of the machine. */
interface Position {
  /** The library's snapshot of it, without the context of a run. */
  readonly snapshot: AnyMachineSnapshot;
  /** Where the edges lead that runs have taken so far, by label. */
  readonly edges: Map<string, Position>;
}

type System = AnyActorRef["system"];
type Scope = ActorScope<AnyMachineSnapshot, Transition, System, EmittedTransition>;

/**
 * The machine of a program, with each of its edges looked up once. The chart has no guards, so an edge leads from a state to the same state for
 * every run: the library finds out for the first run that takes it. A transition by the library alone, which matches the event against the
 * edges of the state and works out what is left and entered, takes six times as long (20 and 3.5 µs, measured).
 */
export class RunLogic implements ActorLogic<AnyMachineSnapshot, Transition, never, System, EmittedTransition> {
  /** The states at the top, by their keys. */
  private readonly outer = new Map<string, Position>();
  /** The states in `active`, by theirs. */
  private readonly steps = new Map<string, Position>();

  constructor(private readonly machine: AnyStateMachine) {}

  /** The snapshot of a run where its context says that it is. */
  snapshotOf(context: RunContext): AnyMachineSnapshot {
    return snapshotAt(this.position(chartValue(context)), context);
  }

  transition(from: AnyMachineSnapshot, event: Transition, scope: Scope): AnyMachineSnapshot {
    const to = this.position(from.value).edges.get(event.type);
    if (!to) return this.explore(from, event, scope);
    scope.emit({ type: "transition", transition: event });
    return snapshotAt(to, patched(from.context, event.patch));
  }

  /** A snapshot of this logic. The library's own way walks over all of its context, and replaces what looks like an actor. */
  restoreSnapshot(snapshot: unknown): AnyMachineSnapshot {
    return snapshot as AnyMachineSnapshot;
  }

  getInitialSnapshot(): never {
    throw new Error("a run's actor begins where its context says that the run is");
  }

  getPersistedSnapshot(snapshot: AnyMachineSnapshot): AnyMachineSnapshot {
    return snapshot;
  }

  /** Has the library take an edge, and remembers where it led. An event without an edge leaves the snapshot as it is. */
  private explore(from: AnyMachineSnapshot, event: Transition, scope: Scope): AnyMachineSnapshot {
    const to = this.machine.transition(from, event, scope) as AnyMachineSnapshot;
    const isEdge = to !== from && (to.status === "active" || to.status === "done");
    if (isEdge) this.position(from.value).edges.set(event.type, this.position(to.value));
    return to;
  }

  private position(value: ChartValue): Position {
    const [known, key] = typeof value === "string" ? [this.outer, value] : [this.steps, value.active ?? ""];
    const found = known.get(key);
    if (found) return found;
    const position = { snapshot: this.machine.resolveState({ value, context: {} }), edges: new Map() };
    known.set(key, position);
    return position;
  }
}

function snapshotAt({ snapshot }: Position, context: RunContext): AnyMachineSnapshot {
  return { ...snapshot, context };
}
