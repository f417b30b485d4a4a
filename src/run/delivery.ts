// A delivery: one command on its way to a run, with the callbacks that answer its caller. How the command is carried out is
// resident.ts.
import type { Answer, RunCommand } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";

export interface Delivery {
  readonly command: RunCommand;
  /** Recorded with the outcome, so that a repeat of the command gets the same answer. Absent for hints. */
  readonly id?: string;
  /** Keep the recorded answer as long as the run, because a client holds the id; otherwise for a day. */
  readonly keep: boolean;
  /** What a repeat of the id must have in common with the first. */
  readonly requestHash?: string;
  /** The inbox row that carried the command. The commit of the outcome deletes it. */
  readonly inboxId?: string;
  /** The poll has leased the run's wake row for it. The next commit gives the row its due time, and no tries. */
  readonly wakeLeased?: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Commands whose repeat must be recognised get an id before the first try. The run's state recognises hints and offers. */
export function commandId({ type }: RunCommand): string | undefined {
  return REPEATABLE.has(type) ? uuidv7() : undefined;
}

const REPEATABLE: ReadonlySet<RunCommand["type"]> = new Set([
  ...(["signal", "submit", "cancel", "result", "failure"] as const),
  ...([
    "pause",
    "resume",
    "retry_step",
    "skip_step",
    "fail",
    "retry_undo",
    "skip_undo",
    "terminate",
    "migrate",
  ] as const),
]);
