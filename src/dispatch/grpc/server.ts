// The gRPC server of a node: the worker service, health and reflection on one port. It only opens and closes; what is
// said on a stream is the stream's matter.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Server, ServerCredentials, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation, protoPath as healthProto } from "grpc-health-check";
import type { NodeDispatcher } from "../dispatcher.js";
import type { Log } from "../transport.js";
import { PROTO_OPTIONS, type WorkerCall } from "./messages.js";
import type { Authenticate } from "./stream.js";

const WORKER_SERVICE = "saga.worker.v1.WorkerService";

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly dispatcher: NodeDispatcher;
  /** Absent: every worker is admitted. */
  readonly authenticate?: Authenticate;
  readonly log: Log;
}

export interface GrpcServer {
  readonly port: number;
  /** Stops the dispatcher, too: answers that have arrived are recorded within the grace, then the streams are closed. */
  stop(graceMs: number): Promise<void>;
}

export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { dispatcher, authenticate, log } = options;
  const definition = loadSync([workerProto(), healthProto], PROTO_OPTIONS);
  const health = new HealthImplementation({ "": "SERVING", [WORKER_SERVICE]: "SERVING" });
  const server = new Server({
    // Room for a result somewhat over its limit: that is a failed step, not a broken stream.
    "grpc.max_receive_message_length": Math.max(4 * 1_048_576, 2 * dispatcher.limits.outputBytes),
    "grpc.max_send_message_length": 32 * 1_048_576,
    // A frozen worker is noticed although its connection stands.
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 5_000,
  });
  server.addService(definition[WORKER_SERVICE] as ServiceDefinition, {
    ExecuteStep: (call: WorkerCall) => dispatcher.attach(call, authenticate),
  });
  health.addToServer(server);
  new ReflectionService(definition).addToServer(server);
  const port = await bind(server, options.host, options.port);
  log.info({ host: options.host, port }, "workers may connect");
  let stopped: Promise<void> | undefined;
  const stop = (graceMs: number) => {
    stopped ??= stopServer(server, health, dispatcher, graceMs);
    return stopped;
  };
  return { port, stop };
}

function bind(server: Server, host: string, port: number): Promise<number> {
  // An IPv6 address needs its brackets in a gRPC target.
  const target = host.includes(":") && !host.startsWith("[") ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(target, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
}

async function stopServer(
  server: Server,
  health: HealthImplementation,
  dispatcher: NodeDispatcher,
  graceMs: number,
): Promise<void> {
  health.setStatus("", "NOT_SERVING");
  health.setStatus(WORKER_SERVICE, "NOT_SERVING");
  await dispatcher.stop(graceMs);
  // A stalled worker never reads its last status, and a health watch never ends by itself.
  const force = setTimeout(() => server.forceShutdown(), SHUTDOWN_MS);
  await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  clearTimeout(force);
}

const SHUTDOWN_MS = 500;

/** The protocol lies in the sources, the compiled server beside them in dist: both find it through the package's root. */
function workerProto(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error("worker.proto was not found: no package.json above the gRPC server");
    folder = parent;
  }
  return join(folder, "src", "dispatch", "worker.proto");
}
