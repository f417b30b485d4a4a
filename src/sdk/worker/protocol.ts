// The messages of worker.proto as the worker sees them, and the client that speaks them. The SDK shares the protocol with
// the service, and no code.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type ChannelOptions,
  type Client,
  type ClientDuplexStream,
  credentials,
  makeClientConstructor,
  type ServiceDefinition,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

export interface Hello {
  readonly worker_id: string;
  readonly service: string;
  readonly actions: readonly string[];
  readonly max_in_flight: number;
  readonly token: string;
  readonly in_flight: readonly string[];
}

interface Report {
  readonly dispatch_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly attempt: number;
}

export type AnswerMessage =
  | { readonly result: Report & { readonly result_json: Buffer } }
  | {
      readonly failure: Report & {
        readonly code: string;
        readonly message: string;
        readonly retryable: boolean;
        readonly outcome_unknown: boolean;
      };
    };

export type WorkerMessage =
  | { readonly hello: Hello }
  | AnswerMessage
  | { readonly heartbeat: { readonly dispatch_id: string } }
  | { readonly drain: Record<string, never> };

export interface HelloAck {
  readonly node_id: string;
  readonly heartbeat_interval_ms: number;
  readonly node_count: number;
}

export interface ExecuteStep extends Report {
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly inputs_json: Buffer;
  readonly idempotency_key: string;
  readonly deadline_at: string;
  readonly dry_run: boolean;
  readonly phase: "PHASE_UNSPECIFIED" | "FORWARD" | "COMPENSATION";
  readonly tenant_id: string;
  readonly traceparent: string;
  readonly timeout_ms: number;
  readonly heartbeat_timeout_ms: number;
  readonly forward_idempotency_key: string;
}

export interface CoordinatorMessage {
  readonly message?: "hello_ack" | "execute" | "cancel" | "recorded";
  readonly hello_ack?: HelloAck;
  readonly execute?: ExecuteStep;
  readonly cancel?: { readonly dispatch_id: string; readonly reason: string };
  readonly recorded?: { readonly dispatch_id: string; readonly stale: boolean };
}

export type WorkerCall = ClientDuplexStream<WorkerMessage, CoordinatorMessage>;

export interface WorkerClient extends Client {
  ExecuteStep(): WorkerCall;
}

const CHANNEL: ChannelOptions = {
  // A channel of its own per connection: channels that share one would all land on the same node.
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

let loaded: ServiceDefinition | undefined;

export function openClient(target: string): WorkerClient {
  loaded ??= loadSync(protoPath(), { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true })[
    "saga.worker.v1.WorkerService"
  ] as ServiceDefinition;
  const WorkerServiceClient = makeClientConstructor(loaded, "WorkerService");
  // The constructor adds the methods that the definition names: TypeScript cannot see them.
  return new WorkerServiceClient(target, credentials.createInsecure(), CHANNEL) as unknown as WorkerClient;
}

/** In the package's sources, whether this file runs from them or from dist. */
function protoPath(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error("worker.proto was not found: no package.json above the worker SDK");
    folder = parent;
  }
  return join(folder, "src", "dispatch", "worker.proto");
}
