// Registers the worker's actions, and retries until the service accepts them or refuses them for good.
import { setTimeout as delay } from "node:timers/promises";
import { type Action, type Reach, registration } from "./action.js";
import { type Log, reasonOf } from "./log.js";
import { post } from "./post.js";
import { jitteredBackoff, type Timing } from "./timing.js";

export interface RegisterOptions {
  readonly api: string;
  readonly service: string;
  readonly serviceVersion: string | undefined;
  readonly token: string | undefined;
  readonly actions: readonly Action[];
  readonly reach: Reach;
  readonly timing: Timing;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const REQUEST_MS = 10_000;

/** The 4xx statuses that a retry may change. Any other 4xx means that the request itself is wrong. */
const RETRYABLE = new Set([408, 425, 429]);

/** Throws if the service refuses the actions, or with the signal's reason if it is aborted. */
export async function register(options: RegisterOptions): Promise<void> {
  const { log, signal, timing } = options;
  for (let tries = 0; ; tries++) {
    signal.throwIfAborted();
    const problem = await tryOnce(options);
    if (problem === undefined) {
      if (tries > 0) log.info({ tries }, "actions registered");
      return;
    }
    if (problem.final) throw new Error(`the service refused to register ${options.service}: ${problem.message}`);
    if (tries === 0) log.warn({ reason: problem.message }, "actions could not be registered, retrying");
    await delay(jitteredBackoff(timing, tries), undefined, { signal });
  }
}

/** Undefined: registered. `final`: a retry would not help. */
async function tryOnce(options: RegisterOptions): Promise<{ final: boolean; message: string } | undefined> {
  const { service, serviceVersion, actions, reach, token } = options;
  const url = `${options.api.replace(/\/+$/, "")}/api/v1/registry/register`;
  const declared = actions.map((action) => registration(action, reach));
  const body = JSON.stringify({ service, service_version: serviceVersion, actions: declared });
  try {
    const signal = AbortSignal.any([options.signal, AbortSignal.timeout(REQUEST_MS)]);
    const { status, text, location } = await post(url, body, token, signal);
    if (status >= 200 && status < 300) return undefined;
    if (location !== undefined)
      return { final: true, message: `${url} redirects to ${location}: give the worker that address as its api` };
    const final = status >= 400 && status < 500 && !RETRYABLE.has(status);
    return { final, message: `${status} ${text.slice(0, 2_000)}` };
  } catch (error) {
    options.signal.throwIfAborted();
    return { final: false, message: `POST ${url}: ${reasonOf(error)}` };
  }
}
