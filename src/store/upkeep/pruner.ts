// The pruner: creates the next partitions of the audit log and lets retention delete what is past it, one node at a time. Rows that a run
// needs to continue or to be undone are never deleted before the run has ended.
import type { Sql } from "postgres";
import { ArchiveError, type ArchiveFolder } from "../../archive/writer.js";
import type { Logger } from "../../log.js";
import { WorkLoop } from "../../work/loop.js";
import { FamilyArchive } from "./archiving.js";
import { Erasure } from "./erasure.js";
import { Families } from "./families.js";
import { createEventPartitions, dropEventPartitions } from "./partitions.js";
import { Policies, type RunRetention } from "./policies.js";
import { Retention } from "./retention.js";

const INTERVAL_MS = 10 * 60_000;
/** How long keys are listed after their end. */
const ENDED_KEYS_DAYS = 90;
/** The advisory lock of a round: "prun" in ASCII. Must never change: releases that run side by side have to agree on it. */
const PRUNING_LOCK = 0x7072756e;

export interface Kept extends RunRetention {
  /** Published events, and bulk jobs that have ended, are kept for this many days, whether a run may still scan them or not. */
  readonly eventDays: number;
}

export interface PrunerOptions {
  /** Where runs and audit rows are written before they are deleted, and the sessions that read them. Absent: nowhere. */
  readonly archive?: { readonly folder: ArchiveFolder; readonly reads: Sql };
  /** Runs that are in the archive now; and that it could not be written, so that no run was deleted. */
  readonly onArchived?: (runs: number) => void;
  readonly onArchiveFailed?: () => void;
}

export class Pruner {
  private readonly loop: WorkLoop;
  private readonly retention: Retention;
  private readonly families: Families;
  private readonly archive: FamilyArchive | undefined;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
    private readonly keep: Kept,
    private readonly options: PrunerOptions = {},
  ) {
    const { archive, onArchived } = options;
    this.retention = new Retention(sql);
    this.archive = archive && new FamilyArchive(sql, archive.reads, archive.folder, onArchived);
    this.families = new Families(sql, this.archive);
    const round = async () => void (await this.prune());
    this.loop = new WorkLoop({ what: "pruning", log, polls: { pauseMs: INTERVAL_MS, round } });
  }

  start(): void {
    this.loop.start();
  }

  stop(): Promise<void> {
    this.retention.stop();
    this.families.stop();
    return this.loop.stop();
  }

  /** One round, on one node at a time: the others have nothing to do meanwhile. Resolves with whether it was this one's. */
  async prune(): Promise<boolean> {
    let round: Promise<void> | undefined;
    try {
      // A transaction that holds the lock and nothing else: between its statements it has no snapshot that vacuum would wait for.
      return await this.sql.begin("isolation level read committed", async (lock) => {
        const [row] = await lock<{ mine: boolean }[]>`select pg_try_advisory_xact_lock(${PRUNING_LOCK}) as mine`;
        if (!row?.mine) return false;
        await lock`set local idle_in_transaction_session_timeout = 0`;
        round = this.round();
        await round;
        return true;
      });
    } finally {
      // The session of the lock may have ended before the round.
      await Promise.allSettled([round]);
    }
  }

  private async round(): Promise<void> {
    const { sql, log, retention } = this;
    const { eventDays, runDays } = this.keep;
    await createEventPartitions(sql, log);
    await new Erasure(sql).finishAll();
    await retention.commands();
    await retention.events(eventDays);
    await retention.bulkJobs(eventDays);
    await retention.scopes();
    await retention.apiKeys(ENDED_KEYS_DAYS);
    if (runDays !== undefined) await retention.fires(runDays);
    try {
      await this.pruneRuns();
    } catch (error) {
      if (error instanceof ArchiveError) this.options.onArchiveFailed?.();
      throw error;
    }
  }

  /** Weeks go after runs: what a run has written in them is in the archive by then. */
  private async pruneRuns(): Promise<void> {
    const { sql, archive } = this;
    const policies = await Policies.read(sql, this.keep);
    const { shortest, longest } = policies;
    if (shortest === undefined || !(await this.families.prune(policies))) return;
    const ago = async (days: number) => {
      const [row] = await sql<{ at: Date }[]>`select now() - make_interval(days => ${days}::int4) as at`;
      return row?.at ?? new Date(0);
    };
    await dropEventPartitions(sql, {
      ...(Number.isFinite(longest) && { before: await ago(longest) }),
      emptyBefore: await ago(shortest),
      ...(archive && { onFall: (table, before) => archive.takeEvents(table, before) }),
    });
  }
}
