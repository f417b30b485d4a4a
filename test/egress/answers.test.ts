// What servers may answer below HTTP's surface: interim responses that were not asked for, and connections that end too soon. However
// that goes, a request is sent once: whether it is sent again is for the retry policy to decide.
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ExchangeFailed, exchange, type Incoming } from "../../src/egress/exchange.js";
import { Guard, publicOrListed } from "../../src/egress/guard.js";
import { type Act, RawServer } from "./raw-server.js";

const servers: RawServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function open(act: Act): Promise<RawServer> {
  const server = await RawServer.open(act);
  servers.push(server);
  return server;
}

const guard = new Guard({ admits: publicOrListed(["127.0.0.1"]), connectMs: 2_000 });

function ask(url: string, method = "GET", followRedirects = false): Promise<Incoming> {
  const body = method === "POST" ? { body: '{"n":1}' } : {};
  const signal = AbortSignal.timeout(10_000);
  return exchange(guard, {
    method,
    url,
    headers: {},
    ...body,
    followRedirects,
    signal,
    maxBytes: 1_000,
    overlong: "fails",
  });
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Which: final\r\n\r\nok";
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const PROCESSING = "HTTP/1.1 102 Processing\r\nX-Progress: 50\r\n\r\n";
const HINTS = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nX-Which: hint\r\n\r\n";

/** One piece a turn of the event loop, so that they arrive apart as well as together. */
function say(socket: Socket, [piece, ...rest]: readonly string[]): void {
  if (piece !== undefined) socket.write(piece, () => setImmediate(() => say(socket, rest)));
}

describe("an interim response that was not asked for is skipped", () => {
  it.each([
    ["100 at once with the response", [CONTINUE + OK]],
    ["100 before the response", [CONTINUE, OK]],
    ["100 with headers", ["HTTP/1.1 100 Continue\r\nX-Which: interim\r\n\r\n", OK]],
    ["100 in pieces", ["HTTP/1.1 10", "0 Continue\r", "\n\r\n", OK]],
    ["102", [PROCESSING, OK]],
    ["103 with headers", [HINTS, OK]],
    ["several, of all kinds", [CONTINUE, PROCESSING + PROCESSING, HINTS, CONTINUE + OK]],
    ["199, which has no meaning yet", ["HTTP/1.1 199 Whatever\r\n\r\n", OK]],
  ])("%s", async (_, pieces) => {
    for (const method of ["GET", "POST", "DELETE"]) {
      const server = await open((socket) => say(socket, pieces));
      const { status, headers, body } = await ask(server.url, method);
      expect([status, headers, body.toString()]).toEqual([200, { "content-length": "2", "x-which": "final" }, "ok"]);
      expect(server.requests).toEqual([`${method} / HTTP/1.1`]);
    }
  });

  it("also before a redirect and before what it leads to", async () => {
    const server = await open((socket, nth) =>
      say(
        socket,
        nth === 1 ? [CONTINUE, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"] : [HINTS, OK],
      ),
    );
    expect((await ask(server.url, "GET", true)).status).toBe(200);
    expect(server.requests).toEqual(["GET / HTTP/1.1", "GET /there HTTP/1.1"]);
  });

  it("but 101 is none: no other protocol was asked for", async () => {
    const server = await open((socket) =>
      say(socket, ["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", OK]),
    );
    await expect(ask(server.url)).rejects.toMatchObject({ kind: "network", sent: true });
    expect(server.requests).toHaveLength(1);
  });
});

describe("a request that may have arrived is sent once", () => {
  const faults: [string, Act][] = [
    ["closed without an answer", (socket) => socket.end()],
    ["reset without an answer", (socket) => socket.resetAndDestroy()],
    ["closed after an interim response", (socket) => say(socket, [HINTS]) ?? setImmediate(() => socket.end())],
    ["reset after a 100", (socket) => socket.write(CONTINUE, () => socket.resetAndDestroy())],
    ["closed within the head", (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-")],
    ["closed within the body", (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok")],
    ["closed within a chunk", (socket) => socket.end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok")],
    [
      "closed before the last chunk",
      (socket) => socket.end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
    ],
    ["reset within the body", (socket) => socket.write(OK.slice(0, -1), () => socket.resetAndDestroy())],
    ["answered by another protocol", (socket) => socket.end("220 mail.example ESMTP\r\n")],
    ["answered 408 and closed", (socket) => socket.end("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")],
  ];

  it.each(faults)("%s", async (what, act) => {
    for (const method of ["GET", "PUT", "POST", "DELETE"]) {
      const server = await open(act);
      const outcome = await ask(server.url, method).catch((error: unknown) => error);
      if (what.startsWith("answered 408")) expect(outcome).toMatchObject({ status: 408 });
      else expect([outcome instanceof ExchangeFailed, outcome]).toMatchObject([true, { kind: "network", sent: true }]);
      // A client that repeats does so at once: what it sent meanwhile has arrived before the answer to the next request.
      server.act = (socket) => say(socket, [OK]);
      await ask(`${server.url}/next`);
      expect(server.requests).toEqual([`${method} / HTTP/1.1`, "GET /next HTTP/1.1"]);
    }
  });

  it("over a connection of its own: none that a server may be closing is used again", async () => {
    const server = await open((socket, nth) => {
      // As a server that offers to keep the connection, and closes it as soon as the next request is on its way.
      if (nth === 1) socket.write("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
      else socket.end(OK);
    });
    for (let nth = 0; nth < 3; nth++) expect((await ask(server.url)).status).toBe(200);
    expect([server.connections, server.requests.length]).toEqual([3, 3]);
  });
});
