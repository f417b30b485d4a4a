// A dispatcher in the test's hand: it has credit or not, delivers or drops, and its one worker replies as the test says.
// What was handed to it stands in its ledgers.
import type { ActionCall, Dispatch, JsonObject, RunCommand } from "../../machines/index.js";
import { SagaError } from "../../src/errors.js";
import { derivedUuid } from "../../src/ids.js";
import type { Dispatcher, Runs } from "../../src/run/ports.js";

export type Outcome =
  | { readonly result: JsonObject }
  | { readonly code: string; readonly retryable?: boolean; readonly outcomeUnknown?: boolean };

/** What the worker answers to a dispatch; undefined: nothing, ever. */
export type Reply = (dispatch: Dispatch) => Outcome | undefined;

/** Until an answer is recorded it is sent again after this time, as workers do. */
const RESEND_MS = 30;

export class HandDispatcher implements Dispatcher {
  /** Whether its worker takes more. */
  credit = true;
  /** The process dies between commit and send: what matches is dropped, and stands in `dropped` only. */
  drops: (dispatch: Dispatch) => boolean = () => false;
  readonly sent: Dispatch[] = [];
  readonly dropped: Dispatch[] = [];
  readonly cancelled: string[] = [];
  private readonly queue = new Map<string, { runId: string; call: ActionCall }>();
  private readonly held = new Set<string>();
  private readonly carried = new Set<string>();
  private readonly answering = new Set<Promise<void>>();
  private runs: Runs | undefined;
  /** Where answers go; its own runtime unless the test says otherwise (law 6: any node takes them). */
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

  enqueue(runId: string, dispatchId: string, call: ActionCall): void {
    if (this.stopped || this.holds(dispatchId)) return;
    this.queue.set(dispatchId, { runId, call });
    if (this.credit) this.offerAll();
  }

  /** Credit came free for all that queue. */
  offerAll(): void {
    for (const [dispatchId, { runId }] of this.queue) {
      this.queue.delete(dispatchId);
      this.track(this.insist(() => this.runs, runId, { type: "offer", dispatchId, workerId: "hand" }));
    }
  }

  /** A node that dies forgets what queued. */
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

  resolved(dispatchId: string): void {
    this.queue.delete(dispatchId);
    this.held.delete(dispatchId);
    this.carried.delete(dispatchId);
  }

  holds(dispatchId: string): boolean {
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

  /** Until the command has its outcome: an answer that was not recorded is given again, under the same id. */
  private async insist(to: () => Runs | undefined, runId: string, command: RunCommand, id?: string): Promise<void> {
    while (!this.stopped) {
      try {
        return void (await to()?.command(runId, command, { id }));
      } catch (error) {
        if (error instanceof SagaError && error.status === 404) return;
        await new Promise((resolve) => setTimeout(resolve, RESEND_MS));
      }
    }
  }
}

function commandOf({ dispatchId }: Dispatch, outcome: Outcome): RunCommand {
  const about = { dispatchId, actor: "worker:hand" };
  if ("result" in outcome) return { type: "result", ...about, result: outcome.result };
  const { code, retryable = true, outcomeUnknown = false } = outcome;
  return { type: "failure", ...about, code, message: code, retryable, outcomeUnknown };
}
