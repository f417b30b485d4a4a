// Events: a waiting run consumes the oldest one that matches. An event and a wait must find each other, so each side commits first
// and then looks (law 9): the announcer looks for waits, and the run, whose look is owed by its wake row, for earlier events.

import type { Expression } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { Command } from "../messages/command.js";
import { type EventFact, Needed } from "../messages/fact.js";
import { eventTaken } from "../messages/owed.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted } from "../state/context.js";
import { type EventWait, eventValue, pick } from "../steps/event.js";
import { currentPlan, type Draft } from "./draft.js";
import { completeWithPayload } from "./token.js";

/** An event was published that the run may be waiting for. Of all events that it has not looked at, it consumes the oldest. */
export function acceptEvent(draft: Draft, { eventId }: Command<"event">): DecisionOn<"event"> {
  const { wait, ending, unwinding } = draft.context;
  // A halted run looks for events when it goes on.
  if (wait?.kind !== "event" || isHalted(draft.context) || ending || unwinding) return unchanged({ type: "advanced" });
  const page = eventPage(draft, wait, eventId);
  // Few events match. The earlier ones are evaluated only if this one does.
  const named = findMatch(
    draft,
    page.filter(({ id }) => id === eventId),
  );
  if (!named.found && !named.fault) return unchanged({ type: "advanced" });
  if (named.found) consumeEvent(draft, findMatch(draft, page).found ?? named.found);
  else {
    recordFault(draft, named);
    draft.close("note");
  }
  return draft.decided({ type: "advanced" });
}

/**
 * Looks at one page of the events before the wait's own commit. The next page starts above the last ordinal. Ordinals may be
 * committed out of order, but nothing is lost: an event that commits after the wait is announced to the run.
 */
export function scanEvents(draft: Draft, wait: EventWait): true {
  const page = eventPage(draft, wait);
  const match = findMatch(draft, page);
  recordFault(draft, match);
  if (match.found) consumeEvent(draft, match.found);
  else {
    const { look: _, ...rest } = wait;
    const after = page[match.tried - 1]?.ordinal ?? wait.after;
    const more = match.tried < page.length || draft.facts.events?.more === true;
    draft.change({ wait: { ...rest, ...(after !== undefined && { after }), ...(more && { look: true }) } });
    draft.close("note");
  }
  return true;
}

/** The wait of a run that missed announcements: it looks at all events again. */
export function rescanFromStart({ after: _, ...wait }: EventWait): EventWait {
  return { ...wait, look: true };
}

function eventPage(draft: Draft, { topic, headers, since, after }: EventWait, named?: string): readonly EventFact[] {
  const { events } = draft.facts;
  if (events) return events.page;
  throw new Needed({ kind: "events", topic, headers, since, after, named });
}

function findMatch(draft: Draft, events: readonly EventFact[]) {
  const { context } = draft;
  const { match } = currentPlan(draft).attributes as { match?: Expression };
  return pick(events, match, scopeOf(context, context.entry?.at ?? draft.now));
}

/** An event on which the step's `match` fails is skipped: anybody may publish, and that must not fail the run. */
function recordFault(draft: Draft, { fault }: ReturnType<typeof findMatch>): void {
  if (!fault) return;
  const metadata = { kind: "event_not_matched", event_id: fault.item.id, message: fault.message };
  draft.row("log", draft.context.state, { stepId: draft.context.step, metadata });
}

function consumeEvent(draft: Draft, event: EventFact): void {
  draft.owe(eventTaken(draft, event.id));
  completeWithPayload(draft, currentPlan(draft), event.payload, (payload) => eventValue({ ...event, payload }));
}
