// The mailbox of a run: commands wait here and are handled one at a time, in order. It is bounded. Handling a command is the
// resident's matter.
import type { Answer, RunCommand } from "../../machines/index.js";
import { overloaded } from "../errors.js";
import type { Delivery } from "./delivery.js";

/** Commands waiting for one run; one more is answered with 503. */
const CAPACITY = 1_000;

export interface MailboxHandlers {
  /** Carries out one command. A rejection is the caller's answer. */
  readonly handle: (delivery: Delivery) => Promise<Answer>;
  /** The mailbox is empty and nothing is being handled. */
  readonly onIdle: () => void;
}

export class Mailbox {
  private readonly waiting: Delivery[] = [];
  private working = false;

  constructor(private readonly handlers: MailboxHandlers) {}

  get busy(): boolean {
    return this.working || this.waiting.length > 0;
  }

  post(delivery: Delivery): void {
    if (this.waiting.length >= CAPACITY) return delivery.reject(overloaded("the run's mailbox is full"));
    this.waiting.push(delivery);
    if (!this.working) void this.work();
  }

  /** A command of the run to itself goes behind those that wait: a run that never rests still receives a cancel. */
  postToSelf(command: RunCommand, reject: (error: unknown) => void): void {
    this.waiting.push({ command, keep: false, resolve: () => {}, reject });
  }

  /** The delivery that is handled next; it stays in the mailbox. */
  get next(): Delivery | undefined {
    return this.waiting[0];
  }

  /** Removes `next`: it is handled together with the current one. */
  removeNext(): void {
    this.waiting.shift();
  }

  /** Deliveries that were removed, but whose commit was lost, wait in front again. */
  putBack(deliveries: readonly Delivery[]): void {
    this.waiting.unshift(...deliveries);
  }

  /**
   * Answers a delivery that was carried out, and with it those that wait with the same inbox row: the poll brings again what has waited for
   * long. Carried out once more, each would lose a commit, and the actor with it.
   */
  answer(delivery: Delivery, answer: Answer): void {
    delivery.resolve(answer);
    const { inboxId } = delivery;
    if (inboxId === undefined) return;
    for (const again of this.waiting.filter((other) => other.inboxId === inboxId)) {
      this.waiting.splice(this.waiting.indexOf(again), 1);
      again.resolve(answer);
    }
  }

  private async work(): Promise<void> {
    this.working = true;
    for (let delivery = this.waiting.shift(); delivery; delivery = this.waiting.shift()) {
      try {
        this.answer(delivery, await this.handlers.handle(delivery));
      } catch (error) {
        delivery.reject(error);
      }
    }
    this.working = false;
    this.handlers.onIdle();
  }
}
