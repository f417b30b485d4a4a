// Events in a run's decisions: taking one that comes, and looking at those that came before. An event and a wait must find each
// other: each side commits first and then looks (law 9); the event's look is the announcer's, the run's own is owed by its wake.
import type { Answer } from "./commands.js";
import type { Wait } from "./context.js";
import { type Command, unchanged } from "./decide.js";
import type { Effect } from "./effects.js";
import { complete, currentPlan } from "./enter.js";
import type { Expression } from "./expression/index.js";
import type { EventFact } from "./facts.js";
import { scopeOf } from "./scope.js";
import { type EventWait, eventValue, pick } from "./steps/event.js";
import { type Decision, type Draft, Needed } from "./transition.js";

/** An event was published that the run may be waiting for: of those that it has not looked at yet it takes the oldest. */
export function eventCame(draft: Draft, { eventId }: Command<"event">): Decision {
  const { wait, quarantined, ending, unwinding } = draft.context;
  const answer: Answer = { type: "advanced" };
  // In quarantine it is looked for at the release.
  if (wait?.kind !== "event" || quarantined || ending || unwinding) return unchanged(answer);
  const page = eventsFor(draft, wait, eventId);
  const named = page.filter(({ id }) => id === eventId);
  // Most events are not the one: only for one that is, the others are tried.
  const one = search(draft, named);
  if (!one.found && !one.fault) return unchanged(answer);
  if (!one.found) {
    record(draft, one);
    draft.take("note");
  } else take(draft, search(draft, page).found ?? one.found);
  return draft.decided(answer);
}

/**
 * One page of what came before the wait's own commit. Going on above the last ordinal loses nothing, though ordinals may be
 * committed out of their order: whatever is committed after the wait is announced to it.
 */
export function lookForEvents(draft: Draft, wait: EventWait): true {
  const page = eventsFor(draft, wait);
  const found = search(draft, page);
  record(draft, found);
  if (found.found) take(draft, found.found);
  else {
    const { look: _, ...rest } = wait;
    const after = page[found.tried - 1]?.ordinal ?? wait.after;
    const on = found.tried < page.length || draft.facts.events?.more === true;
    draft.change({ wait: { ...rest, ...(after !== undefined && { after }), ...(on && { look: true }) } });
    draft.take("note");
  }
  return true;
}

/** After a time in which it heard of nothing, the run looks at everything again. */
export function lookingAgain({ after: _, ...wait }: EventWait): EventWait {
  return { ...wait, look: true };
}

function eventsFor(draft: Draft, { topic, headers, since, after }: EventWait, named?: string): readonly EventFact[] {
  const { events } = draft.facts;
  if (events) return events.page;
  throw new Needed({ kind: "events", topic, headers, since, after, named });
}

function search(draft: Draft, events: readonly EventFact[]) {
  const { context } = draft;
  const { match } = currentPlan(draft).attributes as { match?: Expression };
  return pick(events, match, scopeOf(context, context.entry?.at ?? draft.now));
}

/** An event that the step's `match` cannot be evaluated on is passed over: anybody may publish, and no run shall fail of it. */
function record(draft: Draft, { fault }: ReturnType<typeof search>): void {
  if (!fault) return;
  const metadata = { kind: "event_not_matched", event_id: fault.item.id, message: fault.message };
  draft.row("log", draft.context.state, { stepId: draft.context.step, metadata });
}

function take(draft: Draft, event: EventFact): void {
  draft.owe({ kind: "event.taken", id: event.id });
  complete(draft, currentPlan(draft), { output: eventValue(event) });
}

/** From its first commit to its last the wait has a row that announcers find; a look that goes on leaves it alone. */
export function awaiting(before: Wait | undefined, after: Wait | undefined): readonly Effect[] {
  if (after?.kind !== "event") return before?.kind === "event" ? [{ kind: "event.unawaited" }] : [];
  const { topic, headers } = after;
  if (before?.kind === "event" && before.topic === topic && before.headers === headers) return [];
  return [{ kind: "event.awaited", topic, headers }];
}
