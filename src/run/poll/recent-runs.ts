// A bounded set of runs that something was noticed about, for a gauge. A run that it is not noticed about again leaves after a while.
import type { RunId } from "../../../machines/index.js";

const MOST = 10_000;
/** Longer than the longest pause between two polls of a row. */
const KEPT_MS = 150_000;

export class RecentRuns {
  private readonly noted = new Map<RunId, number>();

  /** Whether it is new. */
  note(runId: RunId): boolean {
    const known = this.noted.has(runId);
    if (known || this.noted.size < MOST) this.noted.set(runId, performance.now());
    return !known;
  }

  forget(runId: RunId): void {
    if (this.noted.size > 0) this.noted.delete(runId);
  }

  get count(): number {
    const oldest = performance.now() - KEPT_MS;
    for (const [runId, at] of this.noted) if (at < oldest) this.noted.delete(runId);
    return this.noted.size;
  }
}
