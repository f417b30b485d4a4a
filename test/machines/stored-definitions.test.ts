// Checks that are younger than release 0.6, each with a definition that the release may have stored: it compiles where it is stored, and
// is refused where it is new. What the real build of that release accepted is stored-definitions.long.test.ts.
import { describe, expect, it } from "vitest";
import { compileWorkflow, type Json, type JsonObject, Schemas } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";

const CASES: Readonly<Record<string, { readonly step: object; readonly at: string }>> = {
  "action since 0.7": { step: { action: "a.b@9999999999" }, at: "$.steps[0].action" },
  "http_request since 0.7": {
    step: { url: "https://api.example/", timeout_ms: 3_600_000 },
    at: "$.steps[0].timeout_ms",
  },
  "wait_duration since 0.7": { step: { duration: "P4000D" }, at: "$.steps[0].duration" },
  "wait_for_signal since 0.7": { step: { signal_name: ".." }, at: "$.steps[0].signal_name" },
};

const younger = [...STEP_TYPES.values()].flatMap(({ name, youngerChecks = [] }) =>
  youngerChecks.map(({ since }) => `${name} since ${since}`),
);

describe("a check that is younger than release 0.6", () => {
  it("has a case here", () => {
    expect(younger).toEqual(Object.keys(CASES));
  });

  it.each(Object.entries(CASES))("%s holds for new definitions only", (name, { step, at }) => {
    const [type] = name.split(" ");
    const document = { id: "older", name: "older", start: "s", steps: [{ id: "s", type, ...step }] };
    expect(compileWorkflow(document).problems).toMatchObject([{ path: at }]);
    expect(compileWorkflow(document, { limits: null })).toMatchObject({ program: expect.anything(), problems: [] });
  });
});

/** Schemas that a stored definition or registration may have: RE2 reads their patterns, and their references lead to a place in them. */
const SCHEMAS: readonly (readonly [schema: JsonObject, fits: Json, unfit: Json])[] = [
  ...(
    [
      ["^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$", "a.b@c.de", "a"],
      ["\\d{3}\\-\\d{4}", "555-0123", "5550123"],
      ["\\@", "a@b", "a"],
      ["(?i)abc", "xABC", "ab"],
      ["\\A\\d+\\z", "12", "12a"],
      ["[[:alpha:]]", "a", "1"],
      ["^(?P<year>\\d{4})$", "2026", "26"],
      ["a}", "a}", "a"],
    ] as const
  ).map(([pattern, fits, unfit]) => [{ pattern }, fits, unfit] as const),
  [{ patternProperties: { "^x\\-": { type: "string" } } }, { "x-a": "b" }, { "x-a": 1 }],
  ...["#/$defs/My Type", "#/$defs/Partial<Foo>", "#/$defs/Gr\u00f6\u00dfe", "#/$defs/a[b]"].map(
    (ref) => [{ $ref: ref, $defs: { [ref.slice("#/$defs/".length)]: { type: "string" } } }, "a", 1] as const,
  ),
  [{ $ref: "#/definitions/Partial<Foo>", definitions: { "Partial<Foo>": { type: "string" } } }, "a", 1],
  ...["", "#", "My Type", "order"].map(($id) => [{ $id, type: "string" }, "a", 1] as const),
  [{ $id: "", properties: { a: { $ref: "#" } }, type: "object" }, { a: {} }, { a: 1 }],
];

describe("a schema that was accepted before formats were asserted", () => {
  const schemas = new Schemas();
  it.each(SCHEMAS)("%j", (schema, fits, unfit) => {
    expect(schemas.problems(schema)).toEqual([]);
    expect(schemas.conforms(schema, fits)).toEqual([]);
    expect(schemas.conforms(schema, unfit)).toEqual([expect.stringMatching(/must/)]);
  });
});
