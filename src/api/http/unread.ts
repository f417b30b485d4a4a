// Answers that clients do not read: bounded for each connection, in time, and for all connections together. A connection has one request
// handled at a time, so what its client leaves unread is one answer. It knows nothing about streams, which have bounds of their own.
import { Socket } from "node:net";
import type { FastifyInstance } from "fastify";

export interface UnreadBounds {
  /** A connection over which nothing of an answer has gone for this long is closed. */
  readonly ms: number;
  /** The most bytes of all answers that are not yet sent whole. Beyond, the connection with the oldest one is closed. */
  readonly bytes: number;
}

export const UNREAD: UnreadBounds = { ms: 30_000, bytes: 128 * 1024 * 1024 };
/** Requests of a connection that have arrived and are not answered. Few clients pipeline at all. */
const MAX_PIPELINED = 100;

/** Begins the requests of a connection that are not answered, the present one first: each when the answer of the one before it has gone. */
type Line = (() => void)[];

/** Has to be the first hook: what is refused is an answer, too. */
export function boundUnread(app: FastifyInstance, { ms, bytes }: UnreadBounds): void {
  const lines = new WeakMap<Socket, Line>();
  const unread = new UnreadAnswers(bytes);
  app.addHook("onRequest", ({ raw: { socket } }, reply, done) => {
    if (isInjected(socket)) return done();
    const line = lines.get(socket) ?? [];
    lines.set(socket, line);
    const begin = () => {
      // Its client is gone, and so are those behind it in the line.
      if (socket.destroyed) return void reply.hijack();
      reply.raw.setTimeout(0);
      done();
    };
    reply.raw.once("close", () => {
      const wasFirst = line[0] === begin;
      line.splice(line.indexOf(begin), 1);
      if (wasFirst) line[0]?.();
    });
    if (line.push(begin) > MAX_PIPELINED) socket.destroy();
    if (line.length === 1) begin();
  });
  app.addHook("onSend", ({ raw: { socket } }, { raw }, payload, done) => {
    // The client of a closed connection is gone, and its answer goes nowhere.
    if (isInjected(socket) || socket.destroyed) return done();
    raw.setTimeout(ms);
    const forget = unread.add(socket, sizeOf(payload));
    raw.once("close", forget);
    done();
  });
}

/** `app.inject` makes requests without a connection. */
const isInjected = (socket: unknown) => !(socket instanceof Socket);

class UnreadAnswers {
  private bytes = 0;
  /** The oldest first. */
  private readonly answers = new Set<Socket>();

  constructor(private readonly limit: number) {}

  /** Returns what to call when the answer has gone. */
  add(socket: Socket, bytes: number): () => void {
    this.bytes += bytes;
    this.answers.add(socket);
    const [oldest] = this.answers;
    if (this.bytes > this.limit) oldest?.destroy();
    return () => {
      this.bytes -= bytes;
      this.answers.delete(socket);
    };
  }
}

/** A text's characters are taken for bytes: counting the bytes of a large one would cost more than it tells. */
function sizeOf(payload: unknown): number {
  return typeof payload === "string" || Buffer.isBuffer(payload) ? payload.length : 0;
}
