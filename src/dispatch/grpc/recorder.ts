// Brings workers' answers to their runs and acknowledges them. An answer is acknowledged only when its transition is
// committed, or known to come too late (law 11); otherwise nothing is said, and the worker sends it again.
import { SagaError } from "../../errors.js";
import { answerId, failureCommand, resultCommand } from "../answers.js";
import type { DispatchLimits, Log, TransportHost } from "../transport.js";
import type { StepFailure, StepResult } from "./messages.js";
import type { WorkerStream } from "./stream.js";

export class Recorder {
  /** On their way to their run, by dispatch; a resent one meanwhile is passed over. */
  readonly #underWay = new Map<string, Promise<void>>();
  /** Could not be recorded: each is logged once. */
  readonly #unrecorded = new Set<string>();

  constructor(
    private readonly host: TransportHost,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
    /** Called before the acknowledgement goes out: nothing is owed for the dispatch any more. */
    private readonly resolved: (dispatchId: string) => void,
  ) {}

  async take(stream: WorkerStream, runId: string, report: StepResult | StepFailure): Promise<void> {
    const dispatchId = report.dispatch_id;
    if (this.#underWay.has(dispatchId)) return;
    const recording = this.#record(stream, runId, report);
    this.#underWay.set(dispatchId, recording);
    await recording;
    this.#underWay.delete(dispatchId);
  }

  /** Resolves when no answer is on its way. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values());
  }

  async #record(stream: WorkerStream, runId: string, report: StepResult | StepFailure): Promise<void> {
    const dispatchId = report.dispatch_id;
    try {
      const command =
        "result_json" in report
          ? resultCommand(report, stream.workerId, this.limits.outputBytes)
          : failureCommand(report, stream.workerId);
      const answer = await this.host.command(runId, command, { id: answerId(report) });
      if (answer.type === "report") this.#acknowledge(stream, dispatchId, answer.stale);
      else this.#leave(runId, dispatchId, { reason: answer.type === "refused" ? answer.reason : answer.type });
    } catch (error) {
      // A purged run: nobody waits for the answer any more.
      if (error instanceof SagaError && error.status === 404) this.#acknowledge(stream, dispatchId, true);
      else this.#leave(runId, dispatchId, { err: error });
    }
  }

  #acknowledge(stream: WorkerStream, dispatchId: string, stale: boolean): void {
    this.#unrecorded.delete(dispatchId);
    this.resolved(dispatchId);
    stream.write({ recorded: { dispatch_id: dispatchId, stale } });
  }

  #leave(runId: string, dispatchId: string, why: Readonly<Record<string, unknown>>): void {
    if (this.#unrecorded.has(dispatchId)) return;
    if (this.#unrecorded.size >= this.limits.claims) this.#unrecorded.clear();
    this.#unrecorded.add(dispatchId);
    this.log.warn({ ...why, runId, dispatchId }, "an answer could not be recorded; the worker sends it again");
  }
}
