// The logic of run actors: the machine of a program, with each of its edges looked up once. The chart has no guards, so an edge leads from a
// state to the same state for every run: the library finds out for the first run that takes it. A transition by the library alone, which
// matches the event against the edges of the state and works out what is left and entered, takes six times as long (20 and 3.5 µs, measured).
import type { ActorLogic, ActorScope, AnyActorRef, AnyMachineSnapshot, AnyStateMachine } from "xstate";
import type { Transition } from "../messages/transition.js";
import { patched, type RunContext } from "../state/context.js";
import { type ChartValue, chartValue } from "./position.js";

/** A transition that the chart has an edge for, as an actor emits it. */
export interface Taken {
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
type Scope = ActorScope<AnyMachineSnapshot, Transition, System, Taken>;

export class RunLogic implements ActorLogic<AnyMachineSnapshot, Transition, never, System, Taken> {
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
