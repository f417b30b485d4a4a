import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { builtModules, LEFT_TO_NODE } from "./test/harness/built.js";
import { ALONE, LONG } from "./test/harness/long.js";
import Mixed from "./test/harness/sequencer.js";

/** The long form runs the files that have one: those that read the switch. */
function withLongForm(): string[] {
  const paths = readdirSync("test", { recursive: true, encoding: "utf8" }).map((path) => join("test", path));
  return paths.filter(
    (path) =>
      /(?<!\.alone)\.test\.ts$/.test(path) &&
      (/\.long\./.test(path) || /\/long\.js|describeLongWithBrowser/.test(readFileSync(path, "utf8"))),
  );
}

const shortForm = () => ["test/**/!(*.long|*.alone).test.ts"];
const alone = () => ["test/**/*.alone.test.ts"];

/**
 * Most functions run for one file only. The V8 of Node 20 optimises one at an eighth of the use that this budget asks for; that takes a
 * fifth of a worker's CPU time, and gives less back. With the budget a room takes a tenth less. The V8 of Node 24 has a cheap optimiser
 * before the expensive one, and does not start with this option.
 */
const LATE_OPTIMISATION = process.versions.node.startsWith("20.") ? ["--interrupt-budget=1000000"] : [];

export default defineConfig({
  plugins: [builtModules],
  test: {
    server: { deps: { external: [LEFT_TO_NODE] } },
    include: ALONE ? alone() : LONG ? withLongForm() : shortForm(),
    globalSetup: ["test/harness/global-setup.ts"],
    setupFiles: ["test/harness/setup.ts"],
    // What passes the second time is reported by name: see the reporter below.
    retry: process.env.CI === "true" ? 1 : 0,
    reporters: ["default", "./test/harness/closing-line.ts"],
    // The long form has ten times the cases, beside tests with processes.
    // They end what hangs, and no test of a busy machine.
    testTimeout: LONG ? 400_000 : 150_000,
    hookTimeout: 120_000,
    pool: "forks",
    // Most of what a test allocates is garbage when it ends: in a young generation that begins this large, little of it is copied before.
    execArgv: ["--min-semi-space-size=64", "--max-semi-space-size=64", ...LATE_OPTIMISATION],
    // Workers keep their modules from one file to the next: importing them again for each file costs more than most files' tests.
    isolate: false,
    // More than the processors of a small machine: some tests mostly wait for a process to start or for a lease to end. The services of
    // more workers together open more sessions than a Postgres with its default settings allows.
    maxWorkers: 4,
    sequence: { sequencer: Mixed },
  },
});
