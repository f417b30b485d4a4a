// The outlet of `http_request` steps, whose worker is the service itself: a try makes the request, and what comes of it is the outcome of
// the attempt. When a request is made, and whether again, is decided by the runs; where it may go, by the egress guard.
import type { ActionCall, Dispatch } from "../../../machines/index.js";
import type { Delivery, Destination, Outlet } from "../push/outlet.js";
import { attempt, type RequestEnvironment } from "./attempt.js";

export class RequestOutlet implements Outlet {
  readonly isOpen = true;
  readonly ownWork = true;
  readonly busy = "the slots for requests that it may take are taken";

  constructor(private readonly environment: RequestEnvironment) {}

  start(): void {}

  /** The workflows of a host share its slots. */
  destinationOf({ service, action: host, workflowId }: ActionCall): Destination {
    const holder = { host, ...(workflowId !== undefined && { sharer: workflowId }) };
    return { key: host, pool: { group: service, key: workflowId ?? "" }, holder };
  }

  async deliver(dispatch: Dispatch, signal: AbortSignal): Promise<Delivery> {
    const { request } = dispatch.call;
    if (!request) throw new Error("a call over the transport request has no request");
    return { kind: "answered", ...(await attempt(request, dispatch, this.environment, signal)) };
  }

  async stop(): Promise<void> {}
}
