// The client of the worker protocol: a channel of its own for each connection.
import { type ChannelOptions, type ClientDuplexStream, credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import {
  type CoordinatorMessage,
  PROTO_OPTIONS,
  type ProtoGrpcType,
  protoPath,
  type WorkerMessage,
  type WorkerServiceClient,
} from "../protocol/index.js";

export type WorkerCall = ClientDuplexStream<WorkerMessage, CoordinatorMessage>;

const CHANNEL: ChannelOptions = {
  // Without it, all channels would share one TCP connection and land on the same node.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
  "grpc.max_receive_message_length": 32 * 1_048_576,
  "grpc.max_send_message_length": 32 * 1_048_576,
};

let loaded: ProtoGrpcType | undefined;

export function openClient(target: string): WorkerServiceClient {
  // The loader builds the constructors from the file, so TypeScript cannot see them: ProtoGrpcType is generated from
  // the same file.
  loaded ??= loadPackageDefinition(loadSync(protoPath(), PROTO_OPTIONS)) as unknown as ProtoGrpcType;
  return new loaded.saga.worker.v1.WorkerService(target, credentials.createInsecure(), CHANNEL);
}
