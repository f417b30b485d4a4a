// The outlet of HTTP workers: POSTs a dispatch, signed, to the address that the worker registered. What a status means is the wire contract's;
// an answer that comes later comes over the API.
import type { ActionCall, Dispatch } from "../../../machines/index.js";
import { ExchangeFailed, exchange } from "../../egress/exchange.js";
import type { Guard } from "../../egress/guard.js";
import { signedHeaders } from "../../egress/signature.js";
import type { Signing } from "../../egress/signing.js";
import type { Log } from "../../log.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import { type Delivery, type Destination, failed, type Outlet } from "../push/outlet.js";
import { type CallbackOptions, stepJson } from "../step-message.js";
import { responded } from "./response.js";

export interface HttpOutletOptions extends CallbackOptions {
  readonly guard: Guard;
  /** The secrets of the services that are called. Absent: no call is signed. */
  readonly signing?: Signing;
  readonly log: Pick<Log, "warn">;
  /** The most bytes of a step's output. */
  readonly outputBytes: number;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  readonly scheduler: Pick<FairScheduler, "compute">;
}

/** What a response may have besides the output. */
const FRAME_BYTES = 65_536;

export class HttpOutlet implements Outlet {
  readonly isOpen = true;
  readonly ownWork = false;
  readonly busy = "as many calls as its host may get are under way";

  constructor(private readonly options: HttpOutletOptions) {}

  start(): void {}

  /** The actions of a host share its slots, and take turns. */
  destinationOf({ address = "" }: ActionCall): Destination {
    const { origin } = new URL(address);
    return { key: origin, pool: { group: "http", key: origin }, holder: { host: origin, sharer: origin } };
  }

  async deliver(dispatch: Dispatch, signal: AbortSignal): Promise<Delivery> {
    const { guard, outputBytes, now, scheduler } = this.options;
    const url = dispatch.call.address ?? "";
    const posted = { method: "POST", url, ...this.message(dispatch), followRedirects: false, signal };
    try {
      const incoming = await exchange(guard, { ...posted, maxBytes: outputBytes + FRAME_BYTES, overlong: "fails" });
      const arrivedAt = now();
      const { origin, host } = new URL(url);
      const delivery = await scheduler.compute(origin, () =>
        responded(incoming, host, { outputBytes, now: arrivedAt }),
      );
      // What the run makes of a large answer is computed in another turn.
      return scheduler.compute(origin, () => (delivery.kind === "answered" ? { ...delivery, arrivedAt } : delivery));
    } catch (error) {
      if (error instanceof ExchangeFailed) return unanswered(error, signal.reason);
      throw error;
    }
  }

  async stop(): Promise<void> {}

  private message(dispatch: Dispatch) {
    const { signing, log, now } = this.options;
    const { dispatchId, deadlineAt, call, traceparent } = dispatch;
    const body = stepJson(dispatch, deadlineAt - now(), this.options);
    signing?.warnOfGap(call.service, log);
    const headers = {
      ...{ "user-agent": "saga-orchestrator", accept: "application/json", "accept-encoding": "identity" },
      ...{ "content-type": "application/json", "idempotency-key": call.idempotencyKey },
      ...(traceparent !== undefined && { traceparent }),
      ...signedHeaders(signing?.of(call.service) ?? [], dispatchId, now(), body),
    };
    return { headers, body };
  }
}

/** There is no response. */
function unanswered({ kind, message, sent }: ExchangeFailed, reason: unknown): Delivery {
  const unknown = { retryable: true, outcomeUnknown: true };
  if (kind === "refused") return failed("http_network", message, { outcomeUnknown: sent });
  if (kind === "too_large") return failed("limit_exceeded", message, { outcomeUnknown: true });
  if (!sent) return { kind: "undelivered", reason: "no_connection", why: message };
  return kind === "aborted" && reason === "timeout"
    ? failed("timeout", "the worker did not answer in time", unknown)
    : failed("http_network", message, unknown);
}
