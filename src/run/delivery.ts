// A delivery: one command on its way to a run, with the callbacks that answer its caller. How the command is carried out is
// resident.ts.
import type { Answer, RunCommand } from "../../machines/index.js";
import { uuidv7 } from "../ids.js";
import type { Start } from "./new-run.js";

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
  /** Whether the run's last commit has won was not known: a dispatch that it owes may be with no node. */
  readonly afterUnknown?: boolean;
  /** The command is the first of a run whose start is not committed yet, and is told what became of that. */
  readonly beginning?: Beginning;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * `won`: the run is durable, with its first steps. `lost`: it exists already, or its key is taken. `alone`: nothing is committed, and the start
 * has to be committed without the first steps.
 */
export type Begun = "won" | "lost" | "alone";

export interface Beginning {
  readonly start: Start;
  readonly settle: (begun: Begun) => void;
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
