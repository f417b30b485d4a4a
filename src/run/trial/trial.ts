// One trial, inside the trial process: a resident loads the run, decides the command and steps on as on a node, up to the rows of its
// commit. There the trial ends: nothing is committed, and nothing leaves the process.
import type { Sql } from "postgres";
import { RECORD_FORMAT, type RunContext, STANDARD_RUN_LIMITS } from "../../../machines/index.js";
import { DatabaseClock } from "../../clock.js";
import { SagaError } from "../../errors.js";
import { createLogger } from "../../log.js";
import { createMetrics } from "../../metrics.js";
import type { RunCommit } from "../../store/commit/rows.js";
import { encodeGroup } from "../../store/commit/statement.js";
import { openDatabase } from "../../store/connection.js";
import { repeatedAnswer } from "../../store/load.js";
import { StoreCatalog } from "../catalog/catalog.js";
import { FactSource } from "../facts.js";
import { Schemas } from "../json-schema/schemas.js";
import { restoreRun } from "../loaded-run.js";
import { Resident } from "../resident.js";
import type { ResidentHost } from "../resident-host.js";
import { readTenantSettings } from "../tenant-settings.js";
import { Unreadable } from "../unreadable.js";
import type { Suspect, TrialOutcome, TrialSettings } from "./messages.js";

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

  constructor(settings: TrialSettings) {
    const { databaseUrl, stepsPerCommit, limits = STANDARD_RUN_LIMITS } = settings;
    const log = createLogger({ logLevel: "silent" });
    const applicationName = "saga-trial";
    this.sql = openDatabase(databaseUrl, { max: 1, applicationName, log, readOnly: true }).sql;
    this.catalog = new StoreCatalog(this.sql, log);
    const { sql, catalog, clock } = this;
    const facts = new FactSource({
      ...{ sql, clock, catalog, limits },
      schemas: new Schemas(),
      licences: readTenantSettings(settings),
    });
    this.host = {
      ...{ facts, stepsPerCommit, metrics: createMetrics(), turns: NO_TURNS, recordFormat: RECORD_FORMAT },
      // The trial takes every decision that a node may take before its first commit.
      recentNodeLoss: false,
      committer: { submit: encodeOnly },
      now: () => clock.now(),
      load: (runId) => restoreRun(sql, catalog, runId),
      recordedAnswer: (runId, commandId) => repeatedAnswer(sql, runId, commandId),
      offerFor: offerOfAnyWorker,
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

  try({ runId, command, id }: Suspect): Promise<TrialOutcome> {
    const resident = new Resident(runId, this.host);
    return new Promise((resolve) => {
      const patience = setTimeout(() => resolve("undecided"), PATIENCE_MS);
      const end = (outcome: TrialOutcome) => {
        clearTimeout(patience);
        resolve(outcome);
      };
      const reject = (error: unknown) => end(outcomeOf(error));
      resident.deliver({ command, id, inboxId: id, keep: false, resolve: () => end("lived"), reject });
    });
  }
}

/** Nothing else runs here, and the trial steps as far as the fastest node would before its first commit. */
const NO_TURNS: ResidentHost["turns"] = { compute: async (_, piece) => piece(), spent: false };

/** Makes the rows of the commit, and ends the trial. */
async function encodeOnly(commit: RunCommit): Promise<never> {
  encodeGroup([commit]);
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
