// An audit event as clients see it, made from an event that this process committed. An event that is read back from the
// database looks the same (store/lists/history.ts).
import type { CommittedEvent } from "../../machines/index.js";
import { eventId } from "../ids.js";
import type { EventItem } from "../store/lists/history.js";
import { present } from "../store/lists/item.js";

export function eventItem(event: CommittedEvent): EventItem {
  return present({
    id: eventId(event.runId, event.seq),
    run_id: event.runId,
    seq: event.seq,
    recorded_at: new Date(event.at).toISOString(),
    event_type: event.type,
    step_id: event.stepId,
    attempt: event.attempt,
    from_state: event.from,
    to_state: event.to,
    actor: event.actor,
    metadata: event.metadata,
  }) as EventItem;
}
