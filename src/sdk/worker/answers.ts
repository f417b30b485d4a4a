// The answers of this process. Each is kept until the service has recorded it, and for a while after that, so that a
// step that is sent again gets the same answer. It sends nothing: worker.ts does.
import type { StepFailure, StepResult } from "../protocol/index.js";

/** A worker message that answers a dispatch. */
export type AnswerMessage = { readonly result: StepResult } | { readonly failure: StepFailure };

export interface PendingAnswer<Origin> {
  readonly dispatchId: string;
  readonly message: AnswerMessage;
  /** Where the step came from last. */
  via: Origin;
  /** When it was last sent, on the monotonic clock. */
  sentAt: number;
}

/** Recorded answers that are remembered. */
const REMEMBERED = 10_000;
const REMEMBERED_BYTES = 64 * 1_048_576;

/** At more unrecorded answers than these, the oldest is given up: it is long past its deadline. */
const PENDING = 100_000;

export class Answers<Origin> {
  private readonly pending = new Map<string, PendingAnswer<Origin>>();
  /** Recorded answers, in the order of their recording. */
  private readonly remembered = new Map<string, AnswerMessage>();
  private rememberedBytes = 0;

  /** Answers that are not recorded yet. */
  get size(): number {
    return this.pending.size;
  }

  all(): Iterable<PendingAnswer<Origin>> {
    return this.pending.values();
  }

  add(dispatchId: string, message: AnswerMessage, via: Origin): PendingAnswer<Origin> {
    const answer: PendingAnswer<Origin> = { dispatchId, message, via, sentAt: Number.NEGATIVE_INFINITY };
    this.pending.set(dispatchId, answer);
    if (this.pending.size > PENDING) {
      const oldest = this.pending.keys().next();
      if (!oldest.done) this.pending.delete(oldest.value);
    }
    return answer;
  }

  /** The answer of a step that came again, to be sent again. Undefined: it has none. */
  again(dispatchId: string, via: Origin): PendingAnswer<Origin> | undefined {
    const pending = this.pending.get(dispatchId);
    if (pending) {
      pending.via = via;
      return pending;
    }
    const message = this.remembered.get(dispatchId);
    if (!message) return undefined;
    this.forget(dispatchId, message);
    return this.add(dispatchId, message, via);
  }

  recorded(dispatchId: string): void {
    const answer = this.pending.get(dispatchId);
    if (!answer) return;
    this.pending.delete(dispatchId);
    this.remembered.set(dispatchId, answer.message);
    this.rememberedBytes += bytes(answer.message);
    for (const [oldest, message] of this.remembered) {
      if (this.remembered.size <= REMEMBERED && this.rememberedBytes <= REMEMBERED_BYTES) break;
      this.forget(oldest, message);
    }
  }

  private forget(dispatchId: string, message: AnswerMessage): void {
    this.remembered.delete(dispatchId);
    this.rememberedBytes -= bytes(message);
  }
}

/** Approximate size of an answer in memory. */
function bytes(message: AnswerMessage): number {
  return 256 + ("result" in message ? message.result.result_json.length : 2 * message.failure.message.length);
}
