// The answers of this process: kept until the service says that they are recorded, and a while longer, so that a step
// sent again gets the same answer. Not where they are sent from.
import type { Connection } from "./connection.js";
import type { AnswerMessage } from "./protocol.js";

export interface PendingAnswer {
  readonly dispatchId: string;
  readonly message: AnswerMessage;
  /** The connection its step came on. */
  via: Connection;
  /** When it was last sent, on the monotonic clock. */
  sentAt: number;
}

/** Recorded answers that are remembered. */
const REMEMBERED = 10_000;
const REMEMBERED_BYTES = 64 * 1_048_576;

/** Unrecorded answers beyond which the oldest is given up: it has long passed its deadline. */
const PENDING = 100_000;

export class Answers {
  readonly #pending = new Map<string, PendingAnswer>();
  /** In the order of their recording. */
  readonly #recorded = new Map<string, AnswerMessage>();
  #recordedBytes = 0;

  get size(): number {
    return this.#pending.size;
  }

  all(): Iterable<PendingAnswer> {
    return this.#pending.values();
  }

  add(dispatchId: string, message: AnswerMessage, via: Connection): PendingAnswer {
    const answer: PendingAnswer = { dispatchId, message, via, sentAt: Number.NEGATIVE_INFINITY };
    this.#pending.set(dispatchId, answer);
    if (this.#pending.size > PENDING) {
      const oldest = this.#pending.keys().next();
      if (!oldest.done) this.#pending.delete(oldest.value);
    }
    return answer;
  }

  /** The step came again: its answer, if it has one, is owed again. */
  again(dispatchId: string, via: Connection): PendingAnswer | undefined {
    const pending = this.#pending.get(dispatchId);
    if (pending) {
      pending.via = via;
      return pending;
    }
    const message = this.#recorded.get(dispatchId);
    if (!message) return undefined;
    this.#forget(dispatchId, message);
    return this.add(dispatchId, message, via);
  }

  recorded(dispatchId: string): void {
    const answer = this.#pending.get(dispatchId);
    if (!answer) return;
    this.#pending.delete(dispatchId);
    this.#recorded.set(dispatchId, answer.message);
    this.#recordedBytes += bytes(answer.message);
    for (const [oldest, message] of this.#recorded) {
      if (this.#recorded.size <= REMEMBERED && this.#recordedBytes <= REMEMBERED_BYTES) break;
      this.#forget(oldest, message);
    }
  }

  #forget(dispatchId: string, message: AnswerMessage): void {
    this.#recorded.delete(dispatchId);
    this.#recordedBytes -= bytes(message);
  }
}

/** About what an answer takes in memory. */
function bytes(message: AnswerMessage): number {
  return 256 + ("result" in message ? message.result.result_json.length : 2 * message.failure.message.length);
}
