// The registration endpoint as a worker under test sees it: it accepts what the service accepts, and keeps it for the cases.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Registration {
  readonly at: number;
  /** Undefined: the header is missing. */
  readonly authorization: string | undefined;
  readonly body: RegistrationBody;
}

export interface RegistrationBody {
  readonly service?: unknown;
  readonly only_missing?: unknown;
  readonly actions?: unknown;
}

const PATH = "/api/v1/registry/register";
const BODY_BYTES = 4 * 1_048_576;
/** Requests that are remembered. */
const KEPT = 1_000;

export class Registry {
  readonly registrations: Registration[] = [];
  /** What was asked, and was no registration. */
  readonly strange: string[] = [];
  private readonly server: Server = createServer((request, response) => void this.answer(request, response));

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.server.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.server.close(() => resolve());
      this.server.closeAllConnections();
    });
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url?.split("?")[0];
    const text = await read(request);
    if (request.method !== "POST" || path !== PATH) return this.refuse(response, 404, `${request.method} ${path}`);
    const body = text === undefined ? undefined : parsed(text);
    if (!body)
      return this.refuse(response, 400, `the body of ${PATH} is no JSON object of at most ${BODY_BYTES} bytes`);
    const { authorization } = request.headers;
    if (this.registrations.length < KEPT) this.registrations.push({ at: performance.now(), authorization, body });
    const actions = body.only_missing === true || !Array.isArray(body.actions) ? [] : body.actions;
    reply(response, 200, { registered: actions.length, actions: [], changed: [] });
  }

  private refuse(response: ServerResponse, status: number, sentence: string): void {
    if (this.strange.length < KEPT) this.strange.push(sentence);
    reply(response, status, { error: { code: status === 404 ? "not_found" : "validation_failed", message: sentence } });
  }
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** Undefined: it is too long. */
async function read(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parsed(text: string): RegistrationBody | undefined {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && !Array.isArray(body) ? body : undefined;
  } catch {
    return undefined;
  }
}
