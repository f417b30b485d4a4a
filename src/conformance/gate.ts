// The TCP connections between the worker and the conformance's gRPC server: they can be cut, refused, or held open in silence, as a network
// does. It reads nothing of what passes.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class Gate {
  private readonly pairs = new Set<readonly [worker: Socket, server: Socket]>();
  private listener: Server | undefined;
  private port = 0;

  /** `target`: the port of the server on this machine. */
  constructor(private readonly target: number) {}

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** The first time at a free port, later at the same. */
  async open(): Promise<void> {
    const listener = createServer((worker) => this.pass(worker));
    this.listener = listener;
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject).listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (listener.address() as AddressInfo).port;
  }

  /** Breaks every connection, and refuses new ones until it is opened again. */
  async shut(): Promise<void> {
    const { listener } = this;
    this.listener = undefined;
    const closed = new Promise<void>((resolve) => (listener ? listener.close(() => resolve()) : resolve()));
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
    await closed;
  }

  /** Nothing passes on the present connections any more, and neither side hears that they are gone. New ones work. */
  fallSilent(): void {
    for (const pair of this.pairs) for (const socket of pair) socket.unpipe().pause();
  }

  private pass(worker: Socket): void {
    const server = connect(this.target, "127.0.0.1");
    const pair = [worker, server] as const;
    this.pairs.add(pair);
    const end = () => {
      this.pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.setNoDelay(true).on("error", end).on("close", end);
    worker.pipe(server);
    server.pipe(worker);
  }
}
