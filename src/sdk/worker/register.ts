// Registers the worker's actions, and retries until the service accepts them or refuses them for good. Later it makes sure that they still are
// registered: a service whose database was made anew, or restored to an earlier time, has lost them.
import { setTimeout as delay } from "node:timers/promises";
import { within } from "../timer.js";
import { type Reach, registration } from "./action.js";
import type { Handlers } from "./handlers.js";
import { type Log, reasonOf } from "./log.js";
import { type Peers, type Posted, post } from "./post.js";
import { jitteredBackoff, type Timing } from "./timing.js";

export interface RegisterOptions extends Peers {
  readonly api: string;
  readonly service: string;
  readonly serviceVersion: string | undefined;
  readonly handlers: Handlers;
  readonly timing: Timing;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const REQUEST_MS = 10_000;

/** The 4xx statuses that a retry may change. Any other 4xx means that the request itself is wrong. */
const RETRYABLE = new Set([408, 425, 429]);

interface Problem {
  /** A retry would not help. */
  readonly final: boolean;
  readonly message: string;
}

export class Registrar {
  private reach: Reach | undefined;
  private ensuring: Promise<void> | undefined;
  private askedAgain = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: RegisterOptions) {}

  /**
   * Registers all actions, and replaces what is registered of them. Throws if the service refuses the actions, or with the signal's reason if
   * it is aborted.
   */
  async register(reach: Reach): Promise<void> {
    await this.untilAccepted(reach, false);
    this.reach = reach;
  }

  /**
   * Registers what the service has lost. What it still has stays as it is: a newer process of this worker, or an operator, may have registered
   * it since. Without effect before the actions are registered. Failures are logged.
   */
  ensure(): void {
    if (!this.reach || this.options.signal.aborted) return;
    // The request under way may have been accepted before the reason for this one.
    if (this.ensuring) this.askedAgain = true;
    else
      this.ensuring = this.registerMissing(this.reach).finally(() => {
        this.ensuring = undefined;
        if (!this.askedAgain) return;
        this.askedAgain = false;
        this.ensure();
      });
  }

  /** For a worker without a connection to the service, which cannot see that the service came back: ensures it every `registerAgainMs`. */
  ensureRegularly(): void {
    this.timer = setInterval(() => this.ensure(), this.options.timing.registerAgainMs).unref();
    this.options.signal.addEventListener("abort", () => clearInterval(this.timer), { once: true });
  }

  private async registerMissing(reach: Reach): Promise<void> {
    const { log, service, signal } = this.options;
    try {
      const { text, ignored } = await this.untilAccepted(reach, true);
      // An older service replaces what it has, which is no work for a timer.
      if (ignored?.includes(ONLY_MISSING)) clearInterval(this.timer);
      else if (!hasRegistered(text)) log.debug({ service }, "the actions are still registered");
      else log.warn({ service }, "the service had lost actions of this worker, registered again");
    } catch (error) {
      if (!signal.aborted) log.error({ service, reason: reasonOf(error) }, "actions could not be registered again");
    }
  }

  private async untilAccepted(reach: Reach, onlyMissing: boolean): Promise<Posted> {
    const { log, service, signal, timing } = this.options;
    for (let tries = 0; ; tries++) {
      signal.throwIfAborted();
      const outcome = await this.tryOnce(reach, onlyMissing);
      if ("status" in outcome) {
        if (tries > 0) log.info({ tries }, "actions registered");
        return outcome;
      }
      if (outcome.final) throw new Error(`the service refused to register ${service}: ${outcome.message}`);
      if (tries === 0) log.warn({ reason: outcome.message }, "actions could not be registered, retrying");
      await delay(jitteredBackoff(timing, tries), undefined, { signal });
    }
  }

  private async tryOnce(reach: Reach, onlyMissing: boolean): Promise<Posted | Problem> {
    const { service, serviceVersion, handlers } = this.options;
    const url = `${this.options.api.replace(/\/+$/, "")}/api/v1/registry/register`;
    const declared = handlers.contracts().map((action) => registration(action, reach));
    const about = { service, service_version: serviceVersion, ...(onlyMissing && { [ONLY_MISSING]: true }) };
    const body = JSON.stringify({ ...about, actions: declared });
    try {
      const posted = await post(url, body, this.options, within(this.options.signal, REQUEST_MS));
      const { status, text, location } = posted;
      if (status >= 200 && status < 300) return posted;
      if (location !== undefined)
        return { final: true, message: `${url} redirects to ${location}: give the worker that address as its api` };
      // What gives the token may have another one by then.
      const isRenewable = status === 401 && this.options.credential.isRenewed;
      const final = status >= 400 && status < 500 && !RETRYABLE.has(status) && !isRenewable;
      return { final, message: `${status} ${text.slice(0, 2_000)}` };
    } catch (error) {
      this.options.signal.throwIfAborted();
      return { final: false, message: `POST ${url}: ${reasonOf(error)}` };
    }
  }
}

const ONLY_MISSING = "only_missing";

/** An answer that is so long that its end was cut off names actions. */
function hasRegistered(text: string): boolean {
  try {
    return ((JSON.parse(text) as { readonly registered?: number }).registered ?? 0) > 0;
  } catch {
    return true;
  }
}
