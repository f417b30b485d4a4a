// The process's one LISTEN connection: which channels it should hear, and what they say. It promises nothing about losses
// while the connection is down; whoever needs certainty polls.
import postgres, { type Sql } from "postgres";
import type { Logger } from "../log.js";

export interface Listener {
  /** Wanted from now on; `onHeard` runs each time the channel has begun to be heard, again after a broken connection. */
  add(channel: string, onHeard: () => void): void;
  remove(channel: string): void;
  /** Puts right what the connection lost. Never throws. */
  tick(): Promise<void>;
  stop(): Promise<void>;
}

export interface ListenerOptions {
  /** Postgres URL; a session of its own, never a pooled one. */
  readonly url: string;
  readonly onNotify: (channel: string, payload: string) => void;
  readonly log: Logger;
}

interface Channel {
  readonly onHeard: () => void;
  heard: boolean;
}

export function createListener({ url, onNotify, log }: ListenerOptions): Listener {
  const wanted = new Map<string, Channel>();
  const left = new Set<string>();
  let sql: Sql | undefined;
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;

  const lost = () => {
    for (const channel of wanted.values()) channel.heard = false;
    left.clear();
  };
  const settings = {
    max: 1,
    idle_timeout: 0,
    max_lifetime: null,
    fetch_types: false,
    onnotify: onNotify,
    onclose: lost,
  };

  async function settle(): Promise<void> {
    sql ??= postgres(url, { ...settings, connection: { application_name: "saga-feed" } } as postgres.Options<never>);
    while (again && !stopped) {
      again = false;
      const gone = [...left];
      left.clear();
      const fresh = [...wanted].filter(([, channel]) => !channel.heard);
      const lines = [...gone.map((name) => `unlisten "${name}"`), ...fresh.map(([name]) => `listen "${name}"`)];
      if (lines.length === 0) return;
      // Simple protocol: nothing is prepared, so nothing piles up on the session.
      await sql.unsafe(lines.join(";"));
      for (const [name, channel] of fresh) {
        if (wanted.get(name) !== channel) continue;
        channel.heard = true;
        channel.onHeard();
      }
    }
  }

  /** One round at a time; changes that come meanwhile go into the next. */
  async function tick(): Promise<void> {
    again = true;
    if (stopped || running) return running;
    if (!sql && wanted.size === 0) return;
    running = settle()
      .catch((error: unknown) => log.warn({ err: String(error) }, "the feed cannot listen; it polls until it can"))
      .finally(() => {
        running = undefined;
      });
    return running;
  }

  return {
    add(channel, onHeard) {
      left.delete(channel);
      wanted.set(channel, { onHeard, heard: false });
      void tick();
    },
    remove(channel) {
      if (!wanted.delete(channel)) return;
      left.add(channel);
      void tick();
    },
    tick,
    async stop() {
      stopped = true;
      await sql?.end({ timeout: 1 });
      await running;
    },
  };
}
