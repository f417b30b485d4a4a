// The store that stories begin with: one PGlite for all of them, migrated once, and put back as it was then before each story.
import { migrateDatabase } from "../../../src/store/migrate/migrate.js";
import { silentLog } from "../../harness/database.js";
import { STORE_URL } from "../cluster.js";
import { SimulatedPostgres, type StoreTime } from "./postgres.js";
import type { Snapshot } from "./snapshot.js";
import { type Life, World } from "./world.js";

const MIGRATIONS_MS = 600_000;

export class Base {
  private constructor(
    readonly postgres: SimulatedPostgres,
    private readonly migrated: Snapshot,
  ) {}

  static async open(): Promise<Base> {
    const world: World = new World(0, (life) => postgres.connect(life.name));
    const leave = world.enter();
    let postgres: SimulatedPostgres;
    try {
      postgres = await SimulatedPostgres.open(timeOf(world));
      await migrate(world, postgres);
    } finally {
      leave();
    }
    for (const statement of SHADOWS) await postgres.query(statement);
    return new Base(postgres, await postgres.snapshot());
  }

  /** The store as it was after the migrations, in this world's time. */
  begin(world: World): Promise<void> {
    return this.postgres.restart(this.migrated, timeOf(world));
  }

  close(): Promise<void> {
    return this.postgres.close();
  }
}

/** Of what a server says of itself, a story has its own answer: the functions of this schema come before Postgres's own. */
const PRUNING_LOCK = 0x7072756e;
const SHADOWS = [
  // A round of the pruner holds its lock in a transaction while other sessions work, which one backend cannot do. Here another node always seems to hold it.
  `create function public.pg_try_advisory_xact_lock(key bigint) returns boolean language sql
     as 'select key <> ${PRUNING_LOCK} and pg_catalog.pg_try_advisory_xact_lock(key)'`,
  // Another server, or the same one started again, is another start.
  `create function public.pg_postmaster_start_time() returns timestamptz language sql stable
     as $$ select pg_catalog.pg_postmaster_start_time() + make_interval(secs => coalesce(current_setting('simulated.starts', true), '0')::int) $$`,
  "set search_path = public, pg_catalog",
];

/** From now on it is another server. */
export const otherServer = (nth: number): string => `set simulated.starts = '${nth}'`;

const timeOf = (world: World): StoreTime => ({
  later: (ms, callback) => void world.later(ms, callback, null),
  random: () => world.chanceOfStore(),
});

async function migrate(world: World, postgres: SimulatedPostgres): Promise<void> {
  const life: Life = { name: "migrations", isAlive: true, isFrozen: false, missed: [], skewMs: 0 };
  let ended: { readonly error?: unknown } | undefined;
  const migrating = world.as(life, () => migrateDatabase(STORE_URL, silentLog));
  migrating.then(
    () => {
      ended = {};
    },
    (error: unknown) => {
      ended = { error };
    },
  );
  // The files of the migrations are read from the disk, which takes real time.
  while (!ended && world.now < MIGRATIONS_MS) await world.run(world.now + 100, () => ended !== undefined, postgres);
  if (!ended) throw new Error("the migrations do not end");
  if ("error" in ended) throw ended.error;
}
