// The last line of a test run: `N passed, N failed[, N skipped]`, after the names of what was skipped. Under CI=true a skip
// fails the run: there, every service that a suite needs is expected to be up. A script that has several parts names a file in
// SAGA_TEST_TALLY: the counts are appended to it instead, and the script sums them up.
import { appendFileSync, writeSync } from "node:fs";
import type { Reporter, SerializedError, TestModule, TestSuite } from "vitest/node";

export default class ClosingLine implements Reporter {
  private passed = 0;
  private failed = 0;
  private readonly skipped: string[] = [];

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.passed = 0;
    this.skipped.length = 0;
    // A file that does not load or a hook that throws has no failed test, but is a failure.
    this.failed = unhandled.length;
    for (const module of modules) this.count(module);
    if (modules.length === 0) this.failed++;
  }

  constructor() {
    // Printed after everything else.
    process.once("exit", (code) => this.close(code));
  }

  private count(module: TestModule): void {
    const suites: (TestModule | TestSuite)[] = [module, ...module.children.allSuites()];
    this.failed += suites.filter((suite) => suite.errors().length > 0).length;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === "passed") this.passed++;
      else if (state === "failed") this.failed++;
      else this.skipped.push(`${module.relativeModuleId} > ${test.fullName}`);
    }
  }

  private close(code: number): void {
    // The run ended before its tests: a failing exit code must not have a clean line.
    if (code !== 0 && this.failed === 0) this.failed = 1;
    const skips = this.skipped.length;
    const refused = skips > 0 && process.env.CI === "true";
    const lines = this.skipped.map((name) => `skipped: ${name}`);
    if (refused) lines.push("CI=true: a skipped test is a failure");
    const { SAGA_TEST_TALLY: tally } = process.env;
    if (tally) appendFileSync(tally, `${this.passed} ${this.failed} ${skips}\n`);
    else lines.push(`${this.passed} passed, ${this.failed} failed${skips > 0 ? `, ${skips} skipped` : ""}`);
    if (lines.length > 0) writeSync(1, `${lines.join("\n")}\n`);
    if (this.failed > 0 || refused) process.exitCode = 1;
  }
}
