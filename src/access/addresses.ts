// From where a request comes: the peer of its connection, or the address that a proxy names which the operator trusts. Anyone can write the
// header, so only what a trusted proxy has added to it counts.
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { hostMatcher } from "../egress/guard.js";

export interface Origin {
  /** The address of the other end of the connection. Undefined: a Unix socket. */
  readonly peer: string | undefined;
  /** The header `X-Forwarded-For`: each proxy adds the address of its own peer at the end. */
  readonly forwardedFor?: string | undefined;
}

/** Reads the addresses of clients behind these proxies (CIDR blocks and addresses). */
export class ClientAddresses {
  private readonly isProxy: (address: string) => boolean;

  constructor(trustedProxies: readonly string[]) {
    this.isProxy = trustedProxies.length > 0 ? hostMatcher(trustedProxies) : () => false;
  }

  /** The nearest address that is no trusted proxy. An entry that is no address ends the search: what is before it is anyone's word. */
  of({ peer, forwardedFor }: Origin): string {
    let address = plain(peer ?? "");
    if (forwardedFor === undefined || !this.isProxy(address)) return address;
    for (const entry of forwardedFor.split(",").reverse()) {
      const named = plain(withoutPort(entry.trim()));
      if (isIP(named) === 0) return address;
      address = named;
      if (!this.isProxy(address)) return address;
    }
    return address;
  }
}

/** An IPv4 address, also where IPv6 writes it. The dotted form has one spelling: it is not parsed, for each request asks. */
function plain(address: string): string {
  const [bare = ""] = address.split("%");
  return isIP(bare) === 6 ? ipaddr.process(bare).toString() : bare;
}

/** Some proxies write the port, too. */
function withoutPort(entry: string): string {
  const [, bracketed, dotted] = /^\[([^\]]*)\](?::\d+)?$|^([\d.]+):\d+$/.exec(entry) ?? [];
  return bracketed ?? dotted ?? entry;
}

/** What one client has at least: an IPv4 address, or 64 bits of an IPv6 address. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const { parts } = ipaddr.parse(address) as ipaddr.IPv6;
  return `${parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}
