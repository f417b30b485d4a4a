// Runs once before all test files: finds the services that the tests use, starts an embedded Postgres if DATABASE_URL names
// none, and migrates the database that all test databases are copies of.
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres, { type Sql } from "postgres";
import type { TestProject } from "vitest/node";
import { createLogger } from "../../src/log.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { migrateDatabase } from "../../src/store/migrate.js";
import { answersAsPostgres, answersAsRabbitMq, answersAsRedis } from "./probe.js";

const silentLog = createLogger({ logLevel: "silent" });

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { REDIS_URL, AMQP_URL } = process.env;
  project.provide("redisUrl", REDIS_URL && (await answersAsRedis(REDIS_URL)) ? REDIS_URL : "");
  project.provide("amqpUrl", AMQP_URL && (await answersAsRabbitMq(AMQP_URL)) ? AMQP_URL : "");
  const server = await findPostgres();
  project.provide("databaseUrl", server.url);
  const template = await createTemplate(server.url);
  project.provide("databaseTemplate", template);
  return async () => {
    await onServer(server.url, (sql) => sql`drop database ${sql(template)} with (force)`);
    await server.stop();
  };
}

interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

async function findPostgres(): Promise<Server> {
  const { DATABASE_URL } = process.env;
  if (DATABASE_URL) {
    if (await answersAsPostgres(DATABASE_URL)) return { url: DATABASE_URL, stop: async () => {} };
    throw new Error("No PostgreSQL answers at DATABASE_URL");
  }
  const dataDir = await mkdtemp(join(tmpdir(), "saga-test-"));
  const server = await startEmbeddedPostgres({ dataDir, log: silentLog });
  const stop = async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { url: server.url, stop };
}

/** The migrated database that test databases are copied from. */
async function createTemplate(serverUrl: string): Promise<string> {
  const name = `saga_template_${process.pid}_${randomBytes(4).toString("hex")}`;
  await onServer(serverUrl, (sql) => sql`create database ${sql(name)}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  await migrateDatabase(url.href, silentLog);
  return name;
}

async function onServer(url: string, work: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await work(sql);
  } finally {
    await sql.end();
  }
}
