// Requests that wait for a run: until it has ended, waits again, or has a later audit row. A waiter follows the run by the feed, and gets
// no events; nothing polls for it. The run that is answered is read when the wait is over, unless it began and ended in this process.

import type { FastifyReply, FastifyRequest } from "fastify";
import { type JsonObject, MAX_INT32, type RunId } from "../../machines/index.js";
import { whileGood } from "../access/index.js";
import { clearTimeout, performance, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";
import type { Feed, Head } from "../feed/index.js";
import type { Reader } from "../store/lists/read-pool.js";
import { committedView, type Labels, type RunView } from "../store/lists/runs.js";
import { endOfWork } from "./http/load-shedding.js";
import { Int } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import type { RunReader } from "./run-reader.js";

/** On a start, a get, a signal and a submit. */
export const WAIT = { wait_ms: Int(0, 60_000) };
export const AFTER_SEQ = { after_seq: Int(0, MAX_INT32) };

const MAX_WAITERS = 5_000;

export interface Wait {
  readonly ms: number;
  /** Also over when the run has a row after this one. */
  readonly afterSeq?: number;
  /** The wait is over when its client has gone. */
  readonly reply: FastifyReply;
  readonly reader: Reader;
}

/** Characters of variables in a view that is made from memory, in one piece (law 14). A larger one is read. */
const MOST_FROM_MEMORY = 100_000;

export class Waiters {
  /** Each ends its wait. */
  private readonly waiting = new Set<() => void>();
  private stopped = false;

  constructor(
    private readonly runs: Pick<RunReader, "read">,
    private readonly feed: Feed,
    /** Database time, epoch milliseconds. */
    private readonly now: () => number,
    private readonly max = MAX_WAITERS,
  ) {}

  /** The run when the wait is over. Undefined: there is no such run. Throws 503 if too many wait, and Unauthenticated when the credential ends. */
  async run(runId: RunId, wait: Wait): Promise<RunView | undefined> {
    const view = await this.runs.read(runId, wait.reader);
    if (!view || wait.ms === 0 || this.stopped || isOver(view, wait)) return view;
    await this.whileGood(runId, wait);
    return this.runs.read(runId, wait.reader);
  }

  /**
   * Like `run`, for a run that was just started: it need not be read before the wait. Nor after it, where its labels are known and its end was
   * committed by this process: an ended run never changes.
   */
  async end(runId: RunId, wait: Wait, started?: { readonly labels?: Labels }): Promise<RunView | undefined> {
    const head = this.stopped ? undefined : await this.whileGood(runId, wait);
    const { committed } = head ?? {};
    const isSmall = committed && committed.context.variablesSize <= MOST_FROM_MEMORY;
    if (started && head?.terminal && isSmall) return committedView(committed, head.seq, started.labels);
    return this.runs.read(runId, wait.reader);
  }

  /** The run once it waits for what it does not bring about itself, or has ended. Undefined: not in time. Throws as `run` does. */
  async rest(runId: RunId, wait: Wait): Promise<RunView | undefined> {
    const until = performance.now() + wait.ms;
    for (;;) {
      const view = await this.runs.read(runId, wait.reader);
      if (!view || isAtRest(view)) return view;
      const ms = until - performance.now();
      if (ms <= 0 || this.stopped || wait.reader.closed.aborted) return undefined;
      await this.whileGood(runId, { ...wait, ms, afterSeq: view.lastSeq });
    }
  }

  /** Ends all waits: their requests are answered with what is. */
  stop(): void {
    this.stopped = true;
    for (const end of this.waiting) end();
  }

  private whileGood(runId: RunId, wait: Wait): Promise<Head | undefined> {
    return whileGood(wait.reply.request.principal, this.now, { ms: wait.ms, wait: this.over(runId, wait) });
  }

  /** Resolves with the head that ended the wait. Undefined: something else did. */
  private over(runId: RunId, { ms, afterSeq, reply }: Wait): Promise<Head | undefined> {
    if (this.waiting.size >= this.max) throw overloaded("too many requests wait for runs on this node");
    return new Promise((resolve) => {
      const onHead = (head: Head) => {
        if (head.terminal || head.seq > (afterSeq ?? MAX_INT32)) end(head);
      };
      const following = this.feed.follow(runId, onHead);
      const timer = setTimeout(() => end(), ms);
      const end = (head?: Head) => {
        following.stop();
        clearTimeout(timer);
        reply.raw.off("close", left);
        this.waiting.delete(end);
        resolve(head);
      };
      const left = () => end();
      reply.raw.once("close", left);
      this.waiting.add(end);
    });
  }
}

/** Of a run that is paused for these, the next attempt, a slot or a turn comes without anyone. */
const COMES_BY_ITSELF: ReadonlySet<unknown> = new Set(["retry", "concurrency", "rate_limit"]);

function isAtRest({ terminal, run: { paused_reason: reason } }: RunView): boolean {
  return terminal || (reason !== undefined && !COMES_BY_ITSELF.has(reason));
}

/**
 * The run at its next wait, or as it ended, after a command that it has carried out. Undefined: not in time, or the request may not wait. The command
 * is durable, so whatever keeps its request from waiting does not fail it.
 */
export async function atRest(
  runId: RunId,
  waiters: Waiters,
  request: FastifyRequest & { readonly query: { readonly wait_ms?: number } },
  reply: FastifyReply,
): Promise<JsonObject | undefined> {
  const { wait_ms: ms = 0 } = request.query;
  if (ms === 0) return undefined;
  endOfWork(request);
  try {
    return (await waiters.rest(runId, { ms, reply, reader: readerOf(request, reply) }))?.run;
  } catch {
    return undefined;
  }
}

function isOver({ terminal, lastSeq }: RunView, { afterSeq }: Wait): boolean {
  return terminal || (afterSeq !== undefined && lastSeq > afterSeq);
}
