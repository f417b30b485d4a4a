// What nodes were deciding on when they died: a run, or a start by the hash of its request. Suspicion is durable here where no polled row
// counts it, because a client or a worker repeats its command. What suspicion leads to is src/trial.
import type { Sql } from "postgres";

/** The time that one death is remembered, four times as long with each further one, up to a day. */
const FIRST_MINUTES = 10;
const MOST_MINUTES = 24 * 60;
/** More keys than nodes can die of in a day are not read. */
const MOST_KEYS = 10_000;

export interface KnownSuspect {
  readonly key: string;
  /** Nodes that died while they had it. */
  readonly deaths: number;
  /** How often it has ended or hung its trial process, alone. */
  readonly trialDeaths: number;
  readonly secondsLeft: number;
}

/** A node has died while it was deciding on this. Old rows go: there are as many as there were deaths in two days. */
export async function recordDeath(sql: Sql, key: string): Promise<void> {
  await sql`delete from suspects where until < now() - make_interval(mins => ${MOST_MINUTES})`;
  await sql`
    insert into suspects (key, deaths, until) values (${key}, 1, now() + make_interval(mins => ${FIRST_MINUTES}))
    on conflict (key) do update set deaths = least(suspects.deaths + 1, 100),
      until = now() + make_interval(mins => least(${FIRST_MINUTES} * 4 ^ least(suspects.deaths, 8), ${MOST_MINUTES})::int)`;
}

export function listSuspects(sql: Sql): Promise<readonly KnownSuspect[]> {
  return sql<KnownSuspect[]>`
    select key, deaths, trial_deaths as "trialDeaths", extract(epoch from until - now())::float8 as "secondsLeft"
    from suspects where until > now() limit ${MOST_KEYS}`;
}

/** Counts deaths in trials, as the polled tables do (poll.ts). */
export const suspects = {
  async acquit(sql: Sql, keys: readonly string[]): Promise<void> {
    await sql`update suspects set trial_deaths = 0 where key = any(${[...keys]}::uuid[]) and trial_deaths > 0`;
  },
  /** The count; undefined if it is no longer suspected. */
  async countDeath(sql: Sql, key: string): Promise<number | undefined> {
    const [row] = await sql<{ count: number }[]>`
      update suspects set trial_deaths = least(trial_deaths + 1, 100) where key = ${key} returning trial_deaths as count`;
    return row?.count;
  },
};
