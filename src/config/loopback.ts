// Which hosts are this machine and nothing else. Nothing is resolved.
import { BlockList, isIP } from "node:net";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8);
LOOPBACK.addAddress("::1", "ipv6");

/** A host is an address or a name, as text. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "");
  const version = isIP(name);
  return version === 0 ? name === "localhost" : LOOPBACK.check(name, version === 4 ? "ipv4" : "ipv6");
}
