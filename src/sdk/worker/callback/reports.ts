// Reports to the service's API: an answer, again until it is recorded, and heartbeats, whose answer says whether to go on.
import { setTimeout as delay } from "node:timers/promises";
import { type Log, reasonOf } from "../log.js";
import { type Peers, type Posted, post } from "../post.js";
import { jitteredBackoff, type Timing } from "../timing.js";

export interface ReportsOptions extends Peers {
  readonly timing: Timing;
  readonly log: Log;
}

/** Where the reports on a step go. */
export interface Callback {
  readonly url: string;
  /** Their credential. Empty: that of the worker. */
  readonly token: string;
}

/** `refused`: the service will never take it. */
export type Recorded = "recorded" | "refused" | "late";

const REQUEST_MS = 10_000;
/** Any other 4xx means that the report itself is wrong. */
const RETRYABLE: ReadonlySet<number> = new Set([401, 408, 409, 421, 425, 429]);

export class Reports {
  constructor(private readonly options: ReportsOptions) {}

  /** Until it is recorded, known to be stale, or past its deadline (epoch milliseconds): then the run has given it up. */
  async answer(callback: Callback, body: string, deadline: number, signal: AbortSignal): Promise<Recorded> {
    const { log, timing } = this.options;
    for (let tries = 0; ; tries++) {
      const { status, reason } = await this.post(callback, body);
      if (status === 202 || status === 404) return "recorded";
      if (status >= 400 && status < 500 && !RETRYABLE.has(status)) {
        log.error({ status }, "the service refused an answer, giving it up");
        return "refused";
      }
      // The query of the URL names the dispatch.
      const url = callback.url.replace(/\?.*/, "");
      if (tries === 0) log.warn({ url, status, reason }, "answer could not be reported, retrying");
      if (signal.aborted || Date.now() > deadline) return "late";
      await delay(jitteredBackoff(timing, tries), undefined, { signal }).catch(() => {});
    }
  }

  /** True if the service wants the step stopped. A lost heartbeat is recovered by the next one. */
  async heartbeat(callback: Callback): Promise<boolean> {
    const url = new URL(callback.url);
    url.pathname = url.pathname.replace(/\/result$/, "/heartbeat");
    try {
      const { status, text } = await this.request({ ...callback, url: url.href }, "{}");
      const answer = (status === 202 ? JSON.parse(text) : {}) as { cancelled?: boolean; stale?: boolean };
      const { cancelled = false, stale = false } = answer;
      return cancelled || stale;
    } catch {
      return false;
    }
  }

  /** Status 0: no answer, for this reason. */
  private async post(callback: Callback, body: string): Promise<{ readonly status: number; readonly reason?: string }> {
    try {
      return await this.request(callback, body);
    } catch (error) {
      return { status: 0, reason: reasonOf(error) };
    }
  }

  private request({ url, token }: Callback, body: string): Promise<Posted> {
    const authority = token === "" ? undefined : { "saga-callback-token": token };
    return post(url, body, this.options, AbortSignal.timeout(REQUEST_MS), authority);
  }
}
