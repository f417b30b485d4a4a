// What workers report, as bytes: null for an optional member counts as absent, over HTTP and over gRPC. The calls themselves are in the
// suites of the transports.
import { describe, expect, it } from "vitest";
import { type JsonObject, recordTransition } from "../../machines/index.js";
import { responded } from "../../src/dispatch/http/response.js";
import { parsedResult } from "../../src/dispatch/worker-report.js";
import type { Incoming } from "../../src/egress/exchange.js";

const answered = (body: object) => {
  const incoming = { status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)) } as unknown as Incoming;
  return responded(incoming, "shop.example", { outputBytes: 1_000, now: 0 });
};
const by = "shop.example";

describe("null in a worker's report", () => {
  it("beside a result, or beside an error, counts as absent", () => {
    expect(answered({ result: { receipt: null }, error: null })).toEqual({
      ...{ kind: "answered", outcome: { result: { receipt: null } }, by },
    });
    const error = { code: "declined", message: "no", retryable: null, outcome_unknown: null };
    expect(answered({ result: null, error })).toEqual({
      ...{ kind: "answered", by },
      outcome: { code: "declined", message: "no", retryable: true, outcomeUnknown: false },
    });
  });

  it("for both is no outcome: the worker reports it later", () => {
    for (const body of [{ result: null, error: null }, { error: null }, {}])
      expect(answered(body)).toEqual({ kind: "accepted" });
  });

  it("beside neither hides a body that has both", () => {
    const both = answered({ result: {}, error: { code: "x", message: "y" } });
    expect(both).toMatchObject({ kind: "answered", outcome: { code: "schema_mismatch", outcomeUnknown: true } });
  });

  it("as the result over gRPC is an empty one", () => {
    expect(parsedResult(Buffer.from("null"), 1_000)).toEqual({ result: {} });
    expect(parsedResult(Buffer.from('{"a":null}'), 1_000)).toEqual({ result: { a: null } });
    expect(parsedResult(Buffer.from("[]"), 1_000)).toMatchObject({ code: "schema_mismatch" });
  });
});

describe("null for the record of a transition", () => {
  it("counts as absent", () => {
    const payload: JsonObject = { record_type: "order", from_state: "new", to_state: "paid", record: null };
    expect(recordTransition(payload)?.record).toEqual({});
  });
});
