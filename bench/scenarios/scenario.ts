// What a scenario is. Each file beside this one has one or more of them; index.ts lists them.
import type { Transport } from "../deployment/worker.js";
import type { ScenarioName } from "../result.js";
import type { Stage } from "../stage.js";

export interface Scenario {
  readonly name: ScenarioName;
  readonly title: string;
  /** What is counted. */
  readonly unit: string;
  // Unless the command line says otherwise.
  readonly count: number;
  readonly concurrency: number;
  /** "operations": independent of each other, so that a rate, a duration and a warm-up make sense. "work": one piece of work. */
  readonly kind: "operations" | "work";
  readonly worker?: Transport;
  /** Why it cannot run against a target. */
  readonly ownOnly?: string;
  /** Settings of the service that the scenario is about; a target has its own. */
  readonly settings?: Readonly<Record<string, string>>;
  /** One repetition. */
  play(stage: Stage): Promise<void>;
}
