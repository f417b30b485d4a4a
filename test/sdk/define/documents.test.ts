// @module-tag both
// Documents as values: what is read is written again without loss, and what is no document is refused with its place.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromDocument } from "../../../src/sdk/define/index.js";
import { long } from "../../harness/long.js";
import { documents } from "../../machines/definitions.js";
import { families, layOut } from "../../machines/families.js";

const RANDOM = long(50, 500);
const head = (steps: readonly { readonly id: string }[]) => ({
  id: "random",
  name: "Random",
  start: steps[0]?.id,
  steps,
});

describe("a document", () => {
  it("goes through a value unchanged, member by member and in its order: 50 random ones, 500 in the long form", () => {
    const document = fc.oneof(
      documents.map(({ steps, head: more }) => ({ ...head(steps), ...more })),
      families.map(({ root }) => head(layOut(root))),
    );
    fc.assert(
      fc.property(document, (json) => {
        const text = JSON.stringify(json);
        expect(JSON.stringify(fromDocument(JSON.parse(text)))).toBe(text);
      }),
      { numRuns: RANDOM },
    );
  });

  it("is a copy: what happens to the original, or to what toJSON gave, does not count", () => {
    const json = { id: "a", name: "A", start: "s", steps: [{ id: "s", type: "noop" }] };
    const value = fromDocument(json);
    json.steps[0] = { id: "other", type: "noop" };
    (value.toJSON() as { name: string }).name = "other";
    expect(JSON.stringify(value)).toBe('{"id":"a","name":"A","start":"s","steps":[{"id":"s","type":"noop"}]}');
    expect(value.id).toBe("a");
  });

  it.each([
    ["nothing", null, "$ must be an object"],
    ["a list", [], "$ must be an object"],
    ["no id", { name: "A", start: "s", steps: [] }, "$.id must be a string"],
    ["no steps", { id: "a", name: "A", start: "s" }, "$.steps must be a list"],
    [
      "a step without a type",
      { id: "a", name: "A", start: "s", steps: [{ id: "s" }] },
      "$.steps[0].type must be a string",
    ],
    ["a step that is null", { id: "a", name: "A", start: "s", steps: [null] }, "$.steps[0] must be an object"],
    [
      "a number that is none",
      { id: "a", name: "A", start: "s", steps: [], timeout_ms: Number.NaN },
      "$.timeout_ms is NaN",
    ],
  ])("is refused with its place: %s", (_what, json, message) => {
    expect(() => fromDocument(json)).toThrow(message);
  });
});
