// One WebSocket that carries a run's events: from its opening to its end, whatever ended it. What happens after that is decided in watch.ts.
import type { SagaRunEvent } from "./generated/resources.js";
import { checkToken, type Socket, type SocketClass } from "./options.js";

/** What the program has not taken yet. Beyond it the connection is given up; the next one begins where the program is. */
const MAX_WAITING = 5_000;
/** The longest time from the beginning to the first frame. */
const OPEN_MS = 15_000;

type Frame = { readonly type: "snapshot" | "end" } | { readonly type: "event"; readonly event: SagaRunEvent };

export class Stream {
  /** The run has ended, and all its events came. */
  isOver = false;
  private readonly socket: Socket;
  private readonly waiting: SagaRunEvent[] = [];
  private isClosed = false;
  private wake: (() => void) | undefined;
  private readonly opening: ReturnType<typeof setTimeout>;

  /** The token is in the name of a subprotocol: browsers can set no header, and an address is written to logs. */
  constructor(make: SocketClass, url: string, token: string | undefined) {
    if (token !== undefined) checkToken(token);
    this.socket = new make(url, token === undefined ? ["saga.v1"] : ["saga.v1", `bearer.${token}`]);
    this.opening = setTimeout(() => this.close(), OPEN_MS);
    this.socket.addEventListener("message", ({ data }) => this.take(data));
    this.socket.addEventListener("error", () => this.close());
    this.socket.addEventListener("close", () => this.ended());
  }

  /** The events, until the connection has ended. Throws the reason of the signal. */
  async *events(signal?: AbortSignal): AsyncGenerator<SagaRunEvent, void, undefined> {
    const aborted = () => this.close();
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      for (;;) {
        signal?.throwIfAborted();
        const event = this.waiting.shift();
        if (event) yield event;
        else if (this.isClosed) return;
        else await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** Ends the connection. What came before stays. */
  close(): void {
    this.ended();
    try {
      this.socket.close();
    } catch {
      // It was not open yet; some runtimes throw then.
    }
  }

  private take(data: unknown): void {
    if (this.isClosed) return;
    const frame = frameOf(data);
    if (frame === undefined) return this.close();
    clearTimeout(this.opening);
    if (frame.type === "end") {
      this.isOver = true;
      return this.close();
    }
    if (frame.type !== "event") return;
    this.waiting.push(frame.event);
    this.wake?.();
    if (this.waiting.length >= MAX_WAITING) this.close();
  }

  private ended(): void {
    clearTimeout(this.opening);
    this.isClosed = true;
    this.wake?.();
  }
}

/** Undefined: it is not from the service. */
function frameOf(data: unknown): Frame | undefined {
  try {
    const frame = JSON.parse(String(data));
    return typeof frame?.type === "string" && (frame.type !== "event" || Number.isInteger(frame.event?.seq))
      ? frame
      : undefined;
  } catch {
    return undefined;
  }
}
