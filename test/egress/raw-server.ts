// A server below HTTP, on 127.0.0.1: it counts connections and requests, and answers each with whatever bytes a test wants.

import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";

export type Act = (socket: Socket, nth: number) => void;

export class RawServer {
  connections = 0;
  /** Requests in all, by their request line. */
  readonly requests: string[] = [];
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    public act: Act,
  ) {}

  static async open(act: Act): Promise<RawServer> {
    const server = createServer();
    const opened = new RawServer(server, act);
    server.on("connection", (socket) => opened.greet(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return opened;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private greet(socket: Socket): void {
    this.connections++;
    this.sockets.add(socket);
    let unread = "";
    socket.on("error", () => {});
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("data", (chunk) => {
      unread += chunk.toString("latin1");
      for (let taken = requestIn(unread); taken > 0; taken = requestIn(unread)) {
        this.requests.push(unread.slice(0, unread.indexOf("\r\n")));
        unread = unread.slice(taken);
        this.act(socket, this.requests.length);
      }
    });
  }
}

/** How many characters the first request has; 0 until all of it is there. */
function requestIn(text: string): number {
  const head = text.indexOf("\r\n\r\n");
  if (head === -1) return 0;
  const body = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
  return text.length < head + 4 + body ? 0 : head + 4 + body;
}
