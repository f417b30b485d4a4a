// The undo list of a run: its entries keep the action and the inputs that were recorded with them. Only what follows from an undo that fails
// for good is looked up in the definition, by the step's id.
import type { Reason } from "../messages/command.js";
import { idThere, named, type Passage, placeThere } from "./passage.js";

export function undoReasons(passage: Passage): readonly Reason[] {
  const { from, context } = passage;
  if (context.owed === 0) return [];
  return [...from.steps.values()].flatMap(({ id, compensation }) => (compensation ? ruleReasons(passage, id) : []));
}

/** The rule of the step that has this id in the new version must be that of the step itself. */
function ruleReasons(passage: Passage, id: string): readonly Reason[] {
  const { from, to } = passage;
  const ruleOf = (step: string) => to.steps.get(step)?.onUndoFailure ?? to.onUndoFailure ?? "continue";
  const there = to.steps.get(idThere(passage, id));
  const meant = there ? ruleOf(there.id) : (from.steps.get(id)?.onUndoFailure ?? to.onUndoFailure ?? "continue");
  if (meant === ruleOf(id)) return [];
  const namesake = to.steps.get(id);
  const message = `an undo of the step "${id}" may be owed, and its on_undo_failure is ${meant}: ${named(to)} has ${ruleOf(id)} for that id`;
  return [{ ...(namesake && { path: placeThere(passage, namesake, "on_undo_failure") }), message }];
}
