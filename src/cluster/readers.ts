// Opens the sessions of what clients read: those of the service's own login, or with access on those of roles, or of a login, that can do nothing
// else. Who waits for one, and what is read, is in store/lists.
import { type Config, isAccessOn } from "../config/index.js";
import type { Logger } from "../log.js";
import { type Database, openDatabase } from "../store/engine/connection.js";
import { cancelStatement, type ReadSession } from "../store/lists/read-pool.js";
import { NO_READ, ReaderSession } from "../store/lists/reader-session.js";
import { READER_ROLE, refuseUnfitReader } from "../store/migrate/reader-role.js";
import type { Sealing } from "../store/sealed/sealing.js";

export interface Readers {
  readonly sessions: readonly ReadSession[];
  readonly databases: readonly Database[];
  /** Throws UnusableDatabase if they may do more than they should. */
  check(): Promise<void>;
}

/** With access on, they are under row-level security. */
export function openReaders(
  { config, databaseUrl, log }: { readonly config: Config; readonly databaseUrl: string; readonly log: Logger },
  {
    nodeId,
    upkeep,
    count,
    sealing,
  }: { readonly nodeId: string; readonly upkeep: Database; readonly count: number; readonly sealing?: Sealing },
): Readers {
  const names = Array.from({ length: count }, (_, nth) => `saga-read-${nodeId}-${nth}`);
  const isGuarded = isAccessOn(config);
  const { readDatabaseUrl = databaseUrl } = isGuarded ? config : {};
  // A login may end the statements of its own sessions only.
  const isOther = readDatabaseUrl !== databaseUrl;
  const cancels = isOther ? openDatabase(readDatabaseUrl, { max: 1, applicationName: "saga-read", log }) : upkeep;
  // Another login begins as itself, so that its check can say what it lacks.
  const role = isOther ? undefined : READER_ROLE;
  const settings = isGuarded ? { ...NO_READ, ...(role && { role }) } : {};
  const databases = names.map((applicationName) =>
    openDatabase(readDatabaseUrl, { max: 1, applicationName, log, settings, ...(sealing && { sealing }) }),
  );
  const sessions = databases.map(({ sql }, nth): ReadSession => {
    const cancel = () => cancelStatement(cancels.sql, names[nth] ?? "");
    return isGuarded ? new ReaderSession(sql, cancel, role) : { sql, cancel };
  });
  const [first] = databases;
  return {
    sessions,
    databases: isOther ? [...databases, cancels] : databases,
    check: async () => {
      if (isGuarded && first) await refuseUnfitReader(first.sql);
    },
  };
}
