// What the page has seen of the cluster since it was opened: a bounded ring of points, for its plots. It is pure and forgets the oldest.
import { distribution, type Reading, rate, total } from "./metrics.js";

export interface Point {
  /** Seconds since 1970, as plots have them. */
  readonly at: number;
  readonly transitions: number | undefined;
  readonly commits: number | undefined;
  readonly commitMs: number | undefined;
  readonly commitP99Ms: number | undefined;
  readonly inFlight: number | undefined;
  readonly queued: number | undefined;
}

export interface History {
  readonly last?: Reading;
  readonly points: readonly Point[];
}

/** Ten minutes at a point every two seconds. */
export const MAX_POINTS = 300;

export function seen(history: History, reading: Reading): History {
  const { last, points } = history;
  // A second look at the same reading adds nothing.
  if (last !== undefined && reading.at <= last.at) return history;
  const point = last && pointOf(last, reading);
  return { last: reading, points: point ? [...points, point].slice(-MAX_POINTS) : points };
}

function pointOf(before: Reading, after: Reading): Point {
  const commit = distribution(before, after, "saga_commit_seconds");
  return {
    at: after.at / 1_000,
    transitions: rate(before, after, "saga_transitions_total"),
    commits: rate(before, after, "saga_commits_total"),
    commitMs: commit && commit.mean * 1_000,
    commitP99Ms: commit && commit.p99 * 1_000,
    inFlight: total(after.metrics, "saga_dispatches_in_flight"),
    queued: total(after.metrics, "saga_dispatches_queued"),
  };
}
