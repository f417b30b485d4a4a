// Original file: src/dispatch/worker.proto

import type { HelloAckInput as _saga_worker_v1_HelloAckInput, HelloAck as _saga_worker_v1_HelloAck } from '../../../saga/worker/v1/HelloAck.js';
import type { ExecuteStepInput as _saga_worker_v1_ExecuteStepInput, ExecuteStep as _saga_worker_v1_ExecuteStep } from '../../../saga/worker/v1/ExecuteStep.js';
import type { CancelStepInput as _saga_worker_v1_CancelStepInput, CancelStep as _saga_worker_v1_CancelStep } from '../../../saga/worker/v1/CancelStep.js';
import type { RecordedInput as _saga_worker_v1_RecordedInput, Recorded as _saga_worker_v1_Recorded } from '../../../saga/worker/v1/Recorded.js';
import type { CreditedInput as _saga_worker_v1_CreditedInput, Credited as _saga_worker_v1_Credited } from '../../../saga/worker/v1/Credited.js';

/**
 * A CoordinatorMessage that may be in a batch, with its numbers.
 */
export interface BatchedCoordinatorMessageInput {
  'hello_ack'?: (_saga_worker_v1_HelloAckInput | null);
  'execute'?: (_saga_worker_v1_ExecuteStepInput | null);
  'cancel'?: (_saga_worker_v1_CancelStepInput | null);
  'recorded'?: (_saga_worker_v1_RecordedInput | null);
  'credited'?: (_saga_worker_v1_CreditedInput | null);
  'message'?: "hello_ack"|"execute"|"cancel"|"recorded"|"credited";
}

/**
 * A CoordinatorMessage that may be in a batch, with its numbers.
 */
export interface BatchedCoordinatorMessage {
  'hello_ack'?: (_saga_worker_v1_HelloAck | null);
  'execute'?: (_saga_worker_v1_ExecuteStep | null);
  'cancel'?: (_saga_worker_v1_CancelStep | null);
  'recorded'?: (_saga_worker_v1_Recorded | null);
  'credited'?: (_saga_worker_v1_Credited | null);
  'message'?: "hello_ack"|"execute"|"cancel"|"recorded"|"credited";
}
