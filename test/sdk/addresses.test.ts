// The addresses of the service: given ones in turn, and all that a name stands for.
import { describe, expect, it } from "vitest";
import { type Address, Addresses, type Resolve } from "../../src/sdk/worker/addresses.js";

const four = (...addresses: readonly string[]) => addresses.map((address) => ({ address, family: 4 }));
const six = (...addresses: readonly string[]) => addresses.map((address) => ({ address, family: 6 }));

async function taken(count: number, given: string | readonly string[], resolve?: Resolve): Promise<Address[]> {
  const addresses = new Addresses(given, resolve ?? (async () => []));
  const all: Address[] = [];
  for (let nth = 0; nth < count; nth++) all.push(await addresses.next());
  return all;
}

describe("the addresses of the service", () => {
  it("are taken in turn, where several are given", async () => {
    const all = await taken(3, ["10.0.0.1:9090", "[fd00::1]:9090"]);
    expect(all).toEqual([{ target: "10.0.0.1:9090" }, { target: "[fd00::1]:9090" }, { target: "10.0.0.1:9090" }]);
  });

  it("of one name are all of its addresses, each first in its turn, under the name", async () => {
    const resolve: Resolve = async (host) => (host === "saga.internal" ? four("10.0.0.1", "10.0.0.2", "10.0.0.3") : []);
    const authority = "saga.internal:9090";
    expect(await taken(4, authority, resolve)).toEqual([
      { target: "ipv4:10.0.0.1:9090,10.0.0.2:9090,10.0.0.3:9090", authority },
      { target: "ipv4:10.0.0.2:9090,10.0.0.3:9090,10.0.0.1:9090", authority },
      { target: "ipv4:10.0.0.3:9090,10.0.0.1:9090,10.0.0.2:9090", authority },
      { target: "ipv4:10.0.0.1:9090,10.0.0.2:9090,10.0.0.3:9090", authority },
    ]);
  });

  it("are of the family that the resolver names first, because a machine may have one of each", async () => {
    const authority = "saga.internal:9090";
    expect(await taken(1, authority, async () => [...six("fd00::1", "fd00::2"), ...four("10.0.0.1")])).toEqual([
      { target: "ipv6:[fd00::1]:9090,[fd00::2]:9090", authority },
    ]);
    expect(await taken(1, authority, async () => [...six("fd00::1"), ...four("10.0.0.1")])).toEqual([
      { target: authority },
    ]);
  });

  it("are found anew each time", async () => {
    const answers = [four("10.0.0.1", "10.0.0.2"), four("10.0.0.3", "10.0.0.4")];
    const all = await taken(2, "saga.internal:9090", async () => answers.shift() ?? []);
    expect(all.map(({ target }) => target)).toEqual([
      ...["ipv4:10.0.0.1:9090,10.0.0.2:9090", "ipv4:10.0.0.4:9090,10.0.0.3:9090"],
    ]);
  });

  it("of a list that gRPC writes are those of the list", async () => {
    const all = await taken(2, "ipv4:10.0.0.1:9090,10.0.0.2:9090");
    expect(all).toEqual([{ target: "10.0.0.1:9090" }, { target: "10.0.0.2:9090" }]);
  });

  it.each(["localhost:9090", "saga:9090", "dns:///saga.internal:9090", "unix:/run/saga.sock", "saga"])(
    "are left to gRPC as they are where there is nothing to choose: %s",
    async (given) => {
      const resolve: Resolve = async () => {
        throw new Error("ENOTFOUND");
      };
      expect(await taken(1, given, resolve)).toEqual([{ target: given }]);
    },
  );
});
