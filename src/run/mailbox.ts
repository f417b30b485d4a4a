// The mailbox of a run: commands wait here, each with the callbacks that answer its caller, and are handled one at a time, in order. It is
// bounded. Handling a command is the resident's matter.
import type { Answer, ReceivedCommand, RunCommand } from "../../machines/index.js";
import { overloaded } from "../errors.js";
import { uuidv7 } from "../ids.js";
import type { Start } from "./starter.js";

/** A command on its way to a run, with the callbacks that answer its caller. */
export interface QueuedCommand extends ReceivedCommand {
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

/** Commands waiting for one run; one more is answered with 503. */
const CAPACITY = 1_000;

export interface MailboxHandlers {
  /** Carries out one command. A rejection is the caller's answer. */
  readonly handle: (queued: QueuedCommand) => Promise<Answer>;
  /** The mailbox is empty and nothing is being handled. */
  readonly onIdle: () => void;
}

export class Mailbox {
  private readonly waiting: QueuedCommand[] = [];
  private working = false;

  constructor(private readonly handlers: MailboxHandlers) {}

  get busy(): boolean {
    return this.working || this.waiting.length > 0;
  }

  queue(queued: QueuedCommand): void {
    if (this.waiting.length >= CAPACITY) return queued.reject(overloaded("the run's mailbox is full"));
    this.waiting.push(queued);
    if (!this.working) void this.work();
  }

  /** A command of the run to itself goes behind those that wait: a run that never rests still receives a cancel. */
  queueOwn(command: RunCommand, reject: (error: unknown) => void): void {
    this.waiting.push({ command, keep: false, resolve: () => {}, reject });
  }

  /** The command that is handled next; it stays in the mailbox. */
  get next(): QueuedCommand | undefined {
    return this.waiting[0];
  }

  /** Removes `next`: it is handled together with the current one. */
  removeNext(): void {
    this.waiting.shift();
  }

  /** Commands that were removed, but whose commit was lost, wait in front again. */
  putBack(commands: readonly QueuedCommand[]): void {
    this.waiting.unshift(...commands);
  }

  /**
   * Answers a command that was carried out, and with it those that wait with the same inbox row: the poll brings again what has waited for
   * long. Carried out once more, each would lose a commit, and the actor with it.
   */
  answer(queued: QueuedCommand, answer: Answer): void {
    queued.resolve(answer);
    const { inboxId } = queued;
    if (inboxId === undefined) return;
    for (const again of this.waiting.filter((other) => other.inboxId === inboxId)) {
      this.waiting.splice(this.waiting.indexOf(again), 1);
      again.resolve(answer);
    }
  }

  private async work(): Promise<void> {
    this.working = true;
    for (let queued = this.waiting.shift(); queued; queued = this.waiting.shift()) {
      try {
        this.answer(queued, await this.handlers.handle(queued));
      } catch (error) {
        queued.reject(error);
      }
    }
    this.working = false;
    this.handlers.onIdle();
  }
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
