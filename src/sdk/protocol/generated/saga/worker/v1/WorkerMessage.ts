// Original file: src/dispatch/worker.proto

import type { HelloInput as _saga_worker_v1_HelloInput, Hello as _saga_worker_v1_Hello } from '../../../saga/worker/v1/Hello.js';
import type { StepResultInput as _saga_worker_v1_StepResultInput, StepResult as _saga_worker_v1_StepResult } from '../../../saga/worker/v1/StepResult.js';
import type { StepFailureInput as _saga_worker_v1_StepFailureInput, StepFailure as _saga_worker_v1_StepFailure } from '../../../saga/worker/v1/StepFailure.js';
import type { HeartbeatInput as _saga_worker_v1_HeartbeatInput, Heartbeat as _saga_worker_v1_Heartbeat } from '../../../saga/worker/v1/Heartbeat.js';
import type { DrainInput as _saga_worker_v1_DrainInput, Drain as _saga_worker_v1_Drain } from '../../../saga/worker/v1/Drain.js';
import type { WorkerBatchInput as _saga_worker_v1_WorkerBatchInput, WorkerBatch as _saga_worker_v1_WorkerBatch } from '../../../saga/worker/v1/WorkerBatch.js';
import type { CreditInput as _saga_worker_v1_CreditInput, Credit as _saga_worker_v1_Credit } from '../../../saga/worker/v1/Credit.js';

export interface WorkerMessageInput {
  /**
   * first message on every stream
   */
  'hello'?: (_saga_worker_v1_HelloInput | null);
  /**
   * the action completed
   */
  'result'?: (_saga_worker_v1_StepResultInput | null);
  /**
   * the action failed
   */
  'failure'?: (_saga_worker_v1_StepFailureInput | null);
  /**
   * still working: extends the heartbeat deadline
   */
  'heartbeat'?: (_saga_worker_v1_HeartbeatInput | null);
  /**
   * send no more steps; those in flight will still be answered
   */
  'drain'?: (_saga_worker_v1_DrainInput | null);
  /**
   * several messages as one; only to a service whose hello_ack has batches
   */
  'batch'?: (_saga_worker_v1_WorkerBatchInput | null);
  /**
   * another credit for this stream; only to a service whose hello_ack has credit
   */
  'credit'?: (_saga_worker_v1_CreditInput | null);
  'message'?: "hello"|"result"|"failure"|"heartbeat"|"drain"|"batch"|"credit";
}

export interface WorkerMessage {
  /**
   * first message on every stream
   */
  'hello'?: (_saga_worker_v1_Hello | null);
  /**
   * the action completed
   */
  'result'?: (_saga_worker_v1_StepResult | null);
  /**
   * the action failed
   */
  'failure'?: (_saga_worker_v1_StepFailure | null);
  /**
   * still working: extends the heartbeat deadline
   */
  'heartbeat'?: (_saga_worker_v1_Heartbeat | null);
  /**
   * send no more steps; those in flight will still be answered
   */
  'drain'?: (_saga_worker_v1_Drain | null);
  /**
   * several messages as one; only to a service whose hello_ack has batches
   */
  'batch'?: (_saga_worker_v1_WorkerBatch | null);
  /**
   * another credit for this stream; only to a service whose hello_ack has credit
   */
  'credit'?: (_saga_worker_v1_Credit | null);
  'message'?: "hello"|"result"|"failure"|"heartbeat"|"drain"|"batch"|"credit";
}
