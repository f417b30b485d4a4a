// The decisions of a run as a commit of the memory store: in place of the unit of src/run, and with the same rows. It has no wake rows, because a
// user of the memory store has a clock of its own, and no events for a broker.

import { auditRow } from "../messages/audit.js";
import { type Answer, answersDispatch, isRefusal, type RunCommand } from "../messages/command.js";
import type { NewChild, Owed, Write } from "../messages/owed.js";
import type { Transition } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import type { RunIdentity } from "../state/identity.js";
import { newRun, RECORD_FORMATS } from "../state/record.js";
import type { RunId } from "../values/ids.js";
import { FoldedRows } from "../writes/folded.js";
import { changedVariables, newRunRow, type RareColumn, updateRow } from "../writes/run-row.js";
import type { RunPlace, StoreCommit } from "./store.js";

/** What a run has made of a command. */
export interface CarriedOut {
  /** After the transitions. */
  readonly context: RunContext;
  /** The place that the decision was based on. */
  readonly place: RunPlace;
  readonly command: RunCommand;
  /** A repeat is recognised by it. An inbox row has the id of its command. */
  readonly id?: string;
  readonly answer: Answer;
  readonly transitions: readonly Transition[];
  /** What a decision without transitions owes. */
  readonly owed?: Owed;
  /** Database time. */
  readonly now: number;
}

/** `newFence`: a token that no other commit has. */
export function commitOf(done: CarriedOut, newFence: () => string): StoreCommit {
  const { context, place, id, transitions, owed } = done;
  const { run } = context;
  const folded = new FoldedRows();
  for (const { writes } of [owed ?? {}, ...transitions]) addWrites(folded, run.id, writes ?? [], newFence);
  const names = new Set(transitions.flatMap(({ stored }) => stored));
  folded.add("variable", ...changedVariables(context, names));
  if (id !== undefined) folded.add("inbox_gone", { run_id: run.id, id });
  if (transitions.length === 0)
    folded.add("confirm", { id: run.id, expected: place.revision, expected_fence: place.fence });
  else addHistory(folded, done, newFence());
  if (id !== undefined && isRecorded(done))
    folded.add("command", { run_id: run.id, command_id: id, answer: done.answer, keep: false, at: done.now });
  return { runId: run.id, rows: folded.rows };
}

const RARE_COLUMNS: readonly RareColumn[] = ["call", "frames", "items"];

/** The run's row and its audit rows. */
function addHistory(folded: FoldedRows, done: CarriedOut, fence: string): void {
  const { context, place, transitions, id } = done;
  const events = transitions.flatMap(({ audit }) => audit);
  const { lastSeq, lastEventAt } = place;
  const workersAnswer = hasCounted(done) ? id : undefined;
  const rows = events.map((event, nth) =>
    auditRow(context.run.id, lastSeq + nth + 1, event, nth === 0 ? workersAnswer : undefined),
  );
  folded.add("audit_event", ...rows);
  const changed = RARE_COLUMNS.filter((column) => transitions.some(({ patch }) => column in patch));
  const row = updateRow(context, {
    ...{ revision: place.revision, expectedFence: place.fence, fence },
    ...{ lastSeq: lastSeq + events.length, lastEventAt: events.at(-1)?.at ?? lastEventAt },
    record: RECORD_FORMATS.encode(context, RECORD_FORMATS.writes),
    changed: new Set(changed),
    moved: transitions.findLast(({ moved }) => moved)?.moved,
  });
  folded.add("run_update", row);
}

/** A worker's answer that is the outcome of its dispatch is beside the first audit row. */
function hasCounted({ command, answer, transitions }: CarriedOut): boolean {
  const isCounted = answer.type === "report" && !answer.stale;
  return isCounted && answersDispatch(command) && transitions.some(({ audit }) => audit.length > 0);
}

function isRecorded(done: CarriedOut): boolean {
  if (done.transitions.length === 0) return !isRefusal(done.answer) && !answersDispatch(done.command);
  return !hasCounted(done);
}

/** What decisions write is folded; tokens are added here, and the rows of new runs. Scopes share nothing: nothing is gained by it in memory. */
function addWrites(folded: FoldedRows, runId: RunId, writes: readonly Write[], newFence: () => string): void {
  for (const write of writes) {
    if (write.to === "new_run") addRun(folded, write.row, newFence(), runId);
    else if (write.to === "promise") folded.add("promise", { ...write.row, fence: newFence() });
    else if (write.to === "scope") {
      const { variables, ...scope } = write.row;
      folded.add("scope", { ...scope, manifest: { own: variables, shared: {} }, manifest_hash: undefined });
    } else folded.fold(write);
  }
}

/** The commit of a run that starts from outside. */
export function startOf(identity: RunIdentity, variables: NewChild["variables"], newFence: () => string): StoreCommit {
  const folded = new FoldedRows();
  const made = { identity, variables, inherited: false, at: identity.startedAt };
  addRun(folded, made, newFence());
  return { runId: identity.id, rows: folded.rows };
}

/** `parent`: the run that creates it. */
function addRun(folded: FoldedRows, made: NewChild, fence: string, parent?: RunId): void {
  const { identity, inherited, variables = {}, variablesSize, idempotencyKey } = made;
  const { id, workflowId: workflow_id, version, entrypoint, startedAt: at } = identity;
  const context = newRun(identity, variables, variablesSize);
  folded.add("new_run", newRunRow(context, { requestHash: "", idempotencyKey, fence }, parent));
  if (!inherited) folded.add("variable", ...changedVariables(context, Object.keys(variables)));
  const about = { actor: parent ? "coordinator" : "api", metadata: { workflow_id, version, entrypoint } };
  const started = { type: "saga.started", attempt: 0, from: "pending", to: "pending", at, ...about } as const;
  folded.add("audit_event", auditRow(id, 1, started));
}
