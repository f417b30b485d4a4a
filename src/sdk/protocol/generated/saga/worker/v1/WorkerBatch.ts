// Original file: src/dispatch/worker.proto

import type { BatchedWorkerMessageInput as _saga_worker_v1_BatchedWorkerMessageInput, BatchedWorkerMessage as _saga_worker_v1_BatchedWorkerMessage } from '../../../saga/worker/v1/BatchedWorkerMessage.js';

/**
 * At most 64 messages. Their order counts.
 */
export interface WorkerBatchInput {
  'messages'?: (_saga_worker_v1_BatchedWorkerMessageInput)[];
}

/**
 * At most 64 messages. Their order counts.
 */
export interface WorkerBatch {
  'messages': (_saga_worker_v1_BatchedWorkerMessage)[];
}
