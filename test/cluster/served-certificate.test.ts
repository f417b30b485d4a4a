// A served certificate on its own: what is said about its validity at the start, by the clock of the database, and that no change of its files
// is missed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { OneNode } from "../../src/cluster/one-node.js";
import { ServedCertificate } from "../../src/cluster/served-certificate.js";
import { loadConfig } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { createTestDatabase } from "../harness/database.js";
import { NAMES, ReplacedFiles, served } from "./tls-rig.js";

const DAY_MS = 86_400_000;

describeWithOpenssl("a served certificate", () => {
  it.each([
    [100, "expired at", -10],
    [80, "expires at", 10],
    [0, undefined, 90],
    [-1, "is not valid before", 91],
  ])("is served %d days from now, with a warning where clients refuse it or will soon", (days, warning, left) => {
    const [warnings, remaining]: [string[], number[]] = [[], []];
    const log = { debug() {}, info() {}, warn: (line: string) => void warnings.push(line), error() {} };
    const certificate = new ServedCertificate({
      ...{ files: createAuthority().issue(["DNS:localhost"], 90), log: log as never },
      now: () => Date.now() + days * DAY_MS,
      onRemaining: (seconds) => remaining.push(seconds),
    });
    certificate.stop();
    expect(certificate.context).toHaveProperty("key");
    expect(warnings).toEqual(warning === undefined ? [] : [expect.stringContaining(warning)]);
    expect(remaining.map((seconds) => Math.round(seconds / 86_400))).toEqual([left]);
  });

  it("is the newest also where its files were replaced while the service started", async () => {
    const [database, authority, files] = [await createTestDatabase({ max: 1 }), createAuthority(), new ReplacedFiles()];
    const folder = mkdtempSync(join(tmpdir(), "saga-tls-start-"));
    files.hold(authority.issue(NAMES));
    const env = { HTTP_PORT: "0", GRPC_PORT: "0", SAGA_DATA_DIR: folder, ...files.settings };
    const { config } = loadConfig(env);
    // The node says that it listens when it has read the files, and before the service has started.
    const onListening = (line: string) => {
      if (!line.includes("gRPC server listening")) return;
      files.hold(authority.issue(NAMES));
      void service.replaceNodes();
    };
    const log = createLogger({ logLevel: "info" }, { write: onListening });
    const service = new OneNode({ config, databaseUrl: database.url, log });
    await service.start();
    const serials = [service.httpPort, service.grpcPort].map((port) => served(port, { ca: authority.ca }));
    expect(await Promise.all(serials)).toEqual(["02", "02"]);
    await service.stop();
    await database.drop();
    rmSync(folder, { recursive: true });
  });
});
