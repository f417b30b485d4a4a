// What a client is made with, checked before anything is sent. Settings of the environment are not read: a program hands them over.
import { refuseUnknown } from "../contract/unknown-member.js";

/** The part of `fetch` that the client uses. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchAnswer>;

export interface FetchInit {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly redirect: "manual";
  readonly signal: AbortSignal;
}

export interface FetchAnswer {
  readonly status: number;
  readonly type?: string;
  readonly headers: { get(name: string): string | null };
  /** Where a runtime has no streams, the answer is read at once. */
  readonly body?: { getReader(): BodyReader } | null;
  text(): Promise<string>;
}

export interface BodyReader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  cancel(reason?: unknown): Promise<void>;
}

/** The part of `WebSocket` that the client uses. That of the package `ws` has it as well. */
export interface Socket {
  readonly readyState: number;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close" | "error", listener: (event: { readonly code?: number }) => void): void;
  close(): void;
}

export type SocketClass = new (url: string, protocols: string[]) => Socket;

export interface RetryOptions {
  /** The client sends a request again for this time after its first failure. Default 30,000 ms. */
  readonly maxElapsedMs?: number;
  /** The longest first pause; it doubles with each repeat. Default 200 ms. */
  readonly initialBackoffMs?: number;
  /** The longest pause, unless the service asks for a longer one. Default 5,000 ms. */
  readonly maxBackoffMs?: number;
}

export interface ClientOptions {
  /** Where the service is, such as `https://saga.example.com`; a path before the API's is allowed. */
  readonly url: string;
  /** An API key or a token. A function is asked before every request, so it should keep what it got. */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>) | undefined;
  /** Instead of the global `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** Instead of the global `WebSocket`; `false`: `watch` asks by HTTP only. */
  readonly webSocket?: SocketClass | false | undefined;
  /** The longest time for one attempt, its answer included, beside what the service is asked to wait. Default 30,000 ms. */
  readonly timeoutMs?: number | undefined;
  /** `false`: no request is sent twice. */
  readonly retry?: RetryOptions | false | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The options with their defaults. */
export interface Settings {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token: () => string | undefined | Promise<string | undefined>;
  /** The token is asked for again after a 401. */
  readonly renews: boolean;
  readonly fetch: Fetch;
  readonly webSocket: SocketClass | undefined;
  readonly timeoutMs: number;
  readonly retry: Required<RetryOptions> | false;
  readonly headers: Readonly<Record<string, string>>;
}

const MEMBERS: Readonly<Record<keyof ClientOptions, true>> = {
  ...{ url: true, token: true, fetch: true, webSocket: true, timeoutMs: true, retry: true, headers: true },
};
const RETRY: Required<RetryOptions> = { maxElapsedMs: 30_000, initialBackoffMs: 200, maxBackoffMs: 5_000 };
/** Longer times overflow the timers of all runtimes. */
export const MAX_MS = 2_147_483_647;

/** Throws TypeError. */
export function settingsOf(options: ClientOptions): Settings {
  if (typeof options !== "object" || options === null) throw new TypeError("SagaClient needs options with a url");
  refuseUnknown("SagaClient", options, MEMBERS);
  const { token, fetch, webSocket, timeoutMs = 30_000, retry = {}, headers = {} } = options;
  if (retry !== false) refuseUnknown("retry of SagaClient", retry, RETRY);
  const times = { ...RETRY, ...present(retry === false ? {} : retry) };
  for (const [name, ms] of Object.entries({ timeoutMs, ...times }))
    if (!Number.isInteger(ms) || ms < 0 || ms > MAX_MS)
      throw new TypeError(`${name} must be a whole number of milliseconds from 0 to ${MAX_MS}`);
  for (const [name, value] of Object.entries(headers)) checkHeader(name, value);
  return {
    url: urlOf(options.url),
    token: typeof token === "function" ? token : () => token,
    renews: typeof token === "function",
    fetch: fetch ?? globalFetch(),
    webSocket: webSocket === false ? undefined : (webSocket ?? (globalThis as { WebSocket?: SocketClass }).WebSocket),
    timeoutMs,
    retry: retry === false ? false : times,
    headers,
  };
}

const present = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined));

/** Called on no object: browsers refuse a `fetch` that is a member of another one. */
function globalFetch(): Fetch {
  if (typeof globalThis.fetch !== "function") throw new TypeError("this runtime has no global fetch: hand one over");
  return (url, init) => globalThis.fetch(url, init) as Promise<FetchAnswer>;
}

function urlOf(given: unknown): string {
  const wrong = (why: string) => new TypeError(`the url of SagaClient ${why}, such as https://saga.example.com`);
  if (typeof given !== "string") throw wrong("must be a text");
  const url = parsed(given);
  if (!url || !/^https?:$/.test(url.protocol)) throw wrong("must begin with http:// or https://");
  if (url.username !== "" || url.password !== "") throw wrong("must have no credential in it: use token");
  if (url.search !== "" || url.hash !== "") throw wrong("must have no query and no fragment");
  return url.href.replace(/\/+$/, "");
}

function parsed(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** Runtimes would refuse these with the value in the message, or as if the network had failed. */
export function checkHeader(name: string, value: unknown): void {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a header`);
  if (typeof value !== "string" || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    throw new TypeError(`the value of the header ${name} must be text without line breaks, in Latin-1`);
}

/** A token goes into a header and into the name of a subprotocol. */
export function checkToken(token: string): void {
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError("the token must be text without spaces and line breaks");
}
