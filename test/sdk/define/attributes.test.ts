// The tables of the definition package are those of the service's step types: an attribute that is new there is red here.
import { describe, expect, it } from "vitest";
import type { Attributes } from "../../../machines/attribute/kinds.js";
import { COMMON } from "../../../machines/definition/step.js";
import { STEP_TYPES } from "../../../machines/steps/index.js";
import * as tables from "../../../src/sdk/define/attributes.js";
import { saga } from "../../../src/sdk/define/index.js";

/** How a kind of the service is written, by its name in the docs. */
function kindOf(name: string): tables.AttributeKind {
  if (name === "CEL") return "cel";
  if (name === "list of CEL") return "cels";
  if (name === "JSON Schema 2020-12") return "schema";
  if (["concurrency", "rate_limit", "retention", "RetryPolicy", "compensation"].includes(name)) return "parts";
  if (/template|^number$|^integer$|^object of any value/.test(name)) return "value";
  return /branch|case|step id|^id$/.test(name) ? "target" : "plain";
}

const kindsOf = (attributes: Attributes, skip: readonly string[] = []) =>
  Object.fromEntries(
    Object.entries(attributes)
      .filter(([name]) => !skip.includes(name))
      .map(([name, { kind }]) => [name, kindOf(kind.name)]),
  );

describe("the attributes of definitions", () => {
  it.each([...STEP_TYPES.values()].map((type) => [type.name, type] as const))(
    "%s has those of the service",
    (name, type) => {
      const { error_var, item_var, index_var, ...own } = kindsOf(type.attributes);
      const {
        error_var: a,
        item_var: b,
        index_var: c,
        ...known
      } = tables.ATTRIBUTES[name as tables.StepTypeName] as Readonly<Record<string, string>>;
      expect(known).toEqual(own);
      expect([a, b, c].map((kind) => kind !== undefined)).toEqual(
        [error_var, item_var, index_var].map((kind) => kind !== undefined),
      );
      expect(tables.RETRYING.has(name as tables.StepTypeName)).toBe(type.retries ?? false);
      expect(tables.WITHOUT_OUTPUT.has(name as tables.StepTypeName)).toBe(type.output === undefined);
    },
  );

  it("every step type of the service has a table, and no other", () => {
    expect(Object.keys(tables.ATTRIBUTES).sort()).toEqual([...STEP_TYPES.keys()].sort());
  });

  it("what every step may have is what the service allows every step", () => {
    const all = { ...tables.COMMON.before, ...tables.COMMON.after };
    expect(Object.keys(all).sort()).toEqual(
      [...Object.keys(COMMON), "retry"].filter((name) => !["id", "type", "next"].includes(name)).sort(),
    );
  });

  it("every step type has a method, and each name of an option leads back to its attribute", () => {
    const chain = saga("s", { name: "S" }) as unknown as Record<string, unknown>;
    const methods = [...STEP_TYPES.keys()].filter((name) => name !== "join").map(tables.optionName);
    expect(methods.filter((name) => typeof chain[name] !== "function")).toEqual([]);
    const names = Object.values(tables.ATTRIBUTES).flatMap((table) => Object.keys(table));
    expect(names.filter((name) => tables.attributeName(tables.optionName(name)) !== name)).toEqual([]);
  });
});
