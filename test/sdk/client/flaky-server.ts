// A server that answers as a test tells it, request by request, and remembers what was asked. It is what stands between a client and the service, or a
// service in trouble; the real service is in the other tests.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface AskedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Reply = (response: ServerResponse, asked: AskedRequest) => void;

export class FlakyServer {
  readonly asked: AskedRequest[] = [];
  private replies: Reply[] = [];
  private readonly server: Server;

  private constructor(private otherwise: Reply) {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const { method = "", url = "", headers } = request;
      const asked = { method, url, headers, body };
      this.asked.push(asked);
      (this.replies.shift() ?? this.otherwise)(response, asked);
    });
  }

  /** `otherwise`: how it answers when nothing else is told. */
  static async open(otherwise: Reply): Promise<FlakyServer> {
    const made = new FlakyServer(otherwise);
    made.server.listen(0, "127.0.0.1");
    await once(made.server, "listening");
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The next answers, in turn. What was asked before is forgotten. */
  tell(...replies: Reply[]): void {
    this.asked.length = 0;
    this.replies = replies;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Reply =>
  (response) =>
    void response
      .writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers })
      .end(JSON.stringify(body));

export const refusal = (status: number, error: string, headers?: Record<string, string>): Reply =>
  json(status, { error, message: `refused with ${error}`, request_id: "r-1" }, headers);

export const html =
  (status: number, headers: Record<string, string> = {}): Reply =>
  (response) =>
    void response.writeHead(status, { "content-type": "text/html", ...headers }).end("<h1>It is not here</h1>");

/** The connection is cut without an answer. */
export const cut: Reply = (response) => void response.socket?.destroy();

/** The head of an answer, and then nothing more. */
export const halfway: Reply = (response) =>
  void response.writeHead(200, { "content-type": "application/json", "content-length": "100" }).write("{");

/** Nothing at all. */
export const silence: Reply = () => {};
