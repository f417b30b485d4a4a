// The client of the worker protocol: a channel of its own for each stream, and the TCP connections under it.
import type { Socket } from "node:net";
import {
  ChannelCredentials,
  type ChannelOptions,
  type ClientDuplexStream,
  credentials,
  type experimental,
  loadPackageDefinition,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import {
  type CoordinatorMessage,
  PROTO_OPTIONS,
  type ProtoGrpcType,
  protoPath,
  type WorkerMessage,
  type WorkerServiceClient,
} from "../protocol/index.js";
import type { Address } from "./addresses.js";
import type { Timing } from "./timing.js";
import { authorities, type TlsOptions } from "./tls.js";

export type WorkerCall = ClientDuplexStream<WorkerMessage, CoordinatorMessage>;

const CHANNEL: ChannelOptions = {
  // Without it, all channels would share one TCP connection and land on the same node.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
  "grpc.max_receive_message_length": 32 * 1_048_576,
  "grpc.max_send_message_length": 32 * 1_048_576,
};

/** More frequent signs of life would be load, and gRPC servers other than ours refuse them. */
const SHORTEST = { keepaliveMs: 1_000, keepaliveTimeoutMs: 100 };

let loaded: ProtoGrpcType | undefined;

export interface Client extends Pick<WorkerServiceClient, "ExecuteStep"> {
  /** Closes the channel once its calls have ended. */
  close(): void;
  /** Closes the channel and every connection of it at once. */
  abandon(): void;
}

/** Without `tls` the service is spoken to as it is. */
export function openClient(
  { target, authority }: Address,
  tls: TlsOptions | undefined,
  timing: Pick<Timing, keyof typeof SHORTEST>,
): Client {
  // The loader builds the constructors from the file, so TypeScript cannot see them: ProtoGrpcType is generated from
  // the same file.
  loaded ??= loadPackageDefinition(loadSync(protoPath(), PROTO_OPTIONS)) as unknown as ProtoGrpcType;
  const connections = new Connections(tls ? channelOf(tls) : credentials.createInsecure());
  const client = new loaded.saga.worker.v1.WorkerService(target, connections, {
    ...CHANNEL,
    ...(authority !== undefined && namedBy(authority)),
    "grpc.keepalive_time_ms": Math.max(timing.keepaliveMs, SHORTEST.keepaliveMs),
    "grpc.keepalive_timeout_ms": Math.max(timing.keepaliveTimeoutMs, SHORTEST.keepaliveTimeoutMs),
  });
  return {
    ExecuteStep: () => client.ExecuteStep(),
    close: () => client.close(),
    abandon: () => {
      client.close();
      connections.destroy();
    },
  };
}

/** A channel to an address is spoken to, and verified, by the name that the address was found by. */
function namedBy(authority: string): ChannelOptions {
  return {
    "grpc.default_authority": authority,
    "grpc.ssl_target_name_override": authority.slice(0, authority.lastIndexOf(":")),
  };
}

function channelOf(tls: TlsOptions): ChannelCredentials {
  const { cert, key } = tls.client ?? {};
  if (cert === undefined || key === undefined) return credentials.createSsl(authorities(tls));
  return credentials.createSsl(authorities(tls), Buffer.from(key), Buffer.from(cert));
}

/**
 * Credentials that know the TCP connections of their channel. gRPC has no limit for a server's first frame, and a channel that is
 * closed while it waits for one leaves its connection open.
 */
class Connections extends ChannelCredentials {
  private readonly sockets = new Set<Socket>();

  constructor(private readonly inner: ChannelCredentials) {
    super();
  }

  destroy(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  override _isSecure(): boolean {
    return this.inner._isSecure();
  }

  override _equals(other: ChannelCredentials): boolean {
    return other === this;
  }

  override _createSecureConnector(
    ...about: Parameters<ChannelCredentials["_createSecureConnector"]>
  ): experimental.SecureConnector {
    const connector = this.inner._createSecureConnector(...about);
    return {
      waitForReady: () => connector.waitForReady(),
      getCallCredentials: () => connector.getCallCredentials(),
      destroy: () => connector.destroy(),
      connect: (socket) => {
        this.sockets.add(socket);
        socket.once("close", () => this.sockets.delete(socket));
        return connector.connect(socket);
      },
    };
  }
}
