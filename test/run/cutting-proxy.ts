// A TCP proxy before Postgres that cuts a connection at the moment a test names: before a request reached the server, or after
// the server has carried it out and before its answer came back.
import { connect, createServer, type Server, type Socket } from "node:net";

interface Cut {
  readonly text: string;
  readonly when: "before" | "after";
  readonly done: () => void;
}

export class CuttingProxy {
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private port = 0;
  private cut: Cut | undefined;

  private constructor(private readonly target: URL) {}

  static async before(url: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(new URL(url));
    await proxy.open();
    return proxy;
  }

  get url(): string {
    const url = new URL(this.target);
    url.host = `127.0.0.1:${this.port}`;
    return url.href;
  }

  /** Cuts the connection of the next request that holds the text, once. Resolves when it is cut. */
  cutAt(text: string, when: Cut["when"]): Promise<void> {
    return new Promise((done) => {
      this.cut = { text, when, done };
    });
  }

  /** On the same port as before. */
  async open(): Promise<void> {
    const server = createServer((client) => this.serve(client));
    this.server = server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (server.address() as { port: number }).port;
  }

  /** Nobody answers there any more, and everybody is cut off. Safe twice. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => (this.server?.listening ? this.server.close(resolve) : resolve(undefined)));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private serve(client: Socket): void {
    const server = connect(Number(this.target.port) || 5432, this.target.hostname);
    const end = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", end);
      socket.on("close", () => {
        this.sockets.delete(socket);
        end();
      });
    }
    let withheld: Cut | undefined;
    client.on("data", (request) => {
      const { cut } = this;
      if (cut && request.includes(cut.text)) {
        this.cut = undefined;
        if (cut.when === "before") return this.finish(cut, end);
        withheld = cut;
      }
      server.write(request);
    });
    server.on("data", (answer) => {
      // The server answers at the end of a request: what it was asked is committed.
      if (withheld) this.finish(withheld, end);
      else client.write(answer);
    });
  }

  private finish({ done }: Cut, end: () => void): void {
    end();
    done();
  }
}
