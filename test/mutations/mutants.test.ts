// A change of the code that a mutant names breaks the mutant, and is noticed here, long before the mutants run.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";

interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}
interface Mutant extends Edit {
  readonly name: string;
  readonly also?: readonly Edit[];
}

const list = join(packageRoot(), "test", "mutations", "mutants.mjs");
const { MUTANTS: REMOVED } = (await import(list)) as { MUTANTS: readonly Mutant[] };
const planted = join(packageRoot(), "test", "simulation", "planted.mjs");
const { PLANTED } = (await import(planted)) as { PLANTED: readonly Mutant[] };
/** Those that tests find, and those that simulations find. */
const MUTANTS = [...REMOVED, ...PLANTED];

const editsOf = ({ also = [], ...first }: Mutant) => [first, ...also];
const parts = ({ file, find }: Edit) => readFileSync(join(packageRoot(), file), "utf8").split(find);
const without = (isRight: (edit: Edit) => boolean) =>
  MUTANTS.filter((mutant) => !editsOf(mutant).every(isRight)).map(({ name }) => name);

/** A file that cannot be read fails every test, also the named one: such a mutant proves nothing. */
function parses(edit: Edit): boolean {
  if (!edit.file.endsWith(".ts")) return true;
  try {
    transformSync(parts(edit).join(edit.replace), { loader: "ts", logLevel: "silent" });
    return true;
  } catch {
    return false;
  }
}

describe("every mutant", () => {
  it("replaces a text that occurs once in its file", () => {
    expect(MUTANTS.length).toBeGreaterThan(0);
    expect(without((edit) => parts(edit).length === 2)).toEqual([]);
  });

  it("leaves a file that can be read", () => {
    expect(without(parses)).toEqual([]);
  });
});
