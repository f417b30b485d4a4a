// The memory of a rehearsal, in place of the store: signals, events, undo lists, the inbox, stored scopes. Only the writes of
// runs change it. It answers the needs of decisions.
import type { RunCommand } from "../messages/command.js";
import type { EndedChild, EventFact, Fetched, Need, RecordedSignal } from "../messages/fact.js";
import type { PublishedEvent, SentCommand, Write } from "../messages/owed.js";
import type { RunContext } from "../state/context.js";
import type { UndoEntry } from "../state/rollback.js";
import { asRunId, type RunId } from "../values/ids.js";
import { type Json, type JsonObject, measure } from "../values/json.js";
import type { Row } from "../writes/relations.js";
import type { Child } from "./child.js";
import type { RehearsedRun } from "./run.js";

interface KeptSignal {
  readonly id: string;
  readonly runId: RunId;
  readonly name: string;
  readonly payload: Json;
  readonly promisedTo?: string;
  consumed: boolean;
}

interface RecordedUndo {
  entry: UndoEntry & { readonly ordinal: string };
  owner: string;
  open: boolean;
}

/** The needs that the memory answers. */
type Remembered = Exclude<Need, { kind: "workflow" | "version" }>;

export class Memory {
  readonly runs = new Map<RunId, RehearsedRun>();
  /** In the order in which they were sent. */
  readonly inbox = new Map<string, SentCommand>();
  private readonly signals: KeptSignal[] = [];
  /** In the order of their publication. */
  private readonly events: EventFact[] = [];
  /** `run/event` of the events that were consumed. */
  private readonly consumedEvents = new Set<string>();
  private readonly undo: RecordedUndo[] = [];
  private readonly scopes = new Map<string, JsonObject>();
  private readonly delivered = new Set<string>();
  private granted = 0;

  constructor(
    private readonly children: () => Iterable<Child>,
    private readonly outputLimit: number,
  ) {}

  /** The variables that the branches or items of a step entry start with. */
  scope(runId: RunId, entry: number): JsonObject {
    return this.scopes.get(`${runId}/${entry}`) ?? {};
  }

  send(command: SentCommand): void {
    if (!this.delivered.has(command.id)) this.inbox.set(command.id, command);
  }

  delete({ id }: SentCommand): void {
    this.inbox.delete(id);
    this.delivered.add(id);
  }

  apply({ to, row }: Write): void {
    switch (to) {
      case "signal":
        this.signals.push({
          ...row,
          payload: row.payload as Json,
          runId: asRunId(row.run_id),
          promisedTo: row.promised_to,
        });
        break;
      case "signal_claim":
        for (const signal of this.signals) if (signal.id === row.id) signal.consumed = true;
        break;
      case "published_event":
        this.publish({ ...row, headers: row.headers as PublishedEvent["headers"], payload: row.payload as Json });
        break;
      case "event_claim":
        this.consumedEvents.add(`${row.run_id}/${row.event_id}`);
        break;
      case "undo_entry":
        this.undo.push({ entry: this.undoEntry(row), owner: row.owner, open: true });
        break;
      case "undo_settled":
        this.closeUndos(row.run_id, ({ entry }) => entry.ordinal === row.ordinal);
        break;
      case "undo_passed":
        this.closeUndos(
          row.run_id,
          ({ entry }) => row.every || (entry.action === undefined && entry.entry > row.since),
        );
        break;
      case "undo_handed":
        this.handOver(row);
        break;
      case "scope":
        this.scopes.set(`${row.run_id}/${row.entry}`, row.variables);
        break;
      case "inbox_row":
        this.send({ id: row.id, to: asRunId(row.run_id), command: row.command as RunCommand });
        break;
      case "ticket":
        // Nothing else runs: every slot is free.
        this.grant(asRunId(row.run_id), row.entry);
        break;
    }
  }

  private undoEntry({ step_id, entry, action, inputs, forward_key, child_run_id }: Row<"undo_entry">) {
    return {
      ordinal: String(this.undo.length + 1),
      ...{ stepId: step_id, entry, action, inputs: inputs as JsonObject | undefined },
      forwardIdempotencyKey: forward_key,
      childRunId: child_run_id === undefined ? undefined : asRunId(child_run_id),
    };
  }

  private grant(to: RunId, entry: number): void {
    this.send({ id: `${to}/slot/${entry}/${this.granted++}`, to, command: { type: "slot_granted", entry } });
  }

  /** Offers the event to the runs that wait for it. A later wait finds it in the memory. */
  publish({ id, topic, headers, payload }: Omit<PublishedEvent, "tenantId">): void {
    const event = { id, topic, headers, payload, ordinal: String(this.events.length + 1) };
    this.events.push(event);
    for (const { context } of this.runs.values()) {
      const { wait, run } = context;
      if (wait?.kind !== "event" || !matchesWait(event, wait)) continue;
      this.send({ id: `${id}/${run.id}`, to: run.id, command: { type: "event", eventId: id } });
    }
  }

  private closeUndos(owner: string, which: (kept: RecordedUndo) => boolean): void {
    for (const kept of this.undo) if (kept.open && kept.owner === owner && which(kept)) kept.open = false;
  }

  private handOver({ run_id, heir, entry }: Row<"undo_handed">): void {
    for (const kept of this.undo) {
      if (!kept.open || kept.owner !== run_id) continue;
      kept.owner = heir;
      kept.entry = { ...kept.entry, entry, childRunId: kept.entry.childRunId ?? asRunId(run_id) };
    }
  }

  fetch({ context: { run } }: RehearsedRun, need: Remembered): Fetched {
    switch (need.kind) {
      case "signal":
        return { signal: this.signalFor(run, need.name) };
      case "events": {
        const { since = "0", after = since, named } = need;
        const may = this.events.filter(
          (event) => matchesWait(event, need) && !this.consumedEvents.has(`${run.id}/${event.id}`),
        );
        const page = may.filter(({ id, ordinal }) => Number(ordinal) > Number(id === named ? since : after));
        return { events: { page, more: false } };
      }
      case "moment":
        return { moment: String(this.events.length) };
      case "undo": {
        const owed = this.openUndos(run.id).filter(
          ({ entry }) => entry.action !== undefined && entry.entry > need.since,
        );
        return { undo: { since: need.since, newest: owed.at(-1)?.entry ?? null } };
      }
      case "ended":
        return { ended: this.ended(run.id, need) };
      case "living":
        return { living: this.living(run.id, need.from) };
      case "target":
        // A run outside the rehearsal is assumed to exist. Commands to it are dropped.
        return { target: { id: need.runId } };
      case "waiter":
        return { waiter: this.waitersFor(run.id, need.name)[this.unconsumed(run.id, need.name).length] ?? null };
      case "unmatched": {
        const waiting = this.waitersFor(run.id, need.name);
        const signals = this.unconsumed(run.id, need.name);
        const pairs = waiting.slice(0, signals.length).map(({ id: waiter }, nth) => [signals[nth], waiter] as const);
        return { unmatched: pairs.flatMap(([signal, waiter]) => (signal ? { signalId: signal.id, waiter } : [])) };
      }
      case "kept_signals":
        return { keptSignals: this.signals.filter(({ runId, consumed }) => runId === run.id && !consumed).length };
      case "startup":
        return { startup: {} };
      case "output_schema":
        return { outputSchema: null };
      case "keyed_run":
        return { keyedRun: null };
    }
  }

  /** The signal that the run was promised, or the oldest one that it may take. */
  private signalFor({ id, family = [] }: RunContext["run"], wanted: string): RecordedSignal | null {
    const own = this.signals.filter(
      ({ runId, name, consumed }) => !consumed && name === wanted && (runId === id || family.includes(runId)),
    );
    const promised = own.find(({ promisedTo }) => promisedTo === id);
    if (promised) return { ...promised, promised: true };
    return own.find(({ promisedTo }) => promisedTo === undefined) ?? null;
  }

  /** In the order of their ordinals. */
  private openUndos(runId: RunId): RecordedUndo[] {
    return this.undo.filter(({ owner, open }) => open && owner === runId);
  }

  private ended(runId: RunId, { entry, child }: Extract<Need, { kind: "ended" }>): readonly EndedChild[] | null {
    const ended: EndedChild[] = [];
    for (const { id, parentRunId, parentEntry, ended: end } of this.children())
      if (end && parentRunId === runId && parentEntry === entry && (child === undefined || child === id))
        ended.push(end);
    const sizes = ended.map(({ output }) => measure(output));
    if (sizes.reduce<number>((sum, size) => sum + Number(size), 0) > this.outputLimit) return null;
    // Items are named by their index: a shorter name is a lower number.
    return ended.sort(({ branch: a }, { branch: b }) => a.length - b.length || (a < b ? -1 : 1));
  }

  private living(runId: RunId, from: number): RunId[] {
    const living: RunId[] = [];
    for (const { id, parentRunId, parentEntry, ended } of this.children())
      if (!ended && parentRunId === runId && parentEntry >= from) living.push(id);
    return living;
  }

  private unconsumed(runId: RunId, name: string) {
    return this.signals.filter(
      ({ consumed, promisedTo, ...signal }) =>
        !consumed && promisedTo === undefined && signal.runId === runId && signal.name === name,
    );
  }

  /** The branches and items that wait for the signal and have not been promised one, those that have waited longest first. */
  private waitersFor(runId: RunId, name: string): { readonly id: RunId }[] {
    const waiting = [...this.runs.values()].filter(({ context: { run, wait, state } }) => {
      const waits = state === "paused" && wait?.kind === "signal" && wait.name === name;
      return waits && run.family?.includes(runId) && !this.isPromised(run.id) && !this.isToStop(run);
    });
    return waiting.sort((left, right) => left.lastEventAt - right.lastEventAt);
  }

  private isPromised(runId: RunId): boolean {
    return this.signals.some(({ promisedTo, consumed }) => promisedTo === runId && !consumed);
  }

  /** Whether a cancel is on its way to the run, or to a run that it is a part of. */
  private isToStop({ id, family = [] }: RunContext["run"]): boolean {
    const cancelled = [...this.inbox.values()].filter(({ command }) => command.type === "cancel");
    return cancelled.some(({ to }) => to === id || family.includes(to));
  }
}

function matchesWait({ topic, headers }: EventFact, wanted: Pick<EventFact, "topic" | "headers">): boolean {
  return topic === wanted.topic && Object.entries(wanted.headers).every(([name, value]) => headers[name] === value);
}
