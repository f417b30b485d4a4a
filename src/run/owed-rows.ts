// Effects as rows, in the form that the commit statement writes. An effect that is owed and settled within one batch becomes no
// row. Effects outside the database are carried out after the commit, by effects.ts.
import type { Effect, Relation, Row, Rows, RunIdentity, SlotRequest } from "../../machines/index.js";
import { shardOf } from "../ids.js";
import { slotTenant } from "../store/slots.js";
import { newFence } from "./fence.js";
import { keptScope } from "./kept-scope.js";
import { childRows, createdByParent } from "./new-run.js";
import { type OutgoingEvents, outgoingRows } from "./outgoing-events.js";

/** Until then the node that committed the effect carries it out; later the poll does. */
const CARRIED_MS = 10_000;
/** A command to another run is delivered from memory at once; the poll delivers it if that was lost. */
const DELIVERED_MS = 1_000;

type Growing = { -readonly [Of in Relation]?: Row<Of>[] };

/** Times are the commit's. */
class OwedRows {
  readonly rows: Growing = {};

  constructor(
    readonly run: Pick<RunIdentity, "id" | "family">,
    readonly now: number,
    readonly outgoing: OutgoingEvents | undefined,
  ) {}

  add<Of extends Relation>(relation: Of, ...added: readonly Row<Of>[]): void {
    const rows = this.rows as { [Name in Of]?: Row<Of>[] };
    const known = rows[relation];
    if (known) known.push(...added);
    else rows[relation] = [...added];
  }

  addOutbox(id: string, kind: string, payload?: object): void {
    this.settleIfOwed(id);
    const { run, now } = this;
    this.add("outbox_row", { id, run_id: run.id, shard: shardOf(run.id), kind, payload, due_at: now + CARRIED_MS });
  }

  settleOutbox(id: string): void {
    if (!this.settleIfOwed(id)) this.add("outbox_gone", { run_id: this.run.id, id });
  }

  /** Whether the row was owed by this batch. */
  private settleIfOwed(id: string): boolean {
    return this.drop("outbox_row", (row) => row.id === id);
  }

  addTicket({ entry, stepId, slot, limit, onLimit }: SlotRequest): void {
    const { scope, key } = slot;
    const { id } = this.run;
    const about = { run_id: id, entry, shard: shardOf(id), tenant_id: slotTenant(slot), scope, key, step_id: stepId };
    this.add("ticket", { ...about, slot_limit: limit, on_limit: onLimit, admitted: false });
  }

  removeTicket(entry: number): void {
    // A statement cannot change a row and delete it.
    this.drop("ticket_returned", (row) => row.entry === entry);
    const asked = this.drop("ticket", (row) => row.entry === entry);
    if (!asked) this.add("ticket_gone", { run_id: this.run.id, entry });
  }

  /** Whether there was one. */
  private drop<Of extends Relation>(relation: Of, which: (row: Row<Of>) => boolean): boolean {
    const rows = this.rows as { [Name in Of]?: Row<Of>[] };
    const known = rows[relation];
    if (!known?.some(which)) return false;
    rows[relation] = known.filter((row) => !which(row));
    return true;
  }

  /**
   * The statement does not see the rows that it inserts itself, so those change before they are written. A later rollback in
   * the same batch passes over no fewer of the stored rows.
   */
  passOver(since: number, every: boolean): void {
    this.changeUndo((row) =>
      every || (row.action === undefined && row.entry > since) ? { ...row, state: "passed" } : row,
    );
    const [before] = this.rows.undo_passed ?? [];
    const from = every ? 0 : Math.min(since, before?.since ?? Number.MAX_SAFE_INTEGER);
    this.rows.undo_passed = [{ run_id: this.run.id, since: from, every }];
  }

  handOverUndo(owner: string, entry: number): void {
    const { id } = this.run;
    this.changeUndo((row) =>
      row.state === "owed" ? { ...row, owner, entry, child_run_id: row.child_run_id ?? id } : row,
    );
    this.rows.undo_handed = [{ run_id: id, heir: owner, entry }];
  }

  private changeUndo(change: (row: Row<"undo_entry">) => Row<"undo_entry">): void {
    if (this.rows.undo_entry) this.rows.undo_entry = this.rows.undo_entry.map(change);
  }
}

/** One entry for each kind of effect; the type makes the list complete. */
const ADD: { readonly [Kind in Effect["kind"]]: (owed: OwedRows, effect: Extract<Effect, { kind: Kind }>) => void } = {
  "dispatch.request": (owed, { dispatchId }) => owed.addOutbox(dispatchId, "action"),
  "dispatch.resolved": (owed, { dispatchId }) => owed.settleOutbox(dispatchId),
  // These two are for the dispatcher alone: the row of the request covers them.
  "dispatch.send": () => {},
  "dispatch.cancel": () => {},
  post: (owed, { id, to, payload }) => owed.addOutbox(id, to, payload),
  send: (owed, { id, to, command }) => {
    const due_at = owed.now + DELIVERED_MS;
    owed.add("inbox_row", { id, from_run: owed.run.id, run_id: to, shard: shardOf(to), command, due_at });
  },
  "signal.recorded": (owed, { id, name, payload, consumed, promisedTo }) => {
    const { run, now: at } = owed;
    owed.add("signal", { id, run_id: run.id, name, payload, at, consumed, promised_to: promisedTo });
    if (promisedTo === undefined) return;
    owed.add("promise", { run_id: run.id, waiter: promisedTo, name, fence: newFence() });
  },
  "signal.consumed": (owed, { id }) => owed.add("signal_claim", { run_id: owed.run.id, id, at: owed.now }),
  "event.published": (owed, { event: { id, tenantId, topic, headers, payload } }) =>
    owed.add("published_event", { id, run_id: owed.run.id, tenant_id: tenantId, topic, headers, payload }),
  "event.taken": (owed, { id }) => owed.add("event_claim", { run_id: owed.run.id, event_id: id }),
  "event.awaited": (owed, { topic, headers, conditions }) => {
    owed.rows.event_wait_gone = undefined;
    owed.rows.event_wait = [{ run_id: owed.run.id, topic, headers, conditions }];
  },
  "event.unawaited": (owed) => {
    owed.rows.event_wait = undefined;
    owed.rows.event_wait_gone = [{ run_id: owed.run.id }];
  },
  "task.opened": (owed, { task: { id, stepId, assignee, title, dueAt, formSchema } }) => {
    const about = { id, run_id: owed.run.id, step_id: stepId, assignee, title, due_at: dueAt };
    owed.add("opened_task", { ...about, form_schema: formSchema, at: owed.now });
  },
  "task.submitted": (owed, { id, at, by, result }) =>
    owed.add("closed_task", { run_id: owed.run.id, id, at, result, submitted_by: by }),
  "task.closed": (owed, { id }) => {
    const run_id = owed.run.id;
    owed.add("closed_task", { run_id, id, at: owed.now, result: undefined, submitted_by: undefined });
  },
  "undo.owed": (owed, { entry: { stepId, entry, action, inputs, forwardIdempotencyKey, childRunId } }) => {
    const { id } = owed.run;
    const call = { action, inputs, forward_key: forwardIdempotencyKey, child_run_id: childRunId };
    owed.add("undo_entry", { run_id: id, step_id: stepId, entry, ...call, owner: id, state: "owed" });
  },
  "undo.settled": (owed, { ordinal, state }) => owed.add("undo_settled", { run_id: owed.run.id, ordinal, state }),
  "undo.passed": (owed, { since = 0 }) => owed.passOver(since, false),
  "undo.dropped": (owed) => owed.passOver(0, true),
  "undo.handed": (owed, { to, entry }) => owed.handOverUndo(to, entry),
  "scope.kept": (owed, { entry, variables }) => {
    const { id: runId, family } = owed.run;
    const { scope, values } = keptScope({ runId, entry, holder: family?.at(-1) ?? runId }, variables);
    owed.add("scope", scope);
    if (values.length > 0) owed.add("scope_value", ...values);
  },
  "slot.requested": (owed, { request }) => owed.addTicket(request),
  "slot.released": (owed, { entry }) => owed.removeTicket(entry),
  "slot.returned": (owed, { entry }) => owed.add("ticket_returned", { run_id: owed.run.id, entry }),
  "slot.wanted": () => {},
  "child.start": (owed, { child }) => {
    const { new_run, audit_event, variable, wake } = childRows(child, owed.run.id);
    owed.add("new_run", ...new_run);
    owed.add("audit_event", ...audit_event);
    owed.add("variable", ...variable);
    owed.add("wake", ...wake);
    const started = [createdByParent(child.identity)];
    owed.add("outgoing_event", ...outgoingRows(child.identity, started, owed.outgoing, owed.run.id));
  },
};

/** The rows that the effects of one run owe. They ride in its commit (law 5). */
export function owedRows(
  run: Pick<RunIdentity, "id" | "family">,
  effects: readonly Effect[],
  now: number,
  outgoing?: OutgoingEvents,
): Rows {
  if (effects.length === 0) return {};
  const owed = new OwedRows(run, now, outgoing);
  for (const effect of effects) (ADD[effect.kind] as (owed: OwedRows, effect: Effect) => void)(owed, effect);
  return owed.rows;
}
