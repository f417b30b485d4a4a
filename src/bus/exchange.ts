// One node's end of the bus, whatever carries it: envelopes, correlation of answers to asks, timeouts, bounds. It knows no
// socket; each medium gives it a way to send and hands it what arrives.
import { randomBytes } from "node:crypto";
import type { JsonObject } from "../../machines/index.js";
import { isUuid, shardOf } from "../ids.js";
import { type BusOptions, MAX_ANSWERING, MAX_ASKS, MAX_MESSAGE_BYTES, MAX_WAIT_MS } from "./bus.js";
import { Tally } from "./tally.js";

/** What travels from node to node, as JSON. A wire format: nodes of two versions speak it during a rolling update. */
type Envelope =
  | { readonly kind: "ask" | "answer"; readonly id: string; readonly from: string; readonly body: JsonObject }
  | { readonly kind: "tell"; readonly from: string; readonly body: JsonObject };

/** Carries `text` to a node, or loses it. With `askId`: says `unheard(askId)` if it is sure that nobody heard. Never throws. */
export type Send = (nodeId: string, text: string, askId?: string) => void;

export interface ExchangeOptions extends Omit<BusOptions, "log"> {
  readonly log?: BusOptions["log"];
  readonly send: Send;
}

interface Ask {
  readonly nodeId: string;
  readonly resolve: (answer: JsonObject | undefined) => void;
  readonly timer: NodeJS.Timeout;
}

export class Exchange {
  readonly tally: Tally;
  private readonly asks = new Map<string, Ask>();
  /** Not guessable and new with every exchange: no answer to a former process of this name is taken for one of ours. */
  private readonly idPrefix = randomBytes(9).toString("base64url");
  private lastId = 0;
  private answering = 0;
  private shards: ReadonlySet<number> = new Set();
  private stopped = false;

  constructor(private readonly options: ExchangeOptions) {
    this.tally = new Tally(options.log);
  }

  listen(shards: ReadonlySet<number>): void {
    this.shards = new Set(shards);
  }

  ask(nodeId: string, request: JsonObject, withinMs: number): Promise<JsonObject | undefined> {
    if (this.stopped) return Promise.resolve(undefined);
    if (this.asks.size >= MAX_ASKS) {
      this.tally.drop("too many asks");
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

  tell(nodeId: string, message: JsonObject): void {
    if (this.stopped) return;
    const text = this.encode({ kind: "tell", from: this.options.nodeId, body: message });
    if (text !== undefined) this.options.send(nodeId, text);
  }

  /** Nobody heard this ask: its asker need not wait for the time to pass. */
  unheard(askId: string): void {
    this.settle(askId, undefined);
  }

  /** A node message has arrived. */
  heard(text: string): void {
    if (this.stopped) return;
    const envelope = this.decode(text);
    if (envelope === undefined) return;
    if (envelope.kind === "tell")
      this.guarded("onTell", () => this.options.handlers.onTell(envelope.body, envelope.from));
    else if (envelope.kind === "ask") void this.answer(envelope.id, envelope.body, envelope.from);
    // Late, doubled, or from somebody who was not asked: no ask of that id and node is left, or ever was.
    else if (this.asks.get(envelope.id)?.nodeId === envelope.from) this.settle(envelope.id, envelope.body);
  }

  /** An advance message has arrived. For a shard that is no longer heard here it is late, and dropped. */
  heardAdvance(runId: unknown): void {
    if (this.stopped) return;
    if (!isUuid(runId)) this.tally.drop("malformed");
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

  private async answer(id: string, request: JsonObject, from: string): Promise<void> {
    if (this.answering >= MAX_ANSWERING) return this.tally.drop("too many asks at once from others");
    this.answering++;
    try {
      const body = await this.options.handlers.onAsk(request, from);
      if (body === undefined || this.stopped) return;
      const text = this.encode({ kind: "answer", id, from: this.options.nodeId, body });
      if (text !== undefined) this.options.send(from, text);
    } catch (error) {
      this.tally.handlerFailed("onAsk", error);
    } finally {
      this.answering--;
    }
  }

  private guarded(handler: "onTell" | "onAdvance", call: () => unknown): void {
    try {
      // An async function passes for one that returns nothing; its rejection must not end the process.
      const result = call();
      if (result instanceof Promise) result.catch((error: unknown) => this.tally.handlerFailed(handler, error));
    } catch (error) {
      this.tally.handlerFailed(handler, error);
    }
  }

  private encode(envelope: Envelope): string | undefined {
    let text: string;
    try {
      text = JSON.stringify(envelope);
    } catch {
      // A cycle or a bigint, past the types: its sender must not fail for a hint.
      this.tally.drop("malformed");
      return undefined;
    }
    if (fits(text)) return text;
    this.tally.drop("too large");
    return undefined;
  }

  private decode(text: string): Envelope | undefined {
    if (!fits(text)) {
      this.tally.drop("too large");
      return undefined;
    }
    const value = parsedObject(text);
    if (value !== undefined && isEnvelope(value)) return value;
    this.tally.drop("malformed");
    return undefined;
  }
}

export function fits(text: string): boolean {
  return text.length <= MAX_MESSAGE_BYTES && Buffer.byteLength(text) <= MAX_MESSAGE_BYTES;
}

export function parsedObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEnvelope(value: Readonly<Record<string, unknown>>): value is Envelope {
  const { kind, id, from, body } = value;
  if (typeof from !== "string" || !isObject(body)) return false;
  return kind === "tell" || ((kind === "ask" || kind === "answer") && typeof id === "string");
}
