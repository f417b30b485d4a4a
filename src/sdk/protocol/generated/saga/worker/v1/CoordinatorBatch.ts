// Original file: src/dispatch/worker.proto

import type { BatchedCoordinatorMessageInput as _saga_worker_v1_BatchedCoordinatorMessageInput, BatchedCoordinatorMessage as _saga_worker_v1_BatchedCoordinatorMessage } from '../../../saga/worker/v1/BatchedCoordinatorMessage.js';

/**
 * Their order counts.
 */
export interface CoordinatorBatchInput {
  'messages'?: (_saga_worker_v1_BatchedCoordinatorMessageInput)[];
}

/**
 * Their order counts.
 */
export interface CoordinatorBatch {
  'messages': (_saga_worker_v1_BatchedCoordinatorMessage)[];
}
