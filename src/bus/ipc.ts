// The bus of a node process whose primary relays: one machine, no Redis. The relay is in ipc-relay.ts.

import type { JsonObject, RunId } from "../../machines/index.js";
import { clearInterval, setInterval } from "../ambient.js";
import { isUuid, type ShardId } from "../ids.js";
import type { Bus, BusOptions } from "./bus.js";
import { type Channel, createProcessChannel } from "./channel.js";
import { Exchange } from "./exchange.js";
import { frameOf } from "./frames.js";

export interface IpcBusOptions<Ask, Tell> extends BusOptions<Ask, Tell> {
  /** Default: the channel to the process that forked this one. */
  readonly channel?: Channel;
}

/** A frame may be lost; within this time the relay learns again which shards the node listens to. */
const INTRODUCTION_MS = 5_000;

export class IpcBus<Ask, Tell> implements Bus {
  private readonly nodeId: string;
  private readonly channel: Channel;
  private readonly exchange: Exchange<Ask, Tell>;
  private readonly introducing: NodeJS.Timeout;
  private readonly leave: () => void;
  private shards: readonly ShardId[] = [];
  private stopped = false;

  constructor({ channel = createProcessChannel(process), ...options }: IpcBusOptions<Ask, Tell>) {
    this.nodeId = options.nodeId;
    this.channel = channel;
    const send = (to: string, text: string, askId?: string) =>
      channel.send({ saga_bus: "node", to, text, ...(askId !== undefined && { ask_id: askId }) });
    this.exchange = new Exchange({ ...options, send });
    this.leave = channel.onMessage((message) => this.receive(message));
    this.introducing = setInterval(() => this.introduce(), INTRODUCTION_MS).unref();
    this.introduce();
  }

  advance(runId: RunId): void {
    if (!isUuid(runId)) return this.exchange.drops.dropped("malformed");
    if (!this.stopped) this.channel.send({ saga_bus: "advance", run_id: runId });
  }

  listen(shards: ReadonlySet<ShardId>): void {
    this.exchange.listen(shards);
    this.shards = [...shards];
    if (!this.stopped) this.introduce();
  }

  ask(nodeId: string, request: object, withinMs: number): Promise<JsonObject | undefined> {
    return this.exchange.ask(nodeId, request, withinMs);
  }

  tell(nodeId: string, message: object): void {
    this.exchange.tell(nodeId, message);
  }

  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    this.exchange.stop();
    clearInterval(this.introducing);
    this.leave();
    this.channel.send({ saga_bus: "gone" });
  }

  private introduce(): void {
    this.channel.send({ saga_bus: "here", node_id: this.nodeId, shards: this.shards });
  }

  private receive(message: unknown): void {
    const frame = frameOf(message);
    if (frame === undefined) return;
    if (frame === "malformed") this.exchange.drops.dropped("malformed");
    else if (frame.saga_bus === "who") this.introduce();
    else if (frame.saga_bus === "advance") this.exchange.receiveAdvance(frame.run_id);
    else if (frame.saga_bus === "unheard") this.exchange.undelivered(frame.ask_id);
    else if (frame.saga_bus === "node" && frame.to === this.nodeId) this.exchange.receive(frame.text);
  }
}
