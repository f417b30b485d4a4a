// Checks that are younger than release 0.6, each with a definition that the release may have stored: it compiles where it is stored, and
// is refused where it is new. What the real build of that release accepted is stored-definitions.long.test.ts.
import { describe, expect, it } from "vitest";
import { compileWorkflow } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";

const CASES: Readonly<Record<string, { readonly step: object; readonly at: string }>> = {
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
