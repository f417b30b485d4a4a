// Effects outside the run, carried out after their commit: dispatches go to workers, commands to other runs, posts to their
// couriers. Each is owed by a durable row, so the poll recovers any that are lost here.
import type { Effect, NewChild, RunId } from "../../machines/index.js";
import type { Couriers, Dispatcher, EventAnnouncer, SlotKeeper } from "./ports.js";

export interface EffectPorts {
  readonly dispatcher: Dispatcher;
  readonly couriers: Couriers;
  /** Absent: events wait for the announcer's poll. */
  readonly announcer?: EventAnnouncer;
  /** Absent: slots wait for a granter's poll. */
  readonly slots?: SlotKeeper;
  /** A command that the commit has put into another run's inbox. */
  readonly deliver: (command: Extract<Effect, { kind: "send" }>) => void;
  readonly childCreated: (child: NewChild) => void;
  /** The commit has changed the row of the run: an actor of it is outdated. */
  readonly outdated: (runId: RunId) => void;
  /** False: commands and posts wait for the poll. A test's switch. */
  readonly hints: boolean;
}

export class Effects {
  constructor(private readonly ports: EffectPorts) {}

  carryOut(runId: RunId, effects: readonly Effect[]): void {
    const sent = new Set<string>();
    for (const effect of effects) if (effect.kind === "dispatch.send") sent.add(effect.dispatch.dispatchId);
    for (const effect of effects) this.carryOutOne(runId, effect, sent);
  }

  /** A kind that is not listed is a row of the commit, and done with it. */
  private carryOutOne(runId: RunId, effect: Effect, sent: ReadonlySet<string>): void {
    const { dispatcher, couriers, announcer, slots, hints } = this.ports;
    switch (effect.kind) {
      case "dispatch.request":
        // A dispatch of the same commit has its worker already.
        if (!sent.has(effect.dispatchId)) dispatcher.enqueue(runId, effect.dispatchId, effect.call);
        return;
      case "dispatch.send":
        return dispatcher.send(effect.dispatch);
      case "dispatch.cancel":
        return dispatcher.cancel(effect.dispatchId, effect.reason);
      case "dispatch.resolved":
        return dispatcher.resolved(effect.dispatchId);
      case "child.start":
        return this.ports.childCreated(effect.child);
      case "signal.recorded":
        if (effect.promisedTo !== undefined) this.ports.outdated(effect.promisedTo);
        return;
      case "event.published":
        return announcer?.announce(effect.event.id);
      case "slot.requested":
        return slots?.requested(effect.request.slot);
      case "slot.released":
      case "slot.returned":
      case "slot.wanted":
        return slots?.released(effect.slot);
      case "post":
        if (hints) couriers[effect.to]?.carry(effect.id);
        return;
      case "send":
        if (hints) this.ports.deliver(effect);
    }
  }
}
