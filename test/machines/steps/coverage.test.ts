// No attribute without a test: every attribute that a step type declares is named by an `attribute(...)` test of this folder.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { COMMON } from "../../../machines/definition/step.js";
import { STEP_TYPES } from "../../../machines/steps/index.js";
import { ENGINE_RETRY } from "../../../machines/values/retry.js";

const declared = [
  ...[...STEP_TYPES.values()].flatMap(({ name, attributes }) => Object.keys(attributes).map((key) => `${name}.${key}`)),
  ...Object.keys(COMMON).map((key) => `step.${key}`),
  ...Object.keys(ENGINE_RETRY).map((key) => `retry.${key}`),
  "compensation.action",
  "compensation.inputs",
];

const tested = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".test.ts"))
  .flatMap((file) => [...readFileSync(join(import.meta.dirname, file), "utf8").matchAll(/\battribute\(\s*"([^"]+)"/g)])
  .flatMap(([, names = ""]) => names.split(", "));

describe("step attributes", () => {
  it("every declared attribute has a test", () => {
    expect(declared.filter((name) => !tested.includes(name))).toEqual([]);
  });

  it("no test is about an attribute that is not declared", () => {
    expect(tested.filter((name) => !declared.includes(name))).toEqual([]);
  });

  it("every attribute says what it is for", () => {
    for (const { name, summary, attributes } of STEP_TYPES.values()) {
      expect(summary, name).toMatch(/\.$/);
      for (const [key, { doc, kind }] of Object.entries(attributes)) {
        expect(doc, `${name}.${key}`).not.toBe("");
        expect(kind.name, `${name}.${key}`).not.toBe("");
      }
    }
  });
});
