// The order of test files: those that start processes come first, so that their waits overlap with each other and with the rest,
// and none of them is left alone at the end.
import { BaseSequencer, type TestSpecification } from "vitest/node";

const WITH_PROCESSES = /\/test\/(cluster|examples|faults)\/|\/embedded\.test\.ts$/;

export default class ProcessesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const startsProcesses = ({ moduleId }: TestSpecification) => WITH_PROCESSES.test(moduleId);
    return [...sorted.filter(startsProcesses), ...sorted.filter((file) => !startsProcesses(file))];
  }
}
