// Events in a rehearsal: what one run publishes another one takes, and a mock is the payload of an event from outside.
import { describe, expect, it } from "vitest";
import { rehearse } from "../../src/sdk/define/testing/index.js";

const wait = (id: string, more: object) => ({ id, type: "wait_for_event", topic: "sent", ...more });
const document = (...steps: object[]) => ({ id: "wf", name: "wf", start: "a", steps });

describe("events in a rehearsal", () => {
  it("a mock is the event's payload; the code timeout means that no event comes", () => {
    const heard = document(wait("a", { headers: { of: "me" }, match: "event.payload.n > 1" }));
    expect(rehearse(heard, { mocks: { a: [{ output: { n: 2 } }] } })).toMatchObject({
      state: "succeeded",
      output: { topic: "sent", headers: { of: "me" }, payload: { n: 2 } },
    });
    const timed = document(wait("a", { timeout_ms: 1000 }));
    const silent = rehearse(timed, { mocks: { a: [{ error: { code: "timeout" } }] } });
    expect(silent).toMatchObject({ state: "failed" });
  });

  it("an event that a branch publishes is consumed by its sibling", () => {
    const rehearsed = rehearse(
      document(
        { id: "a", type: "parallel", branches: { says: { next: "say" }, hears: { next: "hear" } }, next: "both" },
        { id: "say", type: "emit_event", topic: "sent", payload: 7 },
        wait("hear", { match: "event.payload == 7" }),
        { id: "both", type: "join" },
      ),
    );
    expect(rehearsed).toMatchObject({ state: "succeeded", output: { hears: { payload: 7 } } });
  });
});
