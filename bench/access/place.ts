// A service that is measured beside others: its own fresh database, its own worker, its way of access control, and real credentials for it.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import type { Sql } from "postgres";
import { Client } from "../client.js";
import { backendsOf, freshDatabase, type Server } from "../deployment/database.js";
import { startService } from "../deployment/service.js";
import { startWorker } from "../deployment/worker.js";
import { cpuSecondsOf, familyOf } from "../measure/processes.js";

/** `before`: another build, with access off. `sampled`: with access off, and traces of one run in a hundred. */
export type Mode = "off" | "api_key" | "jwt" | "sampled" | "before";

/** Whose runs they all are. */
export const TENANT = "7d1f1c0a-8a44-4c1e-9d0e-3a54a4f1b001";
const ISSUER = "https://issuer.bench.example";
const AUDIENCE = "https://saga.bench.example";
const ROLES = ["admin", "worker"] as const;
const IN_FLIGHT = 64;
const COMMAND = fileURLToPath(new URL("../../service/cli/main.js", import.meta.url));

export interface PlaceOptions {
  readonly mode: Mode;
  /** Absent: that of this build. */
  readonly service?: string;
  readonly profile?: string;
}

/** Processor seconds since their begin. */
export interface Spent {
  readonly service: number;
  readonly postgres: number;
}

export interface Place {
  readonly mode: Mode;
  readonly api: Client;
  readonly sql: Sql;
  spent(): Promise<Spent>;
  close(): Promise<void>;
}

export async function openPlace({ mode, service: file, profile }: PlaceOptions, server: Server): Promise<Place> {
  const database = await freshDatabase(server);
  const issuer = mode === "jwt" ? await makeIssuer() : undefined;
  const own = {
    HOST: "127.0.0.1",
    HTTP_PORT: "0",
    GRPC_PORT: "0",
    SAGA_WORKERS: "1",
    DATABASE_URL: database.serviceUrl,
  };
  const auth: Readonly<Record<string, string>> = mode === "api_key" || mode === "jwt" ? { SAGA_AUTH: mode } : {};
  const collector = mode === "sampled" ? await openCollector() : undefined;
  const nodeArgs = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${join(profile, mode)}`];
  const service = await startService({
    ...(file !== undefined && { file }),
    env: { ...own, ...auth, ...issuer?.settings, ...collector?.settings },
    nodeArgs,
  });
  const bearer = mode === "api_key" ? await makeBearer(database.url) : issuer?.token;
  const api = new Client(`http://127.0.0.1:${service.http}`, bearer);
  const worker = await startWorker({
    ...{ transport: "grpc", api: api.base, grpc: `127.0.0.1:${service.grpc}`, amqp: "", host: "127.0.0.1" },
    ...{ maxInFlight: IN_FLIGHT, ...(bearer !== undefined && { token: bearer }) },
  });
  return {
    ...{ mode, api, sql: database.sql },
    spent: async () => ({
      service: cpuSecondsOf(familyOf(service.pid)),
      postgres: cpuSecondsOf(await backendsOf(database.sql)),
    }),
    async close() {
      await worker.stop();
      await api.close();
      await service.stop();
      await issuer?.remove();
      await collector?.close();
      await database.close();
    },
  };
}

/** As an operator makes the first key. */
async function makeBearer(database: string): Promise<string> {
  const { PATH = "", HOME = "" } = process.env;
  const asked = ["--name", "bench", "--roles", ROLES.join(), "--tenant", TENANT, "--services", "*"];
  const env = { PATH, HOME, DATABASE_URL: database };
  const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, "key", "create", ...asked], { env });
  return stdout.trim();
}

/** It takes all spans, and keeps none. */
async function openCollector() {
  const server = createServer((request, response) => request.resume().on("end", () => response.end()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const settings = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.01" },
  };
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { settings, close };
}

/** A file of keys, and a token that is signed with one of them. */
async function makeIssuer() {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const folder = await mkdtemp(join(tmpdir(), "saga-bench-"));
  const file = join(folder, "keys.json");
  const key = { ...(await exportJWK(publicKey)), kid: "bench", alg: "ES256", use: "sig" };
  await writeFile(file, JSON.stringify({ keys: [key] }));
  const claims = { roles: ROLES, tenant_id: TENANT, services: ["*"], name: "Bench", email: "bench@bench.example" };
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: "ES256", kid: "bench", typ: "JWT" })
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setSubject("00u1bench2subject3of4a5usual6length")
    .setIssuedAt()
    .setExpirationTime("24h")
    .sign(privateKey);
  const settings = {
    ...{ SAGA_AUTH_JWT_ISSUER: ISSUER, SAGA_AUTH_JWT_AUDIENCE: AUDIENCE },
    SAGA_AUTH_JWKS_FILE: file,
  };
  return { settings, token, remove: () => rm(folder, { recursive: true, force: true }) };
}
