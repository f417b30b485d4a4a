// A client of the live stream that records the frames it receives, and compares them with the OpenAPI document.

import WebSocket from "ws";
import type { CommittedEvent, RunId } from "../../machines/index.js";
import { credential } from "../harness/access.js";
import { until } from "../harness/until.js";
import { documented } from "./documented.js";

const open: Client[] = [];

export function hangUp(): void {
  for (const client of open.splice(0)) client.socket.terminate();
}

// biome-ignore lint/suspicious/noExplicitAny: frames are read member by member; a wrong one fails the test.
type Frame = any;

export class Client {
  readonly frames: Frame[] = [];
  readonly socket: WebSocket;
  code: number | undefined;
  /** The fault of the first frame that is not as the document has it. */
  private fault: unknown;
  pings = 0;

  constructor(
    /** A TCP port of this machine, or the path of a Unix socket. */
    at: number | string,
    readonly runId: string,
    query = "",
    route = "stream",
  ) {
    const base = typeof at === "number" ? `ws://127.0.0.1:${at}` : `ws+unix://${at}:`;
    this.socket = new WebSocket(`${base}/api/v1/sagas/${runId}/${route}${query}`, { headers: credential() });
    this.socket.on("message", (data) => this.keep(JSON.parse(String(data))));
    this.socket.on("close", (code) => {
      this.code = code;
    });
    this.socket.on("ping", () => {
      this.pings++;
    });
    this.socket.on("error", () => {});
    open.push(this);
  }

  private keep(frame: Frame): void {
    this.frames.push(frame);
    try {
      if (frame.run) documented().checkResource("SagaRun", frame.run);
      if (frame.type === "event") documented().checkResource("SagaRunEvent", frame.event);
    } catch (error) {
      this.fault ??= error;
    }
  }

  /** An undocumented frame fails every wait for frames. */
  private sound<T>(value: T): T {
    if (this.fault !== undefined) throw this.fault;
    return value;
  }

  get kinds(): string[] {
    return this.frames.map(({ type }) => type);
  }

  get seqs(): number[] {
    return this.frames.filter(({ type }) => type === "event").map(({ event }) => event.seq);
  }

  async has(count: number) {
    return this.sound(await until(() => this.frames.length >= count, { what: `${count} frames` }));
  }

  async closed(within?: number) {
    return this.sound(await until(() => this.code, { what: "the close", ...(within !== undefined && { within }) }));
  }
}

/** A committed event, in the form in which the runtime gives it to the feed. */
export const committed = (runId: RunId, seq: number, more: Partial<CommittedEvent> = {}): CommittedEvent => ({
  runId,
  seq,
  type: "log",
  attempt: 0,
  from: "running",
  to: "running",
  actor: "coordinator",
  at: Date.UTC(2026, 10, 21, 0, 0, 0, seq),
  ...more,
});
