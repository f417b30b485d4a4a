// The egress guard: which addresses this service may connect to, and the connector that connects to nothing else. It is
// not a firewall: it guards only what goes through it, so everything that steps send must go through it.
import { lookup as systemLookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { buildConnector } from "undici";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Whether a connection to this address may be made for a request to this host. */
export type AddressRule = (host: string, address: Address) => boolean;

export interface Resolved {
  readonly address: string;
  readonly family: number;
}

export interface GuardOptions {
  readonly admits: AddressRule;
  /** The setting that lists what is admitted: a refusal names it. */
  readonly setting?: string;
  /** Default: the system's resolver. */
  readonly resolve?: (host: string) => Promise<readonly Resolved[]>;
  /** Time to connect, including TLS, in milliseconds. Default 10,000. */
  readonly connectMs?: number;
  /** A simulation's, in place of name resolution and sockets. */
  readonly dial?: buildConnector.connector;
}

/**
 * No connection was made, and a retry would not help. The message names the host, never the addresses that it resolved
 * to.
 */
export class EgressRefused extends Error {
  override readonly name = "EgressRefused";
}

export class Guard {
  /** The connector for undici. It connects to the very addresses that were checked, not to those that a later resolution returns. */
  readonly connect: buildConnector.connector;
  private readonly dial: buildConnector.connector;

  constructor(private readonly options: GuardOptions) {
    this.dial = options.dial ?? buildConnector({ timeout: options.connectMs ?? 10_000, lookup: this.lookup });
    this.connect = (to, callback) => {
      const host = bare(to.hostname);
      // undici connects to a literal address without a lookup.
      if (isIP(host) !== 0 && !this.admits(host, host)) return callback(this.refused(host), null);
      return this.dial(to, callback);
    };
  }

  /**
   * The parsed URL of a request that may be made. Throws EgressRefused. A host that is a number is read as an IPv4
   * address.
   */
  target(text: string, base?: URL): URL {
    const url = URL.parse(text, base?.href);
    if (!url) throw new EgressRefused("the URL is not valid");
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new EgressRefused("the URL must be http or https");
    if (url.username !== "" || url.password !== "") throw new EgressRefused("the URL must not contain credentials");
    const host = bare(url.hostname);
    if (isIP(host) !== 0 && !this.admits(host, host)) throw this.refused(host);
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

  /** All addresses of the name. One that is not admitted refuses the name: a name that mixes both is suspicious. */
  private async checked(host: string): Promise<readonly Resolved[]> {
    const found = await (this.options.resolve ?? systemResolve)(host);
    if (found.length === 0) throw Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
    if (found.some(({ address }) => !this.admits(host, address))) throw this.refused(host);
    return found;
  }

  private refused(host: string): EgressRefused {
    const { setting } = this.options;
    const remedy = setting === undefined ? "" : `: the operator can list it in ${setting}`;
    return new EgressRefused(`${host} is not an allowed address${remedy}`);
  }

  private admits(host: string, address: string): boolean {
    return ipaddr.isValid(address) && this.options.admits(host, ipaddr.parse(address));
  }
}

/** Admits addresses for requests of steps: public ones, and those that a rule lists. */
export function publicOrListed(rules: readonly string[]): AddressRule {
  const isListed = listed(rules);
  return (host, address) => isPublic(address) || isListed(host, address);
}

/** Admits addresses that workers registered: those that a rule lists, or all addresses without a list. */
export function listedOrAny(rules: readonly string[] | undefined): AddressRule {
  return rules ? listed(rules) : () => true;
}

/** The same with access on: public addresses without a list. */
export function listedOrPublic(rules: readonly string[] | undefined): AddressRule {
  return rules ? listed(rules) : publicOrListed([]);
}

/**
 * Rules are addresses, CIDR blocks and host names. A name admits every address that it resolves to; a block, addresses
 * of its family.
 */
function listed(rules: readonly string[]): AddressRule {
  const blocks = rules.filter(isBlock).map(block);
  const names = new Set(rules.filter((rule) => !isBlock(rule)).map(canonical));
  return (host, address) =>
    names.has(canonical(host)) ||
    blocks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

/** Whether a host, a name or an address as text, is listed; nothing is resolved. */
export function hostMatcher(rules: readonly string[]): (host: string) => boolean {
  const isListed = listed(rules);
  return (host) => isListed(host, ipaddr.isValid(host) ? ipaddr.parse(host) : NO_ADDRESS);
}

const isBlock = (rule: string) => isIP(rule.split("/")[0] ?? "") !== 0;

function block(rule: string): [Address, number] {
  if (rule.includes("/")) return ipaddr.parseCIDR(rule);
  const address = ipaddr.parse(rule);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

/** The public addresses of IPv6. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");
/** A public address by its number, but the platform's own agent on every Azure machine. */
const PLATFORM = ipaddr.IPv4.parse("168.63.129.16").toString();

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast") return false;
  if (address.kind() === "ipv6") return (address as ipaddr.IPv6).match(GLOBAL_UNICAST);
  return address.toString() !== PLATFORM;
}

/** The unspecified address. No listed block is meant to contain it. */
const NO_ADDRESS = ipaddr.IPv6.parse("::");

const systemResolve = (host: string) => systemLookup(host, { all: true });

const bare = (hostname: string) => (hostname.startsWith("[") ? hostname.slice(1, -1) : hostname);
const canonical = (host: string) => host.toLowerCase().replace(/\.$/, "");
