// The command `cancel`: the run is aborted and rolled back, once.
import type { CancelAccepted, Command } from "../messages/command.js";
import { type DecisionOn, unchanged } from "../messages/transition.js";
import { isHalted } from "../state/context.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import type { Draft } from "./draft.js";
import { resumeChildren } from "./hold.js";
import { restingState } from "./quarantine.js";
import { keepPromise } from "./signals.js";
import { abortRun } from "./token.js";

export function cancel(
  draft: Draft,
  { reason = "cancelled", compensate, unlessBegun, actor }: Command<"cancel">,
): DecisionOn<"cancel"> {
  const { context } = draft;
  if (isTerminal(context.state)) return unchanged(cancelAnswer(context.state, true));
  if (unlessBegun && context.state !== "pending") return unchanged(cancelAnswer(context.state, false));
  if (context.ending) return unchanged({ ...cancelAnswer(context.state, false), alreadyEnding: true });
  draft.actor = "coordinator";
  keepPromise(draft);
  // The promised signal may have been the last thing that the run waited for.
  if (isTerminal(context.state)) return draft.decided(cancelAnswer(context.state, true));
  draft.actor = actor;
  const halted = isHalted(context);
  const { held } = context;
  draft.change({ quarantined: false, proof: undefined, held: undefined });
  const rest = halted ? restingState(context) : context.state;
  draft.row("log", rest, { metadata: { kind: "cancel", reason, by: actor, compensate } });
  draft.actor = "coordinator";
  abortRun(draft, { to: "cancelled", reason, ...(!compensate && { abandon: true }) });
  if (held) resumeChildren(draft, actor);
  return draft.decided(cancelAnswer(draft.context.state, false));
}

const cancelAnswer = (state: RunState, alreadyTerminal: boolean): CancelAccepted => ({
  type: "cancel",
  state,
  alreadyTerminal,
});
