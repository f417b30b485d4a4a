// A TCP relay before a server, for connections that fall silent: it accepts and never answers, or stops passing anything on, and closes nothing.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export class TcpRelay {
  /** Connections that it gets from now on are accepted and never answered. */
  silent = false;
  /** Sees what the server sends. */
  passing: ((data: Buffer) => void) | undefined;
  /** Those that are open. */
  readonly accepted = new Set<Socket>();
  private readonly frozen = new Set<Socket>();
  private readonly server = createServer((client) => this.serve(client));

  private constructor(private readonly port: number) {}

  static async before(port: number): Promise<TcpRelay> {
    const relay = new TcpRelay(port);
    await new Promise<void>((resolve) => relay.server.listen(0, "127.0.0.1", resolve));
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Nothing more passes over the connections that are open now, in either direction. */
  freeze(): void {
    for (const socket of this.accepted) this.frozen.add(socket);
  }

  async close(): Promise<void> {
    for (const socket of this.accepted) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private serve(client: Socket): void {
    this.accepted.add(client);
    client.on("error", () => {});
    client.on("close", () => this.accepted.delete(client));
    // Read, so that the end of the client is noticed.
    if (this.silent) return void client.resume();
    const server = connect(this.port, "127.0.0.1");
    server.on("error", () => client.destroy());
    server.on("data", (data) => {
      this.passing?.(data);
      if (!this.frozen.has(client)) client.write(data);
    });
    client.on("data", (data) => this.frozen.has(client) || server.write(data));
    // A frozen connection passes on no end either.
    server.on("close", () => this.frozen.has(client) || client.destroy());
    client.on("close", () => this.frozen.has(client) || server.destroy());
  }
}
