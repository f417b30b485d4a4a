// Admission over HTTP: while load is shed, every request that is not a read is answered 503 with Retry-After before its body is
// read, and every place that was taken is released.
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { beforeEach, describe, expect, it } from "vitest";
import { overloaded } from "../../src/errors.js";
import type { WorkKind } from "../../src/run/admission.js";
import { until } from "../harness/until.js";
import { insertRun, useRig, WORKFLOW } from "./rig.js";

const door = { refuses: false, held: 0, asked: [] as { kind: WorkKind; bytes: number }[] };
const rig = useRig({
  deps: {
    admission: {
      admit(kind, bytes = 0) {
        door.asked.push({ kind, bytes });
        if (door.refuses) throw overloaded("the node is overloaded (runs); send it again later");
        door.held++;
        return () => {
          door.held--;
        };
      },
    },
  },
});
beforeEach(() => Object.assign(door, { refuses: false, held: 0, asked: [] }));

const START = { workflow_id: "orders" };

describe("while load is shed", () => {
  it.each([
    ["POST", "/api/v1/sagas/start", START],
    ["POST", "/api/v1/sagas/start", "{ this is not even JSON"],
    ["POST", `/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/cancel`, {}],
    ["POST", `/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/signal/go`, {}],
    ["POST", "/api/v1/workflows", WORKFLOW],
  ] as const)("%s %s is refused, and no port is called", async (method, url, body) => {
    door.refuses = true;
    const before = [rig.asked.length, rig.started.length, await rig.countRows()];
    const { status, headers, body: answer } = await rig.call(method, url, body);
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
  it("is taken for the announced bytes, and released with any answer", async () => {
    const body = JSON.stringify(START);
    expect((await rig.call("POST", "/api/v1/sagas/start", body)).status).toBe(202);
    expect((await rig.call("POST", "/api/v1/sagas/start", "{ broken")).status).toBe(400);
    expect(door.asked).toEqual([
      { kind: "new", bytes: body.length },
      { kind: "new", bytes: "{ broken".length },
    ]);
    await until(() => door.held === 0);
  });

  it("is asked for as an answer by a report", async () => {
    const result = "/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/actions/pay/result";
    expect((await rig.call("POST", result, { result: {} })).status).toBe(202);
    expect((await rig.call("POST", result.replace("result", "heartbeat"))).status).toBe(202);
    expect(door.asked.map(({ kind }) => kind)).toEqual(["answer", "answer"]);
  });

  it("is released when a client disconnects before it has sent its body", async () => {
    if (!rig.app.server.listening) await rig.app.listen({ port: 0, host: "127.0.0.1" });
    const socket = connect((rig.app.server.address() as AddressInfo).port, "127.0.0.1");
    await once(socket, "connect");
    const head = "POST /api/v1/sagas/start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    socket.write(`${head}\r\nContent-Length: 1000\r\n\r\n{"workflow_id"`);
    await until(() => door.held === 1);
    socket.destroy();
    await until(() => door.held === 0);
  });
});
