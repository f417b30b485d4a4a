// A TCP proxy in front of a server that a test can close, open and block: outages on demand, without stopping a server that others use.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** Where a URL names no port. */
const PORTS: Readonly<Record<string, number>> = { "redis:": 6379, "amqp:": 5672 };

export class TcpGate {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private readonly servers = new Set<Socket>();
  private silent = false;
  private port = 0;

  constructor(private readonly target: URL) {}

  get url(): string {
    const url = new URL(this.target);
    url.host = `127.0.0.1:${this.port}`;
    return url.href;
  }

  /** How many connections came through since the gate was made. */
  accepted = 0;

  /** The first time at a free port, afterwards at the same. */
  async open(): Promise<void> {
    this.server = createServer((socket) => this.let(socket));
    await new Promise<void>((resolve, reject) => {
      this.server?.once("error", reject).listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (this.server.address() as AddressInfo).port;
  }

  /** Refuses new connections and breaks those that are. */
  async shut(): Promise<void> {
    const closed = new Promise((resolve) => this.server?.close(resolve) ?? resolve(undefined));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  /** What is connected hangs without a word, as do new connections until `speak`. */
  fallSilent(): void {
    this.silent = true;
    for (const socket of this.sockets) socket.pause().unpipe();
  }

  /** What the server says is held back on the connections that are open: its clients cannot know what it did. */
  mute(): void {
    for (const server of this.servers) server.unpipe().pause();
  }

  /** New connections work again; those that hang go on hanging. */
  speak(): void {
    this.silent = false;
  }

  private let(client: Socket): void {
    this.accepted++;
    const { protocol, port, hostname } = this.target;
    const server = connect(Number(port) || PORTS[protocol] || 0, hostname);
    this.servers.add(server.on("close", () => this.servers.delete(server)));
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.sockets.add(one);
      one.on("error", () => one.destroy());
      one.on("close", () => {
        this.sockets.delete(one);
        other.destroy();
      });
      if (!this.silent) one.pipe(other);
    }
  }
}
