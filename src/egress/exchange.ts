// One HTTP exchange under a guard: a request, its redirects if they are to be followed, and a response that is read up
// to a limit. It does not retry, keep connections or interpret statuses.
import { EgressRefused, type Guard } from "./guard.js";
import { ExchangeFailed, type Hop, type Incoming, type ReadLimits, requestOnce } from "./request.js";

export { ExchangeFailed, type Incoming } from "./request.js";

export interface Outgoing extends Omit<Hop, "url">, ReadLimits {
  readonly url: string;
  readonly followRedirects: boolean;
}

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The request headers that a redirect to another origin keeps. */
const CROSS_ORIGIN: ReadonlySet<string> = new Set([
  ...["accept", "accept-encoding", "accept-language", "content-type", "idempotency-key", "user-agent"],
]);

/** Throws ExchangeFailed. The sixth redirect in a row is returned as the response. */
export async function exchange(guard: Guard, outgoing: Outgoing): Promise<Incoming> {
  const progress = { sent: false };
  let hop: Hop = { ...outgoing, url: checkedUrl(guard, outgoing.url, undefined, false) };
  for (let nth = 0; ; nth++) {
    const incoming = await requestOnce(guard, hop, outgoing, progress);
    const location = REDIRECTS.has(incoming.status) ? incoming.location : undefined;
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
