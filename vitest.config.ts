// The tests as three projects, one for each form of the suite. Without `--project`, as in `npx vitest run test/run`, the short form runs alone.
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { builtModules, LEFT_TO_NODE } from "./test/harness/built.js";
import { FORMS, type Form, filesOf, TAGS } from "./test/harness/forms.js";
import MostFirst from "./test/harness/sequencer.js";

/**
 * Most functions run for one file only. The V8 of Node 20 optimises one at an eighth of the use that this budget asks for; that takes a
 * fifth of a worker's CPU time, and gives less back. With the budget a room takes a tenth less. The V8 of Node 24 has a cheap optimiser
 * before the expensive one, and does not start with this option.
 */
const LATE_OPTIMISATION = process.versions.node.startsWith("20.") ? ["--interrupt-budget=1000000"] : [];

const server = { deps: { external: [LEFT_TO_NODE] } };

function project(form: Form): TestProjectInlineConfiguration {
  const test = {
    name: form,
    server,
    include: filesOf(form),
    tags: TAGS,
    // vitest honours it for each project, and has it in its types only for all of them.
    tagsFilter: [FORMS[form].filter],
    provide: { form },
    setupFiles: ["test/harness/setup.ts"],
    // What passes the second time is reported by name: see the reporter below.
    retry: process.env.CI === "true" ? 1 : 0,
    // The long form has ten times the cases, beside tests with processes.
    // They end what hangs, and no test of a busy machine.
    testTimeout: form === "short" ? 150_000 : 400_000,
    hookTimeout: 120_000,
    pool: "forks" as const,
    // Most of what a test allocates is garbage when it ends: in a young generation that begins this large, little of it is copied before.
    execArgv: ["--min-semi-space-size=64", "--max-semi-space-size=64", ...LATE_OPTIMISATION],
    // Workers keep their modules from one file to the next: importing them again for each file costs more than most files' tests.
    isolate: false,
    // More than the processors of a small machine: some tests mostly wait for a process to start or for a lease to end. The services of
    // more workers together open more sessions than a Postgres with its default settings allows. In the long form, and with access control, most files have several nodes.
    maxWorkers: form === "short" && process.env.SAGA_TEST_ACCESS !== "on" ? 4 : 3,
  };
  return { plugins: [builtModules], test };
}

const isChosen = process.argv.some((argument) => argument.startsWith("--project"));

export default defineConfig({
  plugins: [builtModules],
  test: {
    projects: isChosen ? [project("short"), project("long"), project("alone")] : [project("short")],
    // The setup is of the whole run, with the same modules as the tests.
    server,
    globalSetup: ["test/harness/global-setup.ts"],
    reporters: ["default", "./test/harness/closing-line.ts"],
    sequence: { sequencer: MostFirst },
  },
});
