// What is measured: the scenarios of the bench that other systems can mirror, under the same names.
import type { ScenarioName } from "../result.js";
import { type Kind, SYSTEMS, type SystemName, type WorkflowName } from "./system.js";

/** The scenarios of the bench, and those that only a comparison has. */
export type PeerScenarioName = ScenarioName | "three-steps-called" | "rollback-called";

export interface Scenario {
  readonly name: PeerScenarioName;
  readonly title: string;
  readonly workflow: WorkflowName;
  /** `runs`: started and awaited. `signal`: one parked run after the other. `cycles`: parked runs, signalled and awaited. */
  readonly kind: Kind;
  readonly lanes: number;
  readonly systems: readonly SystemName[];
  readonly stepsPerCommit: number;
  /** The scenario of the peers that ours is compared with. */
  readonly against: PeerScenarioName;
  /** Restate's remote steps: HTTP requests in its journal, or durable calls of a second service of its own. */
  readonly remoteSteps: "http" | "calls";
}

function scenario(
  name: PeerScenarioName,
  title: string,
  rest: Pick<Scenario, "workflow"> & Partial<Scenario>,
): Scenario {
  const usual = { kind: "runs", lanes: 64, systems: SYSTEMS, stepsPerCommit: 64, remoteSteps: "http" } as const;
  return { name, title, ...usual, against: name, ...rest };
}

export const SCENARIOS: readonly Scenario[] = [
  scenario("ten-steps", "Ten in-process steps", { workflow: "ten-steps" }),
  scenario("ten-steps-each-committed", "Ten in-process steps, ours with one step a commit", {
    ...{ workflow: "ten-steps", systems: ["saga-orchestrator"], stepsPerCommit: 1, against: "ten-steps" },
  }),
  scenario("three-steps-grpc", "Three remote steps (ours: gRPC; theirs: HTTP)", { workflow: "three-steps" }),
  scenario("rollback", "Three done, the fourth fails, three undone", { workflow: "rollback" }),
  scenario("three-steps-called", "Three remote steps (theirs: durable calls)", {
    ...{ workflow: "three-steps", systems: ["saga-orchestrator", "restate"], remoteSteps: "calls" },
  }),
  scenario("rollback-called", "Three done, the fourth fails, three undone (theirs: durable calls)", {
    ...{ workflow: "rollback", systems: ["saga-orchestrator", "restate"], remoteSteps: "calls" },
  }),
  scenario("signal", "Signal sent to end seen, one at a time", { workflow: "signalled", kind: "signal", lanes: 1 }),
  scenario("signal-64", "Signal cycles", { workflow: "signalled", kind: "cycles" }),
  scenario("park", "Parked on a signal, and resumed", { workflow: "signalled", kind: "park" }),
];
