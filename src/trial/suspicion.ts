// The suspicion of a node: the suspects that it knows, the gate before its decisions and the trials, as one part of the node that is started
// and stopped. The parts themselves are in the other files of this folder.
import type { Sql } from "postgres";
import type { Logger } from "../log.js";
import { TrialGate } from "./gate.js";
import { Suspects } from "./suspects.js";
import { Trials, type TrialsOptions } from "./trials.js";

export interface SuspicionOptions extends TrialsOptions {
  readonly sql: Sql;
  readonly log: Logger;
}

export class Suspicion {
  readonly trials: Trials;
  readonly gate: TrialGate;
  private readonly suspects: Suspects;

  constructor(private readonly options: SuspicionOptions) {
    const { sql, log } = options;
    this.suspects = new Suspects(sql);
    this.trials = new Trials(options);
    this.gate = new TrialGate({ suspects: this.suspects, judge: this.trials, log });
  }

  /** On return the node knows what other nodes have died of: it must not decide on that before. Throws errors of the store. */
  start(): Promise<void> {
    this.suspects.expectNews();
    return this.suspects.refresh();
  }

  /** Suspects without a verdict stay undecided. Safe to call twice. */
  async stop(): Promise<void> {
    await this.trials.stop();
  }

  /** Another node has died while it decided on this. */
  name(key: string): void {
    this.suspects.name(key);
  }

  /** At every heartbeat. A node that has gone may have named a suspect: its primary writes that before it removes the node's row. */
  heartbeat(nodesChanged: boolean): void {
    if (nodesChanged) this.suspects.expectNews();
    this.suspects
      .refresh()
      .catch((error) => this.options.log.warn({ err: error }, "suspects not read, retrying at the next heartbeat"));
  }
}
