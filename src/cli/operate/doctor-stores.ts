// What `saga doctor` looks at beside the service: the database, Redis and RabbitMQ of its settings. It changes nothing in them.
import { randomUUID } from "node:crypto";
import { connect } from "amqplib";
import { Redis } from "ioredis";
import type { ReservedSql, Sql } from "postgres";
import { readPlace } from "../../config/index.js";
import { duration } from "../frame/text.js";
import type { Diagnosis } from "./diagnosis.js";

const PATIENCE_MS = 5_000;
/** The oldest that is tested. */
const OLDEST_POSTGRES = 15;
const CLOCK_MS = 1_000;

/** A message of a driver may have the URL in it, so only codes are shown. */
const codeOf = (error: unknown): string => {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === "string" ? code : typeof name === "string" ? name : "unknown";
};

export async function ofDatabase(): Promise<readonly Diagnosis[]> {
  const name = "database";
  let url: string | undefined;
  try {
    url = readPlace().databaseUrl;
  } catch (error) {
    return [{ name, state: "bad", says: (error as Error).message.replace(/\s*\n\s*/g, " ") }];
  }
  if (url === undefined) return [{ name, state: "skipped", says: "DATABASE_URL is empty" }];
  const { createLogger } = await import("../../log.js");
  const { openDatabase } = await import("../../store/engine/connection.js");
  const { sql, close } = openDatabase(url, {
    max: 2,
    applicationName: "saga-doctor",
    log: createLogger({ logLevel: "silent" }),
  });
  try {
    return [...(await ofServer(sql)), await poolingOf(sql)];
  } catch (error) {
    return [{ name, state: "bad", says: `it cannot be used (${codeOf(error)})` }];
  } finally {
    await close();
  }
}

interface Server {
  readonly version: string;
  readonly number: string;
  readonly autovacuum: string;
  readonly encoding: string;
  readonly standby: boolean;
  /** Those that are connected to it. */
  readonly standbys: number;
  /** Those of them that have every commit before it is acknowledged. */
  readonly synchronous: number;
  readonly durable: boolean;
  /** `synchronous_commit` of a session of the service. */
  readonly commits: string;
  /** Settings that this session was opened with have arrived. */
  readonly settled: boolean;
  /** Epoch milliseconds. */
  readonly at: string;
  readonly tables: boolean;
}

async function askServer(sql: Sql): Promise<Server> {
  const [row] = await sql<[Server]>`
    select current_setting('server_version') as version, current_setting('server_version_num') as number,
      current_setting('autovacuum') as autovacuum, current_setting('server_encoding') as encoding, pg_is_in_recovery() as standby,
      (select count(*)::int from pg_stat_replication) as standbys,
      (select count(*)::int from pg_stat_replication where sync_state in ('sync', 'quorum')) as synchronous,
      current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' as durable,
      current_setting('synchronous_commit') as commits,
      not '0' = any(array[current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')])
        and 'off' = all(array[current_setting('enable_seqscan'), current_setting('enable_mergejoin'), current_setting('jit')]) as settled,
      (extract(epoch from clock_timestamp()) * 1000)::bigint::text as at, to_regclass('public.runs') is not null as tables`;
  return row;
}

async function ofServer(sql: Sql): Promise<readonly Diagnosis[]> {
  const asked = Date.now();
  const row = await askServer(sql);
  const now = (asked + Date.now()) / 2;
  const skew = Math.abs(now - Number(row.at));
  const major = Math.floor(Number(row.number) / 10_000);
  const diagnosis = (
    name: string,
    isGood: boolean,
    good: string,
    bad: string,
    state: Diagnosis["state"] = "bad",
  ): Diagnosis => (isGood ? { name, state: "ok", says: good } : { name, state, says: bad });
  return [
    diagnosis(
      "database",
      major >= OLDEST_POSTGRES,
      `PostgreSQL ${row.version}`,
      `PostgreSQL ${row.version}: ${OLDEST_POSTGRES} is the oldest that is tested`,
      "warning",
    ),
    diagnosis("tables", row.tables, "there", "none yet: no service has used this database", "warning"),
    diagnosis(
      "primary",
      !row.standby,
      "takes writes",
      "it is a standby, which takes no writes: name the primary in DATABASE_URL",
    ),
    diagnosis(
      "durability",
      row.durable && row.commits !== "off",
      "a commit survives a crash of the server",
      row.durable
        ? "synchronous_commit is off for the service: a crash of the server loses what was acknowledged last. Switch it on for its role"
        : "fsync or full_page_writes is off: a crash of the server loses commits, or the database. Switch both on",
    ),
    diagnosis(
      "standby",
      row.synchronous > 0 && row.commits !== "local",
      `${row.standbys} connected, ${row.synchronous} with every commit`,
      row.standbys > 0
        ? `${row.standbys} connected, none has every commit: a failover loses what was acknowledged last (synchronous_standby_names, synchronous_commit)`
        : "none connected: a server that is lost takes its runs with it. A service of the provider may have one that is not seen here",
      "warning",
    ),
    diagnosis(
      "settings",
      row.settled,
      "sessions have those of the service",
      "a pooler drops what the service sets for its sessions: give it to the role (docs/deploy/hosts/database.sql)",
    ),
    diagnosis("encoding", row.encoding === "UTF8", "UTF-8", `${row.encoding}: the service needs UTF-8`),
    diagnosis("autovacuum", row.autovacuum === "on", "on", "off: dead rows stay, and the tables grow. Switch it on"),
    diagnosis(
      "db clock",
      skew < CLOCK_MS,
      "as on this machine",
      `differs from this machine by ${duration(skew)}`,
      "warning",
    ),
  ];
}

/**
 * A pooler that hands a server connection out for one transaction breaks what the service keeps in a session: settings, prepared statements, LISTEN. It
 * is seen when a session that waits is given another server process, while a second one is in a transaction.
 */
async function poolingOf(sql: Sql): Promise<Diagnosis> {
  const name = "sessions";
  const first = await sql.reserve();
  let second: ReservedSql | undefined;
  try {
    const mark = randomUUID();
    await first.unsafe(`select set_config('saga.doctor', '${mark}', false)`);
    second = await sql.reserve();
    await second.unsafe("begin");
    await second.unsafe("select 1");
    const [seen] = await first.unsafe<[{ mark: string | null }]>("select current_setting('saga.doctor', true) as mark");
    await second.unsafe("rollback");
    return seen.mark === mark
      ? { name, state: "ok", says: "each connection keeps its session" }
      : {
          name,
          state: "bad",
          says: "a pooler shares sessions by transaction: set it to pool by session, or connect past it",
        };
  } finally {
    second?.release();
    first.release();
  }
}

export async function ofRedis(url: string): Promise<readonly Diagnosis[]> {
  const name = "redis";
  const options = {
    lazyConnect: true,
    connectTimeout: PATIENCE_MS,
    commandTimeout: PATIENCE_MS,
    maxRetriesPerRequest: 0,
  };
  const redis = new Redis(url, { ...options, retryStrategy: () => null, enableOfflineQueue: false });
  // Without a listener a lost connection would end the process.
  redis.on("error", () => {});
  try {
    await redis.connect();
    const info = await redis.info("server").catch(() => "");
    await redis.ping();
    const version = /redis_version:(\S+)/.exec(info)?.[1];
    return [{ name, state: "ok", says: version === undefined ? "answers" : `Redis ${version}` }];
  } catch (error) {
    return [
      {
        name,
        state: "bad",
        says: `it does not answer (${codeOf(error)}): nodes of several machines hear of each other late`,
      },
    ];
  } finally {
    redis.disconnect();
  }
}

export async function ofRabbitMq(url: string): Promise<readonly Diagnosis[]> {
  const name = "rabbitmq";
  try {
    const connection = await connect(url, { timeout: PATIENCE_MS });
    connection.on("error", () => {});
    const { version } = connection.connection.serverProperties;
    await connection.close();
    return [{ name, state: "ok", says: `RabbitMQ ${version}` }];
  } catch (error) {
    return [{ name, state: "bad", says: `it does not answer (${codeOf(error)}): rmq workers and events stand still` }];
  }
}
