// Proof by mutation: removes one safeguard after the other from a copy of the work tree and demands that a named test fails, and
// that the same test passes without the mutation. Of two safeguards for one thing, the other has to hold. Arguments select mutants by words of their names.
import { execFileSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTANTS } from "./mutants.mjs";
import { NamedTests } from "./named-tests.mjs";

/** Mutants that are tried at the same time, each in a copy of the tree. */
const AT_ONCE = 4;
/** `.ci/run` has just seen the same tests pass. */
const UNMUTATED_PASS = process.env.SAGA_TEST_UNMUTATED_PASS === "true";
/** `1/3`: of those that are selected, every third one, the second first. Absent: all. */
const [PART, PARTS] = (process.env.SAGA_TEST_MUTANTS ?? "0/1").split("/").map(Number);
/** How long a test waits for a fact that its mutant may have prevented. Without a mutation each is there within a few seconds. */
process.env.SAGA_TEST_PATIENCE_MS ??= "12000";
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** The tracked files as they are in the work tree, beside its installed packages and its build, which is not mutated. */
async function copyTree() {
  const copy = await mkdtemp(join(tmpdir(), "saga-mutations-"));
  const list = (...more) =>
    execFileSync("git", ["ls-files", "-z", ...more], { cwd: ROOT, encoding: "utf8" }).split("\0");
  const deleted = new Set(list("--deleted"));
  for (const file of list().filter((name) => name !== "" && !deleted.has(name))) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(ROOT, file), join(copy, file));
  }
  for (const folder of ["node_modules", "dist"]) await symlink(join(ROOT, folder), join(copy, folder));
  return copy;
}

/** What a mutant replaces: one text, or several, each in a file of its own. */
const editsOf = ({ file, find, replace, also = [] }) => [{ file, find, replace }, ...also];

/** The texts of the files with the mutation, and without. A text to replace must occur once: a mutation that misses proves nothing. */
function mutate(copy, mutant) {
  return Promise.all(
    editsOf(mutant).map(async ({ file, find, replace }) => {
      const original = await readFile(join(copy, file), "utf8").catch(() => "");
      const found = original.split(find).length - 1;
      if (found !== 1)
        throw new Error(`${mutant.name}: ${file} has the text to replace ${found} times, not once: ${find}`);
      return { file, original, mutated: original.split(find).join(replace) };
    }),
  );
}

/** What has to become of the mutant's test. */
const wanted = ({ holds = false }) => (holds ? "passed" : "failed");

/** Throws an error that names every mutant that does not apply, selected or not. */
async function applyAll(copy) {
  const outcomes = await Promise.allSettled(MUTANTS.map((mutant) => mutate(copy, mutant)));
  const misses = outcomes.flatMap(({ reason }) => reason?.message ?? []);
  if (misses.length > 0) throw new Error(`${misses.length} mutants do not apply:\n${misses.join("\n")}`);
}

/** The outcome of the mutant's test with the mutation in the tree. */
async function outcomeWith(tests, copy, mutant) {
  const edits = await mutate(copy, mutant);
  for (const { file, mutated } of edits) await writeFile(join(copy, file), mutated);
  try {
    return await tests.outcomeOf(
      mutant,
      edits.map(({ file }) => file),
    );
  } finally {
    for (const { file, original } of edits) {
      await writeFile(join(copy, file), original);
      await tests.forget(file);
    }
  }
}

/** Fails where a test does not pass without any mutation. */
async function checkUnmutated(tests, mutants) {
  const outcomes = await tests.outcomesOf(mutants);
  const unsound = mutants.filter((mutant) => outcomes.get(mutant) !== "passed");
  const lines = unsound.map((mutant) => `${mutant.test} "${mutant.red}" ${outcomes.get(mutant)}`);
  if (lines.length > 0) throw new Error(`without any mutation:\n${lines.join("\n")}`);
}

/**
 * How many mutants of the queue, from which the other copies take theirs, too, made their test fail, or let it pass where another safeguard has to
 * hold; the names of the others go to `survivors`. `share`: whose tests it checks before.
 */
async function countRed(copy, share, queue, survivors) {
  const tests = new NamedTests(copy);
  let red = 0;
  try {
    if (share.length > 0 && !UNMUTATED_PASS) await checkUnmutated(tests, share);
    for (const mutant of queue) {
      const began = performance.now();
      const outcome = await outcomeWith(tests, copy, mutant);
      const seconds = `${Math.round((performance.now() - began) / 1000)} s`.padStart(4);
      console.log(
        outcome === wanted(mutant)
          ? `${mutant.holds ? "holds" : "red"} ${seconds}  ${mutant.name}`
          : `SURVIVED  ${mutant.name}: its test ${outcome}`,
      );
      if (outcome === wanted(mutant)) red++;
      else survivors.push(mutant.name);
    }
    return red;
  } finally {
    await tests.close();
  }
}

/** As the reporter of the tests does it: see test/harness/closing-line.ts. */
function tally(passed, failed, survivors) {
  const { SAGA_TEST_TALLY } = process.env;
  const lines = [`${passed} ${failed} 0`, ...survivors.map((name) => `failed: survived: ${name}`)];
  if (SAGA_TEST_TALLY) appendFileSync(SAGA_TEST_TALLY, `${lines.join("\n")}\n`);
}

async function main() {
  const words = process.argv.slice(2);
  if (!(PART >= 0 && PART < PARTS)) throw new Error("SAGA_TEST_MUTANTS is a part of parts, such as 0/3");
  const named = MUTANTS.filter(({ name }) => words.every((word) => name.includes(word)));
  const selected = named.filter((_, index) => index % PARTS === PART);
  if (PARTS > 1) console.log(`${selected.length} of ${named.length} mutants: part ${PART} of 0 to ${PARTS - 1}`);
  const mutants = selected.filter(({ needs }) => needs === undefined || process.env[needs]);
  for (const { name, needs } of selected)
    if (needs !== undefined && !process.env[needs]) console.log(`skipped, needs ${needs}: ${name}`);
  const copies = await Promise.all(Array.from({ length: AT_ONCE }, copyTree));
  const survivors = [];
  let red = 0;
  let failed = false;
  try {
    await applyAll(copies[0]);
    const share = (nth) => mutants.filter((_, index) => index % AT_ONCE === nth);
    // Whoever is free takes the next mutant. Those whose tests wait for half a minute until they fail come first.
    const queue = mutants.toSorted((one, other) => Number(other.waits ?? false) - Number(one.waits ?? false)).values();
    const counts = await Promise.all(copies.map((copy, nth) => countRed(copy, share(nth), queue, survivors)));
    red = counts.reduce((sum, count) => sum + count, 0);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    failed = true;
  } finally {
    for (const copy of copies) await rm(copy, { recursive: true, force: true });
  }
  console.log(`${red} of ${mutants.length} red`);
  tally(red, mutants.length - red, survivors);
  // A red test is what is wanted here, but vitest has set the exit code for it.
  process.exitCode = failed || red < mutants.length ? 1 : 0;
}

await main();
