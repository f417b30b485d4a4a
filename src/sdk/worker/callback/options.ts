// The options that workers have in common which the service calls. Alone in a file, so that the declarations of the transports name no more
// than these.
import type { Codec } from "../codec.js";
import type { Log } from "../log.js";
import type { Timing } from "../timing.js";
import type { TlsOptions } from "../tls.js";
import type { Token } from "../token.js";

export interface CalledWorkerOptions {
  /** The service whose actions these are: workflows name them "service.action". */
  readonly service: string;
  /** Your version of the service, shown in the registry. */
  readonly serviceVersion?: string;
  /** "http://host:port" of the orchestrator's API; "https:" where it has TLS. */
  readonly api: string;
  /** The most bytes of an output, as in a gRPC worker: set it to the orchestrator's `SAGA_LIMIT_OUTPUT_BYTES`. Default 1,048,576. */
  readonly outputBytes?: number;
  /** Decrypts the encrypted values of inputs, and encrypts what `encrypted()` marks in outputs. */
  readonly codec?: Codec;
  /** `{ca}` where the certificate of the orchestrator's API comes from an authority of your own. */
  readonly tls?: TlsOptions;
  /**
   * The credential, where the orchestrator asks for one, or a function that gets it, which is asked for every request. Reports on steps
   * have a credential of their own.
   */
  readonly token?: Token | undefined;
  /** Default: JSON lines on stderr. */
  readonly log?: Log;
  /** How long `stop` waits for steps in progress and for answers to be recorded, in milliseconds. Default 30,000. */
  readonly drainTimeoutMs?: number;
  /** How often the worker asks whether a step without a heartbeat timeout is cancelled, in milliseconds. Default 10,000. */
  readonly cancelCheckMs?: number;
  readonly timing?: Partial<Timing>;
}

/** For the transports, which add their own. */
export const CALLED_MEMBERS: Readonly<Record<keyof CalledWorkerOptions, true>> = {
  ...{ service: true, serviceVersion: true, api: true, outputBytes: true, codec: true, tls: true, token: true },
  ...{ log: true, drainTimeoutMs: true, cancelCheckMs: true, timing: true },
};
