// A change of the code that a mutant names breaks the mutant, and is noticed here, long before the mutants run.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";

interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly find: string;
}

it("every mutant replaces a text that occurs once in its file", async () => {
  const list = join(packageRoot(), "test", "mutations", "mutants.mjs");
  const { MUTANTS } = (await import(list)) as { MUTANTS: readonly Mutant[] };
  const occurrences = ({ file, find }: Mutant) =>
    readFileSync(join(packageRoot(), file), "utf8").split(find).length - 1;
  expect(MUTANTS.length).toBeGreaterThan(0);
  expect(MUTANTS.filter((mutant) => occurrences(mutant) !== 1).map(({ name }) => name)).toEqual([]);
});
