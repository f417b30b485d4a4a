// The codes of steps' errors. Those that the engine raises are a closed union with a catalogue; workers and authors raise codes of
// their own. Codes are part of the wire contract: none is ever renamed, and a retired one is never used again.

/** Every code that the engine raises, with its cause as the documentation gives it. */
export const ENGINE_ERRORS = {
  timeout: "An attempt, a wait, a sub-saga, a try or the whole run took too long.",
  heartbeat_timeout: "A worker that had to send heartbeats was silent.",
  queue_timeout: "No worker took the action in time. It was never dispatched.",
  not_handed_over:
    "Only in the audit row of an attempt: nothing of the dispatch reached a worker, so it was no attempt, and the call waits for a worker again.",
  no_branch_matched: "No branch, no default and no `next`.",
  assertion_failed: "The default code of `assert`.",
  expression_error: "An expression failed: a missing key, a wrong type, or an exhausted budget.",
  approval_rejected: "A person rejected, and there was no branch for a rejection.",
  schema_mismatch: "The inputs or the result do not conform to the registered schema.",
  action_not_registered: "The action is not registered.",
  license_rejected: "The tenant does not have the action's licence group.",
  limit_exceeded: "A [limit](#limits) was exceeded; the message names it.",
  "http_<status>": "A request was answered with an unexpected status.",
  http_network: "A request got no answer: no connection, a broken connection, or an address that is not allowed.",
  child_failed: "A sub-saga failed; `cause` is its error.",
  loop_limit_exceeded: "A while had `max_iterations` rounds, and its condition still holds.",
  not_found:
    "`sub_saga`, `spawn_saga`: there is no such workflow, version or entrypoint. `spawn_saga`: the run of its key has been erased. `emit_signal`, `cancel`: there is no such run. `decision`: there is no such rule. `http_request`: there is no such secret.",
  concurrency_limit:
    'All slots of the key of its workflow\'s `concurrency` were taken, and `on_limit` is "refuse". Only of runs that another run or a delay starts: a client is answered 409.',
  concurrency_queue_full: "Too many were waiting for a slot of the key already.",
  rate_limit_queue_full: "Too many were waiting for their turn under the `rate_limit` of the key already.",
  key_destroyed:
    "The [key](operations.md#destroying-the-keys-of-a-tenant) that the values of the run were sealed with was destroyed before the run had ended.",
  cancelled:
    "A branch, an item or a sub-saga was cancelled on its own. Also in the audit row of a step that a cancel or the timeout of a try cut off.",
  error:
    "The default code of the `error` step, and of any error that a worker throws and that is not an `ActionError`.",
} as const;

export type EngineErrorCode = Exclude<keyof typeof ENGINE_ERRORS, "http_<status>"> | `http_${number}`;

/** A code that the engine did not choose: a worker's, an author's, or one that was recorded before. */
export type GivenCode = string & { readonly __code: "given" };

export type StepErrorCode = EngineErrorCode | GivenCode;

/** The only way to a code outside the catalogue: a literal that is not in it does not compile. */
export function givenCode(code: string): GivenCode {
  return code as GivenCode;
}
