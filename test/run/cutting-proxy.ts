// A TCP proxy before Postgres that cuts or holds a connection at a chosen moment: before a request reaches the server, or after the
// server has carried it out but before its answer arrives. It does not parse the protocol.
import { connect, createServer, type Server, type Socket } from "node:net";

interface Cut {
  readonly text: string;
  readonly when: "before" | "after";
  readonly how: "end" | "reset";
  readonly done: () => void;
}

export interface Held {
  /** Passes on what was held: the request to the server, or the answer to the client. */
  release(): void;
}

interface Hold {
  readonly text: string;
  readonly when: "before" | "after";
  readonly held: (held: Held) => void;
}

export class CuttingProxy {
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private port = 0;
  private cut: Cut | undefined;
  private hold: Hold | undefined;

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

  /** Cuts the connection of the next request that contains the text, once. Resolves when it is cut. A reset is an error for the client. */
  cutAt(text: string, when: Cut["when"], how: Cut["how"] = "end"): Promise<void> {
    return new Promise((done) => {
      this.cut = { text, when, how, done };
    });
  }

  /** Holds the next request that contains the text, or its answer, once. Resolves when it is held. */
  holdAt(text: string, when: Hold["when"]): Promise<Held> {
    return new Promise((held) => {
      this.hold = { text, when, held };
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

  /** Refuses new connections and cuts all open ones. Safe to call twice. */
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
        if (cut.how === "reset") client.resetAndDestroy();
        if (cut.when === "before") return this.finish(cut, end);
        withheld = cut;
      }
      const { hold } = this;
      if (hold && request.includes(hold.text)) {
        this.hold = undefined;
        return hold.held(hold.when === "before" ? keepBack(client, server, request) : passOn(client, server, request));
      }
      server.write(request);
    });
    server.on("data", (answer) => {
      // The server answers at the end of a request, so the request is committed by now.
      if (withheld) this.finish(withheld, end);
      else client.write(answer);
    });
  }

  private finish({ done }: Cut, end: () => void): void {
    end();
    done();
  }
}

/** Holds the request and all that follows it. */
function keepBack(client: Socket, server: Socket, request: Buffer): Held {
  client.pause();
  return {
    release: () => {
      server.write(request);
      client.resume();
    },
  };
}

/** Passes the request to the server, and holds the answer. */
function passOn(client: Socket, server: Socket, request: Buffer): Held {
  server.pause();
  server.write(request);
  return { release: () => client.destroyed || server.resume() };
}
