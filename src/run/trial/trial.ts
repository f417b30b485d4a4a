// One trial, inside the trial process: a resident loads the run, decides the command and steps on as on a node, up to the rows of its
// commit, or a starter checks a start and makes its rows. There the trial ends: nothing is committed, and nothing leaves the process.
import { setTimeout } from "node:timers/promises";
import type { Sql } from "postgres";
import { RECORD_FORMATS, type RunContext, Schemas, STANDARD_RUN_LIMITS } from "../../../machines/index.js";
import { DatabaseClock } from "../../clock.js";
import { SagaError } from "../../errors.js";
import { createLogger } from "../../log.js";
import { createMetrics } from "../../metrics.js";
import { encodeRun } from "../../store/engine/commit/encoding.js";
import type { RunCommit } from "../../store/engine/commit/run-commit.js";
import { openDatabase } from "../../store/engine/connection.js";
import { repeatedAnswer } from "../../store/engine/load.js";
import { FairScheduler } from "../../work/fair-scheduler.js";
import { StoreCatalog } from "../catalog/catalog.js";
import { FactSource } from "../facts.js";
import { restoreRun } from "../loaded-run.js";
import type { StartRequest } from "../ports.js";
import { Resident } from "../resident.js";
import type { ResidentHost } from "../resident-host.js";
import { Starter } from "../starter.js";
import { startupVariablesOf } from "../startup-provider.js";
import { readTenantSettings } from "../tenant-settings.js";
import { Unreadable } from "../unreadable.js";
import type { Suspect, SuspectRun, TrialOutcome, TrialSettings } from "./messages.js";

/** The decision was taken and its rows were made: the process has survived it. */
class TrialOver extends Error {
  override readonly name = "TrialOver";
}

/** A trial that only waits for the store ends after this. */
const PATIENCE_MS = 60_000;

export class TrialRoom {
  private readonly clock = new DatabaseClock();
  private readonly sql: Sql;
  private readonly catalog: StoreCatalog;
  private readonly host: ResidentHost;
  private readonly starter: Starter;

  constructor(settings: TrialSettings) {
    const { databaseUrl, stepsPerCommit, limits = STANDARD_RUN_LIMITS } = settings;
    const log = createLogger({ logLevel: "silent" });
    const applicationName = "saga-trial";
    this.sql = openDatabase(databaseUrl, { max: 1, applicationName, log, readOnly: true }).sql;
    this.catalog = new StoreCatalog(this.sql, log, new FairScheduler());
    const { sql, catalog, clock } = this;
    const [schemas, tenants] = [new Schemas(), readTenantSettings(settings)];
    const facts = new FactSource({ ...{ sql, clock, catalog, limits, schemas }, licences: tenants });
    const committer = { submit: encodeOnly };
    // A trial asks nothing outside, so what an HTTP provider would give is not tried.
    const startupVariables = ({ tenantId }: StartRequest) => startupVariablesOf(tenantId, tenants, undefined);
    this.starter = new Starter(
      { sql, clock, catalog, schemas, startupVariables, reserves: false, scheduler: NO_SCHEDULER },
      (_, { commit }) => encodeOnly(commit),
    );
    this.host = {
      ...{ facts, stepsPerCommit, metrics: createMetrics(), scheduler: NO_SCHEDULER },
      recordOf: (context) => RECORD_FORMATS.encode(context, RECORD_FORMATS.writes),
      // The trial takes every decision that a node may take before its first commit.
      recentNodeLoss: false,
      committer,
      deciding: () => {},
      now: () => clock.now(),
      load: (runId) => restoreRun(sql, catalog, runId),
      recordedAnswer: (runId, commandId) => repeatedAnswer(sql, runId, commandId),
      offerFor: offerOfAnyWorker,
      holdsDispatch: () => true,
      afterCommit: () => {},
      returnCredit: () => {},
      armTimer: () => undefined,
      idle: () => {},
      gone: () => {},
      advanceFailed: () => {},
    };
  }

  async open(): Promise<void> {
    await this.refresh();
  }

  /** Before each group. */
  async refresh(): Promise<void> {
    await this.clock.measure(this.sql);
    await this.catalog.refresh();
  }

  async try(suspect: Suspect): Promise<TrialOutcome> {
    const trial = "start" in suspect ? this.starter.start(suspect.start) : this.decide(suspect);
    const ended = trial.then(() => "lived" as const, outcomeOf);
    const patience = new AbortController();
    const late = setTimeout(PATIENCE_MS, "undecided" as const, { signal: patience.signal }).catch(
      () => "undecided" as const,
    );
    return Promise.race([ended, late]).finally(() => patience.abort());
  }

  private decide({ runId, command, id }: SuspectRun): Promise<unknown> {
    const resident = new Resident(runId, this.host);
    return new Promise((resolve, reject) => {
      resident.deliver({ command, id, inboxId: id, keep: false, resolve, reject });
    });
  }
}

/** Nothing else runs here, and the trial steps as far as the fastest node would before its first commit. */
const NO_SCHEDULER: ResidentHost["scheduler"] = { compute: async (_, piece) => piece(), isFree: true, spent: false };

/** Makes the rows of the commit, and ends the trial. */
async function encodeOnly(commit: RunCommit): Promise<never> {
  encodeRun(commit);
  throw new TrialOver();
}

/** A decision that throws has not ended the process: the node will see the error, too. */
function outcomeOf(error: unknown): TrialOutcome {
  if (error instanceof Unreadable) return "unreadable";
  return error instanceof SagaError && error.status === 503 ? "undecided" : "lived";
}

/** A node may have a worker for the run's call at any time, so the trial has one. */
function offerOfAnyWorker({ wait, call, quarantined }: RunContext): ReturnType<ResidentHost["offerFor"]> {
  if (wait?.kind !== "queued" || !call || quarantined) return undefined;
  return { type: "offer", dispatchId: wait.dispatchId, workerId: "trial" };
}
