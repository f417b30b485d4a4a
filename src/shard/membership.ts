// Membership: this node's heartbeat row, and which nodes are alive. A node that has no heartbeat does not commit either; but safety
// never depends on membership, only speed does (law 1).

import type { Sql } from "postgres";
import { FIRST_FORMAT, RECORD_FORMATS } from "../../machines/index.js";
import { clearTimeout, performance, setTimeout } from "../ambient.js";
import type { DatabaseClock } from "../clock.js";
import { type AccessMode, ConfigError } from "../config/index.js";
import type { Logger } from "../log.js";
import { READ_ONLY, sqlStateOf } from "../store/engine/failure.js";
import { heartbeat, type LiveNode, liveNodes, removeNode, type Seen } from "../store/engine/nodes.js";
import { WorkLoop } from "../work/loop.js";

const HEARTBEAT_MS = 1_000;
export const STALE_SECONDS = 5;
/** A heartbeat that has no answer for so long has none to expect: a lost network says nothing. */
const UNANSWERED_MS = 15_000;
/** New sessions to a server that remains read-only are opened no more often. */
const RENEWAL_PAUSE_MS = 5_000;

const OPEN = { mode: "off", mayDiffer: false } as const;

export interface MembershipOptions {
  readonly nodeId: string;
  readonly sql: Sql;
  readonly clock: DatabaseClock;
  readonly log: Logger;
  /** The newest record formats that this node reads and writes. A test's switch, for a node of another release. */
  readonly formats?: { readonly reads: number; readonly writes: number };
  /** Whether this node has access control, and whether nodes of the other mode may run beside it. Absent: it has none. */
  readonly access?: { readonly mode: AccessMode; readonly mayDiffer: boolean };
  /** Called with the nodes alive, this one included, after every heartbeat. Must not throw. */
  readonly onAlive: (nodeIds: readonly string[]) => void;
  /** Called when another server answers than before: it may lack the last commits (law 1). Must not throw. */
  readonly onServerChanged?: () => void;
  /** Called when sessions are of no use: their server takes no writes, does not answer, or is not the one that answers now. Must not throw. */
  readonly renewSessions?: () => void;
}

export class Membership {
  private readonly loop: WorkLoop;
  private alive: readonly string[];
  private server: string | undefined;
  /** When the last heartbeat succeeded. */
  private beatAt = performance.now();
  /** When sessions were last renewed. Absent: a heartbeat has succeeded since. */
  private renewedAt: number | undefined;
  /** The record format that is written: all live nodes read it (law 13). */
  recordFormat = FIRST_FORMAT;

  constructor(private readonly options: MembershipOptions) {
    this.alive = [options.nodeId];
    const polls = { pauseMs: HEARTBEAT_MS, round: () => this.beatOrRenew() };
    this.loop = new WorkLoop({ what: "heartbeat", log: options.log, polls });
  }

  /** How long ago a heartbeat succeeded last. */
  get silentSeconds(): number {
    return (performance.now() - this.beatAt) / 1_000;
  }

  get nodeCount(): number {
    return this.alive.length;
  }

  /** Throws if a node of the other access mode is alive: this one must not start then, nor write anything. Of two that begin now, `start` refuses one. */
  async check(): Promise<void> {
    this.refuseOtherMode(await liveNodes(this.options.sql, STALE_SECONDS));
  }

  /** Throws if the store does not answer, or if a node of the other access mode is alive. */
  async start(): Promise<void> {
    const atFirst = await this.heartbeat();
    await this.leaveToOtherMode(atFirst.others);
    // Rows that were written at the same time did not see each other. This one is committed now.
    const seen = await this.heartbeat();
    await this.leaveToOtherMode(seen.others);
    await this.heed(seen);
    this.loop.start();
  }

  /** Removes the row: the other nodes take over at once, and not after it is stale. */
  async stop(): Promise<void> {
    await this.loop.stop();
    await removeNode(this.options.sql, this.options.nodeId).catch(() => {
      // The row becomes stale by itself.
    });
  }

  /** A heartbeat now, to learn of nodes that joined since the last one. */
  async beat(): Promise<void> {
    await this.heed(await this.heartbeat());
  }

  private heartbeat(): Promise<Seen> {
    const { nodeId, sql, formats = RECORD_FORMATS, access = OPEN } = this.options;
    return heartbeat(sql, { nodeId, recordFormat: formats.reads, access: access.mode, staleSeconds: STALE_SECONDS });
  }

  private async heed(seen: Seen): Promise<void> {
    const { nodeId, sql, clock, onAlive, formats = RECORD_FORMATS } = this.options;
    this.beatAt = performance.now();
    this.sawServer(seen.server);
    this.recordFormat = Math.min(formats.writes, ...seen.others.map((node) => node.recordFormat));
    this.alive = [nodeId, ...seen.others.map((node) => node.nodeId)];
    onAlive(this.alive);
    await clock.measure(sql);
  }

  /**
   * What is refused at one node would be done by another. Of two nodes that start at the same time, the one whose row is committed later sees the
   * other's; if both see each other's, neither starts.
   */
  private async leaveToOtherMode(others: readonly LiveNode[]): Promise<void> {
    const { nodeId, sql } = this.options;
    try {
      this.refuseOtherMode(others);
    } catch (error) {
      await removeNode(sql, nodeId);
      throw error;
    }
  }

  private refuseOtherMode(others: readonly LiveNode[]): void {
    const { access = OPEN } = this.options;
    const other = others.find((node) => node.access !== access.mode);
    if (!other || access.mayDiffer) return;
    throw new ConfigError([
      `SAGA_AUTH: access control is ${access.mode} here and ${other.access} at node ${other.nodeId}, which is alive: stop the nodes of the other mode first (one that was killed counts as alive for ${STALE_SECONDS} s), or set SAGA_AUTH_ROLLOUT=1 while all nodes are replaced`,
    ]);
  }

  /** The next heartbeat says whether new sessions have helped. */
  private async beatOrRenew(): Promise<void> {
    const unanswered = setTimeout(() => this.renew("the database does not answer"), UNANSWERED_MS).unref();
    try {
      await this.beat();
      // Other sessions may have been opened while the server was not the right one yet.
      if (this.renewedAt !== undefined) this.options.renewSessions?.();
      this.renewedAt = undefined;
    } catch (error) {
      if (sqlStateOf(error) === READ_ONLY) this.renew("the database server takes no writes");
      throw error;
    } finally {
      clearTimeout(unanswered);
    }
  }

  private renew(why: string): void {
    const now = performance.now();
    if (now - (this.renewedAt ?? Number.NEGATIVE_INFINITY) < RENEWAL_PAUSE_MS) return;
    this.renewedAt = now;
    this.options.log.warn(`${why}: opening new sessions`);
    this.options.renewSessions?.();
  }

  private sawServer(server: string): void {
    const changed = this.server !== undefined && this.server !== server;
    this.server = server;
    if (!changed) return;
    this.options.log.warn("another database server, or the same one started again: runs in memory are read again");
    this.options.renewSessions?.();
    this.options.onServerChanged?.();
  }
}
