// Original file: src/dispatch/worker.proto

import type { HelloAckInput as _saga_worker_v1_HelloAckInput, HelloAck as _saga_worker_v1_HelloAck } from '../../../saga/worker/v1/HelloAck.js';
import type { ExecuteStepInput as _saga_worker_v1_ExecuteStepInput, ExecuteStep as _saga_worker_v1_ExecuteStep } from '../../../saga/worker/v1/ExecuteStep.js';
import type { CancelStepInput as _saga_worker_v1_CancelStepInput, CancelStep as _saga_worker_v1_CancelStep } from '../../../saga/worker/v1/CancelStep.js';
import type { RecordedInput as _saga_worker_v1_RecordedInput, Recorded as _saga_worker_v1_Recorded } from '../../../saga/worker/v1/Recorded.js';
import type { CoordinatorBatchInput as _saga_worker_v1_CoordinatorBatchInput, CoordinatorBatch as _saga_worker_v1_CoordinatorBatch } from '../../../saga/worker/v1/CoordinatorBatch.js';
import type { CreditedInput as _saga_worker_v1_CreditedInput, Credited as _saga_worker_v1_Credited } from '../../../saga/worker/v1/Credited.js';

export interface CoordinatorMessageInput {
  'hello_ack'?: (_saga_worker_v1_HelloAckInput | null);
  'execute'?: (_saga_worker_v1_ExecuteStepInput | null);
  /**
   * stop if you can; answer all the same: what did happen will be undone
   */
  'cancel'?: (_saga_worker_v1_CancelStepInput | null);
  /**
   * the answer for dispatch_id is durable (or was stale): the worker resends it until then
   */
  'recorded'?: (_saga_worker_v1_RecordedInput | null);
  /**
   * several messages as one; only to a worker whose hello has batches
   */
  'batch'?: (_saga_worker_v1_CoordinatorBatchInput | null);
  /**
   * the answer to each credit; only to a worker whose hello has credit
   */
  'credited'?: (_saga_worker_v1_CreditedInput | null);
  'message'?: "hello_ack"|"execute"|"cancel"|"recorded"|"batch"|"credited";
}

export interface CoordinatorMessage {
  'hello_ack'?: (_saga_worker_v1_HelloAck | null);
  'execute'?: (_saga_worker_v1_ExecuteStep | null);
  /**
   * stop if you can; answer all the same: what did happen will be undone
   */
  'cancel'?: (_saga_worker_v1_CancelStep | null);
  /**
   * the answer for dispatch_id is durable (or was stale): the worker resends it until then
   */
  'recorded'?: (_saga_worker_v1_Recorded | null);
  /**
   * several messages as one; only to a worker whose hello has batches
   */
  'batch'?: (_saga_worker_v1_CoordinatorBatch | null);
  /**
   * the answer to each credit; only to a worker whose hello has credit
   */
  'credited'?: (_saga_worker_v1_Credited | null);
  'message'?: "hello_ack"|"execute"|"cancel"|"recorded"|"batch"|"credited";
}
