// What the undo list of a run says of its entries, and which of them it calls failed.
import { describe, expect, it } from "vitest";
import { failedIn, saidOf } from "../../src/console/run/undo-words.js";

type Entry = Parameters<typeof saidOf>[0];

const entry = (ordinal: number, state = "owed"): Entry => ({ ordinal, step_id: "pay", state });
const page = (items: readonly Entry[], total: number, offset = 0) => ({ items, total, offset });
const STANDS = {
  incident: { code: "down", message: "it is down", step_id: "pay", attempts: 1, since: "", phase: "compensation" },
} as const;

describe("an entry of the undo list", () => {
  it.each([
    ["running", "owed", "owed if the run rolls back"],
    ["compensating", "owed", "still to be undone"],
    ["compensating", "done", "undone"],
    ["failed", "failed", "the undo failed"],
    ["succeeded", "not_needed", "not needed: the run succeeded"],
  ] as const)("of a run that is %s and that is %s: %s", (state, of, words) =>
    expect(saidOf(entry(1, of), { state }, undefined).words).toBe(words),
  );

  it("is called failed while the rollback stands at it: the newest that is owed", () => {
    const list = page([entry(1), entry(2), entry(3, "done")], 3);
    const failed = failedIn(list, STANDS);
    const said = list.items.map((one) => saidOf(one, { state: "compensating" }, failed).words);
    expect(said).toEqual(["still to be undone", "the undo failed", "undone"]);
  });

  it("is not called failed on a page behind which a newer one may be owed", () => {
    expect(failedIn(page([entry(1), entry(2)], 4), STANDS)).toBeUndefined();
    expect(failedIn(page([entry(3), entry(4)], 4, 2), STANDS)?.ordinal).toBe(4);
  });
});
