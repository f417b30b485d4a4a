// The door of gRPC over real sockets: who is let in, whose dispatches a worker gets, and what becomes of answers and claims that are not its
// own. Credentials are names of principals here; real ones have tests of their own.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { credentials, Metadata, makeGenericClientConstructor, Server, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { protoPath as healthProto } from "grpc-health-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  ClientAddresses,
  Patterns,
  type Principal,
  type RateLimit,
  type Refusal,
  type Verifier,
} from "../../src/access/index.js";
import { type DoorOptions, GrpcDoor, METHOD_NEEDS } from "../../src/dispatch/grpc/door.js";
import { notFound, overloaded, SagaError } from "../../src/errors.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { type PrincipalFacts, principalOf, verifierOf } from "../harness/verifier.js";
import {
  type Door,
  dispatchNow,
  makeCall,
  makeDispatch,
  type NodeOptions,
  RawWorker,
  until,
  useNodes,
  type Wire,
} from "./rig.js";

const { node, silentWorker } = useNodes();

const A = "0190a000-0000-7000-8000-00000000000a";
const B = "0190a000-0000-7000-8000-00000000000b";

const WORKERS: Readonly<Record<string, PrincipalFacts>> = {
  alice: { roles: ["worker"], tenantId: A, services: ["payments"] },
  bob: { roles: ["worker"], tenantId: B, services: ["payments"] },
  paula: { roles: ["worker", "platform"], services: ["pay*"] },
  piet: { roles: ["worker", "platform"], tenants: [B], services: ["*"] },
  viewer: { roles: ["viewer"], tenantId: A, services: ["payments"] },
  lost: { roles: ["worker"], services: ["payments"] },
  nowhere: { roles: ["worker", "scrape"], services: ["payments"] },
};

const refusals: Refusal[] = [];
afterEach(() => void refusals.splice(0));

const log = { error: () => {} };

function guarded(options: Partial<DoorOptions> = {}): Pick<NodeOptions, "door" | "access"> {
  const verifier = options.verifier ?? verifierOf(WORKERS);
  const security = { refused: (refusal: Refusal) => void refusals.push(refusal) };
  const door = new GrpcDoor({ verifier, log, security, now: Date.now, ...options });
  return { door, access: { callbackToken: ({ dispatchId }) => `token of ${dispatchId}` } };
}

const authorization = (value: string): Door => {
  const metadata = new Metadata();
  metadata.set("authorization", value);
  return { metadata };
};

const HELLO = { worker_id: "w1", service: "payments", max_in_flight: 2 };

/** How its stream ends that says this hello, or "in". */
async function outcome(target: string, hello: Wire, door?: Door): Promise<string> {
  const worker = silentWorker(target, door);
  worker.send({ hello: { ...HELLO, ...hello } });
  await until(() => worker.ended || worker.of("hello_ack").length > 0);
  return worker.error ? (status[worker.error.code] ?? "") : "in";
}

async function enter(target: string, token: string, hello: Wire = {}): Promise<RawWorker> {
  const worker = silentWorker(target);
  worker.send({ hello: { ...HELLO, worker_id: token, token, ...hello } });
  await worker.wait("hello_ack");
  return worker;
}

function call(
  target: string,
  proto: string,
  service: string,
  method: string,
  message: object,
  metadata: Metadata,
): Promise<Wire> {
  const definition: Wire = loadSync(proto, { keepCase: true, enums: String });
  const client: Wire = new (makeGenericClientConstructor(definition[service], service))(
    target,
    credentials.createInsecure(),
  );
  return new Promise((resolve, reject) => {
    const done = (error: unknown, value?: unknown) => {
      client.close();
      if (error) reject(error);
      else resolve(value);
    };
    if (!definition[service][method].responseStream) return client[method](message, metadata, done);
    const stream = client[method](metadata);
    stream.on("data", (value: unknown) => done(undefined, value));
    stream.on("error", done);
    stream.write(message);
  });
}

const reflectionRoot = dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json"));
const reflect = (target: string, door: Door = {}, version = "v1") =>
  call(
    target,
    join(reflectionRoot, `build/proto/grpc/reflection/${version}/reflection.proto`),
    `grpc.reflection.${version}.ServerReflection`,
    "ServerReflectionInfo",
    { list_services: "*" },
    door.metadata ?? new Metadata(),
  );

describe("a method of the gRPC server", () => {
  it("has a need, each of them", async () => {
    const register = vi.spyOn(Server.prototype, "register");
    await node(guarded());
    const served = register.mock.calls.map(([path]) => path);
    register.mockRestore();
    expect(served.sort()).toEqual(Object.keys(METHOD_NEEDS).sort());
  });

  it("is open to no one if it has none", async () => {
    const { door } = guarded();
    const presented = { ...authorization("Bearer paula"), peer: "127.0.0.1:1" } as never;
    await expect(door?.admit("/saga.worker.v1.WorkerService/New", presented)).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
    });
  });

  it("is open to all where it tells of health, and to any credential where it tells of the interface", async () => {
    const { target } = await node(guarded());
    const health = { service: "saga.worker.v1.WorkerService" };
    expect(await call(target, healthProto, "grpc.health.v1.Health", "Check", health, new Metadata())).toEqual({
      status: "SERVING",
    });
    for (const version of ["v1", "v1alpha"]) {
      await expect(reflect(target, {}, version)).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
      expect(await reflect(target, authorization("Bearer viewer"), version)).toHaveProperty("list_services_response");
    }
    await expect(reflect(target, authorization("Bearer stranger"))).rejects.toMatchObject({
      code: status.UNAUTHENTICATED,
      details: "a valid credential is needed",
    });
    await expect(reflect(target, authorization("Bearer lost"))).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
    });
  });
});

describe("a hello", () => {
  it("is let in with the credential of a worker, in the metadata or in itself", async () => {
    const { target } = await node(guarded());
    expect(await outcome(target, { token: "alice" })).toBe("in");
    expect(await outcome(target, {}, authorization("Bearer alice"))).toBe("in");
    expect(await outcome(target, { token: "alice" }, authorization("bearer  alice"))).toBe("in");
    expect(refusals).toEqual([]);
  });

  it.each([
    ["no credential", {}, undefined],
    ["an unknown one", { token: "stranger" }, undefined],
    ["two that differ", { token: "alice" }, authorization("Bearer bob")],
    ["two in the metadata", {}, authorization("Bearer alice, Bearer alice")],
    ["one of another scheme", {}, authorization("Basic alice")],
    ["one of another scheme beside a good one", { token: "alice" }, authorization("Basic alice")],
    ["one that is too long", { token: "a".repeat(20_000) }, undefined],
  ])("is UNAUTHENTICATED with %s, whatever the reason", async (_, hello, door) => {
    const { target, logged } = await node(guarded());
    const worker = silentWorker(target, door);
    worker.send({ hello: { ...HELLO, ...hello } });
    await until(() => worker.ended);
    expect(worker.error).toMatchObject({ code: status.UNAUTHENTICATED, details: "a valid credential is needed" });
    const route = "/saga.worker.v1.WorkerService/ExecuteStep";
    expect(refusals).toMatchObject([{ status: "UNAUTHENTICATED", route, address: "127.0.0.1" }]);
    expect(JSON.stringify([refusals, logged])).not.toMatch(/alice|bob|stranger|aaaa/);
  });

  it.each([
    ["for another service", "alice", { service: "shop" }, "the credential is not for the service shop"],
    ["without the role", "viewer", {}, "the role worker may do this"],
    ["of no tenant", "lost", {}, "the credential belongs to no tenant"],
    ["that serves no tenant", "nowhere", {}, "the credential serves the runs of no tenant"],
  ])("is PERMISSION_DENIED %s", async (_, token, hello, details) => {
    const { target } = await node(guarded());
    const worker = silentWorker(target);
    worker.send({ hello: { ...HELLO, token, ...hello } });
    await until(() => worker.ended);
    expect(worker.error).toMatchObject({ code: status.PERMISSION_DENIED, details });
    expect(refusals).toMatchObject([{ reason: details, principal: { kind: "user", sub: token } }]);
  });

  it("is RESOURCE_EXHAUSTED above the rate of its credential, or where too many were refused before, and UNAVAILABLE while the issuer is away", async () => {
    const take: RateLimit["take"] = () => {
      throw new SagaError(429, "rate_limited", "more than 1 request a second with this credential");
    };
    const { target } = await node(guarded({ rate: { take } }));
    expect(await outcome(target, { token: "alice" })).toBe("RESOURCE_EXHAUSTED");
    const refusing = (error: Error): Verifier => ({ verify: () => Promise.reject(error) });
    const other = await node(guarded({ verifier: refusing(new SagaError(429, "rate_limited", "too many")) }));
    expect(await outcome(other.target, { token: "alice" })).toBe("RESOURCE_EXHAUSTED");
    const away = await node(guarded({ verifier: refusing(overloaded("the issuer does not answer")) }));
    expect(await outcome(away.target, { token: "alice" })).toBe("UNAVAILABLE");
    const broken = await node(guarded({ verifier: refusing(new Error("a bug")) }));
    expect(await outcome(broken.target, { token: "alice" })).toBe("UNAVAILABLE");
  });

  it("comes from the client that a trusted proxy names, for the limit of refused credentials and for the log", async () => {
    const asked: (string | undefined)[] = [];
    const verify: Verifier["verify"] = (_, address) => {
      asked.push(address?.());
      throw new SagaError(429, "rate_limited", "too many");
    };
    const metadata = new Metadata();
    metadata.set("x-forwarded-for", "192.0.2.7, 198.51.100.1");
    const { target } = await node(guarded({ verifier: { verify } }));
    await outcome(target, { token: "alice" }, { metadata });
    const addresses = new ClientAddresses(["127.0.0.1"]);
    const behind = await node(guarded({ verifier: { verify }, addresses }));
    await outcome(behind.target, { token: "alice" }, { metadata });
    expect(asked).toEqual(["127.0.0.1", "198.51.100.1"]);
    expect(refusals.map(({ address }) => address)).toEqual(asked);
  });

  it("is not read, and nothing after it, before its credential is known", async () => {
    let admit: (principal: Principal) => void = () => {};
    const asked: string[] = [];
    const verify = (bearer: string) => {
      asked.push(bearer);
      return new Promise<Principal>((resolve) => {
        admit = resolve;
      });
    };
    const n = await node(guarded({ verifier: { verify } }));
    const worker = silentWorker(n.target);
    worker.send({ hello: { ...HELLO, token: "secret" } });
    worker.result(makeDispatch(n));
    await until(() => asked.length === 1);
    expect(n.runs.told).toHaveLength(0);
    admit(principalOf("alice", { roles: ["worker"], tenantId: A, services: ["payments"] }));
    await worker.wait("recorded");
    // A wrong hello of a stranger tells nothing of what is wrong.
    const stranger = silentWorker(n.target);
    stranger.send({ hello: { worker_id: "", service: "" } });
    await until(() => stranger.ended);
    expect(stranger.error?.code).toBe(status.UNAUTHENTICATED);
  });
});

describe("a stream", () => {
  /** A worker whose credential the test ends. */
  function ending(): { options: Pick<NodeOptions, "door" | "access">; end: AbortController; until: { at?: number } } {
    const [end, expiry] = [new AbortController(), {} as { at?: number }];
    const principal = (): Principal => ({
      ...principalOf("alice", { roles: ["worker"], tenantId: A }),
      services: new Patterns(["payments"]),
      ended: end.signal,
      ...(expiry.at !== undefined && { expiresAt: expiry.at }),
    });
    return { options: guarded({ verifier: { verify: principal } }), end, until: expiry };
  }

  it("ends when its credential expires, and its step is claimed with the next one", async () => {
    const { options, until: expiry } = ending();
    const n = await node({ ...options, limits: { claimWaitMs: 5_000 } });
    expiry.at = Date.now() + 300;
    const worker = await enter(n.target, "alice");
    const { dispatchId } = dispatchNow(n, { tenantId: A });
    await worker.wait("execute");
    await until(() => worker.ended);
    expect(worker.error).toMatchObject({ code: status.UNAUTHENTICATED, details: "the credential has ended" });
    delete expiry.at;
    const again = await enter(n.target, "alice", { in_flight: [dispatchId] });
    const dispatch = n.dispatcher.directory;
    expect(await dispatch.holder(dispatchId)).toEqual({ workerId: "alice" });
    expect(again.of("execute"), "it is not executed again").toEqual([]);
  });

  it("ends when its credential is revoked, and a hello with that one is refused", async () => {
    const { options, end } = ending();
    const { target } = await node(options);
    const worker = await enter(target, "alice");
    end.abort();
    await until(() => worker.ended);
    expect(worker.error).toMatchObject({ code: status.UNAUTHENTICATED, details: "the credential has ended" });
    const late = silentWorker(target);
    late.send({ hello: { ...HELLO, token: "alice" } });
    await until(() => late.ended);
    expect([late.error?.code, late.of("hello_ack")]).toEqual([status.UNAUTHENTICATED, []]);
  });
});

describe("a dispatch", () => {
  it("goes to a worker of its tenant, or of the platform, and is offered to no other", async () => {
    const n = await node(guarded());
    const alice = await enter(n.target, "alice", { max_in_flight: 1 });
    const calls = [A, B, undefined].map((tenantId) => makeDispatch(n, { tenantId } as never));
    const reserve = (nth: number) => {
      const { dispatchId, call, tenantId } = calls[nth] as (typeof calls)[number];
      return n.dispatcher.reserve(dispatchId, call, tenantId);
    };
    expect([reserve(1), reserve(2)]).toEqual([undefined, undefined]);
    expect(reserve(0)).toEqual({ workerId: "alice" });
    const piet = await enter(n.target, "piet");
    expect(reserve(2)).toBeUndefined();
    expect(reserve(1)).toEqual({ workerId: "piet" });
    await enter(n.target, "paula", { max_in_flight: 10 });
    expect(reserve(2)).toEqual({ workerId: "paula" });
    expect([alice, piet].flatMap((worker) => worker.of("execute"))).toEqual([]);
  });

  it("that waits for a worker of its tenant holds up no other tenant's", async () => {
    const n = await node(guarded());
    const waiting = [B, B, A].map((tenantId) => makeDispatch(n, { tenantId }));
    for (const { runId, dispatchId, call, tenantId } of waiting)
      n.dispatcher.enqueue(runId, dispatchId, call, tenantId);
    await enter(n.target, "alice");
    await until(() => n.runs.of("offer").length === 1);
    expect(n.runs.of("offer")).toMatchObject([{ dispatchId: waiting[2]?.dispatchId, workerId: "alice" }]);
    const obstacle = (tenantId: string) => n.dispatcher.directory.obstacles([{ ...makeCall(), tenantId }]);
    expect([await obstacle(A), await obstacle(B)]).toEqual([[{ reason: "no_credit" }], [{ reason: "no_worker" }]]);
  });

  it("carries the credential of its reports with access on, and none with access off or where its worker wants none", async () => {
    const n = await node(guarded());
    const alice = await enter(n.target, "alice");
    const { dispatchId } = dispatchNow(n, { tenantId: A });
    expect((await alice.wait("execute")).callback_token).toBe(`token of ${dispatchId}`);
    alice.cut();
    const streamer = await enter(n.target, "alice", { stream_answers: true });
    dispatchNow(n, { tenantId: A });
    expect((await streamer.wait("execute")).callback_token).toBe("");
    const open = await node();
    const anyone = await RawWorker.connect(open.target);
    dispatchNow(open, { tenantId: A });
    expect((await anyone.wait("execute")).callback_token).toBe("");
    anyone.cut();
  });

  it("that lost its worker goes to another one of its tenant only", async () => {
    const n = await node(guarded());
    const first = await enter(n.target, "alice", { worker_id: "a1" });
    const bob = await enter(n.target, "bob");
    const { dispatchId } = dispatchNow(n, { tenantId: A });
    await first.wait("execute");
    first.cut();
    await until(() => n.dispatcher.queued === 1);
    const second = await enter(n.target, "alice", { worker_id: "a2" });
    expect((await second.wait("execute")).dispatch_id).toBe(dispatchId);
    expect(bob.of("execute")).toEqual([]);
  });
});

describe("a worker that names a dispatch of another tenant or service", () => {
  const FOREIGN: [string, Wire, string][] = [
    ["tenant", { worker_id: "mallory", token: "bob" }, "the dispatch is none of this worker's"],
    [
      "service",
      { worker_id: "mallory", token: "paula", service: "payouts" },
      "the dispatch belongs to the service payments",
    ],
  ];

  it.each(FOREIGN)("gets its answer recorded as stale, and the run hears nothing (%s)", async (_, hello, reason) => {
    const n = await node(guarded());
    const alice = await enter(n.target, "alice");
    const dispatch = dispatchNow(n, { tenantId: A });
    await alice.wait("execute");
    const mallory = silentWorker(n.target);
    mallory.send({ hello: { ...HELLO, ...hello } });
    mallory.result(dispatch, { stolen: true });
    mallory.send({ heartbeat: { dispatch_id: dispatch.dispatchId } });
    expect(await mallory.wait("recorded")).toEqual({ dispatch_id: dispatch.dispatchId, stale: true });
    await until(() => refusals.length === 2);
    const noted = `dispatch ${dispatch.dispatchId}: ${reason}`;
    expect(refusals).toMatchObject([1, 2].map(() => ({ reason: noted, principal: { sub: hello.token } })));
    expect(n.runs.told).toEqual([]);
    // It may name such dispatches by the thousand, and only the security log bounds its lines.
    expect(n.logged.filter((line) => line.includes(dispatch.dispatchId))).toEqual([]);
    alice.result(dispatch);
    expect(await alice.wait("recorded")).toMatchObject({ stale: false });
    expect(n.runs.of("result")).toMatchObject([{ actor: "worker:alice", service: "payments" }]);
    expect(n.runs.told.at(-1)?.options).toMatchObject({ reach: { tenants: [A] } });
  });

  it.each(FOREIGN)("does not get it by claiming it, before or after this node knows it (%s)", async (_, hello) => {
    const n = await node(guarded());
    const [known, later] = [makeDispatch(n, { tenantId: A }), makeDispatch(n, { tenantId: A })];
    const alice = await enter(n.target, "alice");
    expect(n.dispatcher.reserve(known.dispatchId, known.call, A)).toEqual({ workerId: "alice" });
    n.dispatcher.send(known);
    await alice.wait("execute");
    alice.cut();
    const mallory = silentWorker(n.target);
    mallory.send({ hello: { ...HELLO, ...hello, in_flight: [known.dispatchId, later.dispatchId] } });
    await mallory.wait("hello_ack");
    n.dispatcher.send(later);
    const again = await enter(n.target, "alice", { worker_id: "a2" });
    await again.wait("execute", 2);
    expect(again.of("execute").map(({ dispatch_id }) => dispatch_id)).toEqual(
      expect.arrayContaining([known.dispatchId, later.dispatchId]),
    );
    expect(mallory.of("execute")).toEqual([]);
  });

  it("gets no answer of a run that this node does not hold past the run, which is told whose runs it serves", async () => {
    const n = await node(guarded());
    n.runs.reply = () => {
      throw notFound("there is no such run");
    };
    const bob = await enter(n.target, "bob");
    const about = { dispatch_id: newDispatchId(), run_id: newRunId(), step_id: "charge", attempt: 1 };
    bob.send({ result: { ...about, result_json: Buffer.from("{}") } });
    expect(await bob.wait("recorded")).toMatchObject({ stale: true });
    expect(n.runs.told).toMatchObject([{ command: { service: "payments" }, options: { reach: { tenants: [B] } } }]);
    const reason = `dispatch ${about.dispatch_id}: the dispatch is none of this worker's`;
    expect(refusals).toMatchObject([{ reason, principal: { sub: "bob" } }]);
  });
});
