// Connections over which nothing is sent, as browsers and load balancers open them in advance: they do not hold up the end of the server.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { startNode } from "../../src/cluster/node.js";
import { loadConfig, readCertificate } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { until } from "../harness/until.js";
import { otherApi, useRig } from "./rig.js";

const rig = useRig();
const opened: Socket[] = [];
afterEach(() => {
  for (const socket of opened.splice(0)) socket.destroy();
});

async function connected({ server }: { server: { address(): AddressInfo | string | null } }): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  opened.push(socket.on("error", () => {}));
  await once(socket, "connect");
  return socket.resume();
}

async function listening() {
  const app = await otherApi(rig, {});
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app;
}

const isOpen = (app: Awaited<ReturnType<typeof listening>>) =>
  new Promise<number>((resolve) => app.server.getConnections((_, count) => resolve(count)));

describe("a connection over which nothing is sent", () => {
  it("is closed soon after the server begins to close, which does not wait longer for it", async () => {
    const app = await listening();
    const unused = await connected(app);
    await until(async () => (await isOpen(app)) === 1, { what: "the connection at the server" });
    await app.close();
    await until(() => unused.closed, { what: "the end of the connection" });
  }, 30_000);

  it("is not closed under its first request, which may be on its way when the server begins to close", async () => {
    const app = await listening();
    const socket = await connected(app);
    await until(async () => (await isOpen(app)) === 1, { what: "the connection at the server" });
    const closed = app.close();
    await until(() => !app.server.listening, { what: "a server that closes" });
    let answer = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      answer += text;
    });
    socket.write("GET /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await until(() => socket.closed, { what: "the end of the connection" });
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    await closed;
  }, 30_000);

  it("is closed soon if it is accepted while the server closes for a request in progress", async () => {
    const app = await listening();
    const asking = await connected(app);
    const arrived = once(app.server, "request");
    asking.write(
      "POST /api/v1/sagas/start HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    );
    await arrived;
    let isClosed = false;
    const closed = app.close().then(() => {
      isClosed = true;
    });
    await until(() => !app.server.listening, { what: "a server that closes" });
    // As the primary hands connections to its nodes.
    const primary = createServer((socket) => app.server.emit("connection", socket)).listen(0, "127.0.0.1");
    await once(primary, "listening");
    const late = await connected({ server: primary });
    await until(() => late.closed, { what: "the end of the late connection" });
    expect(isClosed).toBe(false);
    asking.destroy();
    await closed;
    primary.close();
  }, 30_000);
});

describeWithOpenssl("a connection over TLS without a request", () => {
  it("is closed soon after the server begins to close, in its handshake and after it", async () => {
    const { context } = readCertificate(createAuthority().issue(["IP:127.0.0.1"]));
    const app = await otherApi(rig, {}, { tls: { context, onReplaced: () => {} } });
    await app.listen({ port: 0, host: "127.0.0.1" });
    const silent = await connected(app);
    const { port } = app.server.address() as AddressInfo;
    const secure = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
    opened.push(secure.on("error", () => {}));
    await once(secure.resume(), "secureConnect");
    await until(async () => (await isOpen(app)) === 2, { what: "the connections at the server" });
    await app.close();
    await until(() => silent.closed && secure.closed, { what: "the end of the connections" });
  }, 30_000);
});

describe("a connection without a request", () => {
  it("is kept for as long as the setting says, which its answers tell, and then closed", async () => {
    const app = await otherApi(rig, {}, { config: { keepAliveMs: 1_000 } });
    await app.listen({ port: 0, host: "127.0.0.1" });
    const kept = await connected(app);
    let answer = "";
    kept.setEncoding("utf8").on("data", (text: string) => {
      answer += text;
    });
    kept.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await until(() => answer.includes("\r\n\r\n"), { what: "the answer" });
    expect(answer).toMatch(/^keep-alive: timeout=1\r$/im);
    await until(() => kept.closed, { what: "the end of the connection" });
    await app.close();
  });

  it("is kept, without a setting, for longer than a balancer keeps it that keeps one for 600 s", async () => {
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
    const node = await startNode({ config, databaseUrl: rig.database.url, log: createLogger({ logLevel: "silent" }) });
    const response = await fetch(`http://127.0.0.1:${node.httpPort}/healthz`);
    await response.text();
    await node.stop();
    const [, seconds] = /timeout=(\d+)/.exec(response.headers.get("keep-alive") ?? "") ?? [];
    expect(Number(seconds)).toBeGreaterThan(600);
  });
});
