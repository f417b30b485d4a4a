// The rows by which nodes see each other: a heartbeat, and its removal. Which node owns which shard is computed from them in src/shard.
import { hostname } from "node:os";
import { eq } from "drizzle-orm";
import type { Sql } from "postgres";
import { nodes } from "../schema.js";
import { query } from "./query.js";

/** Where this node runs, as its log lines say it: an operator finds the process of a row by it. */
const HERE = { host: hostname(), processId: process.pid };

export interface Heartbeat {
  readonly nodeId: string;
  /** The newest run record format that the node reads (law 13). */
  readonly recordFormat: number;
  /** Whether the node has access control. */
  readonly access: "on" | "off";
  /** A node whose last heartbeat is older counts as gone. */
  readonly staleSeconds: number;
}

/** What a heartbeat has seen. */
export interface Seen {
  /** The other nodes that are alive. */
  readonly others: readonly LiveNode[];
  /**
   * The start of the server that answered. After a failover, and after a restore to an earlier point in time, it is another one: both
   * take the start of a server. The timeline and the system identifier say no more, and the control file names a new timeline only
   * after the first checkpoint that follows the promotion.
   */
  readonly server: string;
}

export interface LiveNode {
  readonly nodeId: string;
  readonly recordFormat: number;
  readonly access: "on" | "off";
}

/** Writes this node's heartbeat. One statement, as it runs every second. */
export async function heartbeat(
  database: Sql,
  { nodeId, recordFormat, access, staleSeconds }: Heartbeat,
): Promise<Seen> {
  const [row] = await database<[{ others: LiveNode[]; server: string }]>`
    with mine as (
      insert into nodes (node_id, started_at, heartbeat_at, record_format, host, process_id, access)
      values (${nodeId}, now(), now(), ${recordFormat}, ${HERE.host}, ${HERE.processId}, ${access})
      on conflict (node_id) do update set heartbeat_at = now()
    )
    select extract(epoch from pg_postmaster_start_time())::text as server, coalesce((
      select json_agg(json_build_object('nodeId', node_id, 'recordFormat', record_format, 'access', access)) from nodes
      where heartbeat_at > now() - make_interval(secs => ${staleSeconds}) and node_id <> ${nodeId}
    ), '[]') as others`;
  return row;
}

/** The nodes that are alive, seen by one that has no row. */
export async function liveNodes(database: Sql, staleSeconds: number): Promise<readonly LiveNode[]> {
  return database<LiveNode[]>`
    select node_id as "nodeId", record_format as "recordFormat", access from nodes
    where heartbeat_at > now() - make_interval(secs => ${staleSeconds})`;
}

/** The node has gone: the others need not wait until its heartbeat is stale. */
export async function removeNode(database: Sql, nodeId: string): Promise<void> {
  await query(database).delete(nodes).where(eq(nodes.nodeId, nodeId));
}
