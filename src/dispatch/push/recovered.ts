// Dispatches that a run was asked to carry once more: a former owner may have handed them over, or may be about to. Each is sent only when no
// other node has it in hand and its outbox row is still there, because the row goes when a worker accepts (law 5). It sends nothing itself.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Dispatch, DispatchId, JsonObject } from "../../../machines/index.js";
import type { Log } from "../../log.js";
import type { DispatchLimits } from "../limits.js";
import type { Peers } from "../ownership.js";
import type { InHandAsk } from "../relay/messages.js";
import type { HeldDispatch } from "./held-dispatch.js";

export interface RecoveredOptions {
  readonly nodeId: string;
  /** Absent: there are no other nodes. */
  readonly peers?: Pick<Peers, "bus"> | undefined;
  readonly limits: Pick<DispatchLimits, "handOverMs" | "handOverTries">;
  /** Which of these still have their outbox rows. */
  readonly owed: (dispatchIds: readonly DispatchId[]) => Promise<readonly DispatchId[]>;
  /** It is to be sent. */
  readonly send: (held: HeldDispatch, dispatch: Dispatch) => void;
  /** Its row is gone: a worker has accepted it, or its run waits for it no longer. */
  readonly gone: (held: HeldDispatch, dispatch: Dispatch) => void;
  readonly log: Log;
}

interface Recovered {
  readonly held: HeldDispatch;
  readonly dispatch: Dispatch;
  /** Questions that a node has not answered. */
  unanswered: number;
  /** When the other nodes are asked, on the monotonic clock. */
  askAt: number;
}

/** Dispatches in one question. */
const AT_ONCE = 1_000;

type Word = "in_hand" | "unanswered" | "free";

export class RecoveredDispatches {
  private readonly waiting = new Map<DispatchId, Recovered>();
  private others: readonly string[] = [];
  private asking: Promise<void> | undefined;

  constructor(private readonly options: RecoveredOptions) {}

  has(dispatchId: DispatchId): boolean {
    return this.waiting.has(dispatchId);
  }

  add(held: HeldDispatch, dispatch: Dispatch): void {
    this.waiting.set(held.dispatchId, { held, dispatch, unanswered: 0, askAt: 0 });
    this.askSoon();
  }

  forget(dispatchId: DispatchId): void {
    this.waiting.delete(dispatchId);
  }

  /** The live nodes: what one of the others had in hand is free when it is gone. */
  placed(nodeIds: readonly string[]): void {
    this.others = nodeIds.filter((nodeId) => nodeId !== this.options.nodeId);
    for (const recovered of this.waiting.values()) recovered.askAt = 0;
    this.askSoon();
  }

  tick(): void {
    this.askSoon();
  }

  private askSoon(): void {
    if (this.asking || this.waiting.size === 0) return;
    // Those of one turn of the event loop are asked about together.
    this.asking = nextTurn()
      .then(() => this.askDue())
      .catch((error: unknown) =>
        this.options.log.warn({ err: error, dispatches: this.waiting.size }, "recovered dispatches wait, retrying"),
      )
      .finally(() => {
        this.asking = undefined;
      });
  }

  private async askDue(): Promise<void> {
    const now = performance.now();
    const due = [...this.waiting.values()].filter(({ askAt }) => askAt <= now);
    for (let from = 0; from < due.length; from += AT_ONCE) await this.decide(due.slice(from, from + AT_ONCE));
  }

  private async decide(due: readonly Recovered[]): Promise<void> {
    // Also if the store does not answer.
    for (const recovered of due) recovered.askAt = performance.now() + this.options.limits.handOverMs;
    const words = await this.askOthers(due.map(({ held }) => held.dispatchId));
    const free = due.filter((recovered) => this.isFree(recovered, words));
    if (free.length === 0) return;
    // After the answers: a node removes the row before it lets a dispatch go.
    const owed = new Set(await this.options.owed(free.map(({ held }) => held.dispatchId)));
    for (const recovered of free) {
      const { held, dispatch } = recovered;
      if (this.waiting.get(held.dispatchId) !== recovered) continue;
      this.waiting.delete(held.dispatchId);
      if (owed.has(held.dispatchId)) this.options.send(held, dispatch);
      else this.options.gone(held, dispatch);
    }
  }

  /** A node that lives and does not answer is not waited for without end: messages between nodes are hints (law 7). */
  private isFree(recovered: Recovered, words: ReadonlyMap<DispatchId, Word>): boolean {
    const word = words.get(recovered.held.dispatchId) ?? "free";
    recovered.unanswered = word === "unanswered" ? recovered.unanswered + 1 : 0;
    return word === "free" || recovered.unanswered >= this.options.limits.handOverTries;
  }

  private async askOthers(dispatchIds: readonly DispatchId[]): Promise<ReadonlyMap<DispatchId, Word>> {
    const { nodeId, peers, limits } = this.options;
    const ask: InHandAsk = { kind: "dispatch.in_hand", node_id: nodeId, dispatch_ids: dispatchIds };
    const others = peers ? this.others : [];
    const answers = await Promise.all(others.map((other) => peers?.bus.ask(other, ask, limits.handOverMs)));
    const words = new Map<DispatchId, Word>();
    if (answers.some((answer) => !namesOf(answer))) for (const id of dispatchIds) words.set(id, "unanswered");
    for (const answer of answers) for (const id of namesOf(answer) ?? []) words.set(id, "in_hand");
    return words;
  }
}

function namesOf(answer: JsonObject | undefined): readonly DispatchId[] | undefined {
  return Array.isArray(answer?.in_hand) ? (answer.in_hand as readonly DispatchId[]) : undefined;
}
