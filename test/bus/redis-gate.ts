// A proxy in front of Redis that a test can close, open and block: outages on demand, which a real server does not offer.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class RedisGate {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private silent = false;
  private port = 0;

  constructor(private readonly redis: URL) {}

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
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

  /** New connections work again; those that hang go on hanging. */
  speak(): void {
    this.silent = false;
  }

  private let(client: Socket): void {
    this.accepted++;
    const redis = connect(Number(this.redis.port) || 6379, this.redis.hostname);
    for (const [one, other] of [
      [client, redis],
      [redis, client],
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
