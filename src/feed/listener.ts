// The process's one LISTEN connection. It keeps the wanted channels listened to across broken connections. Notifications that
// are sent while the connection is down are lost; a caller that must not miss any has to poll.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import { openSessions } from "../store/engine/session.js";

export interface ListenerOptions {
  /** Postgres URL; a session of its own, never a pooled one. */
  readonly url: string;
  readonly onNotify: (channel: string, payload: string) => void;
  readonly log: Logger;
}

interface Channel {
  /** Runs each time that listening has begun, also after a broken connection. */
  readonly onListening: () => void;
  listening: boolean;
}

export class Listener {
  private readonly channels = new Map<string, Channel>();
  private readonly removed = new Set<string>();
  private sql: Sql | undefined;
  private running: Promise<void> | undefined;
  private changed = false;
  private stopped = false;

  constructor(private readonly options: ListenerOptions) {}

  /** A channel that is already there stays as it is. */
  add(name: string, onListening: () => void): void {
    if (this.channels.has(name)) return;
    this.removed.delete(name);
    this.channels.set(name, { onListening, listening: false });
    void this.sync();
  }

  remove(name: string): void {
    if (!this.channels.delete(name)) return;
    this.removed.add(name);
    void this.sync();
  }

  /** Listens to the channels that were added or lost. One round at a time; later changes go into the next. Never throws. */
  async sync(): Promise<void> {
    this.changed = true;
    if (this.stopped || this.running) return this.running;
    if (!this.sql && this.channels.size === 0) return;
    this.running = this.apply()
      .catch((error: unknown) => this.options.log.warn({ err: String(error) }, "LISTEN failed, polling until it works"))
      .finally(() => {
        this.running = undefined;
      });
    return this.running;
  }

  /** A new session: the server of the present one is not the right one any more. */
  reconnect(): void {
    if (!this.sql || this.stopped) return;
    void this.sql.end({ timeout: 0 });
    this.sql = undefined;
    this.disconnected();
    void this.sync();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.sql?.end({ timeout: 1 });
    await this.running;
  }

  private async apply(): Promise<void> {
    this.sql ??= this.connect();
    while (this.changed && !this.stopped) {
      this.changed = false;
      const removed = [...this.removed];
      this.removed.clear();
      const added = [...this.channels].filter(([, channel]) => !channel.listening);
      const statements = [...removed.map((name) => `unlisten "${name}"`), ...added.map(([name]) => `listen "${name}"`)];
      if (statements.length === 0) return;
      // The simple protocol prepares nothing, so nothing piles up on the session.
      await this.sql.unsafe(statements.join(";"));
      for (const [name, channel] of added) this.begin(name, channel);
    }
  }

  /** A channel that was removed or replaced during the statement is left to the next round. */
  private begin(name: string, channel: Channel): void {
    if (this.channels.get(name) !== channel) return;
    channel.listening = true;
    channel.onListening();
  }

  private connect(): Sql {
    const { url, onNotify } = this.options;
    const sql = openSessions(url, {
      ...{ max: 1, idle_timeout: 0, max_lifetime: null, applicationName: "saga-feed", onnotify: onNotify },
      onclose: () => {
        if (this.sql === sql) this.disconnected();
      },
    });
    return sql;
  }

  private disconnected(): void {
    for (const channel of this.channels.values()) channel.listening = false;
    this.removed.clear();
  }
}
