// Follows a run: its audit events from the first one, then those that come, over the live stream. What they mean is for the story; how
// the run stands is a query of the page that shows it.
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { backoff } from "../../sdk/backoff.js";
import { get, isRefusal, part, socketUrl } from "./client.js";
import type { AuditEvent, List } from "./resources.js";

/** More are not kept: a page says that it shows the first ones. */
export const MAX_EVENTS = 20_000;
const PAGE = 500;
const RECONNECT_MS = { base: 250, cap: 5_000 };
/** The stream says that the run has ended. Every other close is a node that went away, or a reader that was too slow. */
const ENDED = 1000;

export interface Live {
  /** Events in order, without gaps or repeats. The list grows in place: `count` says how far it is filled. */
  readonly events: readonly AuditEvent[];
  readonly count: number;
  readonly status: "reading" | "live" | "reconnecting" | "ended" | "refused";
  /** There are more than are kept. */
  readonly isCut: boolean;
  readonly error?: Error;
}

type StreamFrame = { readonly type: "event"; readonly event: AuditEvent } | { readonly type: "snapshot" | "end" };

export function useLive(runId: string): Live {
  const follower = useMemo(() => new Follower(runId), [runId]);
  useEffect(() => follower.start(), [follower]);
  return useSyncExternalStore(follower.subscribe, follower.read);
}

class Follower {
  private readonly events: AuditEvent[] = [];
  private live: Live = { events: this.events, count: 0, status: "reading", isCut: false };
  private readonly listeners = new Set<() => void>();
  private failures = 0;
  private frame = 0;

  constructor(private readonly runId: string) {}

  readonly read = (): Live => this.live;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Returns what ends it. It may be started again, and goes on after what it has. */
  start(): () => void {
    const stopped = new AbortController();
    void this.follow(stopped.signal);
    return () => {
      stopped.abort();
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    };
  }

  private async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.isOver) {
      try {
        await this.readHistory(signal);
        if (!this.live.isCut) await this.stream(signal);
      } catch (error) {
        if (isRefusal(error) && !signal.aborted) this.become({ status: "refused", error });
      }
      if (signal.aborted || this.isOver) return;
      this.become({ status: this.live.count > 0 ? "reconnecting" : "reading" });
      await this.pause(signal);
    }
  }

  /** Nothing more will be shown: no event will come, or none is kept. */
  private get isOver(): boolean {
    return this.live.isCut || ["ended", "refused"].includes(this.live.status);
  }

  private async readHistory(signal: AbortSignal): Promise<void> {
    let cursor = "";
    let offset = this.events.length;
    do {
      const query = { limit: PAGE, ...(cursor === "" ? { offset } : { cursor }) };
      const page = await get<List<AuditEvent>>(`/sagas/${part(this.runId)}/events`, { query, signal });
      this.take(page.items);
      cursor = page.next_cursor ?? "";
      offset += page.items.length;
      if (cursor !== "" && this.events.length >= MAX_EVENTS) return this.become({ isCut: true, status: "ended" });
    } while (cursor !== "");
  }

  /** Resolves when the stream is closed. */
  private stream(signal: AbortSignal): Promise<void> {
    const query = { after_seq: this.events.at(-1)?.seq ?? 0 };
    const socket = new WebSocket(socketUrl(`/sagas/${part(this.runId)}/stream`, query));
    signal.addEventListener("abort", () => socket.close(), { once: true });
    socket.onmessage = ({ data }) => this.hear(JSON.parse(String(data)) as StreamFrame);
    return new Promise((resolve) => {
      socket.onclose = ({ code }) => {
        if (code === ENDED) this.become({ status: "ended" });
        resolve();
      };
    });
  }

  private hear(frame: StreamFrame): void {
    if (frame.type === "event") return this.take([frame.event]);
    if (frame.type === "end") return this.become({ status: "ended" });
    this.failures = 0;
    this.become({ status: "live" });
  }

  /** An event that is there already is left out: a history that is read again begins where rows may have been deleted. */
  private take(events: readonly AuditEvent[]): void {
    const last = this.events.at(-1)?.seq ?? 0;
    const fresh = events.filter(({ seq }) => seq > last);
    const kept = fresh.slice(0, MAX_EVENTS - this.events.length);
    if (kept.length < fresh.length) this.live = { ...this.live, isCut: true };
    this.events.push(...kept);
    if (kept.length > 0) this.frame ||= requestAnimationFrame(() => this.show());
  }

  /** All events of a frame are one update. */
  private show(): void {
    this.frame = 0;
    this.become({});
  }

  private become(change: Partial<Live>): void {
    this.live = { ...this.live, ...change, count: this.events.length };
    for (const listener of this.listeners) listener();
  }

  private pause(signal: AbortSignal): Promise<void> {
    const delay = backoff(this.failures++, RECONNECT_MS);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      signal.addEventListener("abort", () => [clearTimeout(timer), resolve()], { once: true });
    });
  }
}
