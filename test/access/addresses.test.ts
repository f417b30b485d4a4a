// From which address a request comes, behind proxies that the operator trusts, and behind others.
import { describe, expect, it } from "vitest";
import { ClientAddresses } from "../../src/access/index.js";

describe("the address of a client", () => {
  const behind = new ClientAddresses(["10.0.0.0/8", "::1", "2001:db8::/32"]);

  it.each([
    ["is the peer's", "192.0.2.7", undefined, "192.0.2.7"],
    ["is the peer's if that is no trusted proxy, whatever it says", "192.0.2.7", "198.51.100.1", "192.0.2.7"],
    ["is what a trusted proxy says", "10.1.2.3", "198.51.100.1", "198.51.100.1"],
    [
      "is the nearest that is no proxy: what is before it is its own word",
      "10.1.2.3",
      "1.1.1.1, 198.51.100.1, 10.9.9.9",
      "198.51.100.1",
    ],
    ["is the proxy's if it says nothing", "10.1.2.3", undefined, "10.1.2.3"],
    ["is the farthest proxy if all are trusted", "10.1.2.3", "10.0.0.9, 10.0.0.8", "10.0.0.9"],
    ["is the nearest proxy's if that says no address", "10.1.2.3", "198.51.100.1, unknown", "10.1.2.3"],
    ["may be written with a port", "10.1.2.3", "198.51.100.1:4711", "198.51.100.1"],
    ["may be of IPv6, with a port", "::1", "[2001:DB9::1]:4711", "2001:db9::1"],
    ["may be an IPv4 address that IPv6 writes", "::ffff:10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1"],
    ["of a Unix socket is empty", undefined, "198.51.100.1", ""],
  ])("%s", (_what, peer, forwardedFor, address) => {
    expect(behind.of({ peer, forwardedFor })).toBe(address);
  });

  it("is the peer's without trusted proxies", () => {
    expect(new ClientAddresses([]).of({ peer: "10.1.2.3", forwardedFor: "198.51.100.1" })).toBe("10.1.2.3");
  });
});
