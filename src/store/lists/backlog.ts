// What is owed by all nodes together, counted up to a bound, and the nodes as their heartbeats have them. It changes nothing: the polls
// (poll.ts) and the membership do.
import type { Sql } from "postgres";

/** Beyond it a number is a lower bound. */
const COUNTED_ROWS = 10_000;
const MAX_NODES = 1_000;

export interface KnownNode {
  readonly node_id: string;
  readonly started_at: Date;
  readonly heartbeat_at: Date;
  readonly record_format: number;
  readonly host: string;
  readonly process_id: number;
  readonly access: "on" | "off";
  readonly alive: boolean;
}

/** A node that was killed leaves its row. It is shown long enough for an operator to see what died. */
const SHOWN_MINUTES = 10;

/** Those with a heartbeat within the last minutes, the oldest first. */
export function knownNodes(
  sql: Sql,
  { staleSeconds }: { readonly staleSeconds: number },
): Promise<readonly KnownNode[]> {
  return sql<KnownNode[]>`
    select node_id, host, process_id, started_at, heartbeat_at, record_format, access,
      heartbeat_at > now() - make_interval(secs => ${staleSeconds}) as alive
    from nodes where heartbeat_at > now() - make_interval(mins => ${SHOWN_MINUTES})
    order by started_at, node_id limit ${MAX_NODES}`;
}

export interface Backlog {
  readonly wakes_due: number;
  readonly oldest_due_ms?: number;
  readonly inbox: number;
  readonly outbox: number;
  readonly count_is_lower_bound?: true;
}

interface Row {
  readonly wakes: number;
  readonly oldest: number | null;
  readonly inbox: number;
  readonly outbox: number;
}

/** The wakes are asked for by shard, as the polls do: the index has them in the order of their time only within one. */
export async function readBacklog(sql: Sql, shards: readonly number[], most = COUNTED_ROWS): Promise<Backlog> {
  const all = sql`unnest(${`{${shards.join(",")}}`}::text::int2[]) s(shard)`;
  const counted = (rows: ReturnType<Sql>) => sql`(select count(*)::int from (${rows} limit ${most + 1}) counted)`;
  const [row] = await sql<Row[]>`
    select ${counted(sql`select from ${all} cross join lateral (
        select from wakes where shard = s.shard and due_at <= now() limit ${most + 1}) due`)} as wakes,
      (select (extract(epoch from now() - min(due_at)) * 1000)::float8 from ${all} cross join lateral (
        select due_at from wakes where shard = s.shard and due_at <= now() order by due_at limit 1) first) as oldest,
      ${counted(sql`select from inbox`)} as inbox, ${counted(sql`select from outbox`)} as outbox`;
  const { wakes, oldest, inbox, outbox } = row as Row;
  return {
    ...{ wakes_due: Math.min(wakes, most), inbox: Math.min(inbox, most), outbox: Math.min(outbox, most) },
    ...(oldest !== null && { oldest_due_ms: Math.round(oldest) }),
    ...(Math.max(wakes, inbox, outbox) > most && { count_is_lower_bound: true }),
  };
}
