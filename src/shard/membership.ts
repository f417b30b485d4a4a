// Membership: this node's heartbeat row and how many nodes are alive. A node that cannot be seen cannot be committed to; but
// safety never rests on it, only speed does (law 1).
import type { Sql } from "postgres";
import { RECORD_FORMAT } from "../../machines/index.js";
import type { DatabaseClock } from "../clock.js";
import type { Logger } from "../log.js";

const HEARTBEAT_MS = 1_000;
const STALE_SECONDS = 5;
/** 256 for ever: the shard is part of every id. */
export const SHARDS: readonly number[] = Array.from({ length: 256 }, (_, shard) => shard);

export class Membership {
  private timer: NodeJS.Timeout | undefined;
  private alive = 1;

  constructor(
    readonly nodeId: string,
    private readonly sql: Sql,
    private readonly clock: DatabaseClock,
    private readonly log: Logger,
  ) {}

  get nodeCount(): number {
    return this.alive;
  }

  /** Throws if the store does not answer: a node that cannot be seen must not start. */
  async start(): Promise<void> {
    await this.beat();
    this.timer ??= setInterval(() => {
      this.beat().catch((error) => this.log.warn({ err: error }, "the heartbeat failed"));
    }, HEARTBEAT_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.sql`delete from nodes where node_id = ${this.nodeId}`.catch(() => {
      // Its row goes stale by itself.
    });
  }

  private async beat(): Promise<void> {
    const [row] = await this.sql<{ alive: number }[]>`
      with mine as (
        insert into nodes (node_id, started_at, heartbeat_at, record_format)
        values (${this.nodeId}, now(), now(), ${RECORD_FORMAT})
        on conflict (node_id) do update set heartbeat_at = now()
      )
      select count(*)::int as alive from nodes
      where heartbeat_at > now() - make_interval(secs => ${STALE_SECONDS}) and node_id <> ${this.nodeId}`;
    this.alive = 1 + (row?.alive ?? 0);
    await this.clock.measure(this.sql);
  }
}
