// The suspicion of a node: its last words, the suspects that it knows, and the gate before its decisions, as one part of the node that is
// started and stopped. The parts themselves are in the other files of this folder.
import type { Sql } from "postgres";
import type { Logger } from "../../log.js";
import { Gate } from "./gate.js";
import type { LastWords } from "./last-words.js";
import { Suspects } from "./suspects.js";
import type { Judge } from "./trials.js";

/** A process that is killed when it has decided nothing for this long names no run. */
const CLEAR_MS = 1_000;

export interface SuspicionOptions {
  readonly sql: Sql;
  readonly judge: Judge;
  readonly log: Logger;
  readonly lastWords?: LastWords;
}

export class Suspicion {
  readonly gate: Gate;
  private readonly suspects: Suspects;
  private clearing: NodeJS.Timeout | undefined;

  constructor(private readonly options: SuspicionOptions) {
    const { sql, judge, log } = options;
    this.suspects = new Suspects(sql);
    this.gate = new Gate({ suspects: this.suspects, judge, log });
  }

  start(): void {
    // A timer runs when no decision does.
    this.clearing = setInterval(() => this.options.lastWords?.clear(), CLEAR_MS).unref();
  }

  stop(): void {
    clearInterval(this.clearing);
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
