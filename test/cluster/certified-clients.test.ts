// Workers that are known by a certificate, at a node composed as the service composes it: SIGHUP reads their file again. With openssl only.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { RawWorker } from "../dispatch/rig.js";
import { type Authority, createAuthority, describeWithOpenssl, type IssuedFiles } from "../harness/certificates.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { NAMES } from "./tls-rig.js";

const TENANT = "0190a000-0000-7000-8000-00000000000a";
const PAY = "spiffe://shop.example/pay";

describeWithOpenssl("the file of clients that are known by a certificate", () => {
  const folder = mkdtempSync(join(tmpdir(), "saga-certified-"));
  const file = join(folder, "clients.json");
  const lines: string[] = [];
  let authority: Authority;
  let database: TestDatabase;
  let node: NodeHandle;
  let [pay, stock]: IssuedFiles[] = [];

  const hold = (clients: object | string) =>
    writeFileSync(file, typeof clients === "string" ? clients : JSON.stringify(clients));
  const saying = (what: string) => lines.filter((line) => line.includes(what)).length;

  beforeAll(async () => {
    [authority, database] = [createAuthority(), await createTestDatabase({ max: 2 })];
    [pay, stock] = [authority.issue([`URI:${PAY}`]), authority.issue(["DNS:stock.shop"])];
    const { certFile, keyFile } = authority.issue(NAMES);
    hold({ [PAY]: { services: ["pay"], tenant_id: TENANT }, "stock.shop": { services: ["stock"], tenants: "*" } });
    const { config } = loadConfig({
      ...{ HTTP_PORT: "0", GRPC_PORT: "0", SAGA_AUTH: "api_key,mtls" },
      ...{ SAGA_TLS_CERT_FILE: certFile, SAGA_TLS_KEY_FILE: keyFile },
      ...{ SAGA_TLS_CLIENT_CA_FILE: authority.caFile, SAGA_TLS_CLIENTS_FILE: file },
    });
    const log = createLogger({ logLevel: "info" }, { write: (line: string) => void lines.push(line) });
    node = await startNode({ config, databaseUrl: database.url, log });
  });
  afterAll(async () => {
    await node?.stop();
    await database?.drop();
    rmSync(folder, { recursive: true });
  });

  async function enter(files: IssuedFiles | undefined, service: string): Promise<RawWorker> {
    const { certFile, keyFile } = files as IssuedFiles;
    const channel = credentials.createSsl(
      Buffer.from(authority.ca),
      ...([readFileSync(keyFile), readFileSync(certFile)] as const),
    );
    const worker = new RawWorker(`127.0.0.1:${node.grpcPort}`, undefined, { channel });
    worker.send({ hello: { worker_id: service, service, max_in_flight: 1 } });
    await until(() => worker.ended || worker.of("hello_ack").length > 0, { what: "an answer to the hello" });
    return worker;
  }
  const stateOf = ({ ended, error }: RawWorker) => (error ? status[error.code] : ended ? "ended" : "in");

  it("is read again with the certificates: the streams of names that went or may do something else end, the others stay", async () => {
    const [paying, stocking] = [await enter(pay, "pay"), await enter(stock, "stock")];
    expect([paying, stocking].map(stateOf)).toEqual(["in", "in"]);

    hold("half a file");
    node.replaceCertificate();
    expect(saying("SAGA_TLS_CLIENTS_FILE names a file that has no JSON object")).toBe(1);
    rmSync(file);
    node.replaceCertificate();
    expect(saying("SAGA_TLS_CLIENTS_FILE names a file that cannot be read (ENOENT)")).toBe(1);
    const again = await enter(pay, "pay");
    expect([paying, stocking, again].map(stateOf)).toEqual(["in", "in", "in"]);
    expect(saying('"level":"error"')).toBe(2);

    hold({ "stock.shop": { services: ["stock"], tenants: "*" } });
    node.replaceCertificate();
    await until(() => paying.ended && again.ended, { what: "the end of the streams of a name that went" });
    expect([paying, again, await enter(pay, "pay")].map(stateOf)).toEqual(Array(3).fill("UNAUTHENTICATED"));
    expect(stateOf(stocking)).toBe("in");

    hold({ "stock.shop": { services: ["stock"], tenants: [TENANT] }, [PAY]: { services: ["pay"], tenant_id: TENANT } });
    node.replaceCertificate();
    await until(() => stocking.ended, { what: "the end of the stream of a name whose rights have changed" });
    const back = [await enter(pay, "pay"), await enter(stock, "stock")];
    expect([stocking, ...back].map(stateOf)).toEqual(["UNAUTHENTICATED", "in", "in"]);
    for (const worker of back) worker.cut();
  });
});
