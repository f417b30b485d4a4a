// The gRPC server of a node: the worker service, health checking and reflection on one port. It opens and closes the
// port; stream.ts handles what is sent on a stream.
import { Server, ServerCredentials, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation, protoPath as healthProtoPath } from "grpc-health-check";
import type { ServerTls } from "../../config/index.js";
import type { Log } from "../../log.js";
import { PROTO_OPTIONS, protoPath, WORKER_SERVICE, type WorkerServiceHandlers } from "../../sdk/protocol/index.js";
import { withGrace } from "../../work/loop.js";
import type { NodeDispatcher } from "../node-dispatcher.js";
import type { GrpcDoor } from "./door.js";

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly dispatcher: Pick<NodeDispatcher, "limits" | "workers" | "stop">;
  /** Absent: access is off, and everyone may call everything. */
  readonly door?: GrpcDoor;
  readonly log: Log;
  readonly keepalive?: Keepalive;
  /** Absent: the port has no TLS. */
  readonly tls?: ServerTls;
  /** The authority of the certificates that clients are asked for, as PEM. Throws if it cannot be read. Absent: they are asked for none. */
  readonly clientAuthority?: () => Buffer;
}

/** Milliseconds. A connection over which nothing came for `afterMs` is asked for a sign of life, and closed without one after `waitMs`. */
export interface Keepalive {
  readonly afterMs: number;
  readonly waitMs: number;
}

export interface GrpcServer {
  readonly port: number;
  /**
   * Stops the dispatcher, too: answers that have arrived are recorded within the grace period, then the streams are
   * closed.
   */
  stop(graceMs: number): Promise<void>;
}

/** How long open calls have to end before the server cuts them off. */
const SHUTDOWN_MS = 500;

/** A connection whose TLS handshake takes longer is closed. */
const HANDSHAKE_MS = 10_000;

const MESSAGE_BYTES = 16 * 1_048_576;

/** Rejects if the port cannot be bound. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { dispatcher, log } = options;
  const health = new HealthImplementation({ "": "SERVING", [WORKER_SERVICE]: "SERVING" });
  const server = createServer(options, health);
  const port = await bind(server, options);
  log.info({ host: options.host, port }, "gRPC server listening");
  let stopped: Promise<void> | undefined;
  const stop = (graceMs: number) => {
    stopped ??= stopServer(server, health, dispatcher, graceMs);
    return stopped;
  };
  return { port, stop };
}

let loaded: PackageDefinition | undefined;

/** The worker service and health checking. Parsed once a process. */
function packageDefinition(): PackageDefinition {
  loaded ??= loadSync([protoPath(), healthProtoPath], PROTO_OPTIONS);
  return loaded;
}

function createServer(options: GrpcServerOptions, health: HealthImplementation): Server {
  const { dispatcher, door, keepalive = { afterMs: 10_000, waitMs: 5_000 } } = options;
  const definition = packageDefinition();
  const handlers: WorkerServiceHandlers = { ExecuteStep: (call) => dispatcher.workers.attach(call, door) };
  const server = new Server({
    interceptors: door ? [door.interceptor] : [],
    // Room for a result over its limit: it fails its step and does not break the stream. A larger message closes the
    // stream with RESOURCE_EXHAUSTED.
    "grpc.max_receive_message_length": Math.max(MESSAGE_BYTES, 2 * dispatcher.limits.outputBytes),
    "grpc.max_send_message_length": 32 * 1_048_576,
    // Detects a frozen worker whose connection stays open.
    "grpc.keepalive_time_ms": keepalive.afterMs,
    // All that come together are opened in one piece: 3,000 held the loop for 4 s. A client that has as many waits, or opens another
    // connection, as proxies do: so what is announced is what is served.
    "grpc.max_concurrent_streams": dispatcher.limits.streamsPerConnection,
    "grpc.keepalive_timeout_ms": keepalive.waitMs,
  });
  server.addService(definition[WORKER_SERVICE] as ServiceDefinition, handlers);
  health.addToServer(server);
  new ReflectionService(definition).addToServer(server);
  return server;
}

/** gRPC's own `createSsl` keeps one certificate for good. Open connections keep the one that they began with. */
class TlsCredentials extends ServerCredentials {
  /** A client without a certificate, or with one that is not accepted, is answered by the door. */
  constructor(tls: ServerTls, { clientAuthority, log }: Pick<GrpcServerOptions, "clientAuthority" | "log">) {
    let ca = clientAuthority?.();
    super(
      { handshakeTimeout: HANDSHAKE_MS, ...(ca && { requestCert: true, rejectUnauthorized: false }) },
      { ...tls.context, ...(ca && { ca }) },
    );
    tls.onReplaced((context) => {
      try {
        ca = clientAuthority?.();
      } catch (error) {
        log.error({ err: error }, "authority of client certificates not replaced, the old one stays");
      }
      this.updateSecureContextOptions({ ...context, ...(ca && { ca }) });
    });
  }

  override _equals(other: ServerCredentials): boolean {
    return other === this;
  }
}

function bind(server: Server, options: GrpcServerOptions): Promise<number> {
  const { host, port, tls } = options;
  const credentials = tls === undefined ? ServerCredentials.createInsecure() : new TlsCredentials(tls, options);
  // An IPv6 address needs brackets in a gRPC target.
  const target = host.includes(":") && !host.startsWith("[") ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(target, credentials, (error, bound) => (error ? reject(error) : resolve(bound)));
  });
}

async function stopServer(
  server: Server,
  health: HealthImplementation,
  dispatcher: Pick<NodeDispatcher, "stop">,
  graceMs: number,
): Promise<void> {
  health.setStatus("", "NOT_SERVING");
  health.setStatus(WORKER_SERVICE, "NOT_SERVING");
  await dispatcher.stop(graceMs);
  // A stalled worker never reads its last status, and a health watch never ends by itself.
  const shutDown = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  await withGrace(shutDown, { ms: SHUTDOWN_MS, cutShort: () => server.forceShutdown() });
}
