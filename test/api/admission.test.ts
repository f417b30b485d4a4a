// Admission over HTTP: while load is shed, every request that is not a read is answered 503 with Retry-After before its body is
// read, and every place that was taken is released.
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { beforeEach, describe, expect, it } from "vitest";
import { overloaded } from "../../src/errors.js";
import type { WorkKind } from "../../src/work/load-shedder.js";
import { until } from "../harness/until.js";
import { insertRun, useRig, WORKFLOW } from "./rig.js";

interface Asked {
  readonly kind: WorkKind;
  bytes: number;
  begun: boolean;
  held: boolean;
}
/** A busy machine may hold up a test for a moment between two parts of a body. */
const BODY_STALL_MS = 3_000;
const door = { refuses: false, room: Number.POSITIVE_INFINITY, asked: [] as Asked[] };
const refuse = () => overloaded("the node is overloaded (runs); send it again later");
const rig = useRig({
  deps: {
    bodyStallMs: BODY_STALL_MS,
    shedder: {
      admit(kind) {
        const asked = { kind, bytes: 0, begun: false, held: !door.refuses };
        door.asked.push(asked);
        if (door.refuses) throw refuse();
        return {
          receive: (bytes) => {
            asked.bytes += bytes;
            if (asked.bytes > door.room) throw refuse();
          },
          begin: () => {
            asked.begun = true;
          },
          release: () => {
            asked.held = false;
          },
        };
      },
    },
  },
});
beforeEach(() => Object.assign(door, { refuses: false, room: Number.POSITIVE_INFINITY, asked: [] }));
const nothingHeld = () => door.asked.every(({ held }) => !held);

/** A connection over which a test sends what it likes. */
async function connection() {
  if (!rig.app.server.listening) await rig.app.listen({ port: 0, host: "127.0.0.1" });
  const socket = connect((rig.app.server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  let answer = "";
  socket.on("data", (data) => {
    answer += data;
  });
  const closed = once(socket, "close");
  const headers = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
  return {
    socket,
    begin: (url: string, length: string) => socket.write(`POST ${url} ${headers}\r\n${length}\r\n\r\n`),
    chunk: (text: string) => socket.write(`${text.length.toString(16)}\r\n${text}\r\n`),
    /** Resolves when the server has closed it. */
    answer: () => closed.then(() => answer),
  };
}
const CHUNKED = "Transfer-Encoding: chunked";

const START = { workflow_id: "orders" };

describe("while load is shed", () => {
  it.each([
    ["a start", "/api/v1/sagas/start", START],
    ["a start that is no JSON", "/api/v1/sagas/start", "{ this is not even JSON"],
    ["a cancel", `/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/cancel`, {}],
    ["a signal", `/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/signal/go`, {}],
    ["a document", "/api/v1/workflows", WORKFLOW],
  ] as const)("%s is refused, and no port is called", async (_, url, body) => {
    door.refuses = true;
    const before = [rig.asked.length, rig.started.length, await rig.countRows()];
    const { status, headers, body: answer } = await rig.call("POST", url, body);
    expect(status).toBe(503);
    expect(Number(headers["retry-after"])).toBeGreaterThan(0);
    expect(answer).toMatchObject({ error: "overloaded", request_id: expect.any(String) });
    expect([rig.asked.length, rig.started.length, await rig.countRows()]).toEqual(before);
  });

  it("probes and reads are answered", async () => {
    door.refuses = true;
    const runId = await insertRun(rig);
    for (const url of ["/healthz", "/readyz", "/metrics", "/api/v1/sagas", `/api/v1/sagas/${runId}`])
      expect([url, (await rig.call("GET", url)).status]).toEqual([url, 200]);
    expect(door.asked).toEqual([]);
  });

  it("an unknown route is still 404", async () => {
    door.refuses = true;
    expect((await rig.call("POST", "/api/v1/nothing", {})).status).toBe(404);
  });
});

describe("the connection limit", () => {
  it("connections over the limit are closed, and the log says so once", async () => {
    if (!rig.app.server.listening) await rig.app.listen({ port: 0, host: "127.0.0.1" });
    const { server } = rig.app;
    const { port } = server.address() as AddressInfo;
    const most = server.maxConnections;
    expect(most).toBeGreaterThan(1_000);
    server.maxConnections = 2;
    const sockets = Array.from({ length: 2 }, () => connect(port, "127.0.0.1"));
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    for (let nth = 0; nth < 3; nth++) {
      const dropped = connect(port, "127.0.0.1");
      dropped.on("error", () => {});
      await once(dropped, "close");
    }
    for (const socket of sockets) socket.destroy();
    server.maxConnections = most;
    expect(rig.logLines.filter((line) => line.includes("too many connections"))).toHaveLength(1);
  });
});

describe("a place", () => {
  it("is taken for the bytes of the body, and released with any answer", async () => {
    const body = JSON.stringify(START);
    expect((await rig.call("POST", "/api/v1/sagas/start", body)).status).toBe(202);
    expect((await rig.call("POST", "/api/v1/sagas/start", "{ broken")).status).toBe(400);
    expect(door.asked).toMatchObject([
      { kind: "new", bytes: body.length, begun: true },
      { kind: "new", bytes: "{ broken".length, begun: false },
    ]);
    await until(nothingHeld);
  });

  it("is asked for as an answer by a report", async () => {
    const result = "/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/actions/pay/result";
    expect((await rig.call("POST", result, { result: {} })).status).toBe(202);
    expect((await rig.call("POST", result.replace("result", "heartbeat"))).status).toBe(202);
    expect(door.asked.map(({ kind }) => kind)).toEqual(["answer", "answer"]);
  });

  it("is released when a client disconnects before it has sent its body", async () => {
    const client = await connection();
    client.begin("/api/v1/sagas/start", "Content-Length: 1000");
    client.socket.write('{"workflow_id"');
    await until(() => door.asked[0]?.bytes === 14);
    client.socket.destroy();
    await until(nothingHeld);
  });
});

describe("a body that is half received", () => {
  it.each([
    ["announces a million bytes", "Content-Length: 1000000"],
    ["is chunked", CHUNKED],
  ])("counts as the bytes it is, and its request does not count yet, if it %s", async (_, length) => {
    const client = await connection();
    client.begin("/api/v1/sagas/start", length);
    const send = length === CHUNKED ? client.chunk : (text: string) => client.socket.write(text);
    send('{"workflow_id"');
    await until(() => door.asked[0]?.bytes === 14);
    send(':"orders"');
    await until(() => door.asked[0]?.bytes === 23);
    expect(door.asked).toMatchObject([{ begun: false, held: true }]);
    client.socket.destroy();
    await until(nothingHeld);
  });

  it("is refused with 503 when there is no more room, and the connection is closed", async () => {
    door.room = 20;
    const client = await connection();
    client.begin("/api/v1/sagas/start", CHUNKED);
    client.chunk('{"workflow_id"');
    await until(() => door.asked[0]?.bytes === 14);
    client.chunk(':"orders"');
    expect(await client.answer()).toMatch(/^HTTP\/1.1 503 [\s\S]*retry-after: 1[\s\S]*"error":"overloaded"/i);
    await until(nothingHeld);
  });

  it("is given up with 408 when nothing of it arrives any more", async () => {
    const client = await connection();
    client.begin("/api/v1/sagas/start", CHUNKED);
    client.chunk('{"workflow_id"');
    expect(await client.answer()).toMatch(/^HTTP\/1.1 408 [\s\S]*nothing of the body has arrived for 3000 ms/);
    await until(nothingHeld);
  });

  it("is refused with 413 as soon as it is larger than the limit", async () => {
    const client = await connection();
    client.begin("/api/v1/sagas/start", CHUNKED);
    client.chunk("x".repeat(2 * 1024 * 1024 + 1));
    expect(await client.answer()).toMatch(/^HTTP\/1.1 413 [\s\S]*SAGA_LIMIT_BODY_BYTES/);
    await until(nothingHeld);
  });
});
