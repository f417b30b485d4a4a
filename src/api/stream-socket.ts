// One client's socket with bounds on its unsent bytes: its own, and that of all streams of the process together. It knows
// nothing about runs.

import type { WebSocket } from "@fastify/websocket";
import { maskedText } from "../../machines/index.js";
import { clearInterval, setInterval } from "../ambient.js";

/** Unsent frames and bytes beyond which a client is too slow. The snapshot does not count. */
const MAX_FRAMES = 1000;
const MAX_BYTES = 4 * 1024 * 1024;
/** A replay sends its next batch once the unsent rest is below these. */
const LOW_FRAMES = 100;
const LOW_BYTES = 512 * 1024;
/** A client that reads nothing for this long during a replay is too slow. */
const STALLED_MS = 5_000;

/** The unsent bytes of all streams of a process. Two hundred stalled clients at their own bound would hold 800 MB. */
export class StreamBudget {
  private bytes = 0;
  private sockets = 0;

  constructor(private readonly limit = 128 * 1024 * 1024) {}

  open(): void {
    this.sockets++;
  }

  close(unsent: number): void {
    this.sockets--;
    this.bytes -= unsent;
  }

  add(bytes: number): void {
    this.bytes += bytes;
  }

  /** The budget is exceeded and this client has more than its share unsent. A client that reads never has. */
  isOver(unsent: number): boolean {
    return this.bytes > this.limit && unsent > this.bytes / this.sockets;
  }
}

export class StreamSocket {
  private frames = 0;
  private bytes = 0;
  private sent = 0;
  private alive = true;
  private closing = false;
  private gone = false;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly socket: WebSocket,
    /** Must close the socket. */
    private readonly tooSlow: () => void,
    private readonly budget: StreamBudget,
  ) {
    budget.open();
    socket.on("pong", () => {
      this.alive = true;
    });
    socket.on("close", () => {
      this.closing = true;
      this.budget.close(this.bytes);
      this.gone = true;
      this.wake();
    });
  }

  get open(): boolean {
    return !this.closing && this.socket.readyState === this.socket.OPEN;
  }

  send(frame: object, counted = true): void {
    if (!this.open) return;
    const text = maskedText(JSON.stringify(frame));
    const size = counted ? Buffer.byteLength(text) : 0;
    this.frames += counted ? 1 : 0;
    this.count(size);
    this.socket.send(text, () => {
      this.frames -= counted ? 1 : 0;
      this.count(-size);
      this.sent++;
      if (this.isLow()) this.wake();
    });
    if (this.frames > MAX_FRAMES || this.bytes > MAX_BYTES || this.budget.isOver(this.bytes)) this.tooSlow();
  }

  /** Resolves when there is room for another batch, or when the socket is closed. */
  drained(): Promise<void> {
    if (this.isLow() || !this.open) return Promise.resolve();
    return new Promise((resolve) => {
      let before = this.sent;
      const timer = setInterval(() => {
        if (this.sent === before) this.tooSlow();
        before = this.sent;
      }, STALLED_MS);
      this.waiting.push(() => {
        clearInterval(timer);
        resolve();
      });
    });
  }

  /** The answer to a ping is due before the next one. */
  ping(): void {
    if (!this.alive) return this.socket.terminate();
    this.alive = false;
    if (this.open) this.socket.ping();
  }

  close(code: number, reason: string): void {
    if (this.closing) return;
    this.closing = true;
    this.socket.close(code, reason);
    this.wake();
  }

  private count(bytes: number): void {
    this.bytes += bytes;
    if (!this.gone) this.budget.add(bytes);
  }

  private isLow(): boolean {
    return this.frames <= LOW_FRAMES && this.bytes <= LOW_BYTES;
  }

  private wake(): void {
    for (const resume of this.waiting.splice(0)) resume();
  }
}
