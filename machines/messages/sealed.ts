// What of the rows of a commit is data of users, which a store seals where encryption is on: inputs, variables, outputs, payloads, and the texts of
// errors. All else stays as it is, because statements and figures read it. How something is sealed is not here.
import type { Relation } from "./relations.js";

/** `true`: the value as it is. `but`: each member of an object except these. Otherwise a tree of the members to seal; `*` is any member or item. */
export type SealedPart = true | { readonly but: readonly string[] } | SealedMembers;
export interface SealedMembers {
  readonly [member: string]: true | SealedMembers;
}

export interface SealedColumn {
  /** The table and the column that the value ends in. With the values of `by` it says which value it is. A storage format: it must never change. */
  readonly of: string;
  readonly by: readonly string[];
  readonly part: SealedPart;
}

/** The code of an error stays plain: lists filter by it. */
const ERROR = { message: true, details: true, cause: true } as const satisfies SealedMembers;

/** See state/record.ts. */
const RECORD = {
  wait: { done: true, error: ERROR },
  groups: { "*": { verdict: { error: ERROR }, undo: { inputs: true }, locals: true } },
  unwinding: { error: ERROR },
  caught: ERROR,
  ending: { error: ERROR, reason: true },
  held: { reason: true },
} as const satisfies SealedMembers;

/** The members of audit metadata that are no data: kinds, names, ids, times and counts. What is not here is sealed. */
const PLAIN_METADATA = [
  ...["workflow_id", "version", "entrypoint", "trigger_id", "rerun_of", "kind", "level", "name", "by", "credential"],
  ...["code", "retryable", "will_retry", "next_retry_at", "incident", "phase", "nth", "attempt", "attempts", "count"],
  ...["steps", "step_id", "action", "transport", "duration_ms", "queued_ms", "due_at", "deadline_at", "awaiting"],
  ...["signal_id", "event_id", "task_id", "child_run_id", "worker_id", "matched", "traceparent", "topic", "ordinal"],
  ...["license_group", "dry_run", "compensate", "scope", "key", "limit", "from_version", "to_version", "truncated"],
  ...["end", "signal", "exit_code", "out_of_memory", "heap_mb", "ms", "trials", "rule_id", "rule_version"],
];

const MANIFEST = { own: { "*": true }, names: true } as const satisfies SealedMembers;

/** What users gave a command; its type and its ids are read by statements. */
const COMMAND = {
  ...{ payload: true, result: true, variables: true, output: true, message: true, reason: true },
  error: ERROR,
} as const satisfies SealedMembers;

const OF_RUN = {
  record: { of: "runs.record", by: ["id"], part: RECORD },
  call: { of: "runs.call", by: ["id"], part: { inputs: true, request: true } },
  frames: { of: "runs.frames", by: ["id"], part: { "*": { outputs: true, error: ERROR } } },
  items: { of: "runs.items", by: ["id"], part: true },
  output: { of: "runs.output", by: ["id"], part: true },
} as const satisfies Readonly<Record<string, SealedColumn>>;

export const SEALED: { readonly [Of in Relation]?: Readonly<Record<string, SealedColumn>> } = {
  run_update: OF_RUN,
  new_run: {
    ...OF_RUN,
    inputs: { of: "run_starts.inputs", by: ["id"], part: true },
    identity: {
      of: "run_starts.identity",
      by: ["id"],
      part: { locals: true, startup: true, given: { variables: true } },
    },
  },
  audit_event: { metadata: { of: "run_events.metadata", by: ["run_id", "seq"], part: { but: PLAIN_METADATA } } },
  variable: { value: { of: "run_variables.value", by: ["run_id", "name"], part: true } },
  scope: { manifest: { of: "kept_scopes.manifest", by: ["run_id", "entry"], part: MANIFEST } },
  kept_entry: { manifest: { of: "kept_entries.manifest", by: ["run_id", "entry"], part: MANIFEST } },
  scope_value: { value: { of: "kept_values.value", by: ["holder", "hash"], part: true } },
  signal: { payload: { of: "signals.payload", by: ["id"], part: true } },
  outbox_row: { payload: { of: "outbox.payload", by: ["id"], part: { but: ["url"] } } },
  inbox_row: { command: { of: "inbox.command", by: ["id"], part: COMMAND } },
  published_event: { payload: { of: "events.payload", by: ["id"], part: true } },
  outgoing_event: { payload: { of: "outgoing_events.payload", by: ["id"], part: true } },
  closed_task: { result: { of: "user_tasks.result", by: ["id"], part: true } },
  // An entry is handed from run to run; the call that it undoes stays the same.
  undo_entry: { inputs: { of: "undo.inputs", by: ["forward_key"], part: true } },
};

/** Sealed by the statements that write them, which are no part of a commit. */
export const SEALED_BESIDE = ["trigger_fires.inputs", "bulk_jobs.params"] as const;
