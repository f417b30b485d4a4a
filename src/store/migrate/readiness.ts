// Whether the database can be used, before anything is read from it: a start waits for a server that is away or read-only, and stops with a
// sentence at one that can never serve. Migrations come afterwards.
import { delay, performance } from "../../ambient.js";
import { parseDatabaseUrl, printableDatabaseUrl } from "../../config/index.js";
import type { Logger } from "../../log.js";
import { isStoreAway, sqlStateOf } from "../engine/failure.js";
import { openSessions, UnusableDatabase } from "../engine/session.js";

/** How long until the server is asked again, and how often the log says that the start still waits. */
const PAUSE_MS = 500;
const SAID_EVERY_MS = 5_000;
/** A standby, or a database that an operator made read-only: both may take writes later. */
const READ_ONLY = "the database is read-only: a standby, or default_transaction_read_only is on";
/** The driver's code where no host is what target_session_attrs asks for. */
const UNFIT_HOSTS = "CONNECTION_DESTROYED";
/** The limit of one try. In a network that drops packets a try would take the driver's 10 s. */
const CONNECT_TIMEOUT_S = 3;

/** On return the server answers and takes writes. Waits without end while it does not. Throws UnusableDatabase, or DatabaseUrlError. */
export async function awaitDatabase(url: string, log: Logger, times = { pause: PAUSE_MS, said: SAID_EVERY_MS }) {
  let said = Number.NEGATIVE_INFINITY;
  for (;;) {
    const away = await check(url);
    if (away === undefined) return;
    if (performance.now() - said >= times.said) {
      said = performance.now();
      // The address, too: it may be mistyped, or come from the environment.
      const database = printableDatabaseUrl(url);
      log.warn(
        { reason: away, database, ...remedyOf(url, away) },
        "Postgres cannot be used yet, the start waits for it",
      );
    }
    await delay(times.pause);
  }
}

/**
 * A step of the start, tried again while the server is away, or has no free session: it must have no effect that counts twice. Throws what else it
 * throws.
 */
export async function untilStoreAnswers<T>(url: string, log: Logger, step: () => Promise<T>): Promise<T> {
  let said = Number.NEGATIVE_INFINITY;
  for (;;) {
    try {
      return await step();
    } catch (error) {
      if (!isStoreAway(error)) throw error;
      if (performance.now() - said >= SAID_EVERY_MS) {
        said = performance.now();
        log.warn({ reason: (error as Error).message }, "Postgres went away during the start, which waits for it");
      }
      await delay(PAUSE_MS);
      await awaitDatabase(url, log);
    }
  }
}

/** Why the server cannot be used now; undefined if it can. Each try has a session of its own: one that is open stays read-only, and where it is. */
async function check(url: string): Promise<string | undefined> {
  const options = { max: 1, applicationName: "saga-start", connect_timeout: CONNECT_TIMEOUT_S, onnotice: () => {} };
  const sql = openSessions(url, options);
  try {
    const [settings] = await sql<[Found]>`
      select current_setting('server_encoding') as encoding, current_setting('session_replication_role') as triggers,
        current_setting('transaction_read_only') as read_only, current_user as role, current_schema() as schema,
        current_setting('search_path') as path, current_setting('synchronous_commit') as commits, has_schema_privilege(current_schema(), 'create') as creates`;
    refuseSettings(settings);
    return settings.read_only === "on" ? READ_ONLY : undefined;
  } catch (error) {
    if (error instanceof UnusableDatabase) throw error;
    // A certificate that does not verify is an error of the configuration, and no server that is away.
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (code === UNFIT_HOSTS) return READ_ONLY;
    if (isStoreAway(error) && !code.startsWith("ERR_")) return sqlStateOf(error) === undefined ? code : message;
    throw new UnusableDatabase(`The database of DATABASE_URL cannot be used: ${message}`, { cause: error });
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** A server without TLS cuts a session that insists on it, as a server that stops does: the driver tells no difference. */
function remedyOf(url: string, away: string): { readonly remedy?: string } {
  const { tls: { mode } = { mode: "prefer" } } = parseDatabaseUrl(url);
  if (away !== "ECONNRESET" || mode === "disable" || mode === "allow" || mode === "prefer") return {};
  return { remedy: `if the server has no TLS, take sslmode=${mode} out of DATABASE_URL or PGSSLMODE` };
}

interface Found {
  readonly encoding: string;
  readonly triggers: string;
  readonly read_only: string;
  readonly role: string;
  /** Where tables are created. */
  readonly schema: string | null;
  readonly path: string;
  readonly commits: string;
  readonly creates: boolean | null;
}

function refuseSettings({ encoding, triggers, role, schema, path, commits, creates }: Found): void {
  if (encoding !== "UTF8")
    throw new UnusableDatabase(
      `The database of DATABASE_URL has the encoding ${encoding}, which cannot store every text: create it with encoding 'UTF8'`,
    );
  if (triggers !== "origin")
    throw new UnusableDatabase(
      `The database of DATABASE_URL sets session_replication_role to ${triggers}, so its triggers do not run: reset it`,
    );
  // A pooler has dropped what the session asked for.
  if (commits === "off")
    throw new UnusableDatabase(
      `Sessions of the role ${role} of DATABASE_URL have synchronous_commit off, so that a crash of the server loses what was acknowledged: alter role ${role} set synchronous_commit = on`,
    );
  if (schema === null)
    throw new UnusableDatabase(
      `The database of DATABASE_URL has none of the schemas in the search_path of ${role} (${path}): create one, or reset search_path`,
    );
  // Partitions of the audit log are created while the service runs, too.
  if (!creates)
    throw new UnusableDatabase(
      `The role ${role} of DATABASE_URL may not create tables in the schema ${schema}: grant create on schema ${schema} to it`,
    );
}
