// An answer as it came: its text, read within a bound, and what its status and type mean. Whether the request is sent again is decided in transport.ts.
import { apiError, type Envelope, UnexpectedAnswer, Unreachable } from "./errors.js";
import type { FetchAnswer } from "./options.js";
import { retryAfterMs } from "./pause.js";

/** A page of a list ends at 8 MiB, and a run is smaller: what is longer is not from the service. */
const MAX_BYTES = 64 * 1024 * 1024;

/** A gateway's statuses that come and go, beside 429. */
const PASSING = [429, 502, 503, 504];

export const isPassing = (status: number) => PASSING.includes(status);

/** The parsed JSON, the text, or undefined where there is no content. Throws what the answer means. */
export async function readAnswer(answer: FetchAnswer, url: string): Promise<unknown> {
  const { status } = answer;
  const type = answer.headers.get("content-type") ?? "";
  if (answer.type === "opaqueredirect" || (status >= 300 && status < 400)) throw redirected(answer, url);
  const text = await textOf(answer, url);
  const value = /[/+]json/.test(type) && text !== "" ? parsed(text) : undefined;
  if (status >= 400) throw refusal(answer, value, type, url);
  if (value !== undefined) return value;
  if (text === "") return undefined;
  if (type.startsWith("text/plain")) return text;
  throw new UnexpectedAnswer(`${placeOf(url)} answered ${kindOf(type)} that is not JSON: is the url right?`, status);
}

function refusal({ status, headers }: FetchAnswer, value: unknown, type: string, url: string): Error {
  const after = retryAfterMs(headers.get("retry-after"));
  if (isEnvelope(value)) return apiError(status, value, after);
  const said = `${placeOf(url)} answered ${status}, and not as the service does`;
  if (isPassing(status)) return new Unreachable(`${said}: a gateway before it, perhaps`, { retryAfterMs: after });
  return new UnexpectedAnswer(`${said} (${kindOf(type)}): is the url right?`, status);
}

async function textOf(answer: FetchAnswer, url: string): Promise<string> {
  const reader = answer.body?.getReader?.();
  if (!reader) return answer.text();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done || value === undefined) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > MAX_BYTES) {
      void reader.cancel().catch(() => {});
      throw new UnexpectedAnswer(`the answer of ${placeOf(url)} is longer than ${MAX_BYTES} bytes`, answer.status);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function redirected({ status, headers }: FetchAnswer, url: string): UnexpectedAnswer {
  const to = targetOf(headers.get("location"), url);
  return new UnexpectedAnswer(
    `${placeOf(url)} redirects to ${to}. The client follows no redirect, because its credential is for one place: set the url to where the service is`,
    status,
  );
}

function targetOf(location: string | null, url: string): string {
  try {
    return location === null ? "another place" : placeOf(new URL(location, url).href);
  } catch {
    return "another place";
  }
}

/** Without the query: it may have labels, and names of people. */
export function placeOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

const kindOf = (type: string) => (type === "" ? "something without a type" : type.slice(0, 100));

const isEnvelope = (value: unknown): value is Envelope =>
  typeof (value as Envelope | undefined)?.error === "string" && typeof (value as Envelope).message === "string";

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
