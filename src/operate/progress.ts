// Requests that wait for the progress of bulk jobs. All waits of a node share one read, several times a second, and without a wait there is none.

import type { Sql } from "postgres";
import { clearTimeout, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import { type BulkProgress, progressOf } from "../store/lists/bulk-jobs.js";

const LOOK_MS = 200;
const MAX_WAITS = 1_000;

export interface ProgressWait {
  readonly ms: number;
  /** Also over when more than so many targets are done. */
  readonly afterDone?: number;
  /** Aborted when its client is gone. */
  readonly closed: AbortSignal;
}

interface Waiting {
  readonly jobId: string;
  readonly afterDone: number;
  end(): void;
}

export class ProgressWaits {
  private readonly waiting = new Set<Waiting>();
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
  ) {}

  /** Resolves when the job has ended, has more done, or the wait is over. Throws 503 if too many wait. */
  async wait(jobId: string, { ms, afterDone = Number.POSITIVE_INFINITY, closed }: ProgressWait): Promise<void> {
    if (this.stopped || ms === 0 || closed.aborted) return;
    if (this.waiting.size >= MAX_WAITS) throw overloaded("too many requests wait for bulk jobs on this node");
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        closed.removeEventListener("abort", end);
        this.waiting.delete(waiting);
        resolve();
      };
      const waiting = { jobId, afterDone, end };
      const timer = setTimeout(end, ms);
      closed.addEventListener("abort", end, { once: true });
      this.waiting.add(waiting);
      this.lookSoon();
    });
  }

  /** Ends all waits: their requests are answered with what is. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    for (const { end } of this.waiting) end();
  }

  private lookSoon(): void {
    if (this.waiting.size === 0 || this.stopped) return;
    this.timer ??= setTimeout(() => {
      void this.look().finally(() => {
        this.timer = undefined;
        this.lookSoon();
      });
    }, LOOK_MS).unref();
  }

  private async look(): Promise<void> {
    try {
      const ids = [...new Set([...this.waiting].map(({ jobId }) => jobId))];
      const jobs = new Map((await progressOf(this.sql, ids)).map((job) => [job.id, job]));
      for (const waiting of this.waiting) if (isOver(jobs.get(waiting.jobId), waiting)) waiting.end();
    } catch (error) {
      this.log.warn({ err: error }, "progress of bulk jobs not read, retrying");
    }
  }
}

/** A job that is gone has nothing more to say. One that was not asked for yet is read the next time. */
function isOver(job: BulkProgress | undefined, { afterDone }: Waiting): boolean {
  return job !== undefined && (job.state !== "running" || job.done > afterDone);
}
