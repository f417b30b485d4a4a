// Decides the fires of an event that reports a record's transition. It is a listener of the announcer, so it sees every event at least
// once; a fire's id follows from the event, so it is decided once.
import type { Sql } from "postgres";
import {
  ExpressionError,
  type JsonObject,
  RECORD_TRANSITION_TOPIC,
  type RecordTransition,
  readTriggerConfig,
  recordTransition,
  transitionInputs,
} from "../../machines/index.js";
import type { Clock } from "../clock.js";
import type { Metrics } from "../metrics/index.js";
import { eventById, type PublishedEvent } from "../store/engine/events.js";
import { decideFires, type NewFire } from "../store/engine/trigger-fires.js";
import { markFailing, matchingTriggers, type TriggerRow } from "../store/lists/triggers.js";
import { failure, fireId, type TriggeredStarts } from "./triggered-starts.js";

/** Matching triggers that are read at once. */
const BATCH = 100;

export interface TransitionsOptions {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, "triggerFires">;
  readonly starts: Pick<TriggeredStarts, "carryOut">;
  /** An event of no tenant fires triggers of no tenant only. Absent: it fires every trigger. */
  readonly tenantsApart?: boolean;
}

export class Transitions {
  constructor(private readonly options: TransitionsOptions) {}

  /** Whether any trigger has fired. Throws if the store is away: the event stays due then. */
  async onEvent({ id, topic }: { readonly id: string; readonly topic: string }): Promise<boolean> {
    if (topic !== RECORD_TRANSITION_TOPIC) return false;
    const event = await eventById(this.options.sql, id);
    const transition = event && recordTransition(event.payload);
    if (!event || !transition) return false;
    let fired = false;
    for (let last: string | undefined, more = true; more; ) {
      const { sql, tenantsApart } = this.options;
      const { tenantId } = event;
      const matching = await matchingTriggers(sql, { ...transition, tenantId, tenantsApart }, last, BATCH);
      for (const trigger of matching) await this.fire(trigger, transition, event);
      fired ||= matching.length > 0;
      last = matching.at(-1)?.id;
      more = matching.length === BATCH;
    }
    return fired;
  }

  private async fire(trigger: TriggerRow, transition: RecordTransition, event: PublishedEvent): Promise<void> {
    const { sql, clock, metrics, starts } = this.options;
    const now = clock.now();
    const decided = transitionFire(trigger, transition, event, now);
    const owed = await decideFires(sql, trigger, [decided]);
    if (decided.error === undefined) return starts.carryOut(owed);
    metrics.triggerFires.inc({ outcome: "failed" });
    await markFailing(sql, trigger.id);
  }
}

/** What an event, or a request that stands for one, makes of a trigger. */
export function transitionFire(
  trigger: TriggerRow,
  transition: Pick<RecordTransition, "record">,
  { id, publishedAt, topic, headers, payload }: PublishedEvent,
  now: number,
): NewFire {
  const fire = { id: fireId(trigger.id, `event/${id}`), scheduledAt: publishedAt, firedAt: new Date(now) };
  const seen: JsonObject = { id, topic, headers: { ...headers }, payload };
  try {
    return { ...fire, inputs: mapped(trigger, transition, seen, now) };
  } catch (error) {
    if (error instanceof ExpressionError) return { ...fire, error: failure(error) };
    throw error;
  }
}

function mapped({ config }: TriggerRow, transition: Pick<RecordTransition, "record">, event: JsonObject, now: number) {
  const { value } = readTriggerConfig("record_transition", config);
  if (value?.type !== "record_transition")
    throw new ExpressionError("the trigger's config cannot be read by this release");
  return transitionInputs(value.config, transition, event, now);
}
