import { describe, expect, it } from "vitest";
import { checkResult } from "../../bench/result.js";
import { aResult } from "./results.js";

describe("a result file", () => {
  it("of this format is accepted", () => {
    expect(checkResult(aResult())).toEqual(aResult());
  });

  it("of another format or version is refused", () => {
    expect(() => checkResult({ ...aResult(), version: 2 })).toThrow(
      "not a result file of format saga-bench 1: /version",
    );
    expect(() => checkResult([])).toThrow("not a result file");
  });

  it("with a member of the wrong type is refused by its path", () => {
    const result = JSON.parse(JSON.stringify(aResult()));
    result.scenarios[0].repetitions[0].seconds = "1";
    expect(() => checkResult(result)).toThrow("/scenarios/0/repetitions/0/seconds");
  });

  it("may have members of a later release", () => {
    expect(() => checkResult({ ...aResult(), weather: "fine" })).not.toThrow();
  });
});
