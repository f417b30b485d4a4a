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

const BASE = "/api/v1";

export const get = <T>(path: string, request: Omit<Request, "body" | "idempotencyKey"> = {}): Promise<T> =>
  send("GET", path, request);

export const post = <T>(path: string, body: unknown = {}, request: Omit<Request, "body"> = {}): Promise<T> =>
  send("POST", path, { ...request, body });

export async function send<T>(method: string, path: string, request: Request = {}): Promise<T> {
  const { query, body, signal, idempotencyKey } = request;
  const response = await fetch(`${BASE}${path}${searchOf(query)}`, {
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
  const response = await fetch("/metrics", { signal });
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, refusalOf(response, text));
  return text;
}
