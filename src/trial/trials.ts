// Trials: the node's side of law 7. Suspects are collected and tried many at once in the trial process. When it does not survive a
// group, the likely culprit is tried alone, and only a run that ends or hangs the process alone, three times, is found guilty.

import type { Sql } from "postgres";
import { nextTurn } from "../ambient.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { Judge, Suspect, SuspectRow, Verdict } from "../run/judge.js";
import type { Sitting } from "./trial-process.js";

/** So many deaths alone prove it. They are counted in the suspect's row, so that they survive the node. */
const DEATHS = 3;
/** Suspects of one group. */
const GROUP = 250;
/** Suspects that wait; one more stays undecided. */
const MOST_WAITING = 5_000;

export interface TrialsOptions {
  readonly sql: Sql;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "trials">;
  readonly process: {
    readonly isRunning: boolean;
    try(suspects: readonly Suspect[], options?: { fresh?: boolean }): Promise<Sitting>;
    end(): Promise<void>;
  };
}

interface Case {
  readonly suspect: Suspect;
  readonly row: SuspectRow;
  readonly settle: (verdict: Verdict) => void;
}

export class Trials implements Judge {
  private waiting: Case[] = [];
  private working: Promise<void> | undefined;
  private stopped = false;

  constructor(private readonly options: TrialsOptions) {}

  verdictOn(suspect: Suspect, row: SuspectRow): Promise<Verdict> {
    if (this.stopped || this.waiting.length >= MOST_WAITING) return Promise.resolve({ kind: "undecided" });
    return new Promise((settle) => {
      this.waiting.push({ suspect, row, settle });
      this.begin();
    });
  }

  /** Suspects that become due in the same turn of the event loop share a group. */
  private begin(): void {
    if (this.waiting.length === 0) return;
    this.working ??= nextTurn()
      .then(() => this.work())
      .finally(() => {
        this.working = undefined;
        this.begin();
      });
  }

  /** Ends the process. Suspects without a verdict stay undecided. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.options.process.end();
    await this.working;
    await this.options.process.end();
  }

  private async work(): Promise<void> {
    while (this.waiting.length > 0) {
      const group = this.waiting.splice(0, GROUP);
      try {
        await this.tryGroup(group);
      } catch (error) {
        this.options.log.warn({ err: error, suspects: group.length }, "trial not held, the suspects are tried again");
      }
      // Those that have their verdict keep it.
      for (const { settle } of group) settle({ kind: "undecided" });
    }
  }

  /**
   * Those behind the culprit go first: they need not wait for its three deaths. A single suspect needs no search, but most are innocent, and a
   * process that runs shows that without another start.
   */
  private async tryGroup(group: readonly Case[]): Promise<void> {
    const culprits: Case[] = group.length === 1 && !this.options.process.isRunning ? [...group] : [];
    for (let rest = culprits.length > 0 ? [] : group; rest.length > 0 && !this.stopped; ) {
      const { outcomes, death } = await this.options.process.try(rest.map(({ suspect }) => suspect));
      await this.settle(rest, outcomes);
      const left = rest.filter((_, nth) => !outcomes.has(nth));
      // If it is the wrong one, it will live alone.
      const culprit = rest[death?.nth ?? -1] ?? left[0];
      if (culprit) culprits.push(culprit);
      rest = left.filter((one) => one !== culprit);
    }
    for (const culprit of culprits) await this.tryAlone(culprit);
  }

  private async settle(group: readonly Case[], outcomes: Sitting["outcomes"]): Promise<void> {
    const lived = group.filter((_, nth) => outcomes.get(nth) === "lived");
    for (const table of new Set(lived.map(({ row }) => row.table))) {
      const keys = lived.filter(({ row }) => row.table === table).map(({ row }) => row.key);
      await table.acquit(this.options.sql, keys);
    }
    for (const [nth, kind] of outcomes) {
      this.options.metrics.trials.inc({ outcome: kind });
      group[nth]?.settle({ kind });
    }
  }

  /** Until it lives once, or its deaths are proof. The process is a new one each time: nothing of another run is in it. */
  private async tryAlone(one: Case): Promise<void> {
    const { process, log } = this.options;
    while (!this.stopped) {
      const { outcomes, death } = await process.try([one.suspect], { fresh: true });
      if (!death) return this.settle([one], outcomes);
      // A process that died before the trial began did not die of it.
      if (this.stopped || death.nth === undefined) return;
      const { nth: _, ...seen } = death;
      const trials = await one.row.table.countDeath(this.options.sql, one.row.key);
      log.warn({ ...nameOf(one.suspect), trials, ...seen }, "suspect ended its trial process");
      this.options.metrics.trials.inc({ outcome: "died" });
      // Without its row it has moved on.
      if (trials === undefined) return;
      if (trials >= DEATHS) return one.settle({ kind: "guilty", proof: { trials, ...seen } });
    }
  }
}

/** For the log: payloads stay out of it. */
function nameOf(suspect: Suspect) {
  return "start" in suspect
    ? { workflowId: suspect.start.workflowId }
    : { runId: suspect.runId, command: suspect.command.type };
}
