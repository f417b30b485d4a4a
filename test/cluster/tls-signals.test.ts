// SIGHUP to a built service with TLS: with one node the certificate alone is replaced, and streams stay; with several, all of them serve the new
// one and are replaced. A certificate that cannot be served changes nothing.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import { type Authority, createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { livingNodes, logged, runService } from "./rig.js";
import { askOver, NAMES, ReplacedFiles, served } from "./tls-rig.js";

describeWithOpenssl("a service with TLS", () => {
  let database: TestDatabase;
  let authority: Authority;

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    authority = createAuthority();
  });
  afterAll(() => database.drop());

  async function start(nodes: number, more: Record<string, string> = {}) {
    const files = new ReplacedFiles();
    files.hold(authority.issue(NAMES));
    const env = { DATABASE_URL: database.url, SAGA_WORKERS: String(nodes), ...files.settings, ...more };
    const service = await createService(env);
    await service.start({ ready: false });
    const ports = [service.url, `http://${service.grpcAddress}`].map((url) => Number(new URL(url).port));
    const [http = 0] = ports;
    const isReady = async () => (await askOver(http, authority.ca, { path: "/readyz" })).status === 200;
    await until(isReady, { what: "a service that is ready" });
    await until(() => logged(service, "ready").length === 1, { what: "its line" });
    const serials = () => Promise.all(ports.map((port) => served(port, { ca: authority.ca })));
    return { files, service, http, serials };
  }

  const signal = ({ pid }: ServiceProcess) => process.kill(pid, "SIGHUP");
  const REFUSED = "SAGA_TLS_CERT_FILE names a file that begins with no PEM certificate";

  it("of one node serves the new certificate after SIGHUP, and its streams stay open", async () => {
    const { files, service, http, serials } = await start(1);
    const steps = [{ id: "wait", type: "wait_for_signal", signal_name: "go" }];
    const workflow = { id: "wait", name: "Wait", published: true, start: "wait", steps };
    await askOver(http, authority.ca, { method: "POST", path: "/api/v1/workflows", body: workflow });
    const body = { workflow_id: "wait" };
    const started = await askOver(http, authority.ca, { method: "POST", path: "/api/v1/sagas/start", body });
    const run = `/api/v1/sagas/${started.body.run_id}`;
    const socket = new WebSocket(`wss://127.0.0.1:${http}${run}/stream`, { ca: authority.ca });
    const frames: string[] = [];
    socket.on("message", (data) => frames.push(String(data)));
    await until(() => frames.length > 0, { what: "the run's stream" });
    const before = await serials();
    files.hold(authority.issue(NAMES));
    signal(service);
    await until(async () => (await serials()).every((serial, nth) => serial !== before[nth]), { what: "a new one" });
    const after = await serials();
    expect(after[0]).toBe(after[1]);
    files.spoil();
    signal(service);
    await until(() => logged(service, "certificate not replaced, the old one stays").length === 1, { what: "a line" });
    expect(await serials()).toEqual(after);
    await askOver(http, authority.ca, { method: "POST", path: `${run}/signal/go`, body: {} });
    await until(() => frames.some((frame) => frame.includes('"to_state":"succeeded"')), { what: "the run's end" });
    socket.terminate();
    expect(await service.stop()).toBe(0);
  });

  it("of two nodes serves the new certificate on both at once, and keeps both at a bad one", {
    tags: "long",
  }, async () => {
    const clients = join(dirname(authority.caFile), "clients.json");
    writeFileSync(clients, "{}");
    const { files, service, serials } = await start(2, {
      ...{ SAGA_AUTH: "api_key,mtls", SAGA_TLS_CLIENT_CA_FILE: authority.caFile, SAGA_TLS_CLIENTS_FILE: clients },
    });
    expect(logged(service, "access control is on")).toMatchObject([{ credentials: ["api_key", "mtls"] }]);
    await until(() => livingNodes(service).length === 2, { what: "two nodes" });
    const before = await serials();
    const nodes = livingNodes(service).map(({ pid }) => pid);
    files.spoil();
    signal(service);
    await until(() => logged(service, "certificate not replaced, the old one and the nodes stay").length === 1, {
      what: "the refusal",
    });
    expect(await serials()).toEqual(before);
    expect(livingNodes(service).map(({ pid }) => pid)).toEqual(nodes);
    files.hold(authority.issue(NAMES));
    writeFileSync(clients, "{");
    signal(service);
    await until(() => logged(service, "certificate not replaced, the old one and the nodes stay").length === 2, {
      what: "the refusal of the clients",
    });
    expect(livingNodes(service).map(({ pid }) => pid)).toEqual(nodes);
    writeFileSync(clients, "{}");
    signal(service);
    await until(() => logged(service, "all nodes replaced").length === 1, { what: "the replacement" });
    // Before they are replaced: the nodes that were there have said so themselves.
    const replaced = logged(service, "certificate replaced").map(({ pid }) => pid);
    expect(nodes.every((pid) => replaced.includes(pid))).toBe(true);
    const serial = await serials();
    expect(serial[0]).toBe(serial[1]);
    expect(serial[0]).not.toBe(before[0]);
    expect(await service.stop()).toBe(0);
  });

  it("does not start with a certificate that cannot be served, and says why in one sentence", async () => {
    const files = new ReplacedFiles();
    files.hold(authority.issue(NAMES));
    files.spoil();
    for (const nodes of ["1", "2"]) {
      const env = {
        DATABASE_URL: database.url,
        SAGA_WORKERS: nodes,
        HTTP_PORT: "0",
        GRPC_PORT: "0",
        ...files.settings,
      };
      const { code, lines } = await runService(env);
      expect([code, lines.filter((line) => line !== "")]).toEqual([
        1,
        ["The configuration has 1 problem(s):", `  - ${REFUSED}`],
      ]);
    }
  });
});
