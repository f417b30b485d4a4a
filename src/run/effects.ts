// Sends: what leaves a run, carried out after its commit: dispatches go to workers, commands to other runs, posts to their
// couriers. Each is owed by a durable row, so the poll recovers any that are lost here.
import type { FencedChild, RunId, Send } from "../../machines/index.js";
import type { Couriers, Dispatcher, EventAnnouncer, SlotKeeper } from "./ports.js";

export interface EffectPorts {
  readonly dispatcher: Dispatcher;
  readonly couriers: Couriers;
  /** Absent: events wait for the announcer's poll. */
  readonly announcer?: EventAnnouncer;
  /** Absent: slots wait for a granter's poll. */
  readonly slots?: SlotKeeper;
  /** A command that the commit has put into another run's inbox. */
  readonly deliver: (command: Extract<Send, { kind: "command" }>) => void;
  readonly childCreated: (child: FencedChild) => void;
  /** The commit has changed the row of the run: an actor of it is outdated. */
  readonly outdated: (runId: RunId) => void;
  /** False: commands and posts wait for the poll. A test's switch. */
  readonly hints: boolean;
}

export class Effects {
  constructor(private readonly ports: EffectPorts) {}

  carryOut(runId: RunId, sends: readonly Send[]): void {
    const sent = new Set<string>();
    for (const send of sends) if (send.kind === "dispatch.send") sent.add(send.dispatch.dispatchId);
    for (const send of sends) this.carryOutOne(runId, send, sent);
  }

  private carryOutOne(runId: RunId, send: Send, sent: ReadonlySet<string>): void {
    const { dispatcher, couriers, announcer, slots, hints } = this.ports;
    switch (send.kind) {
      case "dispatch.request":
        // A dispatch of the same commit has its worker already.
        if (!sent.has(send.dispatchId)) dispatcher.enqueue(runId, send.dispatchId, send.call);
        return;
      case "dispatch.send":
        return dispatcher.send(send.dispatch);
      case "dispatch.cancel":
        return dispatcher.cancel(send.dispatchId, send.reason);
      case "dispatch.resolved":
        return dispatcher.resolved(send.dispatchId);
      case "child":
        return this.ports.childCreated(send.child);
      case "outdated":
        return this.ports.outdated(send.runId);
      case "announce":
        return announcer?.announce(send.eventId);
      case "slot":
        return send.asked ? slots?.requested(send.slot) : slots?.released(send.slot);
      case "post":
        if (hints) couriers[send.to]?.carry(send.id);
        return;
      case "command":
        if (hints) this.ports.deliver(send);
    }
  }
}
