// The weight of a commit: about the bytes of its rows, so that a group is bounded in bytes and not only in runs.
import type { ChildCommit, RunCommit } from "./rows.js";

/** The columns and rows that are always small, and what a row takes besides its values. */
const FIXED_BYTES = 1_024;

/** Counts what may be large. */
export function weightOf(commit: RunCommit): number {
  const {
    update,
    create,
    commands,
    signals,
    outbox,
    inbox,
    eventsPublished,
    outgoingEvents,
    tasksOpened,
    tasksClosed,
  } = commit;
  return (
    FIXED_BYTES +
    textsOf(update?.record, update?.call, update?.frames, update?.items, update?.output, create?.inputs) +
    historyOf(commit) +
    sum(commands, ({ answer }) => textsOf(answer)) +
    sum(signals, ({ payload }) => textsOf(payload)) +
    sum(outbox, ({ payload }) => textsOf(payload)) +
    sum(inbox, ({ command }) => textsOf(command)) +
    sum(eventsPublished, ({ headers, payload }) => textsOf(headers, payload)) +
    sum(outgoingEvents, ({ payload }) => textsOf(payload)) +
    sum(tasksOpened, ({ formSchema }) => textsOf(formSchema)) +
    sum(tasksClosed, ({ result }) => textsOf(result)) +
    sum(commit.undoOwed, ({ inputs }) => textsOf(inputs)) +
    sum(commit.scopes, ({ values }) => sum(values, ({ value }) => textsOf(value))) +
    sum(commit.children, (child) => FIXED_BYTES + textsOf(child.create.inputs, child.create.record) + historyOf(child))
  );
}

function historyOf({ events, variables }: Pick<RunCommit | ChildCommit, "events" | "variables">): number {
  let bytes = sum(events, ({ metadata }) => textsOf(metadata));
  for (const value of variables?.values() ?? []) bytes += textsOf(value);
  return bytes;
}

function textsOf(...texts: readonly (string | null | undefined)[]): number {
  let length = 0;
  for (const text of texts) length += text?.length ?? 0;
  return length;
}

function sum<Item>(items: readonly Item[] = [], weigh: (item: Item) => number): number {
  let total = 0;
  for (const item of items) total += weigh(item);
  return total;
}
