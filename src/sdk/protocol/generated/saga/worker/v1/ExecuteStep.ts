// Original file: src/dispatch/worker.proto

import type { PhaseInput as _saga_worker_v1_PhaseInput, Phase as _saga_worker_v1_Phase } from '../../../saga/worker/v1/Phase.js';

export interface ExecuteStepInput {
  /**
   * uuid, unique per dispatch; its last byte is the run's shard
   */
  'dispatch_id'?: (string);
  'run_id'?: (string);
  'step_id'?: (string);
  /**
   * from 1, counts up per (run, step) over all entries and undos
   */
  'attempt'?: (number);
  'service'?: (string);
  'action'?: (string);
  'version'?: (number);
  /**
   * a JSON object
   */
  'inputs_json'?: (Buffer | Uint8Array | string);
  /**
   * the same for every attempt of one step entry; an undo has its own
   */
  'idempotency_key'?: (string);
  /**
   * RFC 3339, never empty: drop the step if it has passed
   */
  'deadline_at'?: (string);
  'dry_run'?: (boolean);
  'phase'?: (_saga_worker_v1_PhaseInput);
  /**
   * empty if none
   */
  'tenant_id'?: (string);
  /**
   * W3C trace context; empty if none
   */
  'traceparent'?: (string);
  /**
   * the same deadline, for a clock that differs
   */
  'timeout_ms'?: (number);
  /**
   * 0: none asked for
   */
  'heartbeat_timeout_ms'?: (number);
  /**
   * in an undo: the key of what is to be undone
   */
  'forward_idempotency_key'?: (string);
  /**
   * with access on: the credential of a report over HTTP; empty with access off, and if the hello has stream_answers
   */
  'callback_token'?: (string);
}

export interface ExecuteStep {
  /**
   * uuid, unique per dispatch; its last byte is the run's shard
   */
  'dispatch_id': (string);
  'run_id': (string);
  'step_id': (string);
  /**
   * from 1, counts up per (run, step) over all entries and undos
   */
  'attempt': (number);
  'service': (string);
  'action': (string);
  'version': (number);
  /**
   * a JSON object
   */
  'inputs_json': (Buffer);
  /**
   * the same for every attempt of one step entry; an undo has its own
   */
  'idempotency_key': (string);
  /**
   * RFC 3339, never empty: drop the step if it has passed
   */
  'deadline_at': (string);
  'dry_run': (boolean);
  'phase': (_saga_worker_v1_Phase);
  /**
   * empty if none
   */
  'tenant_id': (string);
  /**
   * W3C trace context; empty if none
   */
  'traceparent': (string);
  /**
   * the same deadline, for a clock that differs
   */
  'timeout_ms': (number);
  /**
   * 0: none asked for
   */
  'heartbeat_timeout_ms': (number);
  /**
   * in an undo: the key of what is to be undone
   */
  'forward_idempotency_key': (string);
  /**
   * with access on: the credential of a report over HTTP; empty with access off, and if the hello has stream_answers
   */
  'callback_token': (string);
}
