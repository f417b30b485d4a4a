// Brings workers' answers to their runs and acknowledges them. An answer is acknowledged only when its transition is
// committed, or when it is known to come too late (law 11). Without an acknowledgement the worker sends the answer
// again.
import type { DispatchId, RunId } from "../../../machines/index.js";
import { SagaError } from "../../errors.js";
import type { Log } from "../../log.js";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import type { CarrierHost } from "../carrier.js";
import type { DispatchLimits } from "../limits.js";
import { FOREIGN_TENANT } from "../workers.js";
import { answerCommand, answerId, type Report } from "./answers.js";
import type { WorkerStream } from "./stream.js";

/** `id`: the answer's own, so that another answer for the same dispatch has its own time. */
interface Arrival {
  readonly id: string;
  /** Database time, epoch milliseconds. */
  readonly at: number;
}

export class Recorder {
  /** Answers on their way to their run, by dispatch. An answer that is resent meanwhile is ignored. */
  private readonly underWay = new Map<string, Promise<void>>();
  /** Answers that could not be recorded, by dispatch: each is logged once, and keeps the time when it first arrived. */
  private readonly unrecorded = new Map<string, Arrival>();

  constructor(
    private readonly host: Pick<CarrierHost, "command">,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
    /** Database time, epoch milliseconds. */
    private readonly now: () => number,
    private readonly scheduler: Pick<FairScheduler, "compute">,
    /** Called before the acknowledgement is sent: the run waits for the dispatch no longer. */
    private readonly resolved: (dispatchId: DispatchId) => void,
  ) {}

  /** `isHeld`: by this node, which has found that the worker may answer the dispatch. */
  async record(stream: WorkerStream, runId: RunId, report: Report, isHeld: boolean): Promise<void> {
    const dispatchId = report.dispatch_id;
    if (this.underWay.has(dispatchId)) return;
    const recording = this.commandRun(stream, runId, report, isHeld);
    this.underWay.set(dispatchId, recording);
    await recording;
    this.underWay.delete(dispatchId);
  }

  /** Resolves when no answer is on its way. */
  async idle(): Promise<void> {
    while (this.underWay.size > 0) await Promise.all(this.underWay.values());
  }

  private async commandRun(stream: WorkerStream, runId: RunId, report: Report, isHeld: boolean): Promise<void> {
    const dispatchId = report.dispatch_id;
    const arrival = this.arrivalOf(report);
    try {
      const command = await this.scheduler.compute(stream.service, () =>
        answerCommand(report, stream.reporting, this.limits.outputBytes),
      );
      const { id, at: arrivedAt } = arrival;
      const answer = await this.host.command(runId, { arrivedAt, ...command }, { id, reach: stream.reach });
      if (answer.type === "report" && answer.reason !== undefined) this.refuse(stream, dispatchId, answer.reason);
      else if (answer.type === "report") this.acknowledge(stream, dispatchId, answer.stale);
      else this.keep(runId, dispatchId, arrival, { reason: answer.type === "refused" ? answer.reason : answer.type });
    } catch (error) {
      const isNoRun = error instanceof SagaError && error.status === 404;
      // For a worker of some tenants a run of another is none.
      if (isNoRun && !isHeld && stream.reach.tenants !== "*") this.refuse(stream, dispatchId, FOREIGN_TENANT);
      // The run was purged: the answer is stale.
      else if (isNoRun) this.acknowledge(stream, dispatchId, true);
      else this.keep(runId, dispatchId, arrival, { err: error });
    }
  }

  /** An answer that is resent because it could not be recorded arrived when it first came. */
  private arrivalOf(report: Report): Arrival {
    const id = answerId(report);
    const before = this.unrecorded.get(report.dispatch_id);
    return before?.id === id ? before : { id, at: this.now() };
  }

  /** The dispatch is another service's or tenant's, and stays with its worker. The reason travels in a cancel: `Recorded` has none. */
  refuse(stream: WorkerStream, dispatchId: DispatchId, reason: string): void {
    this.unrecorded.delete(dispatchId);
    stream.refused(dispatchId, reason);
    stream.write({ cancel: { dispatch_id: dispatchId, reason } });
    stream.write({ recorded: { dispatch_id: dispatchId, stale: true } });
  }

  private acknowledge(stream: WorkerStream, dispatchId: DispatchId, stale: boolean): void {
    this.unrecorded.delete(dispatchId);
    this.resolved(dispatchId);
    stream.write({ recorded: { dispatch_id: dispatchId, stale } });
  }

  private keep(runId: RunId, dispatchId: DispatchId, arrival: Arrival, why: Readonly<Record<string, unknown>>): void {
    if (this.unrecorded.has(dispatchId)) return;
    if (this.unrecorded.size >= this.limits.claims) this.unrecorded.clear();
    this.unrecorded.set(dispatchId, arrival);
    this.log.warn({ ...why, runId, dispatchId }, "answer could not be recorded, waiting for the worker to resend it");
  }
}
