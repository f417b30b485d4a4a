// Hosts of the outside behind simulated sockets: HTTP workers, servers of requests and receivers of webhooks. Node's own HTTP client speaks to them over a
// Duplex, so everything above the socket is real. What a host says is its site's; here a connection is made, refused, lost or cut.
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import type { Surroundings } from "../../../src/cluster/foundations.js";
import type { Chance, Life, World } from "./world.js";

/** Of the service: each receiver has one that is derived from it. */
export const SIGNING_SECRET = "a secret of forty characters, at the least";

export interface Request {
  readonly method: string;
  readonly path: string;
  /** Values by the names of headers in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a host can do with a connection on which a request has come. Without a word it hangs. */
export interface Conversation {
  /** Sends this, and ends. */
  answer(text: string): void;
  /** Sends this, and goes on. */
  say(text: string): void;
  /** Sends this, and is gone without an end. */
  reset(text?: string): void;
}

export type Site = (request: Request, conversation: Conversation) => void;

/** How a host is away: it takes no connection, or nothing comes back from it. */
export type Away = "refuses" | "silent";

export interface HostFaults {
  /** Of a connection, from 0 to 1: what is sent over it is lost. */
  readonly unreached: number;
}

const LATENCY_MS = 5;
/** After which the service gives a connection up. */
const CONNECT_MS = 5_000;

export class SimulatedHosts {
  faults: HostFaults = { unreached: 0 };
  readonly away = new Map<string, Away>();
  readonly seen: Record<string, number> = {};
  private readonly sites = new Map<string, Site>();

  constructor(
    private readonly world: World,
    private readonly chance: Chance,
  ) {}

  get names(): readonly string[] {
    return [...this.sites.keys()];
  }

  serve(host: string, site: Site): void {
    this.sites.set(host, site);
  }

  /** A node's way to all of them. */
  dialOf(life: Life): Surroundings["dial"] {
    return ({ hostname }, callback) => {
      const site = this.sites.get(hostname);
      const away = site ? this.away.get(hostname) : "unknown";
      const after = (ms: number, happen: () => void) => void this.world.later(ms, happen, life);
      if (away === "unknown") return after(this.latency(), () => callback(failure("ENOTFOUND"), null));
      if (away === "refuses") return after(this.latency(), () => callback(failure("ECONNREFUSED"), null));
      if (away === "silent") return after(CONNECT_MS, () => callback(failure("UND_ERR_CONNECT_TIMEOUT"), null));
      after(this.latency(), () => callback(null, this.connect(hostname, life) as unknown as Socket));
    };
  }

  count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }

  private connect(host: string, life: Life): Duplex {
    const isLost = this.chance() < this.faults.unreached;
    if (isLost) this.count("unreached");
    const { world } = this;
    const wire: Wire = new Wire(
      world,
      () => this.latency(),
      life,
      (chunk) => {
        if (this.away.get(host) === "silent") return;
        if (isLost) return wire.reset("");
        const request = inbox.add(chunk);
        if (!request) return;
        this.count(host);
        this.sites.get(host)?.(request, wire);
      },
    );
    const inbox = new Inbox();
    return wire;
  }

  private latency(): number {
    return this.chance() * LATENCY_MS;
  }
}

/** A socket's end at the node. What is sent arrives in order, at either side. */
class Wire extends Duplex implements Conversation {
  private readonly last = { there: 0, here: 0 };

  constructor(
    private readonly world: World,
    private readonly latency: () => number,
    private readonly life: Life,
    private readonly arrived: (chunk: Buffer) => void,
  ) {
    super();
    this.on("error", () => {});
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.after("there", null, () => this.arrived(chunk));
    done();
  }

  say(text: string): void {
    this.after("here", this.life, () => this.destroyed || this.push(text));
  }

  answer(text: string): void {
    this.say(text);
    this.after("here", this.life, () => this.destroyed || this.push(null));
  }

  reset(text = ""): void {
    if (text !== "") this.say(text);
    this.after("here", this.life, () => void this.destroy(failure("ECONNRESET")));
  }

  private after(where: "here" | "there", life: Life | null, happen: () => void): void {
    const at = Math.max(this.last[where], this.world.now + this.latency());
    this.last[where] = at;
    this.world.later(at - this.world.now, happen, life);
  }
}

/** Bytes until they are a request. */
class Inbox {
  private bytes = Buffer.alloc(0);

  /** Undefined: it is not complete, or was answered before. */
  add(chunk: Buffer): Request | undefined {
    this.bytes = Buffer.concat([this.bytes, chunk]);
    const end = this.bytes.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const [first = "", ...lines] = this.bytes.toString("latin1", 0, end).split("\r\n");
    const [method = "", path = ""] = first.split(" ");
    const headers = Object.fromEntries(lines.map((line) => [nameOf(line), line.slice(line.indexOf(":") + 1).trim()]));
    const body = this.bytes.subarray(end + 4);
    if (body.length < Number(headers["content-length"] ?? 0)) return undefined;
    this.bytes = Buffer.alloc(0);
    return { method, path, headers, body: body.toString() };
  }
}

const nameOf = (line: string): string => line.slice(0, line.indexOf(":")).toLowerCase();

const failure = (code: string): Error => Object.assign(new Error(code), { code });

/** A response as bytes. */
export function response(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const all = { ...headers, "content-length": String(Buffer.byteLength(body)), connection: "close" };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} x\r\n${lines.join("")}\r\n${body}`;
}
