// What a store would keep of a rehearsed family: signals, undo lists, the inbox, what branches begin with. It changes by the
// effects of runs alone, and answers what their decisions must know. Not a store: it is gone with the rehearsal.
import type { RunCommand } from "../commands.js";
import type { UndoEntry } from "../context.js";
import type { Effect, PublishedEvent } from "../effects.js";
import type { EndedChild, EventFact, Fetched, Need } from "../facts.js";
import { type Json, type JsonObject, measure } from "../json.js";
import type { Child } from "./child.js";
import type { RehearsedRun } from "./run.js";

export interface Message {
  readonly id: string;
  readonly to: string;
  readonly command: RunCommand;
}

interface KeptSignal {
  readonly id: string;
  readonly runId: string;
  readonly name: string;
  readonly payload: Json;
  consumed: boolean;
}

interface KeptUndo {
  entry: UndoEntry & { readonly ordinal: string };
  owner: string;
  open: boolean;
}

/** The needs that the memory answers; what a workflow is, it is told. */
type Remembered = Exclude<Need, { kind: "workflow" }>;

export class Memory {
  readonly runs = new Map<string, RehearsedRun>();
  /** In the order in which they were sent. */
  readonly inbox = new Map<string, Message>();
  private readonly signals: KeptSignal[] = [];
  /** In the order of their publication. */
  private readonly events: EventFact[] = [];
  /** `run/event` of those that were taken. */
  private readonly eventsTaken = new Set<string>();
  private readonly undo: KeptUndo[] = [];
  private readonly scopes = new Map<string, JsonObject>();
  private readonly delivered = new Set<string>();

  constructor(
    private readonly children: () => Iterable<Child>,
    private readonly outputLimit: number,
  ) {}

  /** The variables that the branches or items of a step entry begin with. */
  scope(runId: string, entry: number): JsonObject {
    return this.scopes.get(`${runId}/${entry}`) ?? {};
  }

  send(message: Message): void {
    if (!this.delivered.has(message.id)) this.inbox.set(message.id, message);
  }

  take({ id }: Message): void {
    this.inbox.delete(id);
    this.delivered.add(id);
  }

  apply(owner: string, effect: Effect): void {
    switch (effect.kind) {
      case "signal.recorded":
        this.signals.push({ ...effect, runId: owner });
        break;
      case "signal.consumed":
        for (const signal of this.signals) if (signal.id === effect.id) signal.consumed = true;
        break;
      case "event.published":
        this.publish(effect.event);
        break;
      case "event.taken":
        this.eventsTaken.add(`${owner}/${effect.id}`);
        break;
      case "undo.owed":
        this.undo.push({ entry: { ...effect.entry, ordinal: String(this.undo.length + 1) }, owner, open: true });
        break;
      case "undo.settled":
        this.close(owner, ({ entry }) => entry.ordinal === effect.ordinal);
        break;
      case "undo.passed":
        this.close(owner, ({ entry }) => entry.action === undefined && entry.entry > (effect.since ?? 0));
        break;
      case "undo.dropped":
        this.close(owner, () => true);
        break;
      case "undo.handed":
        this.hand(owner, effect);
        break;
      case "scope.kept":
        this.scopes.set(`${owner}/${effect.entry}`, effect.variables);
        break;
      case "send":
        this.send(effect);
        break;
    }
  }

  /** Whoever waits for it now is told; who comes later finds it. */
  publish({ id, topic, headers, payload }: Omit<PublishedEvent, "tenantId">): void {
    const event = { id, topic, headers, payload, ordinal: String(this.events.length + 1) };
    this.events.push(event);
    for (const { context } of this.runs.values()) {
      const { wait, run } = context;
      if (wait?.kind !== "event" || !fits(event, wait)) continue;
      this.send({ id: `${id}/${run.id}`, to: run.id, command: { type: "event", eventId: id } });
    }
  }

  private close(owner: string, which: (kept: KeptUndo) => boolean): void {
    for (const kept of this.undo) if (kept.open && kept.owner === owner && which(kept)) kept.open = false;
  }

  private hand(owner: string, { to, entry }: Extract<Effect, { kind: "undo.handed" }>): void {
    for (const kept of this.undo) {
      if (!kept.open || kept.owner !== owner) continue;
      kept.owner = to;
      kept.entry = { ...kept.entry, entry, childRunId: kept.entry.childRunId ?? owner };
    }
  }

  fetch({ context: { run } }: RehearsedRun, need: Remembered): Fetched {
    switch (need.kind) {
      case "signal": {
        const family = [run.id, ...(run.family ?? [])];
        const found = this.signals.find(
          ({ runId, name, consumed }) => !consumed && name === need.name && family.includes(runId),
        );
        return { signal: found ?? null };
      }
      case "events": {
        const { since = "0", after = since, named } = need;
        const may = this.events.filter((event) => fits(event, need) && !this.eventsTaken.has(`${run.id}/${event.id}`));
        const page = may.filter(({ id, ordinal }) => Number(ordinal) > Number(id === named ? since : after));
        return { events: { page, more: false } };
      }
      case "newest_event":
        return { newestEvent: String(this.events.length) };
      case "undo": {
        const owed = this.owned(run.id).filter(
          ({ entry }) => entry.action !== undefined && entry.entry > (need.since ?? 0),
        );
        return { undo: owed.at(-1)?.entry ?? null };
      }
      case "ended":
        return { ended: this.ended(run.id, need) };
      case "living":
        return { living: this.living(run.id, need.from) };
      case "target":
        // A run outside the rehearsal is taken to be there: what is sent to it goes nowhere.
        return { target: { id: need.runId } };
      case "waiter":
        return { waiter: this.waiting(run.id, need.name)[this.unconsumed(run.id, need.name).length] ?? null };
      case "unmatched": {
        const waiting = this.waiting(run.id, need.name);
        const signals = this.unconsumed(run.id, need.name).slice(0, waiting.length);
        return { unmatched: signals.map(({ id }, nth) => ({ signalId: id, waiter: waiting[nth]?.id ?? "" })) };
      }
      case "keyed":
        return { keyed: null };
    }
  }

  /** In the order of their ordinals. */
  private owned(runId: string): KeptUndo[] {
    return this.undo.filter(({ owner, open }) => open && owner === runId);
  }

  private ended(runId: string, { entry, child }: Extract<Need, { kind: "ended" }>): readonly EndedChild[] | null {
    const ended: EndedChild[] = [];
    for (const { id, parentRunId, parentEntry, ended: end } of this.children())
      if (end && parentRunId === runId && parentEntry === entry && (child === undefined || child === id))
        ended.push(end);
    const sizes = ended.map(({ output }) => measure(output));
    if (sizes.reduce<number>((sum, size) => sum + Number(size), 0) > this.outputLimit) return null;
    // Items are named by their index: shorter is less.
    return ended.sort(({ branch: a }, { branch: b }) => a.length - b.length || (a < b ? -1 : 1));
  }

  private living(runId: string, from: number): string[] {
    const living: string[] = [];
    for (const { id, parentRunId, parentEntry, ended } of this.children())
      if (!ended && parentRunId === runId && parentEntry >= from) living.push(id);
    return living;
  }

  private unconsumed(runId: string, name: string) {
    return this.signals.filter((signal) => !signal.consumed && signal.runId === runId && signal.name === name);
  }

  /** The longest first. */
  private waiting(runId: string, name: string): { readonly id: string }[] {
    const waiting = [...this.runs.values()].filter(({ context: { run, wait, state } }) => {
      return run.family?.includes(runId) && state === "paused" && wait?.kind === "signal" && wait.name === name;
    });
    return waiting.sort((left, right) => left.lastEventAt - right.lastEventAt);
  }
}

function fits({ topic, headers }: EventFact, wanted: Pick<EventFact, "topic" | "headers">): boolean {
  return topic === wanted.topic && Object.entries(wanted.headers).every(([name, value]) => headers[name] === value);
}
