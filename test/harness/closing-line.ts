// The last line of a test run: `N passed, N failed[, N skipped]`, after the names of what was skipped. Under CI=true a skip
// fails the run: there, every service that a suite needs is expected to be up.
import { writeSync } from "node:fs";
import type { Reporter, SerializedError, TestModule, TestSuite } from "vitest/node";

export default class ClosingLine implements Reporter {
  private passed = 0;
  private failed = 0;
  private readonly skipped: string[] = [];

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.passed = 0;
    this.skipped.length = 0;
    // A file that does not load and a hook that throws have no failed test, and must not pass unseen.
    this.failed = unhandled.length;
    for (const module of modules) this.count(module);
    if (modules.length === 0) this.failed++;
  }

  constructor() {
    // After everything else that vitest has to say.
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
    // It ended before the tests did: never a clean line with a failing code.
    if (code !== 0 && this.failed === 0) this.failed = 1;
    const skips = this.skipped.length;
    const refused = skips > 0 && process.env.CI === "true";
    const lines = this.skipped.map((name) => `skipped: ${name}`);
    if (refused) lines.push("CI=true: a skipped test is a failure");
    lines.push(`${this.passed} passed, ${this.failed} failed${skips > 0 ? `, ${skips} skipped` : ""}`);
    writeSync(1, `${lines.join("\n")}\n`);
    if (this.failed > 0 || refused) process.exitCode = 1;
  }
}
