// The runtimes that the client is for, each with the program of `anywhere/` and the packed client: their versions, their installation from the registry of npm,
// and how the program is started in them. What it must see is said in the test.
import { spawn } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { NODES } from "../harness/nodes.js";
import { until } from "../harness/until.js";
import { Project, ROOT, run } from "./project.js";

/** On Linux and x64, as the packages have one program each. */
export const INSTALLED = {
  "Node 22": NODES[22],
  "Node 24": NODES[24],
  Bun: "@oven/bun-linux-x64@1.4.5",
  Deno: "@deno/linux-x64-glibc@2.9.6",
  workerd: "@cloudflare/workerd-linux-64@1.20261117.1",
} as const;
export type Installed = keyof typeof INSTALLED;

/** In its package. */
const PROGRAMS: Readonly<Record<Installed, string>> = {
  ...{ "Node 22": "bin/node", "Node 24": "bin/node" },
  ...{ Bun: "bin/bun", Deno: "deno", workerd: "bin/workerd" },
};

/** Where the program and the client are, and the runtimes beside them. */
export class Anywhere {
  readonly project: Project;
  private readonly runtimes: Project;

  constructor(home: string) {
    this.project = Project.open(join(home, "anywhere"));
    this.runtimes = Project.open(join(home, "runtimes"));
    cpSync(join(ROOT, "test/packages/anywhere"), this.project.folder, { recursive: true });
  }

  /** With the client's tarball. Returns why the runtimes are not there, where the registry or a package for this machine is missing. */
  async install(client: string): Promise<string | undefined> {
    await this.project.install(client);
    const wanted = Object.entries(INSTALLED).map(([name, version]) => `${aliasOf(name)}@npm:${version}`);
    return this.runtimes.install(...wanted).then(
      () => undefined,
      (error: Error) => error.message,
    );
  }

  /** The file of the client's module. */
  get clientModule(): string {
    return join(this.project.folder, "node_modules/@saga-orchestrator/client/dist/index.js");
  }

  /** What the program saw. Without a name: in the Node that runs the tests. */
  async play(name: Installed | undefined, ...args: Arguments): Promise<unknown> {
    const program = name === undefined ? process.execPath : this.programOf(name);
    if (name === "workerd") return this.inWorkerd(program, args);
    // Deno allows a program what it is told to, and this program needs one machine.
    const how = name === "Deno" ? ["run", "--no-prompt", "--quiet", "--allow-net=127.0.0.1", "deno.mjs"] : ["node.mjs"];
    return JSON.parse(await run(this.project.folder, program, ...how, ...args));
  }

  private programOf(name: Installed): string {
    return join(this.runtimes.folder, "node_modules", aliasOf(name), PROGRAMS[name]);
  }

  private async inWorkerd(program: string, [url, aside, id]: Arguments): Promise<unknown> {
    const child = spawn(program, ["serve", "--control-fd=3", "workerd.capnp"], {
      cwd: this.project.folder,
      stdio: ["ignore", "ignore", "pipe", "pipe"],
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    try {
      let said = "";
      let port: number | undefined;
      child.stderr?.on("data", (data: Buffer) => (said += data));
      createInterface({ input: child.stdio[3] as NodeJS.ReadableStream }).on("line", (line) => {
        port = (JSON.parse(line) as { readonly port?: number }).port ?? port;
      });
      await until(() => port !== undefined || child.exitCode !== null, { what: "the port of workerd" });
      if (port === undefined) throw new Error(`workerd ended: ${said}`);
      const answer = await fetch(`http://127.0.0.1:${port}/?${new URLSearchParams({ url, aside, id })}`);
      if (!answer.ok) throw new Error(`${await answer.text()}\n${said}`);
      return await answer.json();
    } finally {
      child.kill();
      await ended;
    }
  }
}

/** What the program is given: where the service is, the helper beside it, and the id of its workflow. */
export type Arguments = readonly [url: string, aside: string, id: string];

const aliasOf = (name: string) => name.toLowerCase().replace(" ", "");

/** Of the program, on its run. */
const WATCHES = 2;

const PAGE = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">{ "imports": { "@saga-orchestrator/client": "/client.mjs" } }</script>`;

/**
 * Beside the service: a page with the client, which is of another site than the service; addresses that break, hang and redirect; and a relay, over which the program reaches
 * the service, and whose connections are cut while a watch waits on one of them.
 */
export class Aside {
  /** Connections on which a watch waits now, and how. */
  private readonly waiting = new Map<Socket, "stream" | "wait">();
  private readonly open = new Set<Socket>();
  private readonly relay = createTcpServer((client) => this.pass(client));
  private readonly server: Server = createServer((request, response) => void this.answer(request, response));

  /** Redirects that were followed. */
  followed = 0;

  /** `service`: its URL. `client`: the file of the client's module. */
  constructor(
    private readonly service: string,
    private readonly client: string,
    private readonly program = join(ROOT, "test/packages/anywhere/play.mjs"),
  ) {}

  /** At a port that the service knows as that of a site. */
  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    await new Promise<void>((resolve) => this.relay.listen(0, "127.0.0.1", resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get relayUrl(): string {
    return `http://127.0.0.1:${(this.relay.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.cut();
    this.server.closeAllConnections();
    await Promise.all([this.server, this.relay].map((one) => new Promise((resolve) => one.close(resolve))));
  }

  private cut(): void {
    for (const socket of this.open) socket.destroy();
  }

  private pass(client: Socket): void {
    const server = connect(Number(new URL(this.service).port), "127.0.0.1");
    this.open.add(client);
    client.on("data", (data) => {
      const asked = /^GET \S*(\/stream[? ]|[?&]wait_ms=[1-9])/.exec(data.toString("latin1"))?.[1];
      if (asked !== undefined) this.waiting.set(client, asked.startsWith("/stream") ? "stream" : "wait");
      server.write(data);
    });
    server.on("data", (data) => {
      // An answered wait is over; a stream stays one.
      if (this.waiting.get(client) === "wait") this.waiting.delete(client);
      client.write(data);
    });
    for (const socket of [client, server])
      socket
        .on("error", () => {})
        .on("close", () => {
          for (const one of [client, server]) one.destroy();
          this.open.delete(client);
          this.waiting.delete(client);
        });
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? "", this.url);
    const [, first = "", run = ""] = pathname.split("/");
    const send = (type: string, text: string | Buffer) => response.writeHead(200, { "content-type": type }).end(text);
    if (first === "") send("text/html", PAGE);
    else if (first === "client.mjs") send("text/javascript", readFileSync(this.client));
    else if (first === "play.mjs") send("text/javascript", readFileSync(this.program));
    else if (first === "cut")
      await this.cutAndGo(run).then(
        (cut) => send("application/json", JSON.stringify(cut)),
        (error: Error) => response.writeHead(500).end(error.message),
      );
    else if (first === "moved") response.writeHead(307, { location: `${this.url}/elsewhere` }).end();
    else if (first === "broken") request.socket.destroy();
    else if (first === "elsewhere") this.followed++;
    // Hanging: until the other side gives up.
  }

  /** Returns what was cut. The run goes on while its watches have no connection. */
  private async cutAndGo(run: string): Promise<readonly string[]> {
    await until(() => this.waiting.size === WATCHES, { what: "two watches that wait", within: 10_000 });
    const cut = [...this.waiting.values()].sort();
    this.cut();
    const body = JSON.stringify({ payload: { by: "the test" } });
    const headers = { "content-type": "application/json" };
    await fetch(`${this.service}/api/v1/sagas/${run}/signal/go`, { method: "POST", headers, body });
    return cut;
  }
}
