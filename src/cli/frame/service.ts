// The service that a command talks to: which one it is, requests to it by the package's client, and its refusals as sentences with an exit code. What is
// asked is the commands' business.
import { isLoopback, readCommandSettings, SERVICE_TOKEN, SERVICE_URL } from "../../config/index.js";
import {
  type Detail,
  type Envelope,
  SagaApiError,
  SagaClient,
  UnexpectedAnswer,
  Unreachable,
} from "../../sdk/client/index.js";
import { within } from "../../sdk/timer.js";
import { EXIT, Failure } from "../exit.js";
import { readProfiles } from "./profiles.js";
import { safe } from "./text.js";

/** Where a service is without any setting: `npm start` listens there. */
const USUAL_URL = "http://127.0.0.1:8080";
/** A person waits for the answer, and can ask again. */
const PATIENT_FOR_MS = 3_000;
const READY_WITHIN_MS = 10_000;
/** Details of a refusal that are shown. */
const MOST_DETAILS = 20;

export interface Place {
  readonly url: string;
  readonly token?: string;
}

/** `--profile` names both address and token. Else `SAGA_URL` and `SAGA_TOKEN` belong together; else the current profile counts. Throws Failure. */
export async function placeOf(profile: string | undefined): Promise<Place> {
  const { settings, problems } = readCommandSettings();
  if (profile !== undefined) return profileAt(settings.profilesFile, profile);
  if (problems.length > 0) throw new Failure(problems.join("; "));
  const token = settings.token === undefined ? {} : { token: settings.token };
  if (settings.url !== undefined) return { url: settings.url, ...token };
  const { current, profiles } = await readProfiles(settings.profilesFile);
  if (current === undefined || settings.token !== undefined) return { url: USUAL_URL, ...token };
  const found = Object.hasOwn(profiles, current) ? profiles[current] : undefined;
  if (!found) throw new Failure(`the current profile ${current} does not exist: saga profile use NAME`);
  return found;
}

async function profileAt(path: string, name: string): Promise<Place> {
  const { profiles } = await readProfiles(path);
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found) return found;
  const names = Object.keys(profiles);
  const others = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
  throw new Failure(`there is no profile ${name}, ${others}: saga profile set ${name} --url URL`);
}

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface Asked {
  readonly query?: Query;
  readonly body?: unknown;
  /** Makes the request safe to repeat. */
  readonly key?: string;
}

/** What a list answers with. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  readonly total_is_lower_bound?: boolean;
  readonly next_cursor?: string;
}

/** The service said no. */
export class Refusal extends Failure {
  constructor(
    message: string,
    readonly status: number,
    readonly envelope: Envelope,
  ) {
    super(message, status >= 500 && status !== 503 ? EXIT.failed : status === 503 ? EXIT.unreachable : EXIT.refused);
  }
}

export class Service {
  private readonly client: SagaClient;

  constructor(
    readonly place: Place,
    private readonly signal: AbortSignal,
  ) {
    this.client = new SagaClient({
      url: place.url,
      token: place.token,
      retry: { maxElapsedMs: PATIENT_FOR_MS },
      webSocket: false,
    });
  }

  /** What goes over an open network in clear text. */
  get exposes(): boolean {
    const { protocol, hostname } = new URL(this.place.url);
    return protocol === "http:" && this.place.token !== undefined && !isLoopback(hostname.replace(/^\[|\]$/g, ""));
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    return this.asked<T>("GET", path, { query });
  }

  post<T>(path: string, body: unknown = {}, asked: Omit<Asked, "body"> = {}): Promise<T> {
    return this.asked<T>("POST", path, { ...asked, body });
  }

  patch<T>(path: string, body: unknown): Promise<T> {
    return this.asked<T>("PATCH", path, { body });
  }

  async delete(path: string): Promise<void> {
    await this.asked("DELETE", path, {});
  }

  /** Of a route that answers with text. */
  text(path: string, query: Query = {}): Promise<string> {
    return this.asked<string>("GET", path, { query });
  }

  /** Whether the node that answers is ready, and what time it is there. Throws Failure if there is none. */
  async ready(): Promise<{ readonly status: number; readonly date?: number }> {
    try {
      const signal = within(this.signal, READY_WITHIN_MS);
      const response = await fetch(`${this.place.url}/readyz`, { redirect: "manual", signal });
      await response.text();
      const date = Date.parse(response.headers.get("date") ?? "");
      return { status: response.status, ...(Number.isFinite(date) && { date }) };
    } catch (error) {
      const { cause = error } = error as { readonly cause?: unknown };
      const { code, name } = cause as { readonly code?: string; readonly name?: string };
      throw this.failureIn(new Unreachable(`${this.place.url} cannot be reached (${code ?? name ?? "no answer"})`));
    }
  }

  /** At most `most` items, page by page. */
  async *items<Item>(path: string, query: Query, most: number): AsyncGenerator<Item> {
    let left = most;
    let cursor: string | undefined;
    while (left > 0) {
      const page: Page<Item> = await this.get(path, { ...query, limit: Math.min(left, 500), cursor });
      yield* page.items.slice(0, left);
      left -= page.items.length;
      cursor = page.next_cursor;
      if (cursor === undefined || page.items.length === 0) return;
    }
  }

  private async asked<T>(method: string, path: string, asked: Asked): Promise<T> {
    const base = path.startsWith("/auth/") ? "" : "/api/v1";
    try {
      return await this.client.request<T>(method, `${base}${path}`, { ...asked, signal: this.signal });
    } catch (error) {
      throw this.failureIn(error);
    }
  }

  private failureIn(error: unknown): unknown {
    if (this.signal.aborted) return new Failure("interrupted", EXIT.interrupted);
    if (error instanceof SagaApiError) return this.refusal(error);
    if (error instanceof UnexpectedAnswer) return new Failure(error.message, EXIT.unreachable);
    if (error instanceof Unreachable)
      return new Failure(
        `${error.message}: start the service, or name another with ${SERVICE_URL} or --profile`,
        EXIT.unreachable,
      );
    // What cannot be sent, such as a token with a line break.
    return error instanceof TypeError ? new Failure(error.message) : error;
  }

  private refusal({ status, envelope, message, details }: SagaApiError): Failure {
    const hint =
      status === 401
        ? `: the service wants a credential that it accepts: set ${SERVICE_TOKEN}, or saga profile set`
        : "";
    return new Refusal(`${safe(message)}${linesOf(details, message)}${hint}`, status, envelope);
  }
}

/** The message has the first detail in it, mostly. */
function linesOf(details: readonly Detail[], message: string): string {
  const lines = details
    .filter(({ message: sentence }) => !message.includes(sentence))
    .map(({ path, message: sentence }) => `${path} ${sentence}`);
  const shown = lines.slice(0, MOST_DETAILS).map((line) => `\n  ${safe(line)}`);
  const left = lines.length > MOST_DETAILS ? `\n  and ${lines.length - MOST_DETAILS} more` : "";
  return shown.join("") + left;
}
