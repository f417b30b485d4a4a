// The client before a service that has too much to do: a real one, whose limits are small and are passed by a burst of the client's own. What a client does on answers that
// a server makes up is in transport.test.ts.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ClientOptions,
  type Fetch,
  Overloaded,
  RateLimited,
  SagaClient,
  type SagaError,
} from "../../../src/sdk/client/index.js";
import { type Locked, openLocked, TENANT } from "../../cluster/access-rig.js";
import { createTestDatabase, type TestDatabase } from "../../harness/database.js";
import { createService, type ServiceProcess } from "../../harness/service.js";

const STARTS = 60;
const PATIENT = { maxElapsedMs: 120_000, initialBackoffMs: 50, maxBackoffMs: 500 };
/** Less than the shortest time that `Retry-After` can say. */
const IMPATIENT = { ...PATIENT, maxElapsedMs: 900 };
/** Timers may be early by the part of a millisecond that they do not count. */
const EARLY_MS = 2;

interface Attempt {
  readonly sentAt: number;
  answeredAt: number;
  status: number;
  retryAfterMs: number | undefined;
}

/** Every attempt of every start, by its idempotency key. */
class Attempts {
  readonly byKey = new Map<string, Attempt[]>();

  readonly fetch: Fetch = async (url, init) => {
    const key = init.headers["idempotency-key"];
    const attempt: Attempt = { sentAt: performance.now(), answeredAt: 0, status: 0, retryAfterMs: undefined };
    if (key !== undefined) this.byKey.set(key, [...(this.byKey.get(key) ?? []), attempt]);
    const answer = await fetch(url, init);
    const after = answer.headers.get("retry-after");
    const retryAfterMs = after === null ? undefined : Number(after) * 1_000;
    Object.assign(attempt, { status: answer.status, answeredAt: performance.now(), retryAfterMs });
    return answer;
  };

  get refused(): readonly Attempt[] {
    return [...this.byKey.values()].flat().filter(({ status }) => status >= 400);
  }

  /** How much later than it was asked to each refused attempt was sent again. */
  get delays(): readonly number[] {
    return [...this.byKey.values()].flatMap((attempts) =>
      attempts.slice(1).map(({ sentAt }, before) => {
        const { answeredAt, retryAfterMs = Number.NaN } = attempts[before] as Attempt;
        return sentAt - answeredAt - retryAfterMs;
      }),
    );
  }
}

const echo = { id: "echo", name: "echo", start: "end", steps: [{ id: "end", type: "end", output: "${inputs.n}" }] };

/** All at once, each twice under its key: by another client, as after a crash of the first. */
async function burst(clients: readonly SagaClient[], batch: string) {
  const starts = Array.from({ length: STARTS }, (_, n) =>
    clients.map((saga) => saga.start("echo", { inputs: { n }, labels: { batch } }, { key: `${batch}-${n}` })),
  );
  return Promise.allSettled(starts.flat());
}

async function expectEachOnce(saga: SagaClient, batch: string): Promise<void> {
  const runs = await saga.runs.list({ labels: { batch }, limit: 200 }).all();
  const outputs = await Promise.all(runs.map(({ id }) => saga.run(id).result()));
  expect(outputs.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: STARTS }, (_, n) => n));
}

function expectHonoured({ refused, delays }: Attempts, status: number): void {
  expect(new Set(refused.map((one) => one.status))).toEqual(new Set([status]));
  expect(refused.every(({ retryAfterMs = 0 }) => retryAfterMs >= 1_000)).toBe(true);
  expect(delays.length).toBe(refused.length);
  // And by a pause of its own, different each time: clients that were refused together do not come back together.
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(PATIENT.initialBackoffMs / 2 - EARLY_MS);
}

/** Some were refused, each with this error and at once, and the others are there. */
async function expectTyped(
  saga: SagaClient,
  batch: string,
  ended: Awaited<ReturnType<typeof burst>>,
  type: typeof Overloaded,
  what: Partial<Overloaded>,
): Promise<void> {
  const errors = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as SagaError] : []));
  expect(errors.length).toBeGreaterThan(0);
  for (const error of errors) {
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject(what);
  }
  const started = new Set(ended.flatMap((one) => (one.status === "fulfilled" ? [one.value.id] : [])));
  const stored = await saga.runs.list({ labels: { batch }, limit: 200 }).all();
  expect(new Set(stored.map(({ id }) => id))).toEqual(started);
}

describe("before a node that sheds load, the client", () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  const client = (options: Partial<ClientOptions> = {}) =>
    new SagaClient({ url: service.url, retry: PATIENT, ...options });
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1", SAGA_SHED_RUNS: "8" });
    await service.start();
    await client().workflows.publish(echo);
  });
  afterAll(async () => {
    await service?.stop();
    await database?.drop();
  });

  it("starts each run once, and comes back no earlier than Retry-After asks", async () => {
    const attempts = new Attempts();
    const other = new Attempts();
    const ended = await burst([client({ fetch: attempts.fetch }), client({ fetch: other.fetch })], "shed");
    expect(ended.filter(({ status }) => status === "rejected")).toEqual([]);
    for (const one of [attempts, other]) expectHonoured(one, 503);
    await expectEachOnce(client(), "shed");
  });

  it("says Overloaded when its patience ends, and what was refused has left no trace", async () => {
    const ended = await burst([client({ retry: IMPATIENT })], "shed-at-once");
    const what = { status: 503, code: "overloaded", retryAfterMs: 1_000 };
    await expectTyped(client(), "shed-at-once", ended, Overloaded, what);
  });
});

describe("with a rate limit for its credential, the client", () => {
  let locked: Locked;
  let key: string;
  const client = (options: Partial<ClientOptions> = {}) =>
    new SagaClient({ url: `http://127.0.0.1:${locked.node.httpPort}`, token: key, retry: PATIENT, ...options });
  beforeAll(async () => {
    locked = await openLocked({ SAGA_RATE_LIMIT: "40/s,10" });
    key = locked.bearer("API key", "operator", TENANT);
    await client({ token: locked.bearer("API key", "author", TENANT) }).workflows.publish(echo);
  });
  afterAll(() => locked?.stop());

  it("starts each run once, and comes back no earlier than Retry-After asks, under its limit", async () => {
    const attempts = new Attempts();
    const ended = await burst([client({ fetch: attempts.fetch })], "limited");
    expect(ended.filter(({ status }) => status === "rejected")).toEqual([]);
    expectHonoured(attempts, 429);
    await expectEachOnce(client(), "limited");
  });

  it("says RateLimited when its patience ends, and what was refused has left no trace, under its limit", async () => {
    const ended = await burst([client({ retry: IMPATIENT })], "limited-at-once");
    const what = { status: 429, code: "rate_limited", retryAfterMs: 1_000 };
    await expectTyped(client(), "limited-at-once", ended, RateLimited, what);
  });
});
