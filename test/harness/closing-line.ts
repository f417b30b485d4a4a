// The last lines of a test run: what was skipped, what is unsteady and what has failed, by name, and `N passed, N failed[, N skipped]`.
// Under CI=true a skip fails the run: there, every service that a suite needs is expected to be up. A script that has several parts
// names a file in SAGA_TEST_TALLY: all but the skips goes there instead, and the script sums the counts up.
//
// A test is unsteady if it failed and then passed (under CI=true, a test that fails runs once more). What only computes has no reason to
// be: in `test/machines` it has failed.
import { appendFileSync, writeSync } from "node:fs";
import type { Reporter, SerializedError, TestCase, TestModule, TestSuite } from "vitest/node";
import { FORMS, type Form } from "./forms.js";

/** What waits for processes, sessions and sockets of a busy machine may be unsteady now and then. */
const MOST_UNSTEADY = 3;
const MOST_OF_A_LINE = 300;

type Errors = readonly { readonly message: string }[];

export default class ClosingLine implements Reporter {
  #passed = 0;
  #failures: string[] = [];
  #unsteady: string[] = [];
  #skipped: string[] = [];

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.#passed = 0;
    this.#unsteady = [];
    this.#skipped = [];
    // A file that does not load or a hook that throws has no failed test, but is a failure.
    this.#failures = unhandled.map((error) => `outside of tests${because([error])}`);
    for (const module of modules) this.#count(module);
    this.#failures.push(...sharedNames(modules).map((name) => `two tests have one full name: ${name}`));
    if (modules.length === 0) this.#failures.push("no tests; the forms are projects, as in --project long");
  }

  constructor() {
    // Printed after everything else.
    process.once("exit", (code) => this.#close(code));
  }

  #count(module: TestModule): void {
    const suites: (TestModule | TestSuite)[] = [module, ...module.children.allSuites()];
    for (const suite of suites)
      if (suite.errors().length > 0) this.#failures.push(module.relativeModuleId + because(suite.errors()));
    // vitest counts a test of another form as skipped.
    const { has } = FORMS[module.project.name as Form];
    for (const test of module.children.allTests())
      if (has(test.tags)) this.#countTest(`${module.relativeModuleId} > ${test.fullName}`, test);
  }

  #countTest(name: string, test: TestCase): void {
    const { state, errors = [] } = test.result();
    const unsteady = test.diagnostic()?.flaky === true;
    if (unsteady) this.#unsteady.push(name + because(errors));
    if (state === "failed" || (unsteady && name.startsWith("test/machines/")))
      this.#failures.push(name + because(errors));
    else if (state === "passed") this.#passed++;
    else this.#skipped.push(name);
  }

  #close(code: number): void {
    if (this.#unsteady.length > MOST_UNSTEADY) this.#failures.push(`more than ${MOST_UNSTEADY} tests are unsteady`);
    // The run ended before its tests: a failing exit code must not have a clean line.
    if (code !== 0 && this.#failures.length === 0) this.#failures.push(`the test run ended with code ${code}`);
    const skips = this.#skipped.length;
    const refused = skips > 0 && process.env.CI === "true";
    const skipped = this.#skipped.map((name) => `skipped: ${name}`);
    if (refused) skipped.push("CI=true: a skipped test is a failure");
    const named = [
      ...this.#unsteady.map((name) => `unsteady: ${name}`),
      ...this.#failures.map((name) => `failed: ${name}`),
    ];
    const failed = this.#failures.length;
    const { SAGA_TEST_TALLY: tally } = process.env;
    if (tally) {
      writeLines(skipped);
      appendFileSync(tally, [`${this.#passed} ${failed} ${skips}`, ...named, ""].join("\n"));
    } else {
      const counts = `${this.#passed} passed, ${failed} failed${skips > 0 ? `, ${skips} skipped` : ""}`;
      writeLines([...skipped, ...named, counts]);
    }
    if (failed > 0 || refused) process.exitCode = 1;
  }
}

/** A test is found by its full name, and is named by it where it fails. */
function sharedNames(modules: readonly TestModule[]): string[] {
  const tests = modules.flatMap((module) => [...module.children.allTests()]);
  const names = tests.map(({ project, fullName }) => `${fullName} (${project.name})`);
  const seen = new Set<string>();
  return names.filter((name) => seen.has(name) || !seen.add(name));
}

/** A message may end with a log, whose last lines say most. */
function because([error]: Errors): string {
  if (!error) return "";
  const [first, ...others] = error.message.split("\n").filter((line) => line.trim() !== "");
  return `: ${[first, ...others.slice(-2)].map((line = "") => line.slice(0, MOST_OF_A_LINE)).join(" … ")}`;
}

function writeLines(lines: readonly string[]): void {
  if (lines.length > 0) writeSync(1, `${lines.join("\n")}\n`);
}
