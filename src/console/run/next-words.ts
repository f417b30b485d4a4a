// What happens to a run at the time that its explanation names: it goes on, or a deadline passes and something fails. Pure.
import { attributesIn } from "../../../machines/attribute/mention.js";
import type { StepBook } from "../../../machines/index.js";
import type { StepDocument } from "../graph/blocks.js";
import { type Names, nameIn } from "../story/words.js";

export interface Expected {
  readonly next_at?: string;
  readonly waiting_for: readonly Readonly<Record<string, unknown>>[];
}

/** Around the time: `before` it, and `after` it. */
export interface NextWords {
  readonly before: string;
  readonly after: string;
}

/** The steps of the definition, and what they are called. */
export interface Steps {
  readonly documents: ReadonlyMap<string, StepDocument>;
  readonly names?: Names;
}

/** Undefined: nothing happens by itself. */
export function nextWords(
  { next_at, waiting_for: [wait] }: Expected,
  steps: Steps | undefined,
  types: StepBook,
): NextWords | undefined {
  if (next_at === undefined) return undefined;
  // A timeout of the run, of a try around the step or of a child comes first.
  if (wait === undefined || wait.until !== next_at) return { before: "Its next timer or deadline is at", after: "" };
  switch (wait.kind) {
    case "start":
    case "timer":
      return { before: "It goes on by itself at", after: "" };
    case "retry":
      return { before: "It is tried again at", after: "" };
    case "worker":
      return { before: "If no worker takes it until", after: ", the step fails" };
    case "answer":
      return { before: "If no answer comes until", after: ", the attempt has timed out" };
    case "children":
      return { before: "If they have not ended until", after: ", they are cancelled, and the step fails" };
    default:
      return atTimeout(wait, steps ?? { documents: new Map() }, types);
  }
}

const WITHOUT: Readonly<Record<string, string>> = {
  signal: "If no signal comes until",
  event: "If no event comes until",
  user_task: "If the task is not submitted until",
};

/** The end of a wait: the definition says what becomes of the step. */
function atTimeout({ kind, step_id }: Readonly<Record<string, unknown>>, { documents, names }: Steps, types: StepBook) {
  const document = documents.get(String(step_id)) ?? {};
  const isApproval = types.get(String(document.type))?.decides !== undefined;
  const before = isApproval ? "If it is not decided until" : (WITHOUT[String(kind)] ?? "If nothing comes until");
  const then = attributesIn(document).on_timeout ?? "fail";
  if (then === "fail") return { before, after: isApproval ? ", the approval fails" : ", the step fails" };
  return {
    before,
    after: then === "continue" ? ", the run goes on without it" : `, the run goes on at ${nameIn(names, String(then))}`,
  };
}
