// Waiting for a run: `wait_ms` on start and get. It costs a listener of the feed and no poll, and the listener goes with its client.
import type { AddressInfo } from "node:net";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { newRun } from "../../machines/index.js";
import type { Principal } from "../../src/access/index.js";
import { until } from "../harness/until.js";
import { principalOf } from "../harness/verifier.js";
import { committed } from "./client.js";
import { appendEvents, endRun, insertRun, otherApi, useRig } from "./rig.js";
import { bytesOf } from "./wire.js";

const rig = useRig({ maxWaiters: 3 });
let port = 0;
beforeAll(async () => {
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
});
const get = (path: string) => rig.call("GET", `/api/v1/sagas/${path}`);
const waiting = () => rig.feed.watching;
const waits = (count: number) => until(() => waiting() === count, { what: `${count} waiters` });
afterEach(() => waits(0));

describe("a get that waits", () => {
  it("answers as soon as the run has ended, with the run as it ended", async () => {
    const id = await insertRun(rig);
    const answer = get(`${id}?wait_ms=60000`);
    await waits(1);
    const between = await appendEvents(rig, id, [{}]);
    rig.feed.onCommit(id, [committed(id, between)]);
    expect(waiting()).toBe(1);
    const seq = await endRun(rig, id);
    rig.feed.onCommit(id, [committed(id, seq, { type: "run.succeeded", to: "succeeded" })]);
    expect(await answer).toMatchObject({ status: 200, body: { id, state: "succeeded", output: { done: true } } });
  });

  it("answers with a later audit row, where after_seq asks for one", async () => {
    const id = await insertRun(rig);
    const first = await appendEvents(rig, id, [{}]);
    const answer = get(`${id}?wait_ms=60000&after_seq=${first}`);
    await waits(1);
    const next = await appendEvents(rig, id, [{}]);
    rig.feed.onCommit(id, [committed(id, next)]);
    expect(await answer).toMatchObject({ status: 200, body: { id, state: "running" } });
  });

  it("answers at once where there is nothing to wait for", async () => {
    const id = await insertRun(rig);
    await appendEvents(rig, id, [{}, {}]);
    expect((await get(`${id}?wait_ms=60000&after_seq=1`)).status).toBe(200);
    await endRun(rig, id);
    expect((await get(`${id}?wait_ms=60000`)).body.state).toBe("succeeded");
    expect((await get(`${id}?wait_ms=60000&after_seq=99`)).body.state).toBe("succeeded");
    expect((await get("0190a000-0000-7000-8000-0000000000cc?wait_ms=60000")).status).toBe(404);
  });

  it("answers with the run as it is when the time is over", async () => {
    const id = await insertRun(rig);
    expect(await get(`${id}?wait_ms=20`)).toMatchObject({ status: 200, body: { state: "running" } });
    expect(await get(`${id}?wait_ms=0`)).toMatchObject({ status: 200, body: { state: "running" } });
  });

  it("may not wait longer than a minute", async () => {
    const id = await insertRun(rig);
    for (const query of ["wait_ms=60001", "wait_ms=-1", "wait_ms=x", "after_seq=-1"])
      expect([query, (await get(`${id}?${query}`)).status]).toEqual([query, 400]);
  });
});

describe("a wait for a credential that ends", () => {
  const TENANT = "0190a000-0000-7000-8000-0000000000f1";

  /** An API of one principal, which waits for a run of its tenant. */
  async function waitWith(ends: Partial<Principal>): Promise<number> {
    const principal = { ...principalOf("ann", { roles: ["viewer"], tenantId: TENANT }), ...ends };
    const app = await otherApi(rig, {}, { verifier: { verify: () => principal }, now: Date.now });
    onTestFinished(() => app.close());
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const id = await insertRun(rig, { tenant_id: TENANT });
    const answer = await fetch(`${url}/api/v1/sagas/${id}?wait_ms=10000`, { headers: { authorization: "Bearer ann" } });
    await answer.text();
    return answer.status;
  }

  it("is over when it is revoked, and when it expires: the run is not answered", async () => {
    const ending = new AbortController();
    const revoked = waitWith({ ended: ending.signal });
    await waits(1);
    ending.abort();
    expect(await revoked).toBe(401);
    await waits(0);
    expect(await waitWith({ expiresAt: Date.now() + 300 })).toBe(401);
  });
});

describe("a signal that waits", () => {
  const signal = (id: string, query: string) => rig.call("POST", `/api/v1/sagas/${id}/signal/go${query}`, {});

  it("answers when the run waits again, not while it steps, nor while it waits for its next attempt", async () => {
    const id = await insertRun(rig);
    const answer = signal(id, "?wait_ms=60000");
    await waits(1);
    for (const reason of [null, "retry", "concurrency"]) {
      const state = reason === null ? "running" : "paused";
      await rig.database.sql`update runs set state = ${state}, paused_reason = ${reason} where id = ${id}`;
      rig.feed.onCommit(id, [committed(id, await appendEvents(rig, id, [{}]))]);
      await waits(1);
    }
    await rig.database.sql`update runs set state = 'paused', paused_reason = 'event' where id = ${id}`;
    rig.feed.onCommit(id, [committed(id, await appendEvents(rig, id, [{}]))]);
    expect(await answer).toMatchObject({ status: 200, body: { matched: true, run: { id, paused_reason: "event" } } });
  });

  it("answers 202 as ever if that has not come in time, or if too many wait", async () => {
    const id = await insertRun(rig);
    const late = await signal(id, "?wait_ms=20");
    expect([late.status, Object.keys(late.body)]).toEqual([202, ["signal_id", "matched"]]);
    const others = [1, 2, 3].map(() => get(`${id}?wait_ms=60000`));
    await waits(3);
    expect((await signal(id, "?wait_ms=60000")).status).toBe(202);
    rig.feed.onCommit(id, [committed(id, await endRun(rig, id), { type: "run.succeeded", to: "succeeded" })]);
    await Promise.all(others);
  });
});

describe("a start that waits", () => {
  it("answers 200 with the run once it has ended", async () => {
    const id = await insertRun(rig);
    const answer = rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", { workflow_id: "w", run_id: id });
    await waits(1);
    const seq = await endRun(rig, id);
    rig.feed.onCommit(id, [committed(id, seq, { type: "run.succeeded", to: "succeeded" })]);
    const { status, body, headers } = await answer;
    expect([status, headers.location]).toEqual([200, `/api/v1/sagas/${id}`]);
    expect(body).toMatchObject({
      run_id: id,
      state: "succeeded",
      run: { id, state: "succeeded", output: { done: true } },
    });
  });

  it("is answered from memory where the end was committed here, with the labels of the start", async () => {
    const id = await insertRun(rig);
    const about = { workflow_id: "w", run_id: id, labels: { team: "a" } };
    const answer = rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", about);
    await waits(1);
    const identity = { id, workflowId: "w", version: 1, definitionId: id, inputs: { n: 1 }, startedAt: 0 };
    const begun = newRun({ ...identity, dryRun: false, features: {}, entrypoint: "" }, { x: 1 });
    const event = { ...committed(id, 9, { type: "run.succeeded", to: "succeeded" }), at: 1_000 };
    rig.feed.onCommit(id, [event], { before: begun, after: { ...begun, state: "succeeded", output: [1] } });
    // The row of the run does not say so.
    expect((await answer).body.run).toEqual({
      ...{
        id,
        workflow_id: "w",
        version: 1,
        definition_id: id,
        state: "succeeded",
        inputs: { n: 1 },
        variables: { x: 1 },
      },
      ...{ output: [1], labels: { team: "a" }, requires_manual_review: false, dry_run: false },
      ...{ started_at: "1970-01-01T00:00:00.000Z", last_event_at: "1970-01-01T00:00:01.000Z" },
      terminal_at: "1970-01-01T00:00:01.000Z",
    });
  });

  it("answers 202 as ever if it has not", async () => {
    const id = await insertRun(rig);
    const { status, body } = await rig.call("POST", "/api/v1/sagas/start?wait_ms=20", { workflow_id: "w", run_id: id });
    expect([status, body.run_id]).toEqual([202, id]);
    expect(body).not.toHaveProperty("run");
  });

  it("is not work in progress while it waits", async () => {
    const id = await insertRun(rig);
    const before = rig.admitted;
    const answer = rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", { workflow_id: "w", run_id: id });
    await waits(1);
    expect(rig.admitted).toBe(before);
    const seq = await endRun(rig, id);
    rig.feed.onCommit(id, [committed(id, seq, { type: "run.succeeded", to: "succeeded" })]);
    expect((await answer).status).toBe(200);
  });
});

describe("waiters", () => {
  it("are bounded: one too many is 503 on a get, and a plain 202 on a start, which is durable", async () => {
    const id = await insertRun(rig);
    const all = [1, 2, 3].map(() => get(`${id}?wait_ms=60000`));
    await waits(3);
    expect(await get(`${id}?wait_ms=60000`)).toMatchObject({ status: 503, body: { error: "overloaded" } });
    const start = await rig.call("POST", "/api/v1/sagas/start?wait_ms=60000", { workflow_id: "w", run_id: id });
    expect(start.status).toBe(202);
    const seq = await endRun(rig, id);
    rig.feed.onCommit(id, [committed(id, seq, { type: "run.succeeded", to: "succeeded" })]);
    for (const answer of all) expect((await answer).status).toBe(200);
  });

  it("whose client goes away free their listener", async () => {
    const { connect } = await import("node:net");
    const id = await insertRun(rig);
    const sockets = [1, 2].map(() => {
      const socket = connect(port, "127.0.0.1");
      socket.write(bytesOf({ path: `/api/v1/sagas/${id}?wait_ms=60000` }));
      return socket;
    });
    await waits(2);
    for (const socket of sockets) socket.destroy();
    await waits(0);
  });

  it("are answered when the service stops", async () => {
    const other = await rig.another();
    const id = await insertRun(rig);
    const answer = other.inject(`/api/v1/sagas/${id}?wait_ms=60000`);
    await waits(1);
    await other.close();
    expect((await answer).statusCode).toBe(200);
  });
});
