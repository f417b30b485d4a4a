// How a step stands at a moment, or the children that stand at it: one tone and one word, which are those of a run's own state. The graph, the
// details of a step and the counts of children say it by this.
import type { Tone } from "../graph/look.js";
import { type StateName, type StateTone, stateName } from "../parts/state-words.js";
import { mainHalt } from "./halt.js";
import type { Moment, StepStory } from "./moment.js";
import { UNDO_WORDS } from "./words.js";

export interface Standing {
  readonly tone: Tone;
  readonly word: string;
  /** What it waits for. */
  readonly more?: string;
}

const UNDO_TONES = { undoing: "undoing", undone: "undone", failed: "failed", passed: "skipped" } as const;

const TONES: Readonly<Record<StateTone, Tone>> = {
  running: "live",
  waiting: "waiting",
  paused: "paused",
  undoing: "undoing",
  succeeded: "done",
  failed: "failed",
  quiet: "skipped",
};

const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);

/** In the tones of a graph. */
export const standingIn = (state: string, reason?: string): Standing => toned(stateName(state, reason));

const toned = ({ word, tone, more }: StateName): Standing => ({
  ...{ tone: TONES[tone], word },
  ...(more !== undefined && { more }),
});

export function standingOf(step: StepStory, { state, halts }: Moment): Standing {
  const { undo, standing } = step;
  const isOpen = undo === "undoing" || (undo === undefined && !["done", "failed", "skipped"].includes(standing));
  // Nothing goes on in a run that has ended: the step was cut off.
  if (isOpen && ENDED.has(state)) return { tone: "skipped", word: "cut off" };
  const halt = mainHalt(halts);
  if (isOpen && halt !== undefined) return standingIn("paused", halt);
  if (undo !== undefined) return { tone: UNDO_TONES[undo], word: UNDO_WORDS[undo] };
  return forward(step);
}

function forward({ standing, awaiting }: StepStory): Standing {
  switch (standing) {
    case "running":
      return standingIn("running");
    case "waiting":
      return standingIn("paused", awaiting);
    case "retrying":
      return standingIn("paused", "retry");
    case "incident":
      return standingIn("paused", "incident");
    case "done":
      return standingIn("succeeded");
    case "failed":
      return standingIn("failed");
    default:
      return { tone: "skipped", word: "skipped" };
  }
}
