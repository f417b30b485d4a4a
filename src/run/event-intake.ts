// The intake of events from outside, over HTTP or RabbitMQ: an event is published once under its key, and then announced to the runs that wait
// for it. What may be in an event is checked by those who read it.
import type { Sql } from "postgres";
import type { Json } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";
import { publishEvent } from "../store/engine/events.js";
import type { EventAnnouncer } from "./ports.js";
import { requestHash } from "./request-hash.js";

export interface IncomingEvent {
  readonly topic: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Json;
  /** A repeat with the same key publishes nothing. */
  readonly idempotencyKey?: string;
}

/** `repeated`: the key was used for the same event before, and `id` is the first one's. `conflict`: it was used for another one. */
export type Taken = { readonly id: string; readonly repeated: boolean } | "conflict";

export class EventIntake {
  constructor(
    private readonly sql: Sql,
    private readonly announcer: EventAnnouncer,
  ) {}

  /** Resolves once the event is durable; the runs that wait for it are being notified. */
  async take({ topic, headers, payload, idempotencyKey }: IncomingEvent): Promise<Taken> {
    const content = { topic, headers, payload };
    const event = { id: uuidv7(), ...content, idempotencyKey, hash: requestHash(content) };
    const id = await publishEvent(this.sql, event);
    if (id === undefined) return "conflict";
    if (id === event.id) this.announcer.announce(id);
    return { id, repeated: id !== event.id };
  }
}
