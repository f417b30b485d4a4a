// docs/functions.md describes every function that can be called, and its examples are true.
import { describe, expect, it } from "vitest";
import { CATALOGUE } from "../../machines/expression/catalogue/index.js";
import { functionNames } from "../../machines/expression/functions.js";
import { compileExpression } from "../../machines/expression/index.js";
import { MACRO_NAMES } from "../../machines/expression/macros.js";

const described = CATALOGUE.flatMap(({ functions }) => functions);

describe("the catalogue of functions", () => {
  it("has every function and macro, once", () => {
    expect(described.map(({ name }) => name).sort()).toEqual([...functionNames(), ...MACRO_NAMES].sort());
  });

  it.each(described)("$name: $example", ({ name, call, example, result }) => {
    expect(call).toContain(name);
    expect(example).toContain(name);
    expect(compileExpression(example).evaluate({})).toEqual(result);
  });
});
