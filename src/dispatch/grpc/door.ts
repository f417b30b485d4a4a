// The door of gRPC: what each method needs, and how the credential of a call becomes a principal. With access off there is no door. When a
// stream says hello, and what its worker may do then, is in stream.ts.
import type { TLSSocket } from "node:tls";
import {
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from "@grpc/grpc-js";
import {
  type ClientAddresses,
  type ClientCertificates,
  meets,
  type Need,
  needsNoTenant,
  type Principal,
  type RateLimit,
  type SecurityLog,
  sufficientRole,
  Unauthenticated,
  untilEnd,
  type Verifier,
} from "../../access/index.js";
import { SagaError } from "../../errors.js";
import type { Log } from "../../log.js";
import { WORKER_SERVICE } from "../../sdk/protocol/index.js";

export const EXECUTE_STEP = `/${WORKER_SERVICE}/ExecuteStep`;

/** What each method needs. One that is missing here is open to no one. */
export const METHOD_NEEDS: Readonly<Record<string, Need>> = {
  // Its credential may come in the hello, so its stream asks for it.
  [EXECUTE_STEP]: "worker",
  "/grpc.health.v1.Health/Check": "public",
  "/grpc.health.v1.Health/Watch": "public",
  "/grpc.health.v1.Health/List": "public",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "credential",
  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "credential",
};

export interface DoorOptions {
  readonly verifier: Verifier;
  /** Absent: a credential may ask as often as it likes. */
  readonly rate?: Pick<RateLimit, "take">;
  readonly security: Pick<SecurityLog, "refused">;
  /** Reads from where a call comes. Absent: from the other end of its connection. */
  readonly addresses?: Pick<ClientAddresses, "of">;
  /** Absent: no client is known by a certificate. */
  readonly certificates?: ClientCertificates;
  readonly log: Pick<Log, "error">;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

/** What a call presents. */
export interface Presented {
  readonly metadata: Metadata;
  /** "address:port". */
  readonly peer: string;
  /** The credential of a hello. Empty: none. */
  readonly token?: string;
}

/** A call is refused with this status. */
export class CallRefused extends Error {
  override readonly name = "CallRefused";

  constructor(
    readonly code: status,
    readonly details: string,
  ) {
    super(details);
  }
}

/** Of a client that has shown a certificate. */
type Shown = Extract<ReturnType<typeof certificateOf>, object>;

/** No credential is longer: what would be hashed and parsed for nothing. */
const LONGEST_TOKEN = 16_384;

export class GrpcDoor {
  /** What the connections of calls have shown, by the metadata of the call: the only thing that its interceptor and its handler share. */
  private readonly shown = new WeakMap<Metadata, Shown>();

  constructor(private readonly options: DoorOptions) {}

  /** Decides by the method that was matched. */
  readonly interceptor: ServerInterceptor = ({ path }, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, pass) => {
            const certificate = certificateOf(call);
            if (certificate) this.shown.set(metadata, certificate);
            if (path === EXECUTE_STEP) return pass(metadata);
            this.admit(path, { metadata, peer: call.getPeer() }).then(
              () => pass(metadata),
              ({ code, details }: CallRefused) => call.sendStatus({ code, details, metadata: new Metadata() }),
            );
          },
        }),
    });

  /** Who calls the method, which is open to it. Throws CallRefused, and nothing else. */
  async admit(method: string, presented: Presented): Promise<Principal | undefined> {
    const need = METHOD_NEEDS[method];
    let principal: Principal | undefined;
    try {
      if (need === "public") return undefined;
      principal = await this.principalOf(presented);
      if (principal.tenantId === undefined && !needsNoTenant(principal.roles)) throw denied(NO_TENANT);
      if (need === undefined) throw denied("this operation is open to no one");
      if (!meets(principal.roles, need)) throw denied(`the role ${sufficientRole(need)} may do this`);
      this.options.rate?.take(principal);
      return principal;
    } catch (error) {
      const refusal = refusalOf(error);
      const isFault = refusal.code === status.UNAVAILABLE && !(error instanceof SagaError);
      if (isFault) this.options.log.error({ err: error }, "a credential could not be checked");
      const reason = error instanceof Unauthenticated ? error.reason : refusal.details;
      this.note(refusal, reason, { route: method, presented, principal });
      throw refusal;
    }
  }

  /** Notes what a worker was refused on its stream. */
  refuse(reason: string, presented: Presented, principal: Principal): void {
    this.note(new CallRefused(status.PERMISSION_DENIED, reason), reason, { route: EXECUTE_STEP, presented, principal });
  }

  /** Calls `end` when the credential ends, unless the answer is called before. */
  untilEnd(principal: Principal, end: () => void): () => void {
    return untilEnd(principal, this.options.now, end);
  }

  private async principalOf(presented: Presented): Promise<Principal> {
    const bearer = bearerOf(presented);
    const shown = this.shown.get(presented.metadata);
    if (shown?.problem !== undefined) throw new Unauthenticated(shown.problem);
    if (shown && bearer !== undefined) throw new Unauthenticated("there are a certificate and a token");
    if (shown) return this.certified(shown);
    if (bearer === undefined) throw new Unauthenticated("there is no credential");
    if (bearer.length > LONGEST_TOKEN) throw new Unauthenticated("the credential is too long");
    return this.options.verifier.verify(bearer, () => this.addressOf(presented));
  }

  /** The peer of the connection, or the client that a trusted proxy names. */
  private addressOf({ peer, metadata }: Presented): string {
    const address = addressOf(peer);
    const forwardedFor = metadata.get("x-forwarded-for").join(",") || undefined;
    return this.options.addresses?.of({ peer: address, forwardedFor }) ?? address;
  }

  private certified({ socket }: Shown): Principal {
    const principal = this.options.certificates?.principalOf(socket.getPeerX509Certificate());
    if (!principal) throw new Unauthenticated("no client has a name of the certificate");
    // A connection outlives the certificate that it was opened with.
    const { expiresAt = 0 } = principal;
    if (expiresAt <= this.options.now()) throw new Unauthenticated("the certificate has expired");
    return principal;
  }

  private note({ code }: CallRefused, reason: string, { presented, ...about }: Noted): void {
    const address = this.addressOf(presented);
    this.options.security.refused({ ...about, status: status[code] ?? code, reason, address });
  }
}

interface Noted {
  readonly route: string;
  readonly presented: Presented;
  readonly principal: Principal | undefined;
}

const NO_TENANT = "the credential belongs to no tenant";

export const denied = (details: string) => new CallRefused(status.PERMISSION_DENIED, details);

const STATUS_OF: Readonly<Record<number, status>> = { 403: status.PERMISSION_DENIED, 429: status.RESOURCE_EXHAUSTED };

/** Every refused credential has the same answer. */
function refusalOf(error: unknown): CallRefused {
  if (error instanceof CallRefused) return error;
  if (error instanceof Unauthenticated) return new CallRefused(status.UNAUTHENTICATED, "a valid credential is needed");
  if (error instanceof SagaError) return new CallRefused(STATUS_OF[error.status] ?? status.UNAVAILABLE, error.message);
  return new CallRefused(status.UNAVAILABLE, "the credential could not be checked");
}

const BEARER = /^bearer +(\S+) *$/i;

/** Of the metadata, or of the hello; where both are there, they are the same. */
function bearerOf({ metadata, token = "" }: Presented): string | undefined {
  const [header, ...more] = metadata.get("authorization");
  if (header === undefined) return token === "" ? undefined : token;
  const [, bearer] = (more.length === 0 && BEARER.exec(String(header))) || [];
  if (bearer === undefined) throw new Unauthenticated("the metadata authorization is no bearer");
  if (token !== "" && token !== bearer) throw new Unauthenticated("the hello has another token than the metadata");
  return bearer;
}

/** The address without the port, which differs from connection to connection. */
export const addressOf = (peer: string) => peer.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");

/** Undefined: the client has shown no certificate, or was not asked for one. */
function certificateOf(call: ServerInterceptingCallInterface) {
  const socket = socketOf(call);
  // A plain socket has neither member. Node asks only where an authority is set.
  if (socket?.getPeerX509Certificate?.() === undefined) return undefined;
  return {
    socket,
    ...(!socket.authorized && { problem: `the certificate is not accepted: ${socket.authorizationError}` }),
  };
}

/** gRPC tells of a certificate only if it is accepted. One that is not must not count as none, so the connection is asked. */
function socketOf(call: ServerInterceptingCallInterface): TLSSocket | undefined {
  return (call as { stream?: { session?: { socket?: TLSSocket } } }).stream?.session?.socket;
}
