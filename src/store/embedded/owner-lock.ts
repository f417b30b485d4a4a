// The owner lock: an advisory lock in the embedded server that says which service uses it. The service holds it in a session of its own,
// so the kernel frees it when the service dies, however it dies.
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";
import type { Logger } from "../../log.js";
import { noticesTo } from "../engine/connection.js";
import { openSessions } from "../engine/session.js";

/** "sagaown" in ASCII. Must never change: releases have to agree on it. */
const OWNER_LOCK = "32476718965946222";

/** The session of a service that was killed a moment ago may still exist: the lock is tried a few times before another service counts. */
const ATTEMPTS = 10;
const PAUSE_MS = 150;

/** A service takes the lock as soon as its server answers: a server that is older than this and whose lock is free has lost its service. */
const SETTLED_SECONDS = 5;

export class DataDirInUse extends Error {
  override readonly name = "DataDirInUse";

  constructor(home: string) {
    super(
      `Another service uses the embedded Postgres in ${home}: stop it, give this one another SAGA_DATA_DIR, or let both use one DATABASE_URL`,
    );
  }
}

export class OwnerLock {
  private session: Sql | undefined;
  private held = false;

  constructor(
    private readonly log: Logger,
    /** False: the service stops. */
    private readonly pause: (ms: number) => Promise<boolean>,
  ) {}

  /** False: another service holds it. */
  async take(url: string): Promise<boolean> {
    this.session = openSession(url, this.log, () => void this.retake(url));
    this.held = await tryLock(this.session);
    return this.held;
  }

  async release(): Promise<void> {
    this.held = false;
    await this.session?.end({ timeout: 1 });
    this.session = undefined;
  }

  /**
   * The server ends all sessions when one of them crashes: the lock goes with its session, and has to be taken again, soon. If another
   * service takes it in between, both use one database, which every commit is designed for.
   */
  private async retake(url: string): Promise<void> {
    if (!this.held) return;
    this.held = false;
    while (!this.held && (await this.pause(50))) {
      const session = openSession(url, this.log, () => void this.retake(url));
      this.held = await tryLock(session, 1).catch(() => false);
      const unused = this.held ? this.session : session;
      if (this.held) this.session = session;
      await unused?.end({ timeout: 0 });
    }
  }
}

/**
 * Does the work while the lock is held, if it is free: no other service can then take the server for its own. False: another service has the
 * lock. Throws if the server cannot be asked.
 */
export async function ifAbandoned(url: string, log: Logger, work: () => Promise<void>): Promise<boolean> {
  const session = openSession(url, log, () => {});
  try {
    while (await isAwaited(session)) await delay(PAUSE_MS);
    if (!(await tryLock(session))) return false;
    await work();
    return true;
  } finally {
    await session.end({ timeout: 1 });
  }
}

function openSession(url: string, log: Logger, onclose: () => void): Sql {
  return openSessions(url, {
    ...{ max: 1, idle_timeout: 0, max_lifetime: null, connect_timeout: 5 },
    ...{ applicationName: "saga-owner", settings: { statement_timeout: "0" } },
    ...{ onclose, onnotice: noticesTo(log) },
  });
}

/** Whether the server is so new that its service may be about to take the lock. */
async function isAwaited(session: Sql): Promise<boolean> {
  const [row] = await session<{ awaited: boolean }[]>`
    select clock_timestamp() < pg_postmaster_start_time() + make_interval(secs => ${SETTLED_SECONDS}) and not exists (
      select from pg_locks where locktype = 'advisory' and granted and objsubid = 1
        and (classid::int8 << 32) | objid::int8 = ${OWNER_LOCK}::int8) as awaited`;
  return row?.awaited === true;
}

async function tryLock(session: Sql, attempts = ATTEMPTS): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    const [row] = await session<{ taken: boolean }[]>`select pg_try_advisory_lock(${OWNER_LOCK}::bigint) as taken`;
    if (row?.taken === true || attempt === attempts) return row?.taken === true;
    await delay(PAUSE_MS);
  }
}
