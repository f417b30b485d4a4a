// Original file: src/dispatch/worker.proto

import type { StepResultInput as _saga_worker_v1_StepResultInput, StepResult as _saga_worker_v1_StepResult } from '../../../saga/worker/v1/StepResult.js';
import type { StepFailureInput as _saga_worker_v1_StepFailureInput, StepFailure as _saga_worker_v1_StepFailure } from '../../../saga/worker/v1/StepFailure.js';
import type { HeartbeatInput as _saga_worker_v1_HeartbeatInput, Heartbeat as _saga_worker_v1_Heartbeat } from '../../../saga/worker/v1/Heartbeat.js';
import type { DrainInput as _saga_worker_v1_DrainInput, Drain as _saga_worker_v1_Drain } from '../../../saga/worker/v1/Drain.js';
import type { CreditInput as _saga_worker_v1_CreditInput, Credit as _saga_worker_v1_Credit } from '../../../saga/worker/v1/Credit.js';

/**
 * A WorkerMessage that may be in a batch, with its numbers.
 */
export interface BatchedWorkerMessageInput {
  'result'?: (_saga_worker_v1_StepResultInput | null);
  'failure'?: (_saga_worker_v1_StepFailureInput | null);
  'heartbeat'?: (_saga_worker_v1_HeartbeatInput | null);
  'drain'?: (_saga_worker_v1_DrainInput | null);
  'credit'?: (_saga_worker_v1_CreditInput | null);
  'message'?: "result"|"failure"|"heartbeat"|"drain"|"credit";
}

/**
 * A WorkerMessage that may be in a batch, with its numbers.
 */
export interface BatchedWorkerMessage {
  'result'?: (_saga_worker_v1_StepResult | null);
  'failure'?: (_saga_worker_v1_StepFailure | null);
  'heartbeat'?: (_saga_worker_v1_Heartbeat | null);
  'drain'?: (_saga_worker_v1_Drain | null);
  'credit'?: (_saga_worker_v1_Credit | null);
  'message'?: "result"|"failure"|"heartbeat"|"drain"|"credit";
}
