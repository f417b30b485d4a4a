// What the client does where the network, a proxy or the service fails: what it sends again, how long, and what its errors say and keep quiet.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  type ClientOptions,
  Conflict,
  Forbidden,
  Invalid,
  NotFound,
  Overloaded,
  RateLimited,
  SagaApiError,
  SagaClient,
  SagaError,
  Unauthorized,
  UnexpectedAnswer,
  Unreachable,
} from "../../../src/sdk/client/index.js";
import { freePorts } from "../../harness/ports.js";
import { cut, FlakyServer, halfway, html, json, refusal, silence } from "./flaky-server.js";

const RUN = "0190a000-0000-7000-8000-0000000000aa";
const STARTED = {
  run_id: RUN,
  workflow_id: "order",
  version: 1,
  definition_id: RUN,
  state: "pending",
  deduplicated: false,
};
const QUICK = { maxElapsedMs: 20_000, initialBackoffMs: 1, maxBackoffMs: 2 };

let server: FlakyServer;
beforeAll(async () => {
  server = await FlakyServer.open(json(202, STARTED));
});
beforeEach(() => server.tell());
afterAll(() => server.close());

const client = (more: Partial<ClientOptions> = {}) => new SagaClient({ url: server.url, retry: QUICK, ...more });
const caught = (work: Promise<unknown>) =>
  work.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: Error) => error,
  );
const keys = () => server.asked.map(({ headers }) => headers["idempotency-key"]);

describe("a request that failed", () => {
  it("is sent again under the same idempotency key, until it is answered", async () => {
    server.tell(cut, refusal(503, "overloaded"), html(502), html(504), refusal(429, "rate_limited"));
    const run = await client().start("order", { inputs: { n: 1 } });
    expect(run.id).toBe(RUN);
    expect(server.asked).toHaveLength(6);
    expect(new Set(keys()).size).toBe(1);
    expect(keys()[0]).toMatch(/^[\w-]{20,}$/);
    await client().start("order", { inputs: { n: 1 } });
    expect(new Set(keys()).size).toBe(2);
    expect(new Set(server.asked.map(({ body }) => body))).toEqual(
      new Set(['{"workflow_id":"order","inputs":{"n":1}}']),
    );
  });

  it("has the key that it was given", async () => {
    server.tell(cut);
    await client().start("order", {}, { key: "o-1" });
    expect(keys()).toEqual(["o-1", "o-1"]);
  });

  it("is not sent again where doing it twice is not doing it once", async () => {
    server.tell(cut);
    await expect(client().keys.create({ name: "shop", roles: ["viewer"] })).rejects.toThrow(Unreachable);
    expect(server.asked).toHaveLength(1);
    expect(keys()).toEqual([undefined]);
    server.tell(refusal(503, "overloaded"));
    await expect(client().request("POST", "/api/v1/other", { body: {} })).rejects.toThrow(Overloaded);
    expect(server.asked).toHaveLength(1);
  });

  it("is not sent again where it was refused", async () => {
    for (const [status, kind] of [
      ...([
        [400, Invalid],
        [401, Unauthorized],
        [403, Forbidden],
        [404, NotFound],
        [409, Conflict],
      ] as const),
      ...([
        [422, Invalid],
        [500, SagaApiError],
      ] as const),
    ]) {
      server.tell(refusal(status, "code_of_it"));
      const error = await caught(client().start("order"));
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, code: "code_of_it", requestId: "r-1", message: "refused with code_of_it" });
      expect(server.asked).toHaveLength(1);
    }
  });

  it("is sent again only for the time that the client is given", async () => {
    const again = Array.from({ length: 50 }, () => refusal(503, "overloaded"));
    server.tell(...again);
    const retry = { maxElapsedMs: 60, initialBackoffMs: 20, maxBackoffMs: 20 };
    expect(await caught(client({ retry }).start("order"))).toBeInstanceOf(Overloaded);
    expect(server.asked.length).toBeGreaterThan(1);
    expect(server.asked.length).toBeLessThan(10);
    server.tell(...again);
    await caught(client({ retry: false }).start("order"));
    expect(server.asked).toHaveLength(1);
  });

  it("waits as long as Retry-After says, in seconds or until a date", async () => {
    const inTwoSeconds = () => new Date(Date.now() + 2_000).toUTCString();
    for (const after of [() => "1", inTwoSeconds]) {
      server.tell(refusal(429, "rate_limited", { "retry-after": after() }));
      const before = performance.now();
      await client().start("order");
      expect(performance.now() - before).toBeGreaterThan(900);
    }
  });

  it("is given up at once where Retry-After is later than its time", async () => {
    server.tell(refusal(503, "overloaded", { "retry-after": "3600" }));
    expect(await caught(client().start("order"))).toMatchObject({ name: "Overloaded", retryAfterMs: 3_600_000 });
    expect(server.asked).toHaveLength(1);
    server.tell(refusal(429, "rate_limited", { "retry-after": "3600" }));
    expect(await caught(client().start("order"))).toBeInstanceOf(RateLimited);
  });

  it("is done where a delete was repeated and the thing is gone", async () => {
    server.tell(cut, refusal(404, "not_found"));
    expect(await client().triggers.delete(RUN)).toBeUndefined();
    server.tell(refusal(503, "overloaded"), refusal(404, "not_found"));
    expect(await client().triggers.delete(RUN)).toBeUndefined();
    server.tell(refusal(404, "not_found"));
    await expect(client().triggers.delete(RUN)).rejects.toThrow(NotFound);
  });

  it("is refused where a delete was not carried out before it found nothing", async () => {
    server.tell(refusal(429, "rate_limited"), refusal(404, "not_found"));
    await expect(client().triggers.delete(RUN)).rejects.toThrow(NotFound);
    server.tell(cut, refusal(429, "rate_limited"), refusal(404, "not_found"));
    expect(await client().triggers.delete(RUN)).toBeUndefined();
  });
});

describe("a service that does not answer", () => {
  it("is unreachable: a port without a server", async () => {
    const [port] = await freePorts(1);
    const error = await caught(client({ url: `http://127.0.0.1:${port}`, retry: false }).runs.counts());
    expect(error).toBeInstanceOf(Unreachable);
    expect(error.message).toContain("ECONNREFUSED");
  });

  it.each([
    ["silence", silence],
    ["half an answer", halfway],
  ])("ends the attempt at its time limit, the body included: %s", async (_name, reply) => {
    server.tell(reply);
    const error = await caught(client({ timeoutMs: 100, retry: false }).runs.counts());
    expect(error).toBeInstanceOf(Unreachable);
    expect(error.message).toContain("within 100 ms");
    server.tell(reply, json(200, { items: [] }));
    expect(await client({ timeoutMs: 300 }).runs.counts()).toEqual({ items: [] });
  });

  it("adds what the service is asked to wait to the time limit", async () => {
    server.tell((response) => void setTimeout(() => json(200, { id: RUN })(response, undefined as never), 300));
    const path = { id: RUN };
    expect(await client({ timeoutMs: 100, retry: false }).call("getSaga", { path, query: { wait_ms: 5_000 } })).toEqual(
      { id: RUN },
    );
  });

  it("ends with the signal, and throws its reason: before, while it waits, and between two attempts", async () => {
    const reason = new Error("no longer");
    await expect(
      client()
        .run(RUN)
        .get({ signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
    expect(server.asked).toHaveLength(0);
    const stop = new AbortController();
    server.tell(() => stop.abort(reason));
    await expect(client().run(RUN).get({ signal: stop.signal })).rejects.toBe(reason);
    const later = new AbortController();
    server.tell((response, asked) => {
      refusal(503, "overloaded", { "retry-after": "10" })(response, asked);
      response.once("close", () => later.abort(reason));
    });
    await expect(client().run(RUN).get({ signal: later.signal })).rejects.toBe(reason);
    expect(server.asked).toHaveLength(1);
  });

  it("ends alone where a fetch ignores its signal, and where the credential never comes", async () => {
    const never = () => new Promise<never>(() => {});
    for (const hanging of [{ fetch: never }, { token: never }]) {
      const error = await caught(client({ ...hanging, timeoutMs: 50, retry: false }).runs.counts());
      expect(error).toBeInstanceOf(Unreachable);
      expect(error.message).toContain("token" in hanging ? "no credential" : "no answer");
      const reason = new Error("no longer");
      const stop = new AbortController();
      setTimeout(() => stop.abort(reason), 20);
      const calls = [client(hanging).run(RUN).get({ signal: stop.signal })];
      if ("token" in hanging) calls.push(client(hanging).run(RUN).watch({ signal: stop.signal }).next() as never);
      expect(await Promise.allSettled(calls)).toEqual(calls.map(() => ({ status: "rejected", reason })));
    }
  });
});

describe("an answer that is not the service's", () => {
  it("is told apart from a refusal", async () => {
    server.tell(html(404));
    const error = await caught(client().run(RUN).get());
    expect(error).toBeInstanceOf(UnexpectedAnswer);
    expect(error).not.toBeInstanceOf(NotFound);
    expect(error.message).toMatch(/404, and not as the service does \(text\/html\)/);
    server.tell(html(200));
    await expect(client().run(RUN).get()).rejects.toThrow(/text\/html that is not JSON: is the url right/);
    server.tell((response) => void response.writeHead(200, { "content-type": "application/json" }).end('{"a'));
    await expect(client().run(RUN).get()).rejects.toThrow(UnexpectedAnswer);
  });

  it("is a redirect that is not followed, and no credential goes elsewhere", async () => {
    const other = await FlakyServer.open(json(200, {}));
    try {
      for (const status of [301, 302, 307, 308]) {
        server.tell((response) => void response.writeHead(status, { location: `${other.url}/login?secret=1` }).end());
        const error = await caught(client({ token: "saga_key" }).run(RUN).get());
        expect(error).toBeInstanceOf(UnexpectedAnswer);
        expect(error.message).toContain(`redirects to ${other.url}/login.`);
        expect(error.message).not.toContain("secret");
      }
      expect(other.asked).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it("is nothing, where there is no content", async () => {
    server.tell((response) => void response.writeHead(204).end());
    expect(await client().keys.revoke("a")).toBeUndefined();
    server.tell((response) => void response.writeHead(200, { "content-type": "application/json" }).end());
    expect(await client().request("GET", "/api/v1/other")).toBeUndefined();
    server.tell((response) => void response.writeHead(200, { "content-type": "text/plain" }).end("saga_up 1\n"));
    expect(await client().call("getMetrics")).toBe("saga_up 1\n");
  });

  it("is cut off where it has no end", async () => {
    const chunk = "x".repeat(1024 * 1024);
    server.tell((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on("drain", more);
      more();
    });
    await expect(client().run(RUN).get()).rejects.toThrow(/longer than 67108864 bytes/);
  });
});

describe("the credential", () => {
  it("is asked for before every request, and once more after a 401", async () => {
    let asked = 0;
    const token = async () => `t-${++asked}`;
    server.tell(
      json(200, {}),
      refusal(401, "unauthorized"),
      json(200, {}),
      refusal(401, "unauthorized"),
      refusal(401, "unauthorized"),
    );
    const saga = client({ token });
    await saga.run(RUN).get();
    await saga.run(RUN).get();
    expect(server.asked.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer t-1",
      "Bearer t-2",
      "Bearer t-3",
    ]);
    await expect(saga.run(RUN).get()).rejects.toThrow(Unauthorized);
    expect(asked).toBe(5);
    server.tell(refusal(401, "unauthorized"));
    await expect(client({ token: "fixed" }).run(RUN).get()).rejects.toThrow(Unauthorized);
    expect(server.asked).toHaveLength(1);
  });

  it("is in no error, and neither are a query and a payload", async () => {
    const [secret, payload] = ["saga_secret_1", "4111 1111"];
    const [port] = await freePorts(1);
    const nowhere = `http://127.0.0.1:${port}`;
    const all: Error[] = [];
    for (const url of [nowhere, server.url]) {
      server.tell(html(404), html(404), html(404));
      const saga = client({ url, token: secret, retry: false });
      all.push(await caught(saga.start("order", { inputs: { card: payload } })));
      all.push(await caught(saga.runs.list({ q: payload }).first()));
      all.push(await caught(saga.run(RUN).signal("paid", { card: payload })));
    }
    all.push(await caught(client({ token: "a secret\nb" }).run(RUN).get()));
    all.push(await caught(client().start("order", { inputs: { card: [payload, 1n] } })));
    for (const error of all) {
      const cause = error.cause instanceof Error ? error.cause.message : "";
      for (const quiet of [secret, payload, "a secret", "4111"])
        expect(`${error.message} ${cause}`).not.toContain(quiet);
    }
    expect(all).toHaveLength(8);
  });
});

describe("what a program hands over", () => {
  it("is sent as it is: escaped in the path, repeated in the query, absent where it is undefined", async () => {
    const saga = client({ url: `${server.url}/behind/a%20proxy/`, headers: { "x-team": "checkout" } });
    await saga.workflows.get("a/b ü?#%", { version: 3 });
    await saga.runs
      .list({ state: ["failed", "paused"], labels: { "a.b": "x&y=z" }, version: undefined, root_only: false })
      .first();
    expect(server.asked.map(({ url }) => url)).toEqual([
      "/behind/a%20proxy/api/v1/workflows/a%2Fb%20%C3%BC%3F%23%25?version=3",
      "/behind/a%20proxy/api/v1/sagas?state=failed&state=paused&root_only=false&label.a.b=x%26y%3Dz",
    ]);
    expect(server.asked[0]?.headers).toMatchObject({ "x-team": "checkout" });
    await expect(saga.workflows.get("..")).rejects.toThrow(/must not be \.\./);
    await expect(saga.workflows.get("")).rejects.toThrow(/needs wf_id/);
  });

  it.each([
    ["a bigint", 2n ** 60n, /the member "amount" is a bigint.*as a string/],
    ["not a number", Number.NaN, /the member "amount" is NaN/],
    ["infinity", Number.POSITIVE_INFINITY, /Infinity/],
    ["a function", () => 1, /a function/],
    ["a map", new Map([["a", 1]]), /a Map or a Set/],
  ])("is refused before it is sent where JSON would lose it: %s", async (_name, amount, message) => {
    await expect(client().start("order", { inputs: { amount } })).rejects.toThrow(message);
    expect(server.asked).toHaveLength(0);
  });

  it("keeps dates, null, empty lists, emoji and large decimals", async () => {
    const inputs = { at: new Date(0), none: null, list: [], text: "🙂\u2028", price: 0.1, large: 1e21, off: undefined };
    await client().start("order", { inputs });
    expect(JSON.parse(server.asked[0]?.body ?? "").inputs).toEqual({
      ...{ at: "1970-01-01T00:00:00.000Z", none: null, list: [], text: "🙂\u2028", price: 0.1, large: 1e21 },
    });
  });

  it.each([
    [{ url: "localhost:8080" }, /must begin with http/],
    [{ url: "ftp://a" }, /must begin with http/],
    [{ url: "https://user:pass@a" }, /no credential/],
    [{ url: "https://a/?b=c" }, /no query/],
    [{ url: 1 }, /must be a text/],
    [{ url: "http://a", timeout: 5 }, /unknown member "timeout".*timeoutMs/],
    [{ url: "http://a", timeoutms: 5 }, /did you mean timeoutMs/],
    [{ url: "http://a", timeoutMs: 1.5 }, /timeoutMs must be a whole number/],
    [{ url: "http://a", retry: { attempts: 3 } }, /unknown member "attempts"/],
    [{ url: "http://a", headers: { "a b": "c" } }, /no name of a header/],
    [{ url: "http://a", headers: { a: "b\nc" } }, /without line breaks/],
    [undefined, /needs options/],
  ])("is refused with a TypeError where it makes no client: %j", (options, message) => {
    expect(() => new SagaClient(options as never)).toThrow(message);
    expect(() => new SagaClient(options as never)).toThrow(TypeError);
  });

  it("is refused where a start has a misspelt member, an operation does not exist, or a part is missing", async () => {
    await expect(client().start("order", { buisnessKey: "a" } as never)).rejects.toThrow(
      /unknown member "buisnessKey"/,
    );
    await expect(client().start("order", { business_key: "a" } as never)).rejects.toThrow(/did you mean businessKey/);
    await expect(client().start("")).rejects.toThrow(/needs a saga/);
    await expect(client().call("toString" as "getCluster")).rejects.toThrow(/no operation "toString"/);
    await expect(client().call("getSaga", {} as never)).rejects.toThrow(/needs id/);
    await expect(client().request("GET", "api/v1/sagas")).rejects.toThrow(/begins with a slash/);
    expect(() => client().run("")).toThrow(TypeError);
    expect(server.asked).toHaveLength(0);
  });

  it("makes errors that have a name and one class in common", async () => {
    server.tell(refusal(409, "conflict"));
    const error = await caught(client().start("order"));
    expect(error).toBeInstanceOf(SagaError);
    expect(String(error)).toBe("Conflict: refused with conflict");
  });
});
