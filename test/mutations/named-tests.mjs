// Runs single tests by name, in one vitest that stays up from mutant to mutant: only what a mutation changes is transformed again.
import { join } from "node:path";
import { createVitest } from "vitest/node";

/** A test that hangs counts as failed: the mutation was noticed. */
const PATIENCE_MS = 60_000;
const PATIENCE_WITH_ALL_MS = 300_000;
/** Of a test that gives none of its own. */
const TEST_TIMEOUT_MS = 25_000;

export class NamedTests {
  vitest;

  constructor(root) {
    this.root = root;
  }

  /** `passed`, `failed`, `hung`, or what else became of each mutant's test. */
  async outcomesOf(mutants) {
    const names = new Set(mutants.map(({ red }) => red));
    const files = new Set(mutants.map(({ test }) => test));
    const outcomes = await this.run([...files], [...names], PATIENCE_WITH_ALL_MS);
    return new Map(mutants.map((mutant) => [mutant, outcomes.get(key(mutant)) ?? "did not run"]));
  }

  /** After the files `changed` were written. */
  async outcomeOf(mutant, changed) {
    for (const file of changed) await this.forget(file);
    const outcomes = await this.run([mutant.test], [mutant.red]);
    return outcomes.get(key(mutant)) ?? "did not run";
  }

  /** The file has changed. Migrations are applied when vitest starts, so it must start again. */
  async forget(file) {
    if (file.endsWith(".sql")) await this.close();
    else this.vitest?.invalidateFile(join(this.root, file));
  }

  async close() {
    await this.vitest?.close();
    this.vitest = undefined;
  }

  async run(files, names, patience = PATIENCE_MS) {
    const vitest = await this.open();
    vitest.setGlobalTestNamePattern(new RegExp(`^(${names.map(escaped).join("|")})$`));
    const project = vitest.getProjectByName("short");
    const specifications = files.map((file) => project.createSpecification(join(this.root, file)));
    const finished = vitest.runTestSpecifications(specifications);
    const result = await Promise.race([finished, hungAfter(patience)]);
    if (result === "hung") {
      await this.close();
      return new Map(names.flatMap((red) => files.map((test) => [key({ test, red }), "failed"])));
    }
    return new Map(result.testModules.flatMap((module) => outcomes(module)));
  }

  async open() {
    const config = { root: this.root, config: join(this.root, "vitest.config.ts"), watch: false };
    // A worker that a mutation has broken must not run the next test.
    this.vitest ??= await createVitest("test", {
      ...{ ...config, isolate: true, retry: 0, bail: 0, reporters: [{}] },
      testTimeout: TEST_TIMEOUT_MS,
    });
    return this.vitest;
  }
}

const key = ({ test, red }) => `${test} ${red}`;

const escaped = (name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

function outcomes(module) {
  return [...module.children.allTests()].map((test) => {
    const red = test.fullName.replaceAll(" > ", " ");
    return [key({ test: module.relativeModuleId, red }), test.result().state];
  });
}

function hungAfter(ms) {
  return new Promise((resolve) => setTimeout(() => resolve("hung"), ms).unref());
}
