// One logical request: its attempts, their time limits, and what an answer or its absence means. What is asked is not known here.
import { isPassing, placeOf, readAnswer } from "./answer.js";
import { SagaApiError, Unauthorized, UnexpectedAnswer, Unreachable } from "./errors.js";
import { jsonText } from "./json.js";
import { checkHeader, checkToken, MAX_MS, type Settings } from "./options.js";
import { backoffMs, now, orAborted, pause } from "./pause.js";

/** What every call takes beside its content. */
export interface CallOptions {
  /** Ends the call: it throws the reason of the signal. What was sent may have taken effect. */
  readonly signal?: AbortSignal | undefined;
  /** Instead of the client's, for each attempt of this call. */
  readonly timeoutMs?: number | undefined;
  /** The idempotency key, 1 to 255 characters: the same call with the same key takes effect once. By default the client makes one. */
  readonly key?: string | undefined;
}

export type QueryValue = string | number | boolean | Date | readonly (string | number)[] | undefined;

export interface RequestOptions extends CallOptions {
  /** A member without a value is left out; a list is one parameter several times. */
  readonly query?: Readonly<Record<string, QueryValue>> | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Whether it may be sent again when no answer came. By default every method but POST, and a POST with a key. */
  readonly repeats?: boolean | undefined;
}

/** Error codes of runtimes that no repeat mends: a certificate that is not trusted. */
const HOPELESS = /CERT|SSL|ALTNAME|UNABLE_TO/;
export class Transport {
  constructor(readonly settings: Settings) {}

  /** Resolves with the parsed answer: JSON, text, or undefined where there is no content. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<unknown> {
    const { signal, key, headers = {} } = options;
    signal?.throwIfAborted();
    const url = `${this.settings.url}${path}${queryText(options.query)}`;
    const body = options.body === undefined ? undefined : jsonText(options.body);
    const own = { ...this.settings.headers, ...headers, ...(key !== undefined && { "idempotency-key": key }) };
    for (const [name, value] of Object.entries(own)) checkHeader(name, value);
    const repeats = options.repeats ?? (method !== "POST" || key !== undefined);
    const timeoutMs = Math.min((options.timeoutMs ?? this.settings.timeoutMs) + waitMs(options), MAX_MS);
    const failures = new Failures(this.settings, repeats);
    for (;;) {
      try {
        return await this.attempt({ method, url, headers: own, body, timeoutMs, signal });
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        // What a lost answer had deleted is gone.
        if (method === "DELETE" && failures.mayHaveHappened && error instanceof SagaApiError && error.status === 404)
          return undefined;
        await pause(failures.pauseAfter(error), signal);
      }
    }
  }

  private async attempt(sent: Sent): Promise<unknown> {
    const { url, body, signal, timeoutMs } = sent;
    const headers: Record<string, string> = { accept: "application/json, text/plain", ...sent.headers };
    if (body !== undefined) headers["content-type"] = "application/json";
    const limit = new AbortController();
    let awaited = "credential from the function `token`";
    const timer = setTimeout(() => limit.abort(new Unreachable(`no ${awaited} within ${timeoutMs} ms`)), timeoutMs);
    const aborted = () => limit.abort(signal?.reason);
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      const token = await orAborted(this.settings.token(), limit.signal);
      if (token !== undefined) {
        checkToken(token);
        headers.authorization = `Bearer ${token}`;
      }
      awaited = `answer from ${placeOf(url)}`;
      const init = { method: sent.method, headers, redirect: "manual", signal: limit.signal } as const;
      return await orAborted(this.exchange(url, { ...init, ...(body !== undefined && { body }) }), limit.signal);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
    }
  }

  private async exchange(url: string, init: Parameters<Settings["fetch"]>[1]): Promise<unknown> {
    try {
      const answer = await this.settings.fetch(url, init);
      return await readAnswer(answer, url);
    } catch (error) {
      if (error instanceof SagaApiError || error instanceof Unreachable || error instanceof UnexpectedAnswer)
        throw error;
      if (init.signal.aborted) throw init.signal.reason;
      throw new Unreachable(`${placeOf(url)} cannot be reached: ${whyOf(error)}`, { cause: error });
    }
  }
}

interface Sent {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** The failed attempts of one request. */
class Failures {
  /** The outcome of one of them is unknown. */
  mayHaveHappened = false;
  private count = 0;
  private until = 0;
  private renewed = false;

  constructor(
    private readonly settings: Pick<Settings, "retry" | "renews">,
    private readonly repeats: boolean,
  ) {}

  /** How long to wait before the next attempt. Throws the error if there is none. */
  pauseAfter(error: unknown): number {
    const { retry, renews } = this.settings;
    if (error instanceof Unauthorized && renews && !this.renewed) {
      this.renewed = true;
      return 0;
    }
    if (retry === false || !this.isWorthIt(error)) throw error;
    this.mayHaveHappened ||= !wasRefused(error);
    this.count++;
    if (this.count === 1) this.until = now() + retry.maxElapsedMs;
    const asked = (error as { readonly retryAfterMs?: number }).retryAfterMs ?? 0;
    // A service that is overloaded asks all of its clients for the same: at the end of exactly that, they would come back together.
    const ms = asked + backoffMs(this.count, retry);
    if (now() + ms >= this.until) throw error;
    return ms;
  }

  private isWorthIt(error: unknown): boolean {
    if (wasRefused(error)) return true;
    if (error instanceof SagaApiError) return this.repeats && isPassing(error.status);
    return this.repeats && error instanceof Unreachable && !HOPELESS.test(whyOf(error.cause));
  }
}

/** Before anything was done. */
const wasRefused = (error: unknown) => error instanceof SagaApiError && error.status === 429;

/** What the service is asked to wait comes on top of the time limit. */
function waitMs({ query }: RequestOptions): number {
  return typeof query?.wait_ms === "number" ? query.wait_ms : 0;
}

/** The code of the system's error, which runtimes hide in different places. */
function whyOf(error: unknown): string {
  const { cause, code, message } = (error ?? {}) as { cause?: unknown; code?: unknown; message?: unknown };
  if (typeof code === "string") return code;
  return cause === undefined ? String(message ?? "unknown") : whyOf(cause);
}

export function queryText(query: RequestOptions["query"] = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value])
      parameters.append(name, one instanceof Date ? one.toISOString() : String(one));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** A key of one logical call. */
export function newKey(): string {
  return (
    crypto.randomUUID?.() ??
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("")
  );
}
