// Effects as rows, in the form that the commit statement writes. An effect that is owed and settled within one batch becomes no
// row. Effects outside the database are carried out after the commit, by effects.ts.
import type { Effect, RunIdentity, SlotRequest } from "../../machines/index.js";
import { shardOf } from "../ids.js";
import type { ChildCommit, OutgoingEventRow, RunCommit, UndoRow } from "../store/commit/rows.js";
import { slotTenant } from "../store/slots.js";
import { newFence } from "./fence.js";
import { keptScope } from "./kept-scope.js";
import { childCommit, childStarted } from "./new-run.js";
import type { OutgoingEvents } from "./outgoing-events.js";

/** Until then the node that committed the effect carries it out; later the poll does. */
const CARRIED_MS = 10_000;
/** A command to another run is delivered from memory at once; the poll delivers it if that was lost. */
const DELIVERED_MS = 1_000;

type RowOf<Field extends keyof RunCommit> = NonNullable<RunCommit[Field]> extends readonly (infer Row)[] ? Row : never;

/** Times are the commit's. */
class OwedRows {
  private readonly outbox = new Map<string, RowOf<"outbox">>();
  private readonly outboxGone: string[] = [];
  readonly signals: RowOf<"signals">[] = [];
  readonly promises: RowOf<"promises">[] = [];
  readonly signalClaims: RowOf<"signalClaims">[] = [];
  readonly inbox: RowOf<"inbox">[] = [];
  readonly tasksOpened: RowOf<"tasksOpened">[] = [];
  readonly tasksClosed: RowOf<"tasksClosed">[] = [];
  readonly eventsPublished: RowOf<"eventsPublished">[] = [];
  readonly eventClaims: string[] = [];
  eventWait: RunCommit["eventWait"];
  readonly scopes: RowOf<"scopes">[] = [];
  readonly children: ChildCommit[] = [];
  readonly outgoingEvents: OutgoingEventRow[] = [];
  private readonly tickets: RowOf<"tickets">[] = [];
  private readonly ticketsGone: number[] = [];
  private ticketsReturned: readonly number[] = [];
  private undoOwed: readonly UndoRow[] = [];
  readonly undoSettled: RowOf<"undoSettled">[] = [];
  private undoPassed: RunCommit["undoPassed"];
  private undoHanded: RunCommit["undoHanded"];

  constructor(
    readonly run: Pick<RunIdentity, "id" | "family">,
    readonly now: number,
    readonly outgoing: OutgoingEvents | undefined,
  ) {}

  addOutbox(id: string, kind: string, payload?: string): void {
    this.outbox.set(id, { id, kind, payload, dueAt: this.now + CARRIED_MS });
  }

  settleOutbox(id: string): void {
    if (!this.outbox.delete(id)) this.outboxGone.push(id);
  }

  addTicket({ entry, stepId, slot, limit, onLimit }: SlotRequest): void {
    const { scope, key } = slot;
    const tenantId = slotTenant(slot);
    this.tickets.push({ entry, stepId, tenantId, scope, key, limit, onLimit, admitted: false });
  }

  removeTicket(entry: number): void {
    // A statement cannot change a row and delete it.
    this.ticketsReturned = this.ticketsReturned.filter((returned) => returned !== entry);
    const asked = this.tickets.findIndex((ticket) => ticket.entry === entry);
    if (asked < 0) this.ticketsGone.push(entry);
    else this.tickets.splice(asked, 1);
  }

  returnTicket(entry: number): void {
    this.ticketsReturned = [...this.ticketsReturned, entry];
  }

  addUndo(row: UndoRow): void {
    this.undoOwed = [...this.undoOwed, row];
  }

  /**
   * The statement does not see the rows that it inserts itself, so those change before they are written. A later rollback in
   * the same batch passes over no fewer of the stored rows.
   */
  passOverWithoutAction(since: number): void {
    this.undoOwed = this.undoOwed.map((row) =>
      row.action === undefined && row.entry > since ? { ...row, state: "passed" } : row,
    );
    this.undoPassed = { since: Math.min(since, this.undoPassed?.since ?? Number.MAX_SAFE_INTEGER), every: false };
  }

  passOverAll(): void {
    this.undoOwed = this.undoOwed.map((row) => ({ ...row, state: "passed" }));
    this.undoPassed = { since: 0, every: true };
  }

  handOverUndo(owner: string, entry: number): void {
    this.undoOwed = this.undoOwed.map((row) =>
      row.state ? row : { ...row, owner, entry, childRunId: row.childRunId ?? this.run.id },
    );
    this.undoHanded = { to: owner, entry };
  }

  toCommit(): Partial<RunCommit> {
    return {
      outbox: [...this.outbox.values()],
      outboxGone: this.outboxGone,
      signals: this.signals,
      promises: this.promises,
      signalClaims: this.signalClaims,
      inbox: this.inbox,
      tasksOpened: this.tasksOpened,
      tasksClosed: this.tasksClosed,
      eventsPublished: this.eventsPublished,
      eventClaims: this.eventClaims,
      eventWait: this.eventWait,
      scopes: this.scopes,
      children: this.children,
      outgoingEvents: this.outgoingEvents,
      tickets: this.tickets,
      ticketsGone: this.ticketsGone,
      ticketsReturned: this.ticketsReturned,
      undoOwed: this.undoOwed,
      undoSettled: this.undoSettled,
      undoPassed: this.undoPassed,
      undoHanded: this.undoHanded,
    };
  }
}

/** One entry for each kind of effect; the type makes the list complete. */
const ADD: { readonly [Kind in Effect["kind"]]: (rows: OwedRows, effect: Extract<Effect, { kind: Kind }>) => void } = {
  "dispatch.request": (rows, { dispatchId }) => rows.addOutbox(dispatchId, "action"),
  "dispatch.resolved": (rows, { dispatchId }) => rows.settleOutbox(dispatchId),
  // These two are for the dispatcher alone: the row of the request covers them.
  "dispatch.send": () => {},
  "dispatch.cancel": () => {},
  post: (rows, { id, to, payload }) => rows.addOutbox(id, to, JSON.stringify(payload)),
  send: (rows, { id, to, command }) => {
    const dueAt = rows.now + DELIVERED_MS;
    rows.inbox.push({ id, to, shard: shardOf(to), command: JSON.stringify(command), dueAt });
  },
  "signal.recorded": (rows, { id, name, payload, consumed, promisedTo }) => {
    rows.signals.push({ id, name, payload: JSON.stringify(payload), consumed, promisedTo, at: rows.now });
    if (promisedTo !== undefined) rows.promises.push({ to: promisedTo, name, fence: newFence() });
  },
  "signal.consumed": (rows, { id }) => rows.signalClaims.push({ id, at: rows.now }),
  "event.published": (rows, { event: { headers, payload, ...event } }) =>
    rows.eventsPublished.push({ ...event, headers: JSON.stringify(headers), payload: JSON.stringify(payload) }),
  "event.taken": (rows, { id }) => rows.eventClaims.push(id),
  "event.awaited": (rows, { topic, headers, conditions }) => {
    rows.eventWait = { topic, headers: JSON.stringify(headers), conditions: conditions && JSON.stringify(conditions) };
  },
  "event.unawaited": (rows) => {
    rows.eventWait = null;
  },
  "task.opened": (rows, { task: { formSchema, ...task } }) =>
    rows.tasksOpened.push({ ...task, at: rows.now, formSchema: formSchema && JSON.stringify(formSchema) }),
  "task.submitted": (rows, { id, at, by, result }) =>
    rows.tasksClosed.push({ id, at, by, result: JSON.stringify(result) }),
  "task.closed": (rows, { id }) => rows.tasksClosed.push({ id, at: rows.now }),
  "undo.owed": (rows, { entry: { stepId, entry, action, inputs, forwardIdempotencyKey: forwardKey, childRunId } }) =>
    rows.addUndo({ stepId, entry, action, inputs: inputs && JSON.stringify(inputs), forwardKey, childRunId }),
  "undo.settled": (rows, { ordinal, state }) => rows.undoSettled.push({ ordinal, state }),
  "undo.passed": (rows, { since = 0 }) => rows.passOverWithoutAction(since),
  "undo.dropped": (rows) => rows.passOverAll(),
  "undo.handed": (rows, { to, entry }) => rows.handOverUndo(to, entry),
  "scope.kept": (rows, { entry, variables }) =>
    rows.scopes.push({ entry, holder: rows.run.family?.at(-1) ?? rows.run.id, ...keptScope(variables) }),
  "slot.requested": (rows, { request }) => rows.addTicket(request),
  "slot.released": (rows, { entry }) => rows.removeTicket(entry),
  "slot.returned": (rows, { entry }) => rows.returnTicket(entry),
  "slot.wanted": () => {},
  "child.start": (rows, { child }) => {
    rows.children.push(childCommit(child));
    rows.outgoingEvents.push(...childStarted(child, rows.outgoing));
  },
};

/** The rows that the effects of one run owe. They ride in its commit (law 5). */
export function owedRows(
  run: Pick<RunIdentity, "id" | "family">,
  effects: readonly Effect[],
  now: number,
  outgoing?: OutgoingEvents,
): Partial<RunCommit> {
  if (effects.length === 0) return {};
  const rows = new OwedRows(run, now, outgoing);
  for (const effect of effects) (ADD[effect.kind] as (rows: OwedRows, effect: Effect) => void)(rows, effect);
  return rows.toCommit();
}
