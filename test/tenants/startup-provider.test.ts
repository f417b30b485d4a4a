// Startup variables over HTTP, from a real server: hits, the cache, every way to have no answer, and what `saga.started` says of it.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { Mask } from "../../src/egress/mask.js";
import { readSigning } from "../../src/egress/signing.js";
import { createMetrics } from "../../src/metrics/index.js";
import { openStartupProvider, StartupProvider, startupVariablesOf } from "../../src/tenants/startup-provider.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "../run/rig.js";
import { look } from "../run/seen.js";

const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const OTHER = "0190a000-0000-7000-8000-0000000000bb";
const NOW = Date.UTC(2026, 10, 22);

let server: Server;
let url: string;
/** What arrived. */
const asked: { path: string; authorization?: string }[] = [];
/** Answers that are held back. */
const held: ServerResponse[] = [];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeAll(async () => {
  server = createServer((request, response) => {
    const { authorization } = request.headers;
    asked.push({ path: request.url ?? "", ...(authorization !== undefined && { authorization }) });
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/variables?app=shop`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  asked.length = 0;
  held.length = 0;
  answer = (_, response) => response.end('{"currency":"CHF"}');
});

const hold = (_: IncomingMessage, response: ServerResponse) => void held.push(response);
const release = () => {
  for (const response of held.splice(0)) response.end('{"currency":"CHF"}');
};
const text = (body: string, status = 200) => {
  answer = (_, response) => response.writeHead(status).end(body);
};

/** Monotonic time, as the provider sees it. */
let elapsed = 0;
let metrics = createMetrics();
const provider = (more: Partial<ConstructorParameters<typeof StartupProvider>[0]> = {}) =>
  new StartupProvider({
    ...{ url, timeoutMs: 30_000, cacheMs: 60_000, onFailure: "closed", mask: new Mask([]), log: silentLog },
    ...{ metrics, now: () => NOW, elapsed: () => elapsed },
    ...more,
  });
const FETCHED = { source: "http", outcome: "fetched", fetched_at: "2026-11-22T00:00:00.000Z" };
const unavailable = (reason: string) => ({
  variables: {},
  audit: { source: "http", outcome: "unavailable", reason },
});

describe("the provider of startup variables", () => {
  it("is asked for the tenant, and its answer is the variables", async () => {
    expect(await provider().of(TENANT)).toEqual({ variables: { currency: "CHF" }, audit: FETCHED });
    expect(asked).toEqual([{ path: `/variables?app=shop&tenant_id=${TENANT}` }]);
  });

  it("is asked again only when its answer is stale, for each tenant", async () => {
    const cached = provider({ cacheMs: 1_000 });
    await cached.of(TENANT);
    elapsed += 999;
    expect((await cached.of(TENANT)).audit).toEqual({ ...FETCHED, outcome: "cached" });
    await cached.of(OTHER);
    await cached.of(undefined);
    expect(asked.map(({ path }) => path.split("tenant_id=")[1])).toEqual([TENANT, OTHER, undefined]);
    elapsed += 1;
    expect((await cached.of(TENANT)).audit.outcome).toBe("fetched");
    expect(asked).toHaveLength(4);
  });

  it("is asked by every start where nothing is cached", async () => {
    const uncached = provider({ cacheMs: 0 });
    await uncached.of(TENANT);
    await uncached.of(TENANT);
    expect(asked).toHaveLength(2);
  });

  it("gets one request for many starts at once", async () => {
    answer = hold;
    const one = provider({ cacheMs: 0 });
    const starts = Array.from({ length: 100 }, () => one.of(TENANT));
    await until(() => held.length > 0);
    release();
    const answers = await Promise.all(starts);
    expect(new Set(answers.map(({ variables }) => variables.currency))).toEqual(new Set(["CHF"]));
    expect(asked).toHaveLength(1);
  });

  it("gets at most 64 requests at a time, and the next start is refused or goes without", async () => {
    answer = hold;
    const many = provider({ onFailure: "open" });
    const starts = Array.from({ length: 64 }, (_, nth) => many.of(`tenant ${nth}`));
    expect(await many.of("one more")).toEqual(unavailable("too_many_requests"));
    await until(() => held.length === 64);
    text("{}");
    release();
    await Promise.all(starts);
    expect((await many.of("one more")).audit.outcome).toBe("fetched");
  });

  it("sends its secret, and no secret comes back", async () => {
    const secret = { header: "authorization", line: "Bearer s3cr3t-value", value: "s3cr3t-value" };
    answer = ({ headers }, response) => response.end(JSON.stringify({ echo: `you sent ${headers.authorization}` }));
    const { variables } = await provider({ secret, mask: new Mask([secret.value]) }).of(TENANT);
    expect(asked[0]?.authorization).toBe("Bearer s3cr3t-value");
    expect(variables).toEqual({ echo: "you sent Bearer [secret]" });
    // A number that is masked is not JSON any more.
    text('{"pin":900719925}');
    const numbers = provider({ mask: new Mask(["900719925"]), onFailure: "open" });
    expect(await numbers.of(TENANT)).toEqual(unavailable("not_variables"));
  });

  it("is not opened with a secret that does not exist, is for another host, or would go over http beyond loopback", () => {
    const config = { url, timeoutMs: 1, cacheMs: 1, onFailure: "open", secret: "key" } as const;
    const secret = { header: "authorization", line: "Bearer x", value: "x", hosts: ["elsewhere.example"] };
    const open =
      (found?: Omit<typeof secret, "hosts">, to = url) =>
      () =>
        openStartupProvider(
          { ...config, url: to },
          {
            secrets: {
              get: () => found,
              isOf: () => true,
              mask: new Mask(),
              signing: readSigning(undefined),
              warnings: [],
            },
            ...{ log: silentLog, metrics, now: () => NOW },
          },
        );
    expect(open()).toThrow(/SAGA_STARTUP_VARIABLES_SECRET: there is no secret key/);
    expect(open(secret)).toThrow(/the secret key may not be sent to 127\.0\.0\.1/);
    const { hosts: _, ...anywhere } = secret;
    expect(open(anywhere)).not.toThrow();
    expect(open(anywhere, "https://settings.internal/variables")).not.toThrow();
    expect(open(anywhere, "http://settings.internal/variables")).toThrow(/not with http to settings\.internal/);
  });
});

describe("a provider without a usable answer", () => {
  const large = JSON.stringify({ a: "x".repeat(256 * 1024) });
  it.each<[string, string, () => void]>([
    ["that is too large", "too_large", () => text(large)],
    [
      "that is too large and does not say so",
      "too_large",
      () => {
        answer = (_, response) => {
          response.write(large);
          response.end(large);
        };
      },
    ],
    ["that is not JSON", "not_variables", () => text("{oops")],
    ["that is a list", "not_variables", () => text("[1]")],
    ["with a name that would reach a prototype", "not_variables", () => text('{"constructor": 1}')],
    ["with a value that cannot be stored", "not_variables", () => text('{"a": "\\u0000"}')],
    ["of another status", "http_404", () => text("{}", 404)],
    [
      "that is a redirect",
      "http_302",
      () => {
        answer = (_, response) => response.writeHead(302, { location: "/elsewhere" }).end();
      },
    ],
    [
      "whose connection breaks",
      "network",
      () => {
        answer = (request) => request.socket.destroy();
      },
    ],
  ])("(one %s) refuses the start when closed, and lets it go without when open", async (_, reason, arrange) => {
    arrange();
    const closed = await provider()
      .of(TENANT)
      .catch((error: unknown) => error);
    expect(closed).toMatchObject({ status: 503, code: "overloaded", message: expect.stringContaining(`(${reason})`) });
    expect(String(closed)).not.toContain("app=shop");
    expect(await provider({ onFailure: "open" }).of(TENANT)).toEqual(unavailable(reason));
  });

  it("in time is cut off, closed or open", async () => {
    answer = hold;
    const late = (onFailure: "open" | "closed") => provider({ timeoutMs: 50, onFailure }).of(TENANT);
    await expect(late("closed")).rejects.toThrow("(timeout)");
    expect(await late("open")).toEqual(unavailable("timeout"));
    await until(() => held.every(({ destroyed, socket }) => destroyed || socket === null || socket.destroyed));
  });

  it("does not hold up the starts that follow: they share the failure for a second", async () => {
    text("", 500);
    const failing = provider({ onFailure: "open" });
    await failing.of(TENANT);
    elapsed += 999;
    expect(await failing.of(TENANT)).toEqual(unavailable("http_500"));
    expect(asked).toHaveLength(1);
    answer = (_, response) => response.end("{}");
    elapsed += 1;
    expect((await failing.of(TENANT)).audit.outcome).toBe("fetched");
  });
});

describe("the metrics", () => {
  beforeEach(() => {
    metrics = createMetrics();
  });

  /** What starts got, and the requests with the seconds that they took. */
  async function counted(): Promise<object> {
    const { values: starts } = await metrics.startupVariables.get();
    const { values: requests } = await metrics.startupSeconds.get();
    const of = (end: string) =>
      requests.flatMap(({ metricName, labels, value }) =>
        metricName?.endsWith(end) ? [[labels.outcome, value] as const] : [],
      );
    return {
      starts: Object.fromEntries(starts.flatMap(({ labels, value }) => (value > 0 ? [[labels.outcome, value]] : []))),
      requests: Object.fromEntries(of("_count")),
      seconds: Object.fromEntries(of("_sum")),
    };
  }

  it("count what every start got, and the time of each request", async () => {
    answer = (_, response) => {
      elapsed += 250;
      response.end("{}");
    };
    const cached = provider();
    for (let nth = 0; nth < 3; nth++) await cached.of(TENANT);
    expect(await counted()).toEqual({ starts: { fetched: 1, cached: 2 }, requests: { ok: 1 }, seconds: { ok: 0.25 } });
  });

  it.each(["open", "closed"] as const)("tell of failures, also of those that starts share: %s", async (onFailure) => {
    answer = (_, response) => {
      elapsed += 500;
      response.writeHead(500).end();
    };
    const failing = provider({ onFailure });
    for (let nth = 0; nth < 2; nth++) await failing.of(TENANT).catch(() => {});
    expect(await counted()).toEqual({
      ...{ starts: { [`failed_${onFailure}`]: 2 }, requests: { failed: 1 }, seconds: { failed: 0.5 } },
    });
  });

  it("tell a request that was cut off from one that failed", async () => {
    answer = (_, response) => {
      elapsed += 50;
      held.push(response);
    };
    // Long enough for a busy machine to receive the request before it is cut off.
    await provider({ timeoutMs: 1_000, onFailure: "open" }).of(TENANT);
    expect(await counted()).toEqual({
      starts: { failed_open: 1 },
      requests: { timeout: 1 },
      seconds: { timeout: 0.05 },
    });
  });
});

describe("a start", () => {
  let database: TestDatabase;
  let node: Half;
  let current = provider;
  const file: JsonObject = { currency: "EUR", region: "eu" };

  beforeAll(async () => {
    database = await createTestDatabase({ max: 4 });
    const tenants = { startupVariables: () => file };
    node = await startHalf(database, {
      startupVariables: ({ tenantId }) => startupVariablesOf(tenantId, tenants, current({ cacheMs: 0 })),
    });
    await publish(database, "end", [{ id: "end", type: "end" }]);
  });
  afterAll(async () => {
    await node.stop();
    await database.drop();
  });

  const started = async (more: object = {}) => {
    const runId = await start(node.starter, "end", { tenantId: TENANT, ...more });
    const { run, events } = await look(database.sql, runId);
    return { variables: run.variables, audit: events[0]?.metadata?.startup_variables };
  };

  it("has the caller's variables over the provider's over the file's, and records the provider in saga.started", async () => {
    expect(await started({ variables: { own: 1 } })).toMatchObject({
      variables: { currency: "CHF", region: "eu", own: 1 },
      audit: FETCHED,
    });
    expect((await started({ variables: { currency: "USD" } })).variables).toMatchObject({ currency: "USD" });
  });

  it("without the provider is refused and leaves no run, or records why and has the file's", async () => {
    text("", 500);
    const runs = () => database.sql`select count(*)::int as n from runs`;
    const before = await runs();
    await expect(started()).rejects.toMatchObject({ status: 503 });
    expect(await runs()).toEqual(before);
    current = (more) => provider({ ...more, onFailure: "open" });
    expect(await started()).toMatchObject({ variables: file, audit: unavailable("http_500").audit });
  });

  it("that was made is found again while the provider is away", async () => {
    current = provider;
    const runId = "0190a000-0000-7000-8000-0000000000cc";
    await started({ runId });
    text("", 500);
    expect((await started({ runId })).audit).toEqual(FETCHED);
  });
});
