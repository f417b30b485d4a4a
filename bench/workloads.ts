// The workflows of the scenarios, and the actions that their steps call. Other systems are measured with mirrors of
// ten-steps, three-steps, rollback, signal and park: a change here is a change there, and makes older results incomparable.

/** What every run of a workload starts with. */
export const INPUTS = { amount: 7 };

/** The service of the worker. `echo`, `reserve` and `release` answer their input at once; `refuse` fails at once, for good. */
export const WORKER_SERVICE = "bench";

interface Step {
  readonly id: string;
  readonly type: string;
  readonly [attribute: string]: unknown;
}

export interface Workload {
  readonly id: string;
  readonly name: string;
  readonly start: string;
  readonly published: true;
  readonly steps: readonly Step[];
}

/** A workflow whose first step is its start. */
function workload(id: string, name: string, steps: readonly Step[]): Workload {
  return { id: `bench-${id}`, name, start: steps[0]?.id ?? "", published: true, steps };
}

/** Each step continues at the one after it. */
function chain(steps: readonly Step[]): Step[] {
  return steps.map((step, nth) => ({ ...step, ...(nth < steps.length - 1 && { next: steps[nth + 1]?.id }) }));
}

/** An action whose input is the amount of the run. */
function call(id: string, action: string): Step {
  return { id, type: "action", action: `${WORKER_SERVICE}.${action}`, inputs: { amount: "${inputs.amount}" } };
}

/** Its undo gets the amount too. */
function undoable(id: string): Step {
  const compensation = { action: `${WORKER_SERVICE}.release`, inputs: { amount: "${inputs.amount}" } };
  return { ...call(id, "reserve"), compensation };
}

/** One step that does nothing: what a start costs. */
export const ONE_STEP = workload("one-step", "One step", [{ id: "only", type: "noop" }]);

/** Ten steps inside the service, each of which computes a number from the input and stores it. */
export const TEN_STEPS = workload(
  "ten-steps",
  "Ten recorded in-process steps",
  chain(Array.from({ length: 10 }, (_, nth) => transform(`s${nth}`, `inputs.amount * ${nth} + 1`))),
);

/** Three calls of a worker, one after the other; each answers its input, and the answer is stored. No compensations. */
export const THREE_STEPS = workload(
  "three-steps",
  "Three steps of a worker",
  chain(["a", "b", "c"].map((id) => call(id, "echo"))),
);

/** Three calls with compensations succeed, the fourth fails for good, the three are undone: seven calls. */
export const ROLLBACK = workload(
  "rollback",
  "Three done, the fourth fails, three undone",
  chain([undoable("a"), undoable("b"), undoable("c"), call("d", "refuse")]),
);

/** Waits for the signal `go`, stores its payload and ends. Used by `signal`, `signal-64`, `watchers` and `park`. */
export const SIGNALLED = workload("signalled", "Waits for a signal", [
  { id: "wait", type: "wait_for_signal", signal_name: "go" },
]);

/** Waits until the time `inputs.until`, and ends. */
export const TIMED = workload("timed", "Waits for a time", [
  { id: "wait", type: "wait_until", until: "${inputs.until}" },
]);

/** Ten branches of one step inside the service, all at once, and their join. */
export const PARALLEL = workload("parallel", "Ten branches at once", [
  { id: "fork", type: "parallel", branches: branches(10), next: "join" },
  { id: "join", type: "join" },
  ...Array.from({ length: 10 }, (_, nth) => transform(`s${nth}`, `inputs.amount * ${nth} + 1`)),
]);

/** One step inside the service for each of `inputs.items`, ten at a time; each item is a child run. */
export const FOREACH = workload("foreach", "One step for each item", [
  { id: "each", type: "foreach", items: "inputs.items", body: "item", max_concurrency: 10 },
  transform("item", "item * 2"),
]);

function transform(id: string, expression: string): Step {
  return { id, type: "transform", expression };
}

function branches(count: number): Record<string, { readonly next: string }> {
  return Object.fromEntries(Array.from({ length: count }, (_, nth) => [`b${nth}`, { next: `s${nth}` }]));
}

/** A decision table of a hundred rows; the input `amount` n matches row n, so that on average half of the rows are tried. */
export const RULE = {
  rule_id: "bench-hundred-rows",
  name: "A hundred rows",
  rule_type: "decision_table",
  published: true,
  spec: {
    hit_policy: "first",
    rows: Array.from({ length: 100 }, (_, nth) => ({ when: `amount == ${nth}`, then: { row: nth } })),
  },
};
