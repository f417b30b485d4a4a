// One node's end of the bus, whatever carries it: correlation of answers with asks, timeouts and bounds. It knows no socket: each medium
// gives it a way to send, and hands it the texts that arrive.

import { type JsonObject, parseRunId } from "../../machines/index.js";
import { clearTimeout, randomBytes, setTimeout } from "../ambient.js";
import { type ShardId, shardOf } from "../ids.js";
import { type BusOptions, MAX_ANSWERING, MAX_ASKS, MAX_WAIT_MS } from "./bus.js";
import { DropCounter } from "./drop-counter.js";
import { decodeEnvelope, type Envelope, encodeEnvelope } from "./envelope.js";

/** Carries `text` to a node, or loses it. With `askId`: calls `undelivered(askId)` if it is certain that no node received it. Never throws. */
export type Send = (nodeId: string, text: string, askId?: string) => void;

export interface ExchangeOptions<Ask, Tell> extends Omit<BusOptions<Ask, Tell>, "log"> {
  readonly log?: BusOptions<Ask, Tell>["log"];
  readonly send: Send;
}

interface WaitingAsk {
  readonly nodeId: string;
  readonly resolve: (answer: JsonObject | undefined) => void;
  readonly timer: NodeJS.Timeout;
}

export class Exchange<Ask, Tell> {
  readonly drops: DropCounter;
  private readonly asks = new Map<string, WaitingAsk>();
  /** Random for each exchange: an answer to a former process with this node id never matches an ask of this one. */
  private readonly idPrefix = randomBytes(9).toString("base64url");
  private lastId = 0;
  private answering = 0;
  private shards: ReadonlySet<ShardId> = new Set();
  private stopped = false;

  constructor(private readonly options: ExchangeOptions<Ask, Tell>) {
    this.drops = new DropCounter(options.log, options.onDropped);
  }

  listen(shards: ReadonlySet<ShardId>): void {
    this.shards = new Set(shards);
  }

  ask(nodeId: string, request: object, withinMs: number): Promise<JsonObject | undefined> {
    if (this.stopped) return Promise.resolve(undefined);
    if (this.asks.size >= MAX_ASKS) {
      this.drops.dropped("too many asks");
      return Promise.resolve(undefined);
    }
    const id = `${this.idPrefix}.${++this.lastId}`;
    const text = this.encode({ kind: "ask", id, from: this.options.nodeId, body: request });
    if (text === undefined) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.settle(id, undefined), Math.min(withinMs, MAX_WAIT_MS));
      this.asks.set(id, { nodeId, resolve, timer });
      this.options.send(nodeId, text, id);
    });
  }

  tell(nodeId: string, message: object): void {
    if (this.stopped) return;
    const text = this.encode({ kind: "tell", from: this.options.nodeId, body: message });
    if (text !== undefined) this.options.send(nodeId, text);
  }

  /** No node received this ask: its caller need not wait for the timeout. */
  undelivered(askId: string): void {
    this.settle(askId, undefined);
  }

  /** A node message has arrived. */
  receive(text: string): void {
    if (this.stopped) return;
    const envelope = decodeEnvelope(text);
    if (typeof envelope === "string") this.drops.dropped(envelope);
    else if (envelope.kind === "tell") this.receiveTell(envelope.body, envelope.from);
    else if (envelope.kind === "ask") this.receiveAsk(envelope.id, envelope.body, envelope.from);
    // An answer that is late, repeated, or from another node than the one that was asked matches no waiting ask.
    else if (this.asks.get(envelope.id)?.nodeId === envelope.from) this.settle(envelope.id, envelope.body);
  }

  /** An advance message has arrived. It is dropped if it is late: for a shard that this node no longer listens to. */
  receiveAdvance(text: unknown): void {
    if (this.stopped) return;
    const runId = parseRunId(text);
    if (runId === undefined) this.drops.dropped("malformed");
    else if (this.shards.has(shardOf(runId))) this.guarded("onAdvance", () => this.options.handlers.onAdvance(runId));
  }

  stop(): void {
    this.stopped = true;
    for (const id of [...this.asks.keys()]) this.settle(id, undefined);
  }

  private settle(id: string, answer: JsonObject | undefined): void {
    const ask = this.asks.get(id);
    if (ask === undefined) return;
    this.asks.delete(id);
    clearTimeout(ask.timer);
    ask.resolve(answer);
  }

  private receiveTell(body: JsonObject, from: string): void {
    const message = this.options.protocol.tell(body);
    if (message === undefined) this.drops.dropped("unknown");
    else this.guarded("onTell", () => this.options.handlers.onTell(message, from));
  }

  private receiveAsk(id: string, body: JsonObject, from: string): void {
    const request = this.options.protocol.ask(body);
    if (request === undefined) this.drops.dropped("unknown");
    else void this.answer(id, request, from);
  }

  private async answer(id: string, request: Ask, from: string): Promise<void> {
    if (this.answering >= MAX_ANSWERING) return this.drops.dropped("too many asks being answered");
    this.answering++;
    try {
      const body = await this.options.handlers.onAsk(request, from);
      if (body === undefined || this.stopped) return;
      const text = this.encode({ kind: "answer", id, from: this.options.nodeId, body });
      if (text !== undefined) this.options.send(from, text);
    } catch (error) {
      this.drops.handlerFailed("onAsk", error);
    } finally {
      this.answering--;
    }
  }

  private guarded(handler: "onTell" | "onAdvance", call: () => unknown): void {
    try {
      // An async function is assignable to one that returns nothing; its rejection must not end the process.
      const result = call();
      if (result instanceof Promise) result.catch((error: unknown) => this.drops.handlerFailed(handler, error));
    } catch (error) {
      this.drops.handlerFailed(handler, error);
    }
  }

  private encode(envelope: Envelope<object>): string | undefined {
    const text = encodeEnvelope(envelope);
    if (text !== "malformed" && text !== "too large") return text;
    this.drops.dropped(text);
    return undefined;
  }
}
