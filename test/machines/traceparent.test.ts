// The header `traceparent`, with the cases of the W3C recommendation.
import { describe, expect, it } from "vitest";
import { parseTraceparent, traceparentOf } from "../../machines/index.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

describe("a traceparent", () => {
  it.each([
    [`00-${TRACE}-${SPAN}-01`, true],
    [`00-${TRACE}-${SPAN}-00`, false],
    [`00-${TRACE}-${SPAN}-03`, true],
    [`00-${TRACE}-${SPAN}-fe`, false],
    [`01-${TRACE}-${SPAN}-01`, true],
    [`cc-${TRACE}-${SPAN}-01-what-the-future-adds`, true],
  ])("%s is read", (text, sampled) => {
    expect(parseTraceparent(text)).toEqual({ traceId: TRACE, spanId: SPAN, sampled });
  });

  it.each([
    ["nothing", undefined],
    ["an empty text", ""],
    ["the version ff", `ff-${TRACE}-${SPAN}-01`],
    ["more members than its version has", `00-${TRACE}-${SPAN}-01-x`],
    ["a version of one digit", `0-${TRACE}-${SPAN}-01`],
    ["upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["a trace of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["a span of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["a short trace", `00-${TRACE.slice(1)}-${SPAN}-01`],
    ["other characters", `00-${TRACE.replace("0", "g")}-${SPAN}-01`],
    ["a line break behind it", `00-${TRACE}-${SPAN}-01\n`],
    ["a future version with text that is no member", `cc-${TRACE}-${SPAN}-01.x`],
    ["two of them", `00-${TRACE}-${SPAN}-01,00-${TRACE}-${SPAN}-01`],
  ])("with %s counts as absent", (_, text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });

  it("is written as its version 00, with the flag that it has been read with", () => {
    const text = (flags: string) => `00-${TRACE}-${SPAN}-${flags}`;
    const written = (given: string) =>
      traceparentOf(parseTraceparent(given) ?? { traceId: "", spanId: "", sampled: false });
    expect(written(`cc-${TRACE}-${SPAN}-03-more`)).toBe(text("01"));
    expect(written(text("00"))).toBe(text("00"));
  });
});
