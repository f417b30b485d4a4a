// The feed: every audit event of a watched run, live, from whichever process committed it. Not a store and not a bus: what it
// knows it learnt from commits, from NOTIFY hints and, in the end, from the database.
import type { Sql } from "postgres";
import { isObject } from "../../machines/index.js";
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { CommitListener } from "../run/ports.js";
import { type EventItem, eventsAfter } from "../store/history.js";
import { eventItem } from "./item.js";
import { createListener, type Listener } from "./listener.js";
import { channelOf, createNotifier } from "./notifier.js";
import { type Sink, Watcher } from "./watcher.js";

export type { EventItem, Sink };

export interface Feed {
  /** For the runtime: tells local watchers at once, other processes soon. */
  readonly onCommit: CommitListener;
  /** Hands the sink every event after `afterSeq`. Throws 503 when this process watches too much already. */
  watch(runId: string, afterSeq: number, sink: Sink): { stop(): void };
  /** Resolves when the hints of the commits so far have been sent or dropped. */
  flush(): Promise<void>;
  /** Looks at all watched runs now; the feed does so by itself every `pollMs`. */
  poll(): Promise<void>;
  stop(): Promise<void>;
}

export interface FeedOptions {
  readonly sql: Sql;
  /** Where to LISTEN: a Postgres URL, opened with the first watcher. Absent: polling alone. */
  readonly listenUrl?: string;
  readonly log: Logger;
  readonly pollMs?: number;
  readonly maxWatchers?: number;
}

type Topics = Map<string, Set<Watcher>>;

export function createFeed({ sql, listenUrl, log, pollMs = 3000, maxWatchers = 10_000 }: FeedOptions): Feed {
  const topics: Topics = new Map();
  const notifier = createNotifier({ sql, log });
  const listener =
    listenUrl === undefined
      ? undefined
      : createListener({ url: listenUrl, log, onNotify: (_, text) => heard(topics, text) });
  const read = (runId: string, seq: number) => eventsAfter(sql, runId, seq);
  let watchers = 0;
  let stopped: Promise<void> | undefined;
  let polling: Promise<void> | undefined;

  const poll = () => {
    polling ??= lookAtAll(sql, topics, listener)
      .catch((error: unknown) => log.warn({ err: String(error) }, "watched runs could not be looked at"))
      .finally(() => {
        polling = undefined;
      });
    return polling;
  };
  const timer = setInterval(() => void poll(), pollMs);
  timer.unref();

  return {
    onCommit(runId, events) {
      if (events.length === 0 || stopped) return;
      const watchers = topics.get(runId);
      if (watchers) {
        const items = events.map(eventItem);
        for (const watcher of watchers) watcher.offer(items);
      }
      notifier.add(runId, events);
    },
    watch(runId, afterSeq, sink) {
      if (watchers >= maxWatchers || stopped) throw overloaded("too many streams are open on this node");
      watchers++;
      const watcher = new Watcher(runId, afterSeq, sink, read);
      join(topics, watcher, listener);
      watcher.look();
      let left = false;
      return {
        stop() {
          if (left) return;
          left = true;
          watchers--;
          watcher.stop();
          leave(topics, watcher, listener);
        },
      };
    },
    flush: () => notifier.flush(),
    poll,
    stop() {
      stopped ??= (async () => {
        clearInterval(timer);
        for (const watcher of [...topics.values()].flatMap((all) => [...all])) watcher.stop();
        topics.clear();
        await Promise.all([notifier.flush(), listener?.stop(), polling]);
      })();
      return stopped;
    },
  };
}

function join(topics: Topics, watcher: Watcher, listener: Listener | undefined): void {
  const { runId } = watcher;
  const known = topics.get(runId);
  if (known) return void known.add(watcher);
  const all = new Set([watcher]);
  topics.set(runId, all);
  // What was committed before the channel was heard is in the database.
  listener?.add(channelOf(runId), () => {
    for (const each of all) each.look();
  });
}

function leave(topics: Topics, watcher: Watcher, listener: Listener | undefined): void {
  const all = topics.get(watcher.runId);
  all?.delete(watcher);
  if (all?.size !== 0) return;
  topics.delete(watcher.runId);
  listener?.remove(channelOf(watcher.runId));
}

async function lookAtAll(sql: Sql, topics: Topics, listener: Listener | undefined): Promise<void> {
  void listener?.tick();
  if (topics.size === 0) return;
  const ids = [...topics.keys()];
  const rows = await sql<{ id: string; last_seq: number }[]>`
    select id, last_seq from runs where id = any(${ids}::text[]::uuid[])`;
  for (const { id, last_seq } of rows) for (const watcher of topics.get(id) ?? []) watcher.note(last_seq);
}

/** Hints come from whoever may NOTIFY in this database: their form is checked, their word is taken. */
function heard(topics: Topics, text: string): void {
  const hint = parsed(text);
  if (!isObject(hint) || typeof hint.run_id !== "string") return;
  const watchers = topics.get(hint.run_id) ?? [];
  const events = Array.isArray(hint.events) && hint.events.every(isEvent) ? (hint.events as EventItem[]) : undefined;
  for (const watcher of watchers) {
    if (events) watcher.offer(events);
    else if (Number.isSafeInteger(hint.last_seq)) watcher.note(Number(hint.last_seq));
    else watcher.look();
  }
}

function isEvent(value: unknown): boolean {
  return isObject(value) && Number.isSafeInteger(value.seq) && typeof value.event_type === "string";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
