// Answers that clients do not read: bounded for each connection, in time, and for all connections together. A connection has one request
// handled at a time, so what its client leaves unread is one answer. It knows nothing about streams, which have bounds of their own.
import { Socket } from "node:net";
import type { FastifyInstance, FastifyReply } from "fastify";

export interface UnreadBounds {
  /** A connection over which nothing of an answer has gone for this long is closed. */
  readonly ms: number;
  /** Of all answers that are not yet sent whole. Beyond, the connection with the oldest one is closed. */
  readonly bytes: number;
}

export const UNREAD: UnreadBounds = { ms: 30_000, bytes: 128 * 1024 * 1024 };
/** Requests of a connection that have arrived and are not answered. Few clients pipeline at all. */
const MAX_PIPELINED = 100;

interface Line {
  length: number;
  /** The request before is answered, and its answer has gone. */
  before: Promise<unknown>;
}

/** Has to be the first hook: what is refused is an answer, too. */
export function boundUnread(app: FastifyInstance, { ms, bytes }: UnreadBounds): void {
  const lines = new WeakMap<Socket, Line>();
  const unread = new UnreadAnswers(bytes);
  app.addHook("onRequest", async ({ raw: { socket } }, reply) => {
    if (isInjected(socket)) return;
    const line = lines.get(socket) ?? { length: 0, before: Promise.resolve() };
    lines.set(socket, line);
    await turnIn(line, socket, reply);
    // Its client is gone, and so are those behind it in the line.
    if (socket.destroyed) return reply.hijack();
    reply.raw.setTimeout(0);
  });
  app.addHook("onSend", async ({ raw: { socket } }, { raw }, payload) => {
    // The client of a closed connection is gone, and its answer goes nowhere.
    if (isInjected(socket) || socket.destroyed) return;
    raw.setTimeout(ms);
    const forget = unread.add(socket, sizeOf(payload));
    raw.once("close", forget);
  });
}

/** `app.inject` makes requests without a connection. */
const isInjected = (socket: unknown) => !(socket instanceof Socket);

function turnIn(line: Line, socket: Socket, { raw }: FastifyReply): Promise<unknown> {
  const { before } = line;
  line.before = new Promise((resolve) => raw.once("close", resolve)).then(() => line.length--);
  if (++line.length > MAX_PIPELINED) socket.destroy();
  return before;
}

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
