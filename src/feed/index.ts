// The feed: the audit events of watched runs, live, from whichever process committed them. It stores nothing: it learns of events
// from local commits and from NOTIFY hints, and the database has the last word.

import type { Sql } from "postgres";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../access/index.js";
import { overloaded } from "../errors.js";
import { type ShardId, shardOf } from "../ids.js";
import type { Logger } from "../log.js";
import type { CommitListener } from "../run/ports.js";
import { channelOf } from "../store/engine/run-channel.js";
import { type EventItem, eventsAfter } from "../store/lists/history.js";
import { sealingOf, withKeys } from "../store/sealed/sealing.js";
import { FairScheduler } from "../work/fair-scheduler.js";
import { WorkLoop } from "../work/loop.js";
import { type CommittedRun, Followers, type Head, type OnHead } from "./followers.js";
import { decodeHint } from "./hint.js";
import { eventItem } from "./item.js";
import { Listener } from "./listener.js";
import { Notifier } from "./notifier.js";
import { type Sink, Watcher } from "./watcher.js";

export type { CommittedRun, EventItem, Head, Sink };

export interface Feed {
  /** Watchers and followers now. */
  readonly watching: number;
  /** Called by the runtime: notifies local watchers at once, other processes soon. */
  readonly onCommit: CommitListener;
  /** Gives the sink every event after `afterSeq`. Throws 503 if this process has too many watchers. */
  watch(runId: RunId, afterSeq: number, sink: Sink): { stop(): void };
  /** Tells how far the run has come: now, and whenever it has come further. Throws as `watch` does. */
  follow(runId: RunId, onHead: OnHead): { stop(): void };
  /** This process commits the events of these shards itself: only watchers listen to the channels of their runs. */
  placed(mine: ReadonlySet<ShardId>): void;
  /**
   * Whether other processes may have watchers. At first they may. Hints are not sent while they cannot: a process that has started a moment
   * ago is not known yet, and its watchers find the events of that moment by polling, as after a lost hint.
   */
  watchedElsewhere(may: boolean): void;
  /** Resolves when the hints of the commits so far have been sent or dropped. */
  flush(): Promise<void>;
  /** Checks all watched runs now; the feed does so itself every `pollMs`. */
  poll(): Promise<void>;
  /** Listens in a new session. */
  reconnect(): void;
  stop(): Promise<void>;
}

export interface FeedOptions {
  readonly sql: Sql;
  /** Where to LISTEN: a Postgres URL, opened with the first watcher. Absent: polling alone. */
  readonly listenUrl?: string;
  readonly log: Logger;
  /** The turns of the process's event loop. Absent: nothing else in the process takes any. */
  readonly scheduler?: FairScheduler;
  readonly pollMs?: number;
  readonly maxWatchers?: number;
}

export function createFeed(options: FeedOptions): Feed {
  return new LiveFeed(options);
}

class LiveFeed implements Feed {
  private readonly sql: Sql;
  private readonly log: Logger;
  private readonly scheduler: FairScheduler;
  private readonly maxWatchers: number;
  private readonly notifier: Notifier;
  private readonly listener: Listener | undefined;
  private readonly loop: WorkLoop;
  private readonly watchers = new Map<RunId, Set<Watcher>>();
  private readonly followers: Followers;
  private mine: ReadonlySet<ShardId> = new Set();
  private sendsHints = true;
  watching = 0;
  private stopping: Promise<void> | undefined;

  constructor({
    sql,
    listenUrl,
    log,
    scheduler = new FairScheduler(),
    pollMs = 3000,
    maxWatchers = 10_000,
  }: FeedOptions) {
    this.sql = sql;
    this.log = log;
    this.scheduler = scheduler;
    this.maxWatchers = maxWatchers;
    this.followers = new Followers(sql, log);
    this.notifier = new Notifier({ sql, log, scheduler });
    const onNotify = (_channel: string, payload: string) => this.onHint(payload);
    this.listener = listenUrl === undefined ? undefined : new Listener({ url: listenUrl, log, onNotify });
    const polls = { pauseMs: pollMs, round: () => this.checkWatched() };
    this.loop = new WorkLoop({ what: "watched runs", log, polls });
    this.loop.start();
  }

  readonly onCommit: CommitListener = (runId, events, change) => {
    const last = events.at(-1);
    if (!last || this.stopping) return;
    const watchers = this.watchers.get(runId);
    if (watchers) void this.offer(watchers, events.map(eventItem));
    const reached = {
      seq: last.seq,
      state: last.to,
      ...(change && { committed: { context: change.after, at: last.at } }),
    };
    if (events[0]?.seq === 1) this.followers.began(runId, reached);
    else this.followers.reached(runId, reached);
    if (this.sendsHints) this.notifier.add(runId, events);
  };

  /** Serves watchers in turns: a run may have thousands. One that gets events out of order reads them from the database. */
  private async offer(watchers: ReadonlySet<Watcher>, items: readonly EventItem[]): Promise<void> {
    for (const watcher of watchers) await this.scheduler.compute("feed", () => watcher.offer(items));
  }

  watch(runId: RunId, afterSeq: number, sink: Sink): { stop(): void } {
    this.admit();
    const watcher = new Watcher(runId, afterSeq, sink, (id, seq) =>
      withKeys(sealingOf(this.sql), () => eventsAfter(this.sql, EVERYTHING, id, seq)),
    );
    this.join(watcher);
    watcher.refresh();
    return { stop: () => this.leave(watcher) };
  }

  follow(runId: RunId, onHead: OnHead): { stop(): void } {
    this.admit();
    this.watching++;
    // A commit of a run of ours that another process made after all is found by the poll.
    this.followers.add(runId, onHead, this.mine.has(shardOf(runId)));
    this.tune(runId);
    return { stop: () => this.unfollow(runId, onHead) };
  }

  placed(mine: ReadonlySet<ShardId>): void {
    this.mine = mine;
    for (const runId of this.followers.runs()) this.tune(runId);
  }

  watchedElsewhere(may: boolean): void {
    this.sendsHints = may;
  }

  flush(): Promise<void> {
    return this.notifier.flush();
  }

  poll(): Promise<void> {
    return this.loop.now();
  }

  reconnect(): void {
    this.listener?.reconnect();
  }

  stop(): Promise<void> {
    this.stopping ??= this.close();
    return this.stopping;
  }

  private async close(): Promise<void> {
    const polled = this.loop.stop();
    for (const watchers of this.watchers.values()) for (const watcher of watchers) watcher.stop();
    this.watchers.clear();
    this.followers.clear();
    await Promise.all([this.notifier.flush(), this.listener?.stop(), polled, this.followers.idle()]);
  }

  private admit(): void {
    if (this.watching >= this.maxWatchers || this.stopping)
      throw overloaded("too many streams and waiting requests are open on this node");
  }

  private join(watcher: Watcher): void {
    const { runId } = watcher;
    this.watching++;
    const known = this.watchers.get(runId);
    if (known) return void known.add(watcher);
    this.watchers.set(runId, new Set([watcher]));
    this.tune(runId);
  }

  private leave(watcher: Watcher): void {
    const { runId } = watcher;
    watcher.stop();
    const watchers = this.watchers.get(runId);
    if (!watchers?.delete(watcher)) return;
    this.watching--;
    if (watchers.size > 0) return;
    this.watchers.delete(runId);
    this.tune(runId);
  }

  private unfollow(runId: RunId, onHead: OnHead): void {
    if (!this.followers.remove(runId, onHead)) return;
    this.watching--;
    this.tune(runId);
  }

  /** Listens to the run's channel while anyone needs it. */
  private tune(runId: RunId): void {
    const followed = this.followers.has(runId) && !this.mine.has(shardOf(runId));
    if (!followed && !this.watchers.has(runId)) this.listener?.remove(channelOf(runId));
    // Events that were committed before listening began are in the database.
    else this.listener?.add(channelOf(runId), () => this.refresh(runId));
  }

  private refresh(runId: RunId): void {
    for (const watcher of this.watchers.get(runId) ?? []) watcher.refresh();
    this.followers.look(runId);
  }

  private async checkWatched(): Promise<void> {
    void this.listener?.sync();
    for (const runId of this.followers.runs()) this.followers.look(runId);
    await this.checkRuns([...this.watchers.keys()]);
  }

  private async checkRuns(ids: readonly RunId[]): Promise<void> {
    if (ids.length === 0) return;
    const rows = await this.sql<{ id: RunId; last_seq: number }[]>`
      select id, last_seq from runs where id = any(${[...ids]}::text[]::uuid[])`;
    const heads = new Map(rows.map(({ id, last_seq }) => [id, last_seq]));
    for (const id of ids) for (const watcher of [...(this.watchers.get(id) ?? [])]) this.check(watcher, heads.get(id));
  }

  private check(watcher: Watcher, head: number | undefined): void {
    if (head === undefined) watcher.gone();
    else watcher.advanceTo(head);
  }

  /** The hint does not say what has happened: the run may be gone. */
  private lookAt(runId: RunId): void {
    if (!this.watchers.has(runId)) return;
    this.checkRuns([runId]).catch((error: unknown) =>
      this.log.warn({ err: String(error) }, "reading a watched run failed, the poll reads it"),
    );
  }

  private onHint(payload: string): void {
    const hint = decodeHint(payload);
    if (!hint) return;
    const { runId, events, lastSeq, state } = hint;
    const watchers = this.watchers.get(runId) ?? new Set();
    const last = events?.at(-1);
    if (last) this.followers.reached(runId, { seq: last.seq, state: last.to_state });
    if (events) return void this.offer(watchers, events);
    if (lastSeq !== undefined && state !== undefined) this.followers.reached(runId, { seq: lastSeq, state });
    else this.followers.look(runId);
    if (lastSeq === undefined) return this.lookAt(runId);
    for (const watcher of watchers) watcher.advanceTo(lastSeq);
  }
}
