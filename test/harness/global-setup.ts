// Runs once before all test files: finds the services that the tests use, and starts an embedded Postgres if DATABASE_URL
// names none.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { createLogger } from "../../src/log.js";
import { startEmbeddedPostgres } from "../../src/store/embedded.js";
import { answersAsPostgres, answersAsRabbitMq, answersAsRedis } from "./probe.js";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { DATABASE_URL, REDIS_URL, AMQP_URL } = process.env;
  project.provide("redisUrl", REDIS_URL && (await answersAsRedis(REDIS_URL)) ? REDIS_URL : "");
  project.provide("amqpUrl", AMQP_URL && (await answersAsRabbitMq(AMQP_URL)) ? AMQP_URL : "");
  if (DATABASE_URL) {
    if (!(await answersAsPostgres(DATABASE_URL))) throw new Error("No PostgreSQL answers at DATABASE_URL");
    project.provide("databaseUrl", DATABASE_URL);
    return async () => {};
  }
  const dataDir = await mkdtemp(join(tmpdir(), "saga-test-"));
  const server = await startEmbeddedPostgres({ dataDir, log: createLogger({ logLevel: "silent" }) });
  project.provide("databaseUrl", server.url);
  return async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
}
