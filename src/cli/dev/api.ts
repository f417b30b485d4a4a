// The few requests that `saga dev` makes to its service. It is no client for others: that is a package of its own.
import { setTimeout as delay } from "node:timers/promises";
import { within } from "../../sdk/timer.js";
import type { Problem } from "../modules/documents.js";

export interface Refused {
  readonly refusal: string;
  readonly problems: readonly Problem[];
}

export type Posted =
  | { readonly version: number; readonly isNew: boolean; readonly warnings: readonly Problem[] }
  | Refused;

/** Of a service that is about to start, how often it is asked. */
const PAUSE_MS = 50;
const ANSWER_MS = 30_000;

export type Document = Readonly<Record<string, unknown>>;
type Body = Document & {
  readonly version?: number;
  readonly warnings?: readonly Problem[];
  readonly message?: string;
  readonly details?: readonly Problem[];
};

export interface Answer {
  readonly status: number;
  readonly body: Body;
}

export class Api {
  constructor(
    private readonly url: string,
    private readonly token: string | undefined,
  ) {}

  /** False: `signal` is aborted first. */
  async ready(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const isReady = await fetch(`${this.url}/readyz`, { signal }).then(
        async (answer) => {
          await answer.text();
          return answer.ok;
        },
        () => false,
      );
      if (isReady) return true;
      await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  /** Whether a worker is connected. */
  async hasWorker(signal: AbortSignal): Promise<boolean> {
    const { status, body } = await this.ask("GET", "/workers?limit=1", undefined, signal);
    return status === 200 && ((body as { total?: number }).total ?? 0) > 0;
  }

  /**
   * Publishes a document, so that the next run is of it. A document that an earlier version has, and not the latest, becomes a version of its own: otherwise
   * a change that is taken back would have no effect.
   */
  async publish(kind: "workflow" | "rule", id: string, document: Document, signal: AbortSignal): Promise<Posted> {
    const collection = `${kind}s`;
    const posted = await this.post(collection, document, signal);
    if (!("version" in posted) || posted.isNew || document.version !== undefined) return posted;
    const { status, body } = await this.ask("GET", `/${collection}/${encodeURIComponent(id)}`, undefined, signal);
    const latest = status === 200 && typeof body.version === "number" ? body.version : posted.version;
    return latest <= posted.version ? posted : this.post(collection, { ...document, version: latest + 1 }, signal);
  }

  private async post(collection: string, document: Document, signal: AbortSignal): Promise<Posted> {
    const answer = await this.ask("POST", `/${collection}`, { ...document, published: true }, signal);
    const { status, body } = answer;
    if ((status === 200 || status === 201) && typeof body.version === "number")
      return { version: body.version, isNew: status === 201, warnings: body.warnings ?? [] };
    return this.refusalIn(answer);
  }

  refusalIn({ status, body }: Answer): Refused {
    return { refusal: body.message ?? `the service answered ${status}`, problems: body.details ?? [] };
  }

  /** Rejects if there is no answer. */
  async ask(
    method: string,
    path: string,
    body: Document | undefined,
    signal: AbortSignal,
    key?: string,
  ): Promise<Answer> {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      signal: within(signal, ANSWER_MS),
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(key !== undefined && { "idempotency-key": key }),
        ...(this.token !== undefined && { authorization: `Bearer ${this.token}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, body: readAnswer(text) };
  }
}

function readAnswer(text: string): Body {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Body) : {};
  } catch {
    return {};
  }
}
