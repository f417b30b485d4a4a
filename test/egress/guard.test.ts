// Forbidden addresses are never connected to: a real exchange asks for each address of the table, and nothing connects. A listener
// serves every address family of this machine, and a hook sees every socket that Node opens.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ExchangeFailed, exchange, type Incoming } from "../../src/egress/exchange.js";
import { Guard, listedOrAny, listedOrPublic, publicOrListed, type Resolved } from "../../src/egress/guard.js";

/** Every request that arrived, by its Host. */
const arrived: string[] = [];
/** Every address that a socket of ours set out for, whether it got there or not. */
const attempts: string[] = [];
const onSocket = (message: unknown) => {
  const { socket } = message as { socket: Socket };
  socket.on("connectionAttempt", (address: string) => attempts.push(address));
};
const servers: Server[] = [];
let port = 0;

beforeAll(async () => {
  subscribe("net.client.socket", onSocket);
  const server = createServer((request, response) => {
    arrived.push(request.headers.host ?? "");
    const { searchParams } = new URL(request.url ?? "/", "http://here");
    const to = searchParams.get("to");
    if (to === null) return response.end("reached");
    return response.writeHead(302, { location: to }).end();
  });
  servers.push(server);
  // Both families, where this machine has both.
  await new Promise<void>((resolve) => server.listen(0, "::", resolve).once("error", () => server.listen(0, resolve)));
  ({ port } = server.address() as AddressInfo);
});
afterAll(async () => {
  unsubscribe("net.client.socket", onSocket);
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  arrived.length = 0;
  attempts.length = 0;
});

/** `names`: what each is resolved to, one list a time it is asked; the last one for ever. */
function guardOf(names: Record<string, readonly (readonly string[])[]> = {}, allow: readonly string[] = []): Guard {
  const asked = new Map<string, number>();
  const resolve = async (host: string): Promise<Resolved[]> => {
    const answers = names[host] ?? [];
    const nth = asked.get(host) ?? 0;
    asked.set(host, nth + 1);
    const addresses = answers[Math.min(nth, answers.length - 1)];
    if (!addresses) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    return addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
  return new Guard({ admits: publicOrListed(allow), resolve, connectMs: 2_000 });
}

const ask = (guard: Guard, url: string, followRedirects = false): Promise<Incoming> => {
  const signal = AbortSignal.timeout(5_000);
  return exchange(guard, {
    method: "GET",
    url,
    headers: {},
    followRedirects,
    signal,
    maxBytes: 1_000,
    overlong: "fails",
  });
};

async function refusal(work: Promise<Incoming>): Promise<ExchangeFailed> {
  const error = await work.then(
    () => new Error("it was reached"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ExchangeFailed)) throw error;
  return error;
}

/** Hosts as they are written in a URL. */
const LITERALS = [
  ...["127.0.0.1", "127.1", "127.255.255.254", "0.0.0.0", "0", "0.1.2.3"],
  ...["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.255"],
  ...["169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.254", "100.100.100.200", "168.63.129.16"],
  ...[
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "198.51.100.7",
    "203.0.113.7",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
  ],
  ...["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
  // The same addresses in disguise.
  ...["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.1.", "0x7f.0x0.0x0.0x1", "127.0x1"],
  ...["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "3232235521", "%31%32%37.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1"],
  ...[
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:8.8.8.8]",
    "[::127.0.0.1]",
  ],
  ...["[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::8.8.8.8]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]"],
  ...[
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[2001:2::1]",
    "[2001:20::1]",
    "[100::1]",
  ],
  ...["[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[febf::1]", "[fec0::1]", "[ff02::1]", "[5f00::1]", "[4000::1]"],
];

/** The answers of a resolver. */
const NAMES: Record<string, readonly (readonly string[])[]> = {
  "loopback.test": [["127.0.0.1"]],
  "loopback6.test": [["::1"]],
  "metadata.test": [["169.254.169.254"]],
  "private.test": [["10.0.0.1"]],
  "cgnat.test": [["100.64.0.1"]],
  "mapped.test": [["::ffff:10.0.0.1"]],
  "nat64.test": [["64:ff9b::a00:1"]],
  "unique-local.test": [["fd12:3456::1"]],
  "scoped.test": [["fe80::1%lo"]],
  "mixed.test": [["93.184.216.34", "127.0.0.1"]],
  "mixed6.test": [["2606:2800:220:1::1", "::1"]],
  "nonsense.test": [["not an address"]],
  "localhost.": [["127.0.0.1"]],
};

const OTHER_URLS = [
  ...["file:///etc/passwd", "ftp://8.8.8.8/", "gopher://127.0.0.1/", "data:text/plain,x", "unix:/var/run/docker.sock"],
  ...[
    "http://user@8.8.8.8/",
    "http://:pass@8.8.8.8/",
    "http://8.8.8.8@127.0.0.1/",
    "http://",
    "http://[::1",
    "nonsense",
  ],
  ...["http://127.0.0.1\\@8.8.8.8/", "http:127.0.0.1/", "http:///127.0.0.1/"],
];

describe("an address that is not public is never connected to", () => {
  it("in a table of more than sixty", () => {
    expect(new Set([...LITERALS, ...Object.keys(NAMES), ...OTHER_URLS]).size).toBeGreaterThan(90);
  });

  it.each(LITERALS)("%s", async (host) => {
    for (const scheme of ["http", "https"]) {
      const error = await refusal(ask(guardOf(), `${scheme}://${host}:${port}/`));
      expect([error.kind, error.sent, attempts, arrived]).toEqual(["refused", false, [], []]);
    }
  });

  it.each(Object.keys(NAMES))("%s, by the addresses that it resolves to", async (host) => {
    const error = await refusal(ask(guardOf(NAMES), `http://${host}:${port}/`));
    expect([error.kind, error.sent, attempts, arrived]).toEqual(["refused", false, [], []]);
    // The error does not reveal the resolved address.
    for (const address of NAMES[host]?.flat() ?? []) expect(error.message).not.toContain(address);
  });

  it.each(OTHER_URLS)("%s", async (url) => {
    const error = await refusal(ask(guardOf(), url));
    expect([error.kind, error.sent, attempts, arrived]).toEqual(["refused", false, [], []]);
  });

  it("not even if the connector gets a literal that was not checked before", async () => {
    const to = { hostname: "127.0.0.1", host: "127.0.0.1", protocol: "http:", port: String(port) };
    const error = await new Promise((resolve) => guardOf().connect(to, (...[thrown]) => resolve(thrown)));
    expect([String(error), attempts]).toEqual(["EgressRefused: 127.0.0.1 is not an allowed address", []]);
  });

  it("and the refusal names the setting that would admit it", () => {
    const guard = new Guard({ admits: publicOrListed([]), setting: "SAGA_EGRESS_ALLOW" });
    expect(() => guard.target("http://10.0.0.1/")).toThrow(
      "10.0.0.1 is not an allowed address: the operator can list it in SAGA_EGRESS_ALLOW",
    );
  });

  it("and the hook and the listener would have seen a connection", async () => {
    const { body } = await ask(guardOf({}, ["127.0.0.1"]), `http://127.0.0.1:${port}/`);
    expect([body.toString(), attempts, arrived]).toEqual(["reached", ["127.0.0.1"], [`127.0.0.1:${port}`]]);
  });
});

describe("a resolver that changes its answer", () => {
  it("is asked once: the checked address is the one that is connected to", async () => {
    // First an allowed address of this machine, then another one of it, where the listener stands as well.
    const guard = guardOf({ "rebind.test": [["127.0.0.2"], ["127.0.0.1"]] }, ["127.0.0.2/32"]);
    expect((await ask(guard, `http://rebind.test:${port}/`)).body.toString()).toBe("reached");
    const again = await refusal(ask(guard, `http://rebind.test:${port}/`));
    expect([again.kind, attempts]).toEqual(["refused", ["127.0.0.2"]]);
  });
});

describe("a resolver that never answers", () => {
  it("does not delay the exchange beyond its timeout", async () => {
    const guard = new Guard({ admits: publicOrListed([]), resolve: () => new Promise(() => {}) });
    const outgoing = { method: "GET", url: "http://silent.test/", headers: {}, followRedirects: false, maxBytes: 10 };
    const signal = AbortSignal.timeout(50);
    const error = await refusal(exchange(guard, { ...outgoing, signal, overlong: "fails" }));
    expect([error.kind, error.sent, attempts]).toEqual(["aborted", false, []]);
  });
});

describe("a redirect is checked again", () => {
  const follow = (to: string, names = {}) => {
    const guard = guardOf({ "public.test": [["127.0.0.3"]], ...names }, ["127.0.0.3"]);
    return ask(guard, `http://public.test:${port}/?to=${encodeURIComponent(to)}`, true);
  };

  it.each([
    ...["http://127.0.0.1/", "http://2130706433/", "//127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest"],
    ...["file:///etc/passwd", "http://user@8.8.8.8/", "http://inner.test/"],
  ])("to %s", async (to) => {
    const error = await refusal(follow(to.replace(/\/$/, `:${port}/`), { "inner.test": [["10.1.2.3"]] }));
    expect([error.kind, error.sent, attempts]).toEqual(["refused", true, ["127.0.0.3"]]);
    expect(arrived).toEqual([`public.test:${port}`]);
  });

  it("also behind another redirect", async () => {
    const inner = encodeURIComponent(`http://127.0.0.1:${port}/`);
    const error = await refusal(follow(`/?to=${inner}`));
    expect([error.kind, arrived.length]).toEqual(["refused", 2]);
  });

  it("also if its name resolved to another address for the first hop", async () => {
    const guard = guardOf({ "rebind.test": [["127.0.0.3"], ["127.0.0.1"]] }, ["127.0.0.3"]);
    const error = await refusal(ask(guard, `http://rebind.test:${port}/?to=/`, true));
    expect([error.kind, arrived.length]).toEqual(["refused", 1]);
  });

  it("and is not followed unless the request allows it", async () => {
    const guard = guardOf({ "public.test": [["127.0.0.3"]] }, ["127.0.0.3"]);
    const { status, headers } = await ask(guard, `http://public.test:${port}/?to=http://127.0.0.1/`);
    expect([status, headers.location]).toEqual([302, "http://127.0.0.1/"]);
  });
});

describe("an allowed address", () => {
  const admitted = (guard: Guard, url: string) => {
    try {
      return guard.target(url).host;
    } catch {
      return "refused";
    }
  };

  it.each(["8.8.8.8", "93.184.216.34", "[2606:2800:220:1::1]", "[2a00:1450:4001:800::200e]", "example.com"])(
    "is %s",
    (host) => {
      expect(admitted(guardOf(), `https://${host}/`)).toBe(host);
    },
  );

  it("is a listed block, address or name", async () => {
    const guard = guardOf({}, ["10.0.0.0/8", "fd00::/8", "192.168.1.7", "localhost"]);
    const reach = (host: string) => admitted(guard, `http://${host}/`);
    expect(["10.9.8.7", "[fd12::1]", "192.168.1.7"].map(reach)).not.toContain("refused");
    expect(["192.168.1.8", "[fc00::1]", "127.0.0.1", "[::ffff:10.0.0.1]"].map(reach)).toEqual(Array(4).fill("refused"));
    const names = { localhost: [["127.0.0.1"]], LOCALHOST: [["127.0.0.1"]], "other.test": [["127.0.0.1"]] };
    const named = guardOf(names, ["LocalHost"]);
    expect((await ask(named, `http://localhost:${port}/`)).status).toBe(200);
    expect((await refusal(ask(named, `http://other.test:${port}/`))).kind).toBe("refused");
  });

  it("is any for workers without a list, and only a listed one with it", () => {
    const worker = (rules?: readonly string[]) => new Guard({ admits: listedOrAny(rules) });
    expect(admitted(worker(), "http://127.0.0.1/")).toBe("127.0.0.1");
    expect(admitted(worker(["10.0.0.0/8"]), "http://10.1.1.1/")).toBe("10.1.1.1");
    expect(admitted(worker(["10.0.0.0/8"]), "http://8.8.8.8/")).toBe("refused");
    expect(admitted(worker([]), "http://8.8.8.8/")).toBe("refused");
    expect(admitted(worker(), "ftp://8.8.8.8/")).toBe("refused");
  });

  it("is a public one for workers without a list, with access on", () => {
    const worker = (rules?: readonly string[]) => new Guard({ admits: listedOrPublic(rules) });
    expect(admitted(worker(), "http://8.8.8.8/")).toBe("8.8.8.8");
    for (const url of ["http://127.0.0.1/", "http://10.1.1.1/", "http://169.254.169.254/"])
      expect([url, admitted(worker(), url)]).toEqual([url, "refused"]);
    expect(admitted(worker(["10.0.0.0/8"]), "http://10.1.1.1/")).toBe("10.1.1.1");
    expect(admitted(worker(["10.0.0.0/8"]), "http://8.8.8.8/")).toBe("refused");
  });
});
