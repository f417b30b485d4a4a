// The order of test files. Some mostly wait: for processes to start, for leases to end, for brokers to come back. The others mostly
// compute. They are mixed evenly, so that the processors are neither idle at first nor overloaded at the end, and the longest begin first.
import { BaseSequencer, type TestSpecification } from "vitest/node";

const WAITING =
  /\/test\/(bus|cluster|console|dispatch|events|examples|faults|sdk)\/|bench\/scenarios\.|package\.|docs\/(runbook|readme)\.|\/killed-|\/embedded\.|api\/(slow-client|stream|unread)\.|run\/(residents|suspects|trials)\./;

/** Those of both forms that take longest. Where vitest has not measured any yet, it begins with the largest files. */
const LONGEST = [
  "trigger/killed-service",
  "examples/order-fulfilment",
  "faults/poison",
  "console/workflows",
  "faults/takeover",
  "faults/overload",
  "docs/runbook",
  "console/run",
  "cluster/rest",
  "cluster/nodes",
  "dispatch/carriers",
  "console/bulk",
  "console/runs",
  "faults/three-transports",
  "console/tasks",
  "api/docs-page",
  "console/run-acts",
  "bench/scenarios",
  "cluster/relay",
  "faults/broker-away",
  "faults/slots",
  "faults/rolling-upgrade",
  "faults/outgoing",
  "run/trials",
  "cluster/services",
  "faults/rolling-restart",
  "store/embedded",
  "cluster/supervisor",
  "sdk/transports",
  "run/suspects",
  "operate/bulk",
  "faults/helping",
  "faults/endings",
  "faults/allowed-acts",
  "store/matching-runs",
  "store/plans",
  "api/unread",
  "api/stream",
  "machines/hostile",
  "machines/steps/common",
  "machines/budget",
  "machines/commands",
];

export default class Mixed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
    const waiting = sorted.filter(({ moduleId }) => WAITING.test(moduleId));
    const computing = sorted.filter(({ moduleId }) => !WAITING.test(moduleId));
    return [...placed(waiting), ...placed(computing)].sort((a, b) => a.place - b.place).map(({ file }) => file);
  }
}

function rank({ moduleId }: TestSpecification): number {
  const index = LONGEST.findIndex((name) => moduleId.includes(`/test/${name}.`));
  return index < 0 ? LONGEST.length : index;
}

/** Each file with its place between 0 and 1 in the whole. */
function placed(files: readonly TestSpecification[]): { file: TestSpecification; place: number }[] {
  return files.map((file, index) => ({ file, place: index / files.length }));
}
