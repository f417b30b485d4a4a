// One trial, inside the trial process: a resident loads the run, decides the command and steps on as on a node, up to the rows of its
// commit, or a starter checks a start and makes its rows. There the trial ends: nothing is committed, and nothing leaves the process.

import type { Sql } from "postgres";
import { inOnePiece, type RunCommit, Schemas, STANDARD_RUN_LIMITS } from "../../machines/index.js";
import { reachOfPlain } from "../access/index.js";
import { delay } from "../ambient.js";
import { StoreCatalog } from "../catalog/catalog.js";
import { DatabaseClock } from "../clock.js";
import { readMasterKeys } from "../config/index.js";
import { SagaError, Unreadable } from "../errors.js";
import { createLogger } from "../log.js";
import { createMetrics } from "../metrics/index.js";
import { FactSource } from "../run/facts.js";
import type { Suspect, SuspectRun, TrialOutcome } from "../run/judge.js";
import { restoreRun } from "../run/loaded-run.js";
import type { StartRequest } from "../run/ports.js";
import { Resident, type ResidentHost } from "../run/resident.js";
import { Starter, type StarterOptions } from "../run/starter.js";
import { unitHost } from "../run/unit-host.js";
import { encodeRun } from "../store/engine/commit/encoding.js";
import { openDatabase } from "../store/engine/connection.js";
import { forgetKeptInputs } from "../store/engine/kept-inputs.js";
import { repeatedAnswer } from "../store/engine/load.js";
import { Keyring } from "../store/sealed/keyring.js";
import { startupVariablesOf } from "../tenants/startup-provider.js";
import { readTenantSettings } from "../tenants/tenant-settings.js";
import { FairScheduler } from "../work/fair-scheduler.js";
import type { TrialSettings } from "./messages.js";

/** The decision was taken and its rows were made: the process has survived it. */
class TrialOver extends Error {
  override readonly name = "TrialOver";
}

/** A trial that only waits for the store ends after this. */
const PATIENCE_MS = 60_000;

export class TrialRoom {
  private readonly clock = new DatabaseClock();
  private readonly sql: Sql;
  /** It opens what is sealed. Nothing is sealed here: no row is written. */
  private readonly keyring: Keyring | undefined;
  private readonly catalog: StoreCatalog;
  private readonly host: ResidentHost;
  private readonly starter: Starter;

  constructor(settings: TrialSettings) {
    const { databaseUrl, stepsPerCommit, limits = STANDARD_RUN_LIMITS, tenantsApart, encryptionKeysFile } = settings;
    const log = createLogger({ logLevel: "silent" });
    const applicationName = "saga-trial";
    this.keyring = encryptionKeysFile ? new Keyring({ masters: readMasterKeys(encryptionKeysFile) }) : undefined;
    const sealing = this.keyring && { sealing: this.keyring };
    this.sql = openDatabase(databaseUrl, { max: 1, applicationName, log, readOnly: true, ...sealing }).sql;
    this.catalog = new StoreCatalog(this.sql, log, new FairScheduler(), tenantsApart);
    const { sql, catalog, clock } = this;
    const [schemas, tenants] = [new Schemas(), readTenantSettings(settings)];
    const committer = { submit: encodeOnly };
    // A trial asks nothing outside, so what an HTTP provider would give is not tried.
    const startupVariables = ({ tenantId }: StartRequest) => startupVariablesOf(tenantId, tenants, undefined);
    this.starter = new Starter({
      ...{ sql, clock, catalog, schemas, startupVariables, reserves: false, scheduler: NO_SCHEDULER },
      runtime: { units: unitHost(), create: (_, { commit }) => encodeOnly(commit), hand: () => {}, resume: () => {} },
    });
    this.host = {
      facts: new FactSource({
        ...{ sql, clock, catalog, limits, schemas, tenantsApart },
        ...{ licences: tenants, scheduler: NO_SCHEDULER },
      }),
      ...{ committer, clock, stepsPerCommit, hints: false, metrics: createMetrics(), scheduler: NO_SCHEDULER },
      dispatcher: WITH_ANY_WORKER,
      effects: { afterCommit: () => {} },
      residents: { keepIdle: () => {}, remove: () => {} },
      units: unitHost(),
      // The trial takes every decision that a node may take before its first commit.
      hasLostNode: false,
      isMine: () => true,
      load: (runId) => restoreRun(sql, catalog, runId),
      recordedAnswer: (runId, commandId) => repeatedAnswer(sql, runId, commandId),
      advance: () => {},
      advanceFailed: () => {},
    };
  }

  async open(): Promise<void> {
    this.keyring?.whenDestroyed(() => forgetKeptInputs(this.sql));
    await this.keyring?.start(this.sql);
    await this.refresh();
  }

  /** Before each group. */
  async refresh(): Promise<void> {
    await this.clock.measure(this.sql);
    await this.keyring?.refresh();
    await this.catalog.refresh();
  }

  async try(suspect: Suspect): Promise<TrialOutcome> {
    const trial = "start" in suspect ? this.starter.start(suspect.start) : this.decide(suspect);
    const ended = trial.then(() => "lived" as const, outcomeOf);
    const patience = new AbortController();
    const late = delay(PATIENCE_MS, "undecided" as const, { signal: patience.signal }).catch(
      () => "undecided" as const,
    );
    return Promise.race([ended, late]).finally(() => patience.abort());
  }

  private decide({ runId, command, id, reach }: SuspectRun): Promise<unknown> {
    const resident = new Resident(runId, this.host);
    return new Promise((resolve, reject) => {
      resident.deliver({ command, id, reach: reachOfPlain(reach), inboxId: id, keep: false, resolve, reject });
    });
  }
}

/** Nothing else runs here, and the trial steps as far as the fastest node would before its first commit. */
const NO_SCHEDULER: ResidentHost["scheduler"] & StarterOptions["scheduler"] = {
  compute: async (_, piece) => piece(),
  computeSlices: async (_, slices) => inOnePiece(slices),
  isFree: true,
  spent: false,
};

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
const WITH_ANY_WORKER: ResidentHost["dispatcher"] = {
  reserve: () => ({ workerId: "trial" }),
  holds: () => true,
  resolved: () => {},
};
