// A dispatcher that the test controls: it has credit or not, delivers or drops, and its one worker replies as the test decides. Its
// ledgers record all calls.
import type { ActionCall, Dispatch, DispatchId, JsonObject, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { derivedUuid } from "../../src/ids.js";
import type { Dispatcher, Runs } from "../../src/run/ports.js";
import { until } from "../harness/until.js";

export type Outcome =
  | { readonly result: JsonObject }
  | { readonly code: string; readonly retryable?: boolean; readonly outcomeUnknown?: boolean };

/** The worker's answer to a dispatch; undefined: it never answers. */
export type Reply = (dispatch: Dispatch) => Outcome | undefined;

export class HandDispatcher implements Dispatcher {
  /** Whether the worker has credit. */
  credit = true;
  /** Plays a process that dies between commit and send: a matching dispatch is not sent, and is only in `dropped`. */
  drops: (dispatch: Dispatch) => boolean = () => false;
  readonly sent: Dispatch[] = [];
  readonly dropped: Dispatch[] = [];
  readonly cancelled: string[] = [];
  private readonly queue = new Map<DispatchId, { runId: RunId; call: ActionCall }>();
  private readonly held = new Set<string>();
  private readonly carried = new Set<string>();
  private readonly answering = new Set<Promise<void>>();
  private runs: Runs | undefined;
  /** Answers go here; by default to the runtime of the dispatcher. Any node takes them (law 6). */
  answerTo: (dispatch: Dispatch) => Runs | undefined = () => this.runs;
  private stopped = false;

  constructor(private readonly reply: Reply = () => ({ result: {} })) {}

  bind(runs: Runs): void {
    this.runs = runs;
  }

  reserve(dispatchId: string): { workerId: string } | undefined {
    if (!this.credit || this.stopped) return undefined;
    this.held.add(dispatchId);
    return { workerId: "hand" };
  }

  enqueue(runId: RunId, dispatchId: DispatchId, call: ActionCall): void {
    if (this.stopped || this.holds(dispatchId)) return;
    this.queue.set(dispatchId, { runId, call });
    if (this.credit) this.offerAll();
  }

  /** Credit comes free for all queued calls. */
  offerAll(): void {
    for (const [dispatchId, { runId }] of this.queue) {
      this.queue.delete(dispatchId);
      this.track(this.insist(() => this.runs, runId, { type: "offer", dispatchId, workerId: "hand" }));
    }
  }

  /** Drops the queue, as the death of a node does. */
  forgetQueue(): number {
    const { size } = this.queue;
    this.queue.clear();
    return size;
  }

  send(dispatch: Dispatch): void {
    this.held.add(dispatch.dispatchId);
    if (this.stopped || this.carried.has(dispatch.dispatchId)) return;
    this.carried.add(dispatch.dispatchId);
    if (this.drops(dispatch)) return void this.dropped.push(dispatch);
    this.sent.push(dispatch);
    const outcome = this.reply(dispatch);
    if (!outcome) return;
    const command = commandOf(dispatch, outcome);
    const id = derivedUuid(JSON.stringify(command));
    this.track(this.insist(() => this.answerTo(dispatch), dispatch.runId, command, id));
  }

  cancel(dispatchId: string): void {
    this.cancelled.push(dispatchId);
  }

  resolved(dispatchId: DispatchId): void {
    this.queue.delete(dispatchId);
    this.held.delete(dispatchId);
    this.carried.delete(dispatchId);
  }

  waitsWithoutTenant(): boolean {
    return false;
  }

  holds(dispatchId: DispatchId): boolean {
    return this.queue.has(dispatchId) || this.held.has(dispatchId);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.all(this.answering);
  }

  private track(work: Promise<void>): void {
    this.answering.add(work);
    void work.finally(() => this.answering.delete(work));
  }

  /** Repeats an answer under the same id until it is recorded, as a worker does. */
  private async insist(to: () => Runs | undefined, runId: RunId, command: RunCommand, id?: string): Promise<void> {
    const recorded = async () => {
      if (this.stopped) return true;
      await to()
        ?.command(runId, command, { id, reach: EVERYTHING })
        .catch((error) => {
          if (!(error instanceof SagaError && error.status === 404)) throw error;
        });
      return true;
    };
    await until(recorded, { within: Number.POSITIVE_INFINITY, pause: 30, what: "the record of an answer" });
  }
}

function commandOf({ dispatchId }: Dispatch, outcome: Outcome): RunCommand {
  const about = { dispatchId, actor: "worker:hand" };
  if ("result" in outcome) return { type: "result", ...about, result: outcome.result };
  const { code, retryable = true, outcomeUnknown = false } = outcome;
  return { type: "failure", ...about, code, message: code, retryable, outcomeUnknown };
}
