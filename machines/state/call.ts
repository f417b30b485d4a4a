// Action calls: one piece of work for a worker, or a request that the service makes itself.
import type { RunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RetryPolicy } from "../values/retry.js";
import type { SecretText } from "../values/secret.js";

/** A request that the service itself makes (`http_request`). It names its secret and does not contain it. */
export interface HttpRequest {
  readonly method: string;
  /** Includes the query. */
  readonly url: SecretText;
  readonly headers: Readonly<Record<string, SecretText>>;
  /** A string is sent as it is, any other value as JSON. */
  readonly body?: Json;
  /** The statuses, and classes of statuses such as `2xx`, that count as a success. */
  readonly expectedStatus: readonly (number | string)[];
  readonly followRedirects: boolean;
  readonly secretRef?: string;
}

/** How clients see which action a call is of. */
export function actionText(call: Pick<ActionCall, "service" | "action" | "version" | "transport">): string {
  return call.transport === "request" ? "http_request" : `${call.service}.${call.action}@${call.version}`;
}

/**
 * A call, evaluated once per step entry and the same for every attempt. A request has no registration: its service is
 * `http_request`, its action the host of its URL (a mask if that is secret), and its version 0, which no registration has.
 */
export interface ActionCall {
  readonly phase: "forward" | "compensation";
  readonly stepId: string;
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly transport: "grpc" | "http" | "rmq" | "request";
  /** Set with the transport `request` only. */
  readonly request?: HttpRequest;
  /** Set with the transport `request` only: the workflows share its slots. */
  readonly workflowId?: string;
  readonly address?: string;
  /** The hash of the output schema that the call was made with. Absent: a request has none. */
  readonly outputHash?: string;
  readonly inputs: JsonObject;
  readonly idempotencyKey: string;
  /** The key of the call that an undo undoes; only in an undo. */
  readonly forwardIdempotencyKey?: string;
  /** The trace context of the attempt that an undo undoes, if its spans are recorded; only in an undo. */
  readonly forwardTrace?: string;
  /** The child that handed over the undo. */
  readonly childRunId?: RunId;
  readonly timeoutMs: number;
  readonly heartbeatTimeoutMs?: number;
  readonly queueTimeoutMs?: number;
  readonly retry: RetryPolicy;
}
