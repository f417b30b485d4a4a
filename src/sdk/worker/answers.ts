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

/** Recorded answers that are remembered, at most; at least half as many. */
const REMEMBERED = 10_000;
const REMEMBERED_BYTES = 64 * 1_048_576;

/** At more unrecorded answers than these, the oldest is given up: it is long past its deadline. */
const PENDING = 100_000;

export class Answers<Origin> {
  private readonly pending = new Map<string, PendingAnswer<Origin>>();
  /**
   * Recorded answers, in two generations: when the young one is half of what is remembered, the old one is forgotten. The oldest entry of one map
   * would be found behind the places of all that were deleted before it.
   */
  private young = new Map<string, AnswerMessage>();
  private old = new Map<string, AnswerMessage>();
  private youngBytes = 0;

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
    const message = this.young.get(dispatchId) ?? this.old.get(dispatchId);
    return message && this.add(dispatchId, message, via);
  }

  recorded(dispatchId: string): void {
    const answer = this.pending.get(dispatchId);
    if (!answer) return;
    this.pending.delete(dispatchId);
    // One that was sent again may be in the young generation already.
    if (this.young.has(dispatchId)) return;
    const size = bytes(answer.message);
    if (this.young.size >= REMEMBERED / 2 || this.youngBytes + size > REMEMBERED_BYTES / 2) {
      this.old = this.young;
      this.young = new Map();
      this.youngBytes = 0;
    }
    this.young.set(dispatchId, answer.message);
    this.youngBytes += size;
  }
}

/** Approximate size of an answer in memory. */
function bytes(message: AnswerMessage): number {
  return 256 + ("result" in message ? message.result.result_json.length : 2 * message.failure.message.length);
}
