// Dispatches that a run was asked to carry once more: a former owner may have handed them over, or may be about to. Each is sent only when no
// other node holds it and its outbox row is still there, because the row goes when a worker accepts (law 5). It sends nothing itself.

import type { Dispatch, DispatchId, JsonObject } from "../../../machines/index.js";
import { nextTurn, performance } from "../../ambient.js";
import type { Log } from "../../log.js";
import type { DispatchLimits } from "../limits.js";
import type { Peers } from "../ownership.js";
import type { HeldAsk } from "../relay/messages.js";
import type { HeldDispatch } from "./held-dispatch.js";

export interface RecoveredOptions {
  readonly nodeId: string;
  /** Absent: there are no other nodes. */
  readonly peers?: Pick<Peers, "bus"> | undefined;
  readonly limits: Pick<DispatchLimits, "handOverMs" | "handOverTries">;
  /** Which of these still have their outbox rows. */
  readonly withRows: (dispatchIds: readonly DispatchId[]) => Promise<readonly DispatchId[]>;
  /** It is to be sent. */
  readonly send: (held: HeldDispatch, dispatch: Dispatch) => void;
  /** Its row is gone: a worker has accepted it, or its run waits for it no longer. */
  readonly alreadyAccepted: (held: HeldDispatch, dispatch: Dispatch) => void;
  readonly log: Log;
}

interface Recovered {
  readonly held: HeldDispatch;
  readonly dispatch: Dispatch;
  /** Questions that a node has not answered. */
  unanswered: number;
  /** When the other nodes are asked, on the monotonic clock. */
  askAt: number;
  /** No other node holds it, and whether it has a row is being read: from here on it is not let go. */
  isDeciding: boolean;
  /** Let go to a node that asked: what the other nodes answered before counts no longer. */
  letGo: boolean;
}

/** The line of the log of each time that it was not waited for any more. */
export const MAY_COME_TWICE = "a node does not answer whether it holds dispatches: they are sent, and may come twice";

/** A node that asks is asked for so long without having been seen: its heartbeat is there by then, or it is gone. */
const MET_MS = 10_000;

/** Dispatches in one question. */
const AT_ONCE = 1_000;

/** What the other nodes say of a dispatch. */
type Standing = "held" | "unanswered" | "free";

export class RecoveredDispatches {
  private readonly waiting = new Map<DispatchId, Recovered>();
  private others: readonly string[] = [];
  /** Nodes that have asked, and that this one has not seen yet: until when they are asked, on the monotonic clock. */
  private readonly met = new Map<string, number>();
  private asking: Promise<void> | undefined;

  constructor(private readonly options: RecoveredOptions) {}

  /**
   * Whether it is kept from a node that has recovered it, too: of two that ask each other, the one with the lower id goes first, unless the
   * other one has all its answers. False: it is let go. What waits here no longer is kept: it was decided that this node sends it.
   */
  keeps(dispatchId: DispatchId, nodeId: string): boolean {
    const recovered = this.waiting.get(dispatchId);
    if (!recovered || recovered.isDeciding || this.options.nodeId < nodeId) return true;
    recovered.letGo = true;
    return false;
  }

  add(held: HeldDispatch, dispatch: Dispatch): void {
    const fresh = { unanswered: 0, askAt: 0, isDeciding: false, letGo: false };
    this.waiting.set(held.dispatchId, { held, dispatch, ...fresh });
    this.askSoon();
  }

  /** That node lives, and may have sent what it asks about before this one sees it: it took over shards that this one still believes to own. */
  askedBy(nodeId: string): void {
    if (!this.others.includes(nodeId)) this.met.set(nodeId, performance.now() + MET_MS);
  }

  forget(dispatchId: DispatchId): void {
    this.waiting.delete(dispatchId);
  }

  /** The live nodes: what one of the others held is free when that one is gone. */
  placed(nodeIds: readonly string[]): void {
    this.others = nodeIds.filter((nodeId) => nodeId !== this.options.nodeId);
    for (const nodeId of this.others) this.met.delete(nodeId);
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
    // A node that lets one question of a round run out of time would let all of them.
    const silent = new Set<string>();
    for (let from = 0; from < due.length; from += AT_ONCE) await this.decide(due.slice(from, from + AT_ONCE), silent);
  }

  private async decide(due: readonly Recovered[], silent: Set<string>): Promise<void> {
    for (const recovered of due) {
      // Also if the store does not answer.
      recovered.askAt = performance.now() + this.options.limits.handOverMs;
      recovered.letGo = false;
    }
    const standings = await this.askOthers(
      due.map(({ held }) => held.dispatchId),
      silent,
    );
    const free = due.filter((recovered) => this.isFree(recovered, standings));
    if (free.length === 0) return;
    for (const recovered of free) recovered.isDeciding = true;
    try {
      // After the answers: a node removes the row before it lets a dispatch go.
      const withRows = new Set(await this.options.withRows(free.map(({ held }) => held.dispatchId)));
      let unsure = 0;
      for (const recovered of free) {
        const { held, dispatch, unanswered } = recovered;
        if (this.waiting.get(held.dispatchId) !== recovered) continue;
        this.waiting.delete(held.dispatchId);
        if (!withRows.has(held.dispatchId)) {
          this.options.alreadyAccepted(held, dispatch);
          continue;
        }
        if (unanswered > 0) unsure++;
        this.options.send(held, dispatch);
      }
      if (unsure > 0) this.options.log.warn({ dispatches: unsure }, MAY_COME_TWICE);
    } finally {
      for (const recovered of free) recovered.isDeciding = false;
    }
  }

  /** A node that lives and does not answer is not waited for without end: messages between nodes are hints (law 7). */
  private isFree(recovered: Recovered, standings: ReadonlyMap<DispatchId, Standing>): boolean {
    const standing = standings.get(recovered.held.dispatchId) ?? "free";
    recovered.unanswered = standing === "unanswered" ? recovered.unanswered + 1 : 0;
    if (recovered.letGo) return false;
    return standing === "free" || recovered.unanswered >= this.options.limits.handOverTries;
  }

  private get asked(): readonly string[] {
    const now = performance.now();
    for (const [nodeId, until] of this.met) if (until <= now) this.met.delete(nodeId);
    return [...this.others, ...this.met.keys()];
  }

  private async askOthers(ids: readonly DispatchId[], silent: Set<string>): Promise<ReadonlyMap<DispatchId, Standing>> {
    const { nodeId, peers, limits } = this.options;
    const ask: HeldAsk = { kind: "dispatch.held", node_id: nodeId, dispatch_ids: ids };
    const standings = new Map<DispatchId, Standing>();
    const askOne = async (other: string) => {
      const answer = silent.has(other) ? undefined : await peers?.bus.ask(other, ask, limits.handOverMs);
      const named = namesOf(answer);
      if (!named) silent.add(other);
      return named;
    };
    const answers = await Promise.all((peers ? this.asked : []).map(askOne));
    if (answers.includes(undefined)) for (const id of ids) standings.set(id, "unanswered");
    for (const named of answers) for (const id of named ?? []) standings.set(id, "held");
    return standings;
  }
}

function namesOf(answer: JsonObject | undefined): readonly DispatchId[] | undefined {
  return Array.isArray(answer?.held) ? (answer.held as readonly DispatchId[]) : undefined;
}
