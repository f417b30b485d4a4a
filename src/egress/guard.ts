// The egress guard: which addresses this service may connect to, and the connector that connects to nothing else. Not a
// firewall: it guards what goes through it, and everything that steps send must.
import { lookup as systemLookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { buildConnector } from "undici";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Whether a connection may be made to this address when it is this host that is asked for. */
export type Admission = (host: string, address: Address) => boolean;

export interface Resolved {
  readonly address: string;
  readonly family: number;
}

export interface GuardOptions {
  readonly admits: Admission;
  /** The system's resolver if absent. */
  readonly resolve?: (host: string) => Promise<readonly Resolved[]>;
  /** For connecting, TLS included. Milliseconds. */
  readonly connectMs?: number;
}

/** Nothing was connected to, and trying again would not change that. The message names the host, never what it resolved to. */
export class EgressRefused extends Error {
  override readonly name = "EgressRefused";
}

export class Guard {
  /** For undici: connects to addresses that are admitted, and to those that were looked at, not to what a name says later. */
  readonly connect: buildConnector.connector;
  private readonly dial: buildConnector.connector;

  constructor(private readonly options: GuardOptions) {
    this.dial = buildConnector({ timeout: options.connectMs ?? 10_000, lookup: this.lookup });
    this.connect = (to, callback) => {
      const host = bare(to.hostname);
      // A literal is connected to without a lookup.
      if (isIP(host) !== 0 && !this.admits(host, host)) return callback(refused(host), null);
      return this.dial(to, callback);
    };
  }

  /** The URL as it will be asked, if one may ask it at all. Throws EgressRefused. Numbers for hosts are read as addresses. */
  target(text: string, base?: URL): URL {
    const url = URL.parse(text, base?.href);
    if (!url) throw new EgressRefused("the URL cannot be read");
    if (url.protocol !== "http:" && url.protocol !== "https:")
      throw new EgressRefused("only http and https are spoken");
    if (url.username !== "" || url.password !== "") throw new EgressRefused("a URL must not hold credentials");
    const host = bare(url.hostname);
    if (isIP(host) !== 0 && !this.admits(host, host)) throw refused(host);
    return url;
  }

  private readonly lookup: LookupFunction = (hostname, { all }, callback) => {
    this.checked(hostname).then(
      (found) => {
        const [first] = found;
        if (all) callback(null, [...found]);
        else callback(null, first?.address ?? "", first?.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, all ? [] : "", 0),
    );
  };

  /** All addresses of the name, each admitted. One that is not spoils them all: names that mix are up to something. */
  private async checked(host: string): Promise<readonly Resolved[]> {
    const found = await (this.options.resolve ?? systemResolve)(host);
    if (found.length === 0) throw Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
    if (found.some(({ address }) => !this.admits(host, address))) throw refused(host);
    return found;
  }

  private admits(host: string, address: string): boolean {
    return ipaddr.isValid(address) && this.options.admits(host, ipaddr.parse(address));
  }
}

/** For what steps send: public addresses, and what is listed. */
export function publicOrListed(rules: readonly string[]): Admission {
  const isListed = listed(rules);
  return (host, address) => isPublic(address) || isListed(host, address);
}

/** For addresses that workers registered: what is listed, or anything where there is no list. */
export function listedOrAny(rules: readonly string[] | undefined): Admission {
  return rules ? listed(rules) : () => true;
}

/** Addresses, CIDR blocks and host names. A name admits whatever it resolves to; a block, addresses of its own family. */
function listed(rules: readonly string[]): Admission {
  const blocks = rules.filter(isBlock).map(block);
  const names = new Set(rules.filter((rule) => !isBlock(rule)).map(canonical));
  return (host, address) =>
    names.has(canonical(host)) ||
    blocks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

const isBlock = (rule: string) => isIP(rule.split("/")[0] ?? "") !== 0;

function block(rule: string): [Address, number] {
  if (rule.includes("/")) return ipaddr.parseCIDR(rule);
  const address = ipaddr.parse(rule);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

/** Everything that is in use and in IPv6 not in here is no public address. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");
/** Public by its number, and the platform's own agent on every machine of Azure. */
const PLATFORM = ipaddr.IPv4.parse("168.63.129.16").toString();

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast") return false;
  if (address.kind() === "ipv6") return (address as ipaddr.IPv6).match(GLOBAL_UNICAST);
  return address.toString() !== PLATFORM;
}

const systemResolve = (host: string) => systemLookup(host, { all: true });

const bare = (hostname: string) => (hostname.startsWith("[") ? hostname.slice(1, -1) : hostname);
const canonical = (host: string) => host.toLowerCase().replace(/\.$/, "");
const refused = (host: string) => new EgressRefused(`${host} is no address that may be reached`);
