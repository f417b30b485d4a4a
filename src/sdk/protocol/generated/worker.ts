import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { BatchedCoordinatorMessageInput as _saga_worker_v1_BatchedCoordinatorMessageInput, BatchedCoordinatorMessage as _saga_worker_v1_BatchedCoordinatorMessage } from './saga/worker/v1/BatchedCoordinatorMessage.js';
import type { BatchedWorkerMessageInput as _saga_worker_v1_BatchedWorkerMessageInput, BatchedWorkerMessage as _saga_worker_v1_BatchedWorkerMessage } from './saga/worker/v1/BatchedWorkerMessage.js';
import type { CancelStepInput as _saga_worker_v1_CancelStepInput, CancelStep as _saga_worker_v1_CancelStep } from './saga/worker/v1/CancelStep.js';
import type { CoordinatorBatchInput as _saga_worker_v1_CoordinatorBatchInput, CoordinatorBatch as _saga_worker_v1_CoordinatorBatch } from './saga/worker/v1/CoordinatorBatch.js';
import type { CoordinatorMessageInput as _saga_worker_v1_CoordinatorMessageInput, CoordinatorMessage as _saga_worker_v1_CoordinatorMessage } from './saga/worker/v1/CoordinatorMessage.js';
import type { CreditInput as _saga_worker_v1_CreditInput, Credit as _saga_worker_v1_Credit } from './saga/worker/v1/Credit.js';
import type { CreditedInput as _saga_worker_v1_CreditedInput, Credited as _saga_worker_v1_Credited } from './saga/worker/v1/Credited.js';
import type { DrainInput as _saga_worker_v1_DrainInput, Drain as _saga_worker_v1_Drain } from './saga/worker/v1/Drain.js';
import type { ExecuteStepInput as _saga_worker_v1_ExecuteStepInput, ExecuteStep as _saga_worker_v1_ExecuteStep } from './saga/worker/v1/ExecuteStep.js';
import type { HeartbeatInput as _saga_worker_v1_HeartbeatInput, Heartbeat as _saga_worker_v1_Heartbeat } from './saga/worker/v1/Heartbeat.js';
import type { HelloInput as _saga_worker_v1_HelloInput, Hello as _saga_worker_v1_Hello } from './saga/worker/v1/Hello.js';
import type { HelloAckInput as _saga_worker_v1_HelloAckInput, HelloAck as _saga_worker_v1_HelloAck } from './saga/worker/v1/HelloAck.js';
import type { RecordedInput as _saga_worker_v1_RecordedInput, Recorded as _saga_worker_v1_Recorded } from './saga/worker/v1/Recorded.js';
import type { StepFailureInput as _saga_worker_v1_StepFailureInput, StepFailure as _saga_worker_v1_StepFailure } from './saga/worker/v1/StepFailure.js';
import type { StepResultInput as _saga_worker_v1_StepResultInput, StepResult as _saga_worker_v1_StepResult } from './saga/worker/v1/StepResult.js';
import type { WorkerBatchInput as _saga_worker_v1_WorkerBatchInput, WorkerBatch as _saga_worker_v1_WorkerBatch } from './saga/worker/v1/WorkerBatch.js';
import type { WorkerMessageInput as _saga_worker_v1_WorkerMessageInput, WorkerMessage as _saga_worker_v1_WorkerMessage } from './saga/worker/v1/WorkerMessage.js';
import type { WorkerServiceClient as _saga_worker_v1_WorkerServiceClient, WorkerServiceDefinition as _saga_worker_v1_WorkerServiceDefinition } from './saga/worker/v1/WorkerService.js';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  saga: {
    worker: {
      v1: {
        BatchedCoordinatorMessage: MessageTypeDefinition<_saga_worker_v1_BatchedCoordinatorMessageInput, _saga_worker_v1_BatchedCoordinatorMessage>
        BatchedWorkerMessage: MessageTypeDefinition<_saga_worker_v1_BatchedWorkerMessageInput, _saga_worker_v1_BatchedWorkerMessage>
        CancelStep: MessageTypeDefinition<_saga_worker_v1_CancelStepInput, _saga_worker_v1_CancelStep>
        CoordinatorBatch: MessageTypeDefinition<_saga_worker_v1_CoordinatorBatchInput, _saga_worker_v1_CoordinatorBatch>
        CoordinatorMessage: MessageTypeDefinition<_saga_worker_v1_CoordinatorMessageInput, _saga_worker_v1_CoordinatorMessage>
        Credit: MessageTypeDefinition<_saga_worker_v1_CreditInput, _saga_worker_v1_Credit>
        Credited: MessageTypeDefinition<_saga_worker_v1_CreditedInput, _saga_worker_v1_Credited>
        Drain: MessageTypeDefinition<_saga_worker_v1_DrainInput, _saga_worker_v1_Drain>
        ExecuteStep: MessageTypeDefinition<_saga_worker_v1_ExecuteStepInput, _saga_worker_v1_ExecuteStep>
        Heartbeat: MessageTypeDefinition<_saga_worker_v1_HeartbeatInput, _saga_worker_v1_Heartbeat>
        Hello: MessageTypeDefinition<_saga_worker_v1_HelloInput, _saga_worker_v1_Hello>
        HelloAck: MessageTypeDefinition<_saga_worker_v1_HelloAckInput, _saga_worker_v1_HelloAck>
        Phase: EnumTypeDefinition
        Recorded: MessageTypeDefinition<_saga_worker_v1_RecordedInput, _saga_worker_v1_Recorded>
        StepFailure: MessageTypeDefinition<_saga_worker_v1_StepFailureInput, _saga_worker_v1_StepFailure>
        StepResult: MessageTypeDefinition<_saga_worker_v1_StepResultInput, _saga_worker_v1_StepResult>
        WorkerBatch: MessageTypeDefinition<_saga_worker_v1_WorkerBatchInput, _saga_worker_v1_WorkerBatch>
        WorkerMessage: MessageTypeDefinition<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_WorkerMessage>
        /**
         * A worker opens ExecuteStep streams (one per node it has met), says hello on each, and receives steps to execute for
         * as long as the stream lives. Credit is per stream: the worker divides what it takes at once among its streams. JSON payloads travel as UTF-8 bytes: protobuf's Struct would turn every number into a double.
         */
        WorkerService: SubtypeConstructor<typeof grpc.Client, _saga_worker_v1_WorkerServiceClient> & { service: _saga_worker_v1_WorkerServiceDefinition }
      }
    }
  }
}

