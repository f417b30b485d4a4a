// The saga without a service and without a worker: the actions are mocks, and time is virtual.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rehearse } from "@saga-orchestrator/define/testing";
import { order } from "./workflows/order.js";

const inputs = { sku: "tea", quantity: 2, amount: 9.5 };

describe("an order", () => {
  it("is reserved, then paid", () => {
    const run = rehearse(order, {
      inputs,
      mocks: { reserve: [{ output: { reservation: "R-1" } }], charge: [{ output: { receipt: "paid" } }] },
    });
    assert.equal(run.state, "succeeded");
    assert.deepEqual(run.output, { reservation: "R-1", receipt: "paid" });
  });

  // The step and its undo have one id: the second success is the undo's.
  it("releases what it has reserved, if the card is declined", () => {
    const run = rehearse(order, {
      inputs,
      mocks: {
        reserve: [{ output: { reservation: "R-1" } }],
        charge: [{ error: { code: "card_declined", message: "the limit is 100", retryable: false } }],
        "reserve~undo": [{ output: { released: true } }],
      },
    });
    assert.equal(run.state, "failed");
    assert.equal(run.error?.code, "card_declined");
    assert.deepEqual(
      run.events.filter(({ event_type: type }) => type === "step.succeeded").map(({ step_id: id }) => id),
      ["reserve", "reserve"],
    );
  });
});
