// A rehearsal: one workflow run with its family, on the machine alone. It chooses the next move, plays the outside by the mocks,
// and advances the clock.

import type { Program } from "../chart/program.js";
import { isReady, wakeAt } from "../state/context.js";
import type { Wait } from "../state/wait.js";
import { Family, MissingWorkflow } from "./family.js";
import { awaitedAnswer, Outside } from "./outside.js";
import type { Move, Rehearsed, WantedWorkflow } from "./rehearsed.js";
import type { RehearsalOptions } from "./request.js";
import type { RehearsedRun } from "./run.js";

const MAX_MOVES = 10_000;
const MAX_TIME_MS = 100 * 366 * 86_400_000;
/** Characters of variables, outputs and events: about 64 MiB. */
const MAX_KEPT_CHARS = 64 * 1_048_576;
const MOVED_BY_TIME_ONLY: ReadonlySet<string> = new Set(["timer", "backoff"]);

export class Rehearsal {
  private moves = 0;
  /** Why the rehearsal stopped before the end of its run. */
  private left?: string;
  private readonly family: Family;
  private readonly outside: Outside;

  constructor(
    program: Program,
    private readonly options: RehearsalOptions,
  ) {
    this.family = new Family(program, options);
    const { runs, script } = this.family;
    this.outside = new Outside(
      script,
      (id) => runs.get(id)?.program.workflowId,
      (event) => this.family.publish(event),
    );
  }

  /** Adds a workflow that was missing. Null: it does not exist. */
  provide(wanted: WantedWorkflow, program: Program | null): void {
    this.family.provide(wanted, program);
  }

  /** Makes one move, of a run or of the clock. */
  move(): Move {
    if (this.family.root.ended || this.left !== undefined) return "over";
    this.left = this.exceededBound();
    const next = this.left === undefined ? this.nextMove() : undefined;
    if (!next) {
      this.left ??= this.unansweredSteps();
      return "over";
    }
    try {
      next();
      this.moves++;
      return "moved";
    } catch (thrown) {
      if (thrown instanceof MissingWorkflow) return { missing: thrown.workflow };
      throw thrown;
    }
  }

  get result(): Rehearsed {
    const { state, output, variables, ending, requiresManualReview } = this.family.root.context;
    return {
      state,
      ...(output !== undefined && { output }),
      variables,
      ...(ending?.error && { error: ending.error }),
      requires_manual_review: requiresManualReview,
      events: this.family.events,
      ...(this.left !== undefined && { left: this.left }),
    };
  }

  private exceededBound(): string | undefined {
    const { now, keptChars } = this.family;
    if (this.moves >= MAX_MOVES) return `it did not end within ${MAX_MOVES} moves`;
    if (now - this.options.startAt > MAX_TIME_MS) return "it did not end within a hundred years of its clock";
    if (keptChars > MAX_KEPT_CHARS)
      return `its variables, outputs and events are over ${MAX_KEPT_CHARS} characters of JSON`;
    return undefined;
  }

  private unansweredSteps(): string {
    const waits = [...this.family.living].flatMap(({ context: { step, wait } }) =>
      wait && wait.kind !== "children" ? [`"${step}" (${wait.kind})`] : [],
    );
    return `no answer comes for the step ${waits.slice(0, 5).join(", ")}, which has no timeout`;
  }

  /** Commands between runs first, then the runs in their order, then the clock. A wait without a mock is answered last. */
  private nextMove(): (() => void) | undefined {
    const { living } = this.family;
    const message = this.family.nextMessage();
    if (message) return () => this.family.deliver(message);
    for (const run of living) {
      const move = this.moveOf(run);
      if (move) return move;
    }
    const timer = this.nextTimer((wait) => wait !== undefined && MOVED_BY_TIME_ONLY.has(wait.kind));
    return timer ?? this.answerWithoutMock() ?? this.nextTimer();
  }

  private moveOf(run: RehearsedRun): (() => void) | undefined {
    const { context } = run;
    const { wait } = context;
    if (context.state === "pending" || isReady(context)) return () => run.command({ type: "advance" });
    if (wait?.kind === "queued") {
      const { dispatchId } = wait;
      return () => run.command({ type: "offer", dispatchId, workerId: "mock" });
    }
    const asksMocks = wait?.kind === "dispatched" || this.family.isMocked(context.run, context.step);
    return asksMocks ? this.answerFor(run) : undefined;
  }

  /** The answer from outside that the run waits for, unless the outside is known to be silent. */
  private answerFor(run: RehearsedRun): (() => void) | undefined {
    const awaited = awaitedAnswer(run.context);
    return awaited === undefined || awaited === run.unanswered ? undefined : () => this.askOutside(run);
  }

  private answerWithoutMock(): (() => void) | undefined {
    for (const run of this.family.living) {
      const answer = this.answerFor(run);
      if (answer) return answer;
    }
    return undefined;
  }

  /** Advances the clock to the first due time, of all waits or of those that match. */
  private nextTimer(matches?: (wait: Wait | undefined) => boolean): (() => void) | undefined {
    let first: { run: RehearsedRun; at: number } | undefined;
    for (const run of this.family.living) {
      if (matches && !matches(run.context.wait)) continue;
      const at = wakeAt(run.context);
      if (typeof at === "number" && (!first || at < first.at)) first = { run, at };
    }
    if (!first) return undefined;
    const { run, at } = first;
    return () => {
      this.family.now = Math.max(this.family.now, at);
      run.command({ type: "advance" });
    };
  }

  /** The outside answers, or is silent. */
  private askOutside(run: RehearsedRun): void {
    const command = this.outside.answer(run);
    run.unanswered = command ? undefined : awaitedAnswer(run.context);
    const answer = command && run.command(command);
    if (answer?.type === "unfit")
      this.left = `the result for the step "${run.context.step}" does not fit its task: ${answer.problems.slice(0, 5).join("; ")}`;
  }
}
