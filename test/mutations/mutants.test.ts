// A change of the code that a mutant names breaks the mutant, and is noticed here, long before the mutants run.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";

interface Edit {
  readonly file: string;
  readonly find: string;
}
interface Mutant extends Edit {
  readonly name: string;
  readonly also?: readonly Edit[];
}

it("every mutant replaces a text that occurs once in its file", async () => {
  const list = join(packageRoot(), "test", "mutations", "mutants.mjs");
  const { MUTANTS } = (await import(list)) as { MUTANTS: readonly Mutant[] };
  const occurrences = ({ file, find }: Edit) => readFileSync(join(packageRoot(), file), "utf8").split(find).length - 1;
  const applies = ({ also = [], ...first }: Mutant) => [first, ...also].every((edit) => occurrences(edit) === 1);
  expect(MUTANTS.length).toBeGreaterThan(0);
  expect(MUTANTS.filter((mutant) => !applies(mutant)).map(({ name }) => name)).toEqual([]);
});
