// Workflows with everything that a family is made of: branches, items, a sub-saga, rounds of a loop, a try, undos, and waits for the signal `go`. One
// for each mode of a join.
import type { Step } from "./rig.js";

const retry = { max_attempts: 2, initial_backoff_ms: 5 };
const charge = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs: { of: id }, retry, timeout_ms: 10_000 },
  ...{ compensation: { action: "shop.refund", inputs: { of: id } }, ...more },
});
const wait = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "wait_for_signal", signal_name: "go", timeout_ms: 2_500, on_timeout: "continue", ...more },
});

function shape(mode: string): Step[] {
  const branches = { a: { next: "a1" }, b: { next: "b1" }, c: { next: "c1" } };
  return [
    charge("first", { next: "p" }),
    { id: "p", type: "parallel", branches, next: "j" },
    charge("a1", { next: "a2" }),
    wait("a2", { next: "a3" }),
    charge("a3"),
    { id: "b1", type: "foreach", items: "[1, 2, 3]", body: "b2", max_concurrency: 2, tolerated_failures: 1 },
    charge("b2", { next: "b3" }),
    { id: "b3", type: "sub_saga", workflow_id: "part" },
    { id: "c1", type: "try_catch", try: "c2", catch: "c3" },
    wait("c2", { on_timeout: "fail", next: "c4" }),
    charge("c4"),
    charge("c3"),
    { id: "j", type: "join", mode, next: "w", on_error: mode === "any" ? "fail" : "continue" },
    { id: "w", type: "while", condition: "iteration < 2", body: "w1", next: "last" },
    charge("w1"),
    { id: "last", type: "switch", cases: [{ when: "inputs.fail", next: "no" }], default: "yes" },
    { id: "no", type: "error", code: "late" },
    { id: "yes", type: "noop" },
  ];
}

export const MODES = ["all", "any", "all_settled"] as const;

/** By the id of the workflow. `part` is the sub-saga of the others. */
export const SHAPES: Readonly<Record<string, readonly Step[]>> = {
  part: [
    { id: "p", type: "parallel", branches: { x: { next: "x1" }, y: { next: "y1" } }, next: "j" },
    charge("x1"),
    wait("y1", { timeout_ms: 700 }),
    { id: "j", type: "join" },
  ],
  ...Object.fromEntries(MODES.map((mode) => [mode, shape(mode)])),
};
