// One HTTP exchange under a guard: a request, its redirects if they are to be followed, and a response that is read up
// to a limit. It does not retry, keep connections or interpret statuses.
import { Client, type Dispatcher } from "undici";
import { EgressRefused, type Guard } from "./guard.js";

export interface Outgoing {
  readonly method: string;
  readonly url: string;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly followRedirects: boolean;
  /** Aborts the exchange and closes its connection. */
  readonly signal: AbortSignal;
  /** The most bytes of the response's body. */
  readonly maxBytes: number;
  /** Whether a longer body fails the exchange, or is cut after `maxBytes`. */
  readonly overlong: "fails" | "cut";
}

export interface Incoming {
  readonly status: number;
  /** By their names in lower case; the values of a repeated header are joined by ", ". */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export type FailureKind = "refused" | "network" | "aborted" | "too_large";

/** There is no response. `sent`: bytes were written to a server, which may have acted on them. */
export class ExchangeFailed extends Error {
  override readonly name = "ExchangeFailed";
  constructor(
    readonly kind: FailureKind,
    message: string,
    readonly sent: boolean,
  ) {
    super(message);
  }
}

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The request headers that a redirect to another origin keeps. */
const CROSS_ORIGIN: ReadonlySet<string> = new Set([
  ...["accept", "accept-encoding", "accept-language", "content-type", "idempotency-key", "user-agent"],
]);

type Hop = Pick<Outgoing, "method" | "headers" | "body"> & { readonly url: URL };

/** Throws ExchangeFailed. The sixth redirect in a row is returned as the response. */
export async function exchange(guard: Guard, outgoing: Outgoing): Promise<Incoming> {
  const progress = { sent: false };
  let hop: Hop = { ...outgoing, url: checkedUrl(guard, outgoing.url, undefined, false) };
  for (let nth = 0; ; nth++) {
    const incoming = await request(guard, hop, outgoing, progress);
    const location = REDIRECTS.has(incoming.status) ? incoming.headers.location : undefined;
    if (!outgoing.followRedirects || location === undefined || nth === MAX_REDIRECTS) return incoming;
    hop = redirected(hop, incoming.status, checkedUrl(guard, location, hop.url, true));
  }
}

function checkedUrl(guard: Guard, url: string, base: URL | undefined, sent: boolean): URL {
  try {
    return guard.target(url, base);
  } catch (error) {
    if (error instanceof EgressRefused) throw new ExchangeFailed("refused", error.message, sent);
    throw error;
  }
}

/** The next request, as browsers make it: after a 303, and after a 301 or 302 of a POST, it is a GET. */
function redirected({ method, headers, body, url }: Hop, status: number, to: URL): Hop {
  const becomesGet = (status === 303 && method !== "HEAD") || (status < 303 && method === "POST");
  const kept = Object.entries(headers).filter(
    ([name]) => (to.origin === url.origin || CROSS_ORIGIN.has(name)) && !(becomesGet && name.startsWith("content-")),
  );
  const next = { method: becomesGet ? "GET" : method, headers: Object.fromEntries(kept), url: to };
  return becomesGet || body === undefined ? next : { ...next, body };
}

/** Sends one request over a connection of its own, which is closed after the response. */
async function request(
  guard: Guard,
  { method, headers, body, url }: Hop,
  { signal, maxBytes, overlong }: Outgoing,
  progress: { sent: boolean },
): Promise<Incoming> {
  const client = new Client(url.origin, { connect: guard.connect, pipelining: 0, headersTimeout: 0, bodyTimeout: 0 });
  const abort = () => void client.destroy(new ExchangeFailed("aborted", "the request was aborted", progress.sent));
  try {
    return await new Promise<Incoming>((resolve, reject) => {
      signal.addEventListener("abort", abort, { once: true });
      const reader = new ResponseReader(url.hostname, method, maxBytes, overlong, progress, resolve, reject);
      if (signal.aborted) reject(new ExchangeFailed("aborted", "the request was aborted", progress.sent));
      else
        client.dispatch(
          { path: url.pathname + url.search, method: method as "GET", headers, body: body ?? null },
          reader,
        );
    });
  } finally {
    signal.removeEventListener("abort", abort);
    void client.destroy();
  }
}

class ResponseReader implements Dispatcher.DispatchHandler {
  private status = 0;
  private headers: Record<string, string> = {};
  private readonly chunks: Buffer[] = [];
  private bytes = 0;

  constructor(
    private readonly host: string,
    private readonly method: string,
    private readonly maxBytes: number,
    private readonly overlong: Outgoing["overlong"],
    private readonly progress: { sent: boolean },
    private readonly resolve: (incoming: Incoming) => void,
    private readonly reject: (error: ExchangeFailed) => void,
  ) {}

  /** The connection is open, and the request is about to be written to it. */
  onRequestStart(): void {
    this.progress.sent = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (status < 200) return;
    this.status = status;
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.headers[name] = Array.isArray(value) ? value.join(", ") : value;
    }
    // Without a body, content-length says how long the body would have been.
    const bodiless = this.method === "HEAD" || status === 304;
    if (!bodiless && Number(this.headers["content-length"]) > this.maxBytes) this.tooLarge(controller);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.bytes > this.maxBytes) this.tooLarge(controller);
    else this.chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.resolve({ status: this.status, headers: this.headers, body: Buffer.concat(this.chunks) });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const { sent } = this.progress;
    if (error instanceof ExchangeFailed) this.reject(new ExchangeFailed(error.kind, error.message, sent));
    else if (error instanceof EgressRefused) this.reject(new ExchangeFailed("refused", error.message, sent));
    else this.reject(new ExchangeFailed("network", `${this.host}: ${reasonOf(error)}`, sent));
  }

  private tooLarge(controller: Dispatcher.DispatchController): void {
    if (this.overlong === "cut") this.onResponseEnd();
    const message = `the response of ${this.host} is over ${this.maxBytes} bytes`;
    controller.abort(new ExchangeFailed("too_large", message, true));
  }
}

/** Only the code, because messages of network errors name addresses. */
function reasonOf(error: Error & { code?: string }): string {
  return error.code === undefined ? "the connection failed" : `the connection failed (${error.code})`;
}
