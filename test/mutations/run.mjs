// Proof by mutation: takes one safeguard after the other out of a copy of the work tree and demands that a named test turns
// red, and that the same test is green without it. Not part of `npm test`. `--required`: only the mutations that must be.
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTANTS } from "./mutants.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** A mutant that makes its test hang has been found, too; but it must not hold the script. */
const PATIENCE_MS = 90_000;

/** Exit code and what was said, of a program that may take this long. */
function run(command, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        said += chunk;
      });
    const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, said });
    });
  });
}

/** The tracked files as they stand in the work tree, beside its installed packages. */
async function copyTree() {
  const copy = await mkdtemp(join(tmpdir(), "saga-mutations-"));
  const { code, said } = await run("git", ["ls-files", "-z"], ROOT);
  if (code !== 0) throw new Error(`git ls-files: ${said}`);
  const { said: gone } = await run("git", ["ls-files", "-z", "--deleted"], ROOT);
  const deleted = new Set(gone.split("\0"));
  for (const file of said.split("\0").filter((name) => name !== "" && !deleted.has(name))) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await cp(join(ROOT, file), join(copy, file));
  }
  await symlink(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/** The outcome of every test of the files, by its full name, in one run of vitest. */
async function outcomesOf(copy, files, name) {
  const report = join(copy, "report.json");
  await rm(report, { force: true });
  // Each word of the name is matched as it is.
  const only = name === undefined ? [] : ["-t", `^${name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}$`];
  const args = ["vitest", "run", ...files, ...only, "--reporter=json", `--outputFile=${report}`, "--retry=0"];
  const { said } = await run("npx", args, copy);
  const text = await readFile(report, "utf8").catch(() => undefined);
  if (text === undefined) return { outcomes: new Map(), said };
  const outcomes = new Map();
  for (const file of JSON.parse(text).testResults)
    for (const { fullName, status } of file.assertionResults)
      outcomes.set(`${relative(copy, file.name)} ${fullName}`, status);
  return { outcomes, said };
}

/** The file with the mutation in it. The text must stand there once: a mutation that misses proves nothing. */
async function mutated(copy, { file, find, replace }) {
  const original = await readFile(join(copy, file), "utf8");
  const found = original.split(find).length - 1;
  if (found !== 1) throw new Error(`${file}: the text to mutate is there ${found} times, not once: ${find}`);
  return { original, text: original.split(find).join(replace) };
}

/** Why the mutation proves nothing, or undefined: its test turned red. */
async function survives(copy, mutant) {
  const { original, text } = await mutated(copy, mutant);
  await writeFile(join(copy, mutant.file), text);
  try {
    const { outcomes, said } = await outcomesOf(copy, [mutant.test], mutant.red);
    const outcome = outcomes.get(`${mutant.test} ${mutant.red}`);
    if (outcome === "failed") return undefined;
    return outcome === undefined ? `the test did not run:\n${said.slice(-2_000)}` : `the test ${outcome}`;
  } finally {
    await writeFile(join(copy, mutant.file), original);
  }
}

async function main() {
  const began = performance.now();
  const mutants = process.argv.includes("--required") ? MUTANTS.filter(({ required }) => required) : MUTANTS;
  const copy = await copyTree();
  const failures = [];
  try {
    for (const mutant of mutants) await mutated(copy, mutant);
    const { outcomes, said } = await outcomesOf(copy, [...new Set(mutants.map(({ test }) => test))]);
    for (const { test, red } of mutants) {
      const outcome = outcomes.get(`${test} ${red}`);
      if (outcome !== "passed") failures.push(`unmutated: ${test} "${red}" ${outcome ?? "is not there"}`);
    }
    if (failures.length > 0) console.error(said.slice(-4_000));
    for (const mutant of failures.length > 0 ? [] : mutants) {
      const reason = await survives(copy, mutant);
      console.log(`${reason ? "SURVIVED" : "red"}  ${mutant.name}`);
      if (reason) failures.push(`${mutant.name}: ${reason}`);
    }
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
  for (const failure of failures) console.error(failure);
  const seconds = Math.round((performance.now() - began) / 1_000);
  console.log(
    `${mutants.length - failures.length} of ${mutants.length} mutations turned their test red, in ${seconds} s`,
  );
  if (failures.length > 0) process.exitCode = 1;
}

await main();
