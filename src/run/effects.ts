// Effects: what leaves a run, after its commit: its events go to their listener, dispatches to workers, commands to other runs, posts to their
// couriers. Each send is owed by a durable row, so the poll recovers any that are lost here.

import type { CommittedEvent, FencedChild, RunId, Send } from "../../machines/index.js";
import type { SlotKeeper } from "../concurrency/slot-granter.js";
import type { EventAnnouncer } from "../events/announcer.js";
import type { CommitListener, Couriers, Dispatcher, RunChange } from "./ports.js";

/** The other nodes of the service. Each continues its own runs after this node has carried out a command for them. */
export interface PeerNodes {
  isMine(runId: RunId): boolean;
  /** `saga.advance` to the owner. A hint. */
  advance(runId: RunId): void;
  /** The owner carries out effects that were committed here for its run. A hint: the outbox is the truth. */
  sendEffects(runId: RunId, sends: readonly Send[]): void;
}

export interface EffectPorts {
  readonly onCommit: CommitListener;
  /** Absent: this node owns every run. */
  readonly peers?: PeerNodes;
  readonly dispatcher: Dispatcher;
  readonly couriers: Couriers;
  /** Absent: events wait for the announcer's poll. */
  readonly announcer?: EventAnnouncer;
  /** Absent: slots wait for a granter's poll. */
  readonly slots?: SlotKeeper;
  /** Absent: turns wait for a granter's poll. */
  readonly turns?: SlotKeeper;
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

  /** Publishes the events of a commit, and carries out its sends, here or on the owner of the run. Called after the commit has won, never before. */
  afterCommit(runId: RunId, events: readonly CommittedEvent[], sends: readonly Send[], change?: RunChange): void {
    const { onCommit, peers } = this.ports;
    if (events.length > 0) onCommit(runId, events, change);
    if (!peers || peers.isMine(runId)) this.carryOut(runId, sends);
    else if (sends.length > 0) peers.sendEffects(runId, sends);
  }

  /** Carries out committed effects of a run of this node, also for another node that committed them. */
  carryOut(runId: RunId, sends: readonly Send[]): void {
    const sent = new Set<string>();
    for (const send of sends) if (send.kind === "dispatch.send") sent.add(send.dispatch.dispatchId);
    for (const send of sends) this.carryOutOne(runId, send, sent);
  }

  private carryOutOne(runId: RunId, send: Send, sent: ReadonlySet<string>): void {
    const { dispatcher, couriers, announcer, slots, turns, hints } = this.ports;
    switch (send.kind) {
      case "dispatch.request":
        // A dispatch of the same commit has its worker already.
        if (!sent.has(send.dispatchId))
          dispatcher.enqueue(runId, send.dispatchId, send.call, send.tenantId, send.precedence);
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
      case "turn":
        return turns?.requested(send.key);
      case "post":
        if (hints) couriers[send.to]?.carry(send.id);
        return;
      case "command":
        if (hints) this.ports.deliver(send);
        return;
      default:
        // A node of a later release may send what this one does not know: it is a hint.
        send satisfies never;
    }
  }
}
