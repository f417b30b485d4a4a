// The end of a test of runs: reads runs and audit rows as clients do, checks them with the history checker, and reads the gauge of
// law 7.

import type { Sql } from "postgres";
import { expect } from "vitest";
import { asRunId, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { countUnwatched } from "../../src/store/engine/poll.js";
import { eventsAfter } from "../../src/store/lists/history.js";
import { readRuns } from "../../src/store/lists/runs.js";
import { assertHistory, type EventSeen, type RunSeen } from "../harness/history.js";
import { until } from "../harness/until.js";

export interface Seen {
  readonly run: RunSeen & {
    readonly awaited_signal?: string;
    readonly paused_reason?: string;
    readonly requires_manual_review?: boolean;
    readonly current_step?: string;
    readonly quarantine?: Readonly<Record<string, unknown>>;
    readonly output?: unknown;
    readonly variables: Readonly<Record<string, unknown>>;
    readonly error?: { readonly code: string };
  };
  readonly events: readonly EventSeen[];
}

export async function look(sql: Sql, runId: RunId): Promise<Seen> {
  const view = (await readRuns(sql, EVERYTHING, [runId])).get(runId);
  if (!view) throw new Error(`there is no run ${runId}`);
  const events: EventSeen[] = [];
  // Also within a transaction: a page of the list would count the rows in one of its own.
  for (let more = true; more; ) {
    const next = await eventsAfter(sql, EVERYTHING, runId, events.at(-1)?.seq ?? 0);
    events.push(...(next as unknown as readonly EventSeen[]));
    more = next.length > 0;
  }
  return { run: view.run as unknown as Seen["run"], events };
}

/** Every run has ended. */
export async function allEnd(sql: Sql, runIds: readonly string[], within = 30_000): Promise<void> {
  const open = async () => {
    const rows = await sql<
      { id: string; state: string; current_step: string; paused_reason: string; record: unknown }[]
    >`
      select id, state, current_step, paused_reason, record from runs
      where terminal_at is null and id = any(${[...runIds]}::text[]::uuid[])`;
    return rows;
  };
  await until(async () => (await open()).length === 0, { within, what: "the end of all runs" }).catch(async (error) => {
    const left = (await open()).slice(0, 5).map((row) => JSON.stringify(row));
    throw new Error(`${error.message}; open: ${left.join("\n")}`);
  });
}

/** Checks every run with the history checker; returns the runs in order. */
export async function allSound(sql: Sql, runIds: readonly string[]): Promise<Seen[]> {
  const seen = await Promise.all(runIds.map((runId) => look(sql, asRunId(runId))));
  for (const { run, events } of seen) assertHistory(run, events);
  return seen;
}

/** Law 7: when all is quiet, there is no unfinished run that nothing will ever look at. */
export async function nothingUnwatched(sql: Sql): Promise<void> {
  expect(await countUnwatched(sql)).toBe(0);
}

export const typesOf = (events: readonly EventSeen[]) => events.map(({ event_type }) => event_type);

/** Fault tests print their figures. */
export function report(figures: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`figures: ${JSON.stringify(figures)}\n`);
}
