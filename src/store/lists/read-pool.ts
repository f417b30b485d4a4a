// The reads of clients: each has a session of its own while it runs, a bounded number waits for one, and a statement ends with the
// read: when its client goes away, or when its time is over. Lists and lookups wait in two lines, because a lookup is quick and a list
// may be slow. What is read is elsewhere.

import type { Sql } from "postgres";
import { clearTimeout, delay, setTimeout } from "../../ambient.js";
import { overloaded } from "../../errors.js";
import { sqlStateOf } from "../engine/failure.js";
import { type Sealing, withKeys } from "../sealed/sealing.js";
import type { Reach } from "./reach.js";

/** How often a statement is cancelled again: the read may just have begun the next one. */
const CANCEL_AGAIN_MS = 100;
const CANCELLED = "57014";

/** Who reads. */
export interface Reader {
  /** Aborted when the client is gone. */
  readonly closed: AbortSignal;
  readonly reach: Reach;
}

export interface ReadSession {
  /** A pool of one session. */
  readonly sql: Sql;
  /** From here to `end` the database shows what is of these tenants alone. Absent: it shows everything. */
  begin?(tenants: Reach["tenants"]): Promise<unknown>;
  end?(): void;
  /** Ends the statement that runs on it, if one does. */
  cancel(): Promise<unknown>;
}

export interface ReadPoolOptions {
  readonly sessions: readonly ReadSession[];
  /** Lists, and lookups, that may wait for a session. */
  readonly waiting?: number;
  /** The time limit of one read, its wait included. */
  readonly timeoutMs?: number;
  readonly onRefused?: () => void;
  /** Absent: encryption is off. */
  readonly sealing?: Sealing;
}

type Read<T> = (sql: Sql, reach: Reach) => Promise<T>;

interface Asked<T> {
  readonly reach: Reach;
  readonly read: Read<T>;
}

/** The reads of one kind. */
class Lane {
  /** Sessions that it has. */
  held = 0;
  /** Reads that wait, in the order in which they came. */
  readonly waiting = new Set<(session: ReadSession) => void>();
}

export class ReadPool {
  private readonly free: ReadSession[];
  private readonly lists = new Lane();
  private readonly lookups = new Lane();
  /** Sessions that one kind may have: the other has at least one. */
  private readonly share: number;
  private readonly most: number;
  private readonly timeoutMs: number;

  constructor(private readonly options: ReadPoolOptions) {
    this.free = [...options.sessions];
    this.share = Math.max(1, this.free.length - 1);
    this.most = options.waiting ?? 1_000;
    this.timeoutMs = options.timeoutMs ?? 30_000;
  }

  /** Throws 503 if too many wait, or if the read takes too long. */
  run<T>(reader: Reader, read: Read<T>): Promise<T> {
    return this.runIn(this.lists, reader, read);
  }

  /** Like `run`, for a read of single rows by their keys: it does not wait for lists. */
  look<T>(reader: Reader, read: Read<T>): Promise<T> {
    return this.runIn(this.lookups, reader, read);
  }

  private async runIn<T>(lane: Lane, { closed, reach }: Reader, read: Read<T>): Promise<T> {
    const limit = new AbortController();
    const end = () => limit.abort();
    const timer = setTimeout(end, this.timeoutMs);
    closed.addEventListener("abort", end, { once: true });
    if (closed.aborted) end();
    try {
      return await withKeys(this.options.sealing, () => this.within(lane, limit.signal, { reach, read }));
    } catch (error) {
      throw limit.signal.aborted || sqlStateOf(error) === CANCELLED ? this.tooLong() : error;
    } finally {
      clearTimeout(timer);
      closed.removeEventListener("abort", end);
    }
  }

  private async within<T>(lane: Lane, over: AbortSignal, asked: Asked<T>): Promise<T> {
    const session = this.freeFor(lane) ?? (await this.session(lane, over));
    try {
      return await this.until(over, session, asked);
    } finally {
      this.release(lane, session);
    }
  }

  private freeFor(lane: Lane): ReadSession | undefined {
    if (lane.held >= this.share) return undefined;
    const session = this.free.pop();
    if (session) lane.held++;
    return session;
  }

  private session({ waiting }: Lane, over: AbortSignal): Promise<ReadSession> {
    if (waiting.size >= this.most) throw this.tooMany();
    return new Promise((resolve, reject) => {
      const take = (session: ReadSession) => {
        over.removeEventListener("abort", giveUp);
        resolve(session);
      };
      const giveUp = () => {
        waiting.delete(take);
        reject(this.tooLong());
      };
      waiting.add(take);
      over.addEventListener("abort", giveUp, { once: true });
      if (over.aborted) giveUp();
    });
  }

  /** The session is free again only when nothing can cancel its next statement. */
  private async until<T>(over: AbortSignal, session: ReadSession, { reach, read }: Asked<T>): Promise<T> {
    let ended = false;
    let cancelling: Promise<void> | undefined;
    const cancel = async () => {
      while (!ended) {
        await session.cancel().catch(() => {});
        if (!ended) await delay(CANCEL_AGAIN_MS, undefined, { ref: false });
      }
    };
    const startCancelling = () => {
      cancelling = cancel();
    };
    over.addEventListener("abort", startCancelling, { once: true });
    try {
      over.throwIfAborted();
      const begun = session.begin?.(reach.tenants);
      // A read that fails says more.
      begun?.catch(() => {});
      const result = await read(session.sql, reach);
      await begun;
      return result;
    } finally {
      ended = true;
      over.removeEventListener("abort", startCancelling);
      await cancelling;
      session.end?.();
    }
  }

  /** Hands the session to the next read of its kind, or of the other. */
  private release(lane: Lane, session: ReadSession): void {
    lane.held--;
    for (const next of lane === this.lists ? [this.lists, this.lookups] : [this.lookups, this.lists]) {
      const [take] = next.held < this.share ? next.waiting : [];
      if (!take) continue;
      next.waiting.delete(take);
      next.held++;
      return take(session);
    }
    this.free.push(session);
  }

  private tooMany(): Error {
    this.options.onRefused?.();
    return overloaded(`${this.most} reads wait on this node, the most that may wait; send the request again later`);
  }

  private tooLong(): Error {
    return overloaded(`the read was not done within ${this.timeoutMs} ms, the most that a read may take; ask for less`);
  }
}

/** Ends the statement of the session with this name. The name is that of no other session. */
export async function cancelStatement(database: Sql, applicationName: string): Promise<void> {
  await database`
    select pg_cancel_backend(pid) from pg_stat_activity
    where application_name = ${applicationName} and state = 'active' and pid <> pg_backend_pid()`;
}
