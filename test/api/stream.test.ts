// The live stream over real sockets: the frames that a client receives, in order, from the snapshot to the close.
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { createFeed } from "../../src/feed/index.js";
import { uuidv7 } from "../../src/ids.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { Client, committed, hangUp } from "./client.js";
import { appendEvents, endRun, insertRun, otherApi, useRig } from "./rig.js";

const rig = useRig({ pingMs: 2_000 });
let port: number;

beforeAll(async () => {
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
  port = (rig.app.server.address() as AddressInfo).port;
});
afterEach(hangUp);

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe("a client", () => {
  it("receives snapshot, events, end and close once each and in order, from whichever process committed them", async () => {
    const runId = await insertRun(rig, { inputs: { a: 1 } });
    await appendEvents(rig, runId, [{ type: "saga.started" }, {}]);
    const client = new Client(port, runId);
    await client.has(1);
    expect(client.frames[0]).toMatchObject({ type: "snapshot", run: { id: runId, inputs: { a: 1 } }, last_seq: 2 });
    // Told by the runtime of this process, and by a poll that finds the same.
    await appendEvents(rig, runId, [{}, {}]);
    rig.feed.onCommit(runId, [committed(runId, 3), committed(runId, 4)]);
    await rig.feed.poll();
    // Told by nobody: another process whose hint was lost.
    await appendEvents(rig, runId, [{ step: "begin" }]);
    await client.has(4);
    await endRun(rig, runId);
    expect(await client.closed()).toBe(1000);
    expect(client.kinds).toEqual(["snapshot", "event", "event", "event", "event", "end"]);
    expect(client.seqs).toEqual(upTo(6, 3));
    expect(client.frames.at(-1).run).toMatchObject({ id: runId, state: "succeeded", output: { done: true } });
  });

  it("receives the same event from a commit as from the database", async () => {
    const runId = await insertRun(rig);
    await appendEvents(rig, runId, [{ step: "begin", metadata: { n: 1 } }]);
    const replayed = new Client(port, runId, "?after_seq=0");
    await replayed.has(2);
    await appendEvents(rig, runId, [{ step: "begin", metadata: { n: 1 } }]);
    rig.feed.onCommit(runId, [committed(runId, 2, { stepId: "begin", metadata: { n: 1 } })]);
    await replayed.has(3);
    const again = new Client(port, runId, "?after_seq=1");
    await again.has(2);
    expect(again.frames[1]).toEqual(replayed.frames[2]);
    const { id: _first, seq: _one, recorded_at: _at, ...first } = replayed.frames[1].event;
    expect(replayed.frames[2].event).toMatchObject(first);
  });

  it("of a terminal run receives snapshot, end, close", async () => {
    const runId = await insertRun(rig);
    await endRun(rig, runId);
    const client = new Client(port, runId);
    expect(await client.closed()).toBe(1000);
    expect(client.kinds).toEqual(["snapshot", "end"]);
  });

  it("that reads receives all of a long run that has ended", async () => {
    const runId = await insertRun(rig);
    for (let n = 0; n < 3; n++)
      await appendEvents(
        rig,
        runId,
        Array.from({ length: 1000 }, () => ({ metadata: { text: "x".repeat(2000) } })),
      );
    await endRun(rig, runId);
    const client = new Client(port, runId, "?after_seq=10");
    expect(await client.closed()).toBe(1000);
    expect(client.seqs).toEqual(upTo(3001, 11));
    expect(client.kinds.at(-1)).toBe("end");
  });

  it("that asks for events after a future seq misses nothing", async () => {
    const runId = await insertRun(rig);
    await appendEvents(rig, runId, [{}]);
    const client = new Client(port, runId, "?after_seq=99");
    await client.has(1);
    await appendEvents(rig, runId, [{}]);
    await client.has(2);
    expect(client.seqs).toEqual([2]);
  });

  it("does not wait for events that retention deleted", async () => {
    const runId = await insertRun(rig);
    await appendEvents(rig, runId, [{}, {}, {}]);
    await endRun(rig, runId);
    await rig.database.sql`delete from run_events where run_id = ${runId}`;
    const client = new Client(port, runId, "?after_seq=0");
    expect(await client.closed()).toBe(1000);
    expect(client.kinds).toEqual(["snapshot", "end"]);
  });

  it("is pinged, and disconnected if it does not answer", async () => {
    const runId = await insertRun(rig);
    const client = new Client(port, runId);
    await until(() => client.pings >= 2);
    expect(client.code).toBeUndefined();
    const dead = await rawSocket(runId);
    await once(dead, "close");
  });
});

describe("the most streams of a node", () => {
  it("are bounded: one too many is closed with 1013 after its snapshot, and the others live", async () => {
    const { sql } = rig.database;
    const feed = createFeed({ sql, log: silentLog, pollMs: 200, maxWatchers: 1 });
    const app = await otherApi(rig, {}, { feed });
    onTestFinished(async () => {
      await app.close();
      await feed.stop();
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    const at = (app.server.address() as AddressInfo).port;
    const runId = await insertRun(rig);
    const first = new Client(at, runId);
    await first.has(1);
    const second = new Client(at, runId);
    expect(await second.closed()).toBe(1013);
    expect(second.kinds).toEqual(["snapshot"]);
    await appendEvents(rig, runId, [{}]);
    await first.has(2);
    first.socket.terminate();
    await until(() => feed.watching === 0);
    const third = new Client(at, runId, "?after_seq=0");
    await third.has(2);
    expect([third.seqs, third.code]).toEqual([[1], undefined]);
  });
});

describe("a refusal before the upgrade", () => {
  it.each([
    ["an unknown run", uuidv7(), "", 404, "not_found"],
    ["a bad id", "17", "", 400, "bad_request"],
    ["a bad seq", uuidv7(), "?after_seq=-1", 400, "bad_request"],
  ])("%s", async (_, runId, query, status, error) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/api/v1/sagas/${runId}/stream${query}`);
    const [, response] = await once(socket, "unexpected-response");
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk);
    expect(response.statusCode).toBe(status);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toMatchObject({ error, request_id: expect.any(String) });
  });
});

describe("a shutdown", () => {
  it("closes every stream with 1001", async () => {
    const runId = await insertRun(rig);
    const clients = [new Client(port, runId), new Client(port, runId)];
    for (const client of clients) await client.has(1);
    await rig.app.close();
    for (const client of clients) expect(await client.closed()).toBe(1001);
  });
});

/** Upgraded, then silent: it reads nothing and answers no ping. */
async function rawSocket(runId: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  const key = Buffer.alloc(16, 1).toString("base64");
  const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
  socket.write(
    `GET /api/v1/sagas/${runId}/stream HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
  );
  await once(socket, "data");
  socket.on("error", () => {});
  return socket;
}
