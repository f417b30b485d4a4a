// Where the service's gRPC is: the addresses that a worker was given, and all that their names stand for. Each connection takes the next one first, so
// that a worker meets the nodes of every machine, and goes on with the others when one is gone.
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";

/** A target of gRPC, and the name that it is known by. */
export interface Address {
  /** As gRPC takes it. Of several addresses it tries one after the other. */
  readonly target: string;
  /** The given "host:port", if the target is a list of the addresses of its host. The certificate of the service has this name. */
  readonly authority?: string;
}

/** The addresses of a host, in the order of the resolver. Rejects where it is not known. */
export type Resolve = (host: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

const resolveAll: Resolve = (host) => lookup(host, { all: true });

const HOST_AND_PORT = /^(?:\[([^\]]+)\]|([^:[\]/]+)):(\d+)$/;

export class Addresses {
  private readonly given: readonly string[];
  private taken = 0;

  constructor(
    given: string | readonly string[],
    private readonly resolve: Resolve = resolveAll,
  ) {
    this.given = (typeof given === "string" ? [given] : given).flatMap(separate);
  }

  /** Never rejects: a name that cannot be resolved is left to gRPC, which says so. */
  next(): Address | Promise<Address> {
    const nth = this.taken++;
    const given = this.given[nth % this.given.length] ?? "";
    const [, bracketed, plain = bracketed, port = ""] = HOST_AND_PORT.exec(given) ?? [];
    // What has a scheme is the library's. On this machine a name has one address of each family.
    if (plain === undefined || isIP(plain) !== 0 || plain === "localhost") return { target: given };
    return this.ofName({ given, host: plain, port }, Math.floor(nth / this.given.length));
  }

  /** Names are resolved each time, because machines come and go. */
  private async ofName({ given, host, port }: Name, nth: number): Promise<Address> {
    const all = await this.resolve(host).catch(() => []);
    const family = all[0]?.family;
    // Those of the other family are the same machines once more.
    const own = all.filter((one) => one.family === family).map(({ address }) => address);
    if (own.length < 2) return { target: given };
    const first = nth % own.length;
    const ordered = [...own.slice(first), ...own.slice(0, first)];
    const list = ordered.map((address) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`));
    return { target: `ipv${family}:${list.join(",")}`, authority: given };
  }
}

interface Name {
  readonly given: string;
  readonly host: string;
  readonly port: string;
}

/** A list in gRPC's own form is as good as a list of ours. */
function separate(given: string): readonly string[] {
  const [, list] = /^ipv[46]:(.*)$/.exec(given) ?? [];
  return list === undefined ? [given] : list.split(",");
}
