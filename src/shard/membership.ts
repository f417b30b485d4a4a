// Membership: this node's heartbeat row, and which nodes are alive. A node that cannot be seen cannot be committed to either;
// but safety never rests on it, only speed does (law 1).
import type { Sql } from "postgres";
import { RECORD_FORMAT } from "../../machines/index.js";
import type { DatabaseClock } from "../clock.js";
import type { Logger } from "../log.js";

const HEARTBEAT_MS = 1_000;
const STALE_SECONDS = 5;

export interface MembershipOptions {
  readonly nodeId: string;
  readonly sql: Sql;
  readonly clock: DatabaseClock;
  readonly log: Logger;
  /** Told of the nodes alive, this one included, after every heartbeat. Must not throw. */
  readonly onAlive: (nodeIds: readonly string[]) => void;
}

export class Membership {
  private timer: NodeJS.Timeout | undefined;
  private beating: Promise<void> | undefined;
  private alive: readonly string[];

  constructor(private readonly options: MembershipOptions) {
    this.alive = [options.nodeId];
  }

  get nodeCount(): number {
    return this.alive.length;
  }

  /** Throws if the store does not answer: a node that cannot be seen must not start. */
  async start(): Promise<void> {
    await this.beat();
    this.timer ??= setInterval(() => {
      // A slow store is not asked again before it answered.
      this.beating ??= this.beat()
        .catch((error) => this.options.log.warn({ err: error }, "the heartbeat failed"))
        .finally(() => {
          this.beating = undefined;
        });
    }, HEARTBEAT_MS).unref();
  }

  /** Gone at once for the others, not only when its row is stale. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.beating;
    await this.options.sql`delete from nodes where node_id = ${this.options.nodeId}`.catch(() => {
      // Its row goes stale by itself.
    });
  }

  /** A heartbeat out of turn: who has come since the last one is known then. */
  async beat(): Promise<void> {
    const { nodeId, sql, clock, onAlive } = this.options;
    const others = await sql<{ node_id: string }[]>`
      with mine as (
        insert into nodes (node_id, started_at, heartbeat_at, record_format)
        values (${nodeId}, now(), now(), ${RECORD_FORMAT})
        on conflict (node_id) do update set heartbeat_at = now()
      )
      select node_id from nodes
      where heartbeat_at > now() - make_interval(secs => ${STALE_SECONDS}) and node_id <> ${nodeId}`;
    this.alive = [nodeId, ...others.map((row) => row.node_id)];
    onAlive(this.alive);
    await clock.measure(sql);
  }
}
