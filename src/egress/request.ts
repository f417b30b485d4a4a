// One HTTP request over a connection of its own, and its response up to a limit. It follows no redirect and repeats nothing: a request
// that may have arrived is sent again by the retry policy alone. Interim responses (RFC 9110, section 15.2) are skipped, asked for or not.
import { isUtf8 } from "node:buffer";
import { type IncomingMessage, type RequestOptions, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { EgressRefused, type Guard } from "./guard.js";

export interface Hop {
  readonly method: string;
  readonly url: URL;
  /** Values by the names of headers in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface ReadLimits {
  /** Aborts the request and closes its connection. */
  readonly signal: AbortSignal;
  /** The most bytes of the response's body. */
  readonly maxBytes: number;
  /** Whether a longer body fails the request, or is cut after `maxBytes`. */
  readonly overlong: "fails" | "cut";
}

export interface Incoming {
  readonly status: number;
  /** Values by the names of headers in lower case, without `set-cookie`; the values of a repeated header are joined by ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** Each `set-cookie` by itself: a comma may be part of one. */
  readonly cookies: readonly string[];
  /** The header as it is sent, but for bytes above ASCII, which are percent-encoded: they are part of the address, whatever text they are. */
  readonly location?: string;
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

/** Throws ExchangeFailed. `progress` tells whether this request, or one before it, was sent. */
export async function requestOnce(
  guard: Guard,
  hop: Hop,
  limits: ReadLimits,
  progress: { sent: boolean },
): Promise<Incoming> {
  const { signal } = limits;
  const ended = new AbortController();
  try {
    return await new Promise<Incoming>((resolve, reject) => {
      const abort = () => reject(new ExchangeFailed("aborted", "the request was aborted", progress.sent));
      if (signal.aborted) return abort();
      signal.addEventListener("abort", abort, { signal: ended.signal });
      // node:http, because undici's client takes a 100 that it did not ask for as a broken response.
      const outgoing = (hop.url.protocol === "https:" ? requestHttps : requestHttp)(hop.url, {
        ...{ method: hop.method, headers: framed(hop), createConnection: connection(guard, hop.url, progress) },
        signal: ended.signal,
      });
      outgoing.on("error", reject);
      // Without a listener, Node would close the connection and say nothing.
      outgoing.on("upgrade", (_, socket) => {
        socket.destroy();
        reject(Object.assign(new Error("another protocol"), { code: "EPROTO" }));
      });
      outgoing.on("response", (response) => read(response, hop, limits).then(resolve, reject));
      // The body goes as bytes: with text, Node would write the headers in the encoding of the body.
      outgoing.end(hop.body === undefined ? undefined : Buffer.from(hop.body));
    });
  } catch (error) {
    throw failureOf(error, hop.url.hostname, progress.sent);
  } finally {
    ended.abort();
  }
}

/** Without an agent, the connection is closed after the response, and none is ever used for a second request. */
function connection(guard: Guard, url: URL, progress: { sent: boolean }): RequestOptions["createConnection"] {
  const { host, hostname, protocol, port } = url;
  const to = { host, hostname: hostname.replace(/^\[|\]$/g, ""), protocol, port };
  return (_, opened) => {
    guard.connect(to, (error, socket) => {
      // @types/node has no form of the callback for an error alone.
      if (error) return (opened as (error: Error) => void)(error);
      progress.sent = true;
      opened(null, socket);
    });
    return undefined;
  };
}

/** Node frames a body of itself for some methods only. */
function framed({ headers, body }: Hop): Record<string, string> {
  return body === undefined ? headers : { ...headers, "content-length": String(Buffer.byteLength(body)) };
}

async function read(response: IncomingMessage, hop: Hop, { maxBytes, overlong }: ReadLimits): Promise<Incoming> {
  const head = headOf(response);
  // Without a body, content-length says how long the body would have been.
  const bodiless = hop.method === "HEAD" || head.status === 304;
  const announced = bodiless ? 0 : Number(head.headers["content-length"] ?? 0);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isOver = announced > maxBytes;
  if (!isOver)
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      isOver = bytes > maxBytes;
      if (isOver) break;
      chunks.push(chunk);
    }
  if (isOver && overlong === "fails")
    throw new ExchangeFailed("too_large", `the response of ${hop.url.hostname} is over ${maxBytes} bytes`, true);
  return { ...head, body: Buffer.concat(chunks) };
}

function headOf({ statusCode: status = 0, rawHeaders }: IncomingMessage): Omit<Incoming, "body"> {
  const headers = new Map<string, string>();
  const cookies: string[] = [];
  let location: string | undefined;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [name = "", raw = ""] = [rawHeaders[index]?.toLowerCase(), rawHeaders[index + 1]];
    if (name === "location") location ??= raw.replace(/[^\0-\x7f]/g, percentEncoded);
    const [before, value] = [headers.get(name), decoded(raw)];
    if (name === "set-cookie") cookies.push(value);
    else headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { status, headers: Object.fromEntries(headers), cookies, ...(location !== undefined && { location }) };
}

/** Node hands the bytes of a header over as Latin-1. Most servers that send more than ASCII send UTF-8. */
function decoded(raw: string): string {
  const bytes = Buffer.from(raw, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : raw;
}

const percentEncoded = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;

function failureOf(error: unknown, host: string, sent: boolean): ExchangeFailed {
  if (error instanceof ExchangeFailed) return error;
  if (error instanceof EgressRefused) return new ExchangeFailed("refused", error.message, sent);
  return new ExchangeFailed("network", `${host}: ${reasonOf(error as Error & { code?: string })}`, sent);
}

/** Only the code, because messages of network errors name addresses. */
function reasonOf(error: Error & { code?: string }): string {
  return error.code === undefined ? "the connection failed" : `the connection failed (${error.code})`;
}
