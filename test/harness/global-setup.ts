// Runs once before all test files: leads what they write into memory, finds the services that they use, starts an embedded Postgres if
// DATABASE_URL names none, and migrates the database that all test databases are copies of.
import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres, { type Sql } from "postgres";
import type { TestProject } from "vitest/node";
import { createLogger } from "../../src/log.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { migrateDatabase } from "../../src/store/migrate/migrate.js";
import { makeTestsKeys, type TestsKeys } from "./access.js";
import { schemaOf } from "./emptying.js";
import { writeIntoMemory } from "./memory.js";
import { answersAsPostgres, answersAsRabbitMq, answersAsRedis } from "./probe.js";

const silentLog = createLogger({ logLevel: "silent" });

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await writeIntoMemory();
  const { REDIS_URL, AMQP_URL } = process.env;
  project.provide("redisUrl", REDIS_URL && (await answersAsRedis(REDIS_URL)) ? REDIS_URL : "");
  project.provide("amqpUrl", AMQP_URL && (await answersAsRabbitMq(AMQP_URL)) ? AMQP_URL : "");
  const server = await findPostgres();
  project.provide("databaseUrl", server.url);
  const run = `${process.pid}_${randomBytes(4).toString("hex")}`;
  project.provide("databasePrefix", `saga_test_${run}_`);
  const template = `saga_template_${run}`;
  project.provide("databaseTemplate", template);
  const url = await createTemplate(server.url, template);
  project.provide("databaseSchema", await onServer(url, schemaOf));
  const on = process.env.SAGA_TEST_ACCESS === "on";
  const { key, platformKey, rows } = on ? await makeKeys(url) : { key: "", platformKey: "", rows: "" };
  project.provide("accessKey", key);
  project.provide("platformKey", platformKey);
  project.provide("accessKeyRows", rows);
  return async () => {
    if (!server.isOurs) await onServer(server.url, (sql) => dropAll(sql, run));
    await server.stop();
  };
}

interface Server {
  readonly url: string;
  /** It ends with its databases. */
  readonly isOurs: boolean;
  stop(): Promise<void>;
}

async function findPostgres(): Promise<Server> {
  const { DATABASE_URL } = process.env;
  if (DATABASE_URL) {
    if (await answersAsPostgres(DATABASE_URL)) return { url: DATABASE_URL, isOurs: false, stop: async () => {} };
    throw new Error("No PostgreSQL answers at DATABASE_URL");
  }
  const { url, stop } = await startEmbeddedPostgres({
    dataDir: await mkdtemp(join(tmpdir(), "postgres-")),
    log: silentLog,
  });
  return { url, isOurs: true, stop };
}

/** The migrated database that test databases are copied from. Returns its URL. */
async function createTemplate(serverUrl: string, name: string): Promise<string> {
  await onServer(serverUrl, (sql) => sql`create database ${sql(name)}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  await migrateDatabase(url.href, silentLog);
  return url.href;
}

/** With a session of the product: another one would write JSON twice. */
async function makeKeys(url: string): Promise<TestsKeys> {
  const { sql, close } = openDatabase(url, { max: 1, applicationName: "saga-test", log: silentLog });
  try {
    return await makeTestsKeys(sql);
  } finally {
    await close();
  }
}

/** The template and its copies, side by side: each drop waits for a checkpoint. */
async function dropAll(sql: Sql, run: string): Promise<void> {
  const names = await sql<
    { datname: string }[]
  >`select datname from pg_database where datname like ${`saga_%_${run}%`}`;
  await Promise.all(names.map(({ datname }) => sql`drop database ${sql(datname)} with (force)`));
}

async function onServer<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 4, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}
