// What is measured: the scenarios of the bench that other systems can mirror, under the same names.
import type { ScenarioName } from "../result.js";
import { type Kind, SYSTEMS, type SystemName, type WorkflowName } from "./system.js";

export interface Scenario {
  readonly name: ScenarioName;
  readonly title: string;
  readonly workflow: WorkflowName;
  /** `runs`: started and awaited. `signal`: one parked run after the other. `cycles`: parked runs, signalled and awaited. */
  readonly kind: Kind;
  readonly lanes: number;
  readonly systems: readonly SystemName[];
  readonly stepsPerCommit: number;
  /** The scenario of the peers that ours is compared with. */
  readonly against: ScenarioName;
}

function scenario(name: ScenarioName, title: string, rest: Pick<Scenario, "workflow"> & Partial<Scenario>): Scenario {
  return { name, title, kind: "runs", lanes: 64, systems: SYSTEMS, stepsPerCommit: 64, against: name, ...rest };
}

export const SCENARIOS: readonly Scenario[] = [
  scenario("ten-steps", "Ten in-process steps", { workflow: "ten-steps" }),
  scenario("ten-steps-each-committed", "Ten in-process steps, ours with one step a commit", {
    ...{ workflow: "ten-steps", systems: ["saga-orchestrator"], stepsPerCommit: 1, against: "ten-steps" },
  }),
  scenario("three-steps-grpc", "Three remote steps (ours: gRPC; theirs: HTTP)", { workflow: "three-steps" }),
  scenario("rollback", "Three done, the fourth fails, three undone", { workflow: "rollback" }),
  scenario("signal", "Signal sent to end seen, one at a time", { workflow: "signalled", kind: "signal", lanes: 1 }),
  scenario("signal-64", "Signal cycles", { workflow: "signalled", kind: "cycles" }),
  scenario("park", "Parked on a signal, and resumed", { workflow: "signalled", kind: "park" }),
];
