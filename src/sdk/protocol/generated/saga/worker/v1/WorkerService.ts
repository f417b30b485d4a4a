// Original file: src/dispatch/worker.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { CoordinatorMessageInput as _saga_worker_v1_CoordinatorMessageInput, CoordinatorMessage as _saga_worker_v1_CoordinatorMessage } from '../../../saga/worker/v1/CoordinatorMessage.js';
import type { WorkerMessageInput as _saga_worker_v1_WorkerMessageInput, WorkerMessage as _saga_worker_v1_WorkerMessage } from '../../../saga/worker/v1/WorkerMessage.js';

/**
 * A worker opens ExecuteStep streams (one per node it has met), says hello on each, and receives steps to execute for
 * as long as the stream lives. Credit is per stream: the worker divides what it takes at once among its streams. JSON payloads travel as UTF-8 bytes: protobuf's Struct would turn every number into a double.
 */
export interface WorkerServiceClient extends grpc.Client {
  ExecuteStep(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_CoordinatorMessage>;
  ExecuteStep(options?: grpc.CallOptions): grpc.ClientDuplexStream<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_CoordinatorMessage>;
  executeStep(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_CoordinatorMessage>;
  executeStep(options?: grpc.CallOptions): grpc.ClientDuplexStream<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_CoordinatorMessage>;
  
}

/**
 * A worker opens ExecuteStep streams (one per node it has met), says hello on each, and receives steps to execute for
 * as long as the stream lives. Credit is per stream: the worker divides what it takes at once among its streams. JSON payloads travel as UTF-8 bytes: protobuf's Struct would turn every number into a double.
 */
export interface WorkerServiceHandlers extends grpc.UntypedServiceImplementation {
  ExecuteStep: grpc.handleBidiStreamingCall<_saga_worker_v1_WorkerMessage, _saga_worker_v1_CoordinatorMessageInput>;
  
}

export interface WorkerServiceDefinition extends grpc.ServiceDefinition {
  ExecuteStep: MethodDefinition<_saga_worker_v1_WorkerMessageInput, _saga_worker_v1_CoordinatorMessageInput, _saga_worker_v1_WorkerMessage, _saga_worker_v1_CoordinatorMessage>
}
