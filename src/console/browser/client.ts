// Requests to the API. It is the one place that fetches; what is refused becomes an `ApiError` with the words of the service.
import type { Problem, Refusal } from "./resources.js";

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface Request {
  readonly query?: Query;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** A command that is sent again with the same key takes effect once. */
  readonly idempotencyKey?: string;
}

export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: string;
  readonly details: readonly Problem[];

  constructor(
    readonly status: number,
    { error, message, details = [] }: Refusal,
  ) {
    super(message);
    this.code = error;
    this.details = details;
  }
}

const LATER = [429, 503];
/** There was no answer, or one that asks to come again. */
export const isPassing = (error: unknown): boolean => !(error instanceof ApiError) || LATER.includes(error.status);
/** It stays one, however often it is asked. */
export const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status < 500 && !isPassing(error);

const BASE = "/api/v1";

export const get = <T>(path: string, request: Omit<Request, "body" | "idempotencyKey"> = {}): Promise<T> =>
  send("GET", path, request);

export const post = <T>(path: string, body: unknown = {}, request: Omit<Request, "body"> = {}): Promise<T> =>
  send("POST", path, { ...request, body });

export const send = <T>(method: string, path: string, request: Request = {}): Promise<T> =>
  ask<T>(method, `${BASE}${path}`, request);

/** At an address that need not be of the API's tree. */
export async function ask<T>(method: string, address: string, request: Request = {}): Promise<T> {
  const { query, body, signal, idempotencyKey } = request;
  const response = await answer(`${address}${searchOf(query)}`, {
    method,
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  });
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, refusalOf(response, text));
  const isJson = response.headers.get("content-type")?.includes("json");
  return (text === "" ? undefined : isJson ? JSON.parse(text) : text) as T;
}

/** The sessions of the browser. */
export interface Sessions {
  /** Is told that a request was refused. Resolves when whoever was logged in is so again. */
  suspect(): Promise<void>;
  /** The same, where a request was refused before. */
  readonly awaited: Promise<void> | undefined;
}

/** Absent: access is off. */
let sessions: Sessions | undefined;

export function watchSessions(given: Sessions): void {
  sessions = given;
}

/** Its own routes answer 401 to whoever has none. */
const OF_SESSIONS = "/auth/";
const ENDED = "Your session had ended. Send it again: it takes effect once.";

/** What is read waits for the next login. A command does not: who logs in decides whether it is given again. */
async function answer(address: string, init: RequestInit): Promise<Response> {
  if (!sessions || address.startsWith(OF_SESSIONS)) return fetch(address, init);
  const { method, signal } = init;
  // Queries can be given up, commands cannot.
  const isRead = method === "GET" || signal instanceof AbortSignal;
  if (isRead && sessions.awaited) await unlessAborted(sessions.awaited, signal);
  const response = await fetch(address, init);
  if (response.status !== 401) return response;
  const back = sessions.suspect();
  if (!isRead) throw new ApiError(401, { error: "unauthenticated", message: ENDED, request_id: "" });
  await unlessAborted(back, signal);
  return fetch(address, init);
}

function unlessAborted(awaited: Promise<void>, signal: AbortSignal | null | undefined): Promise<void> {
  if (!signal) return awaited;
  const abort = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  return Promise.race([awaited, abort]);
}

/** The query string with its `?`. A list repeats the parameter. */
export function searchOf(query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== undefined && each !== "") search.append(name, String(each));
  return search.size > 0 ? `?${search}` : "";
}

/** A proxy in between may answer without our envelope. */
function refusalOf({ status, statusText }: Response, text: string): Refusal {
  try {
    return JSON.parse(text) as Refusal;
  } catch {
    return { error: "no_envelope", message: `${status} ${statusText}`, request_id: "" };
  }
}

export const part = (text: string): string => encodeURIComponent(text);

/** Where a WebSocket of the API is. */
export const socketUrl = (path: string, query?: Query): string =>
  `${location.origin.replace(/^http/, "ws")}${BASE}${path}${searchOf(query)}`;

/** The metrics of all processes of one machine, as Prometheus reads them. They are no part of the API's tree. */
export async function metricsText(signal: AbortSignal): Promise<string> {
  const response = await answer("/metrics", { method: "GET", signal });
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, refusalOf(response, text));
  return text;
}
