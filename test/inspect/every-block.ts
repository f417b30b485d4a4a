// A workflow with every kind of block, the way through it to both of its ends, and a workflow with two versions. How a run of them is
// driven is the test's to say.

const noop = { type: "noop" };

export const BLOCKS = {
  id: "blocks",
  name: "Blocks",
  start: "fork",
  published: true,
  steps: [
    { id: "fork", type: "parallel", branches: { left: { next: "l" }, right: { next: "r.1" } }, next: "joined" },
    { id: "l", ...noop },
    { id: "r.1", ...noop },
    { id: "joined", type: "join", next: "each" },
    { id: "each", type: "foreach", items: "[1, 2]", body: "item", max_concurrency: 1, next: "go" },
    { id: "item", ...noop },
    { id: "go", type: "wait_for_signal", signal_name: "go", next: "try" },
    { id: "try", type: "try_catch", try: "bad", catch: "caught", next: "loop" },
    { id: "bad", type: "error", code: "bad" },
    { id: "caught", ...noop },
    { id: "loop", type: "while", condition: "iteration < 2", body: "round", next: "sub" },
    { id: "round", type: "noop", next: "loop" },
    { id: "sub", type: "sub_saga", workflow_id: "small", next: "spawn" },
    { id: "spawn", type: "spawn_saga", workflow_id: "small", next: "nap" },
    { id: "nap", type: "wait_duration", duration_ms: 1, next: "clock" },
    { id: "clock", type: "wait_until", until: "${now + duration('1ms')}", next: "heard" },
    { id: "heard", type: "wait_for_event", topic: "news", headers: { run: "${run.id}" }, next: "approve" },
    { id: "approve", type: "manual_approval", assignee: "ann", branches: { approved: { next: "form" } } },
    { id: "form", type: "collect_input", assignee: "ann", form_schema: { type: "object" }, next: "pay" },
    { id: "pay", type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, next: "choose" },
    { id: "choose", type: "switch", cases: [{ when: "true", next: "decide" }], default: "never" },
    { id: "never", ...noop },
    {
      id: "decide",
      type: "decision",
      expression: "inputs.end",
      branches: { good: { next: "end" }, bad: { next: "broken" } },
    },
    { id: "broken", type: "error", code: "broken" },
    { id: "end", type: "end" },
  ],
};

export const SMALL = { id: "small", name: "Small", start: "only", published: true, steps: [{ id: "only", ...noop }] };

/** Its branches, items and sub-saga. What it spawned is none of them. */
export const CHILDREN = ["blocks each[0]", "blocks each[1]", "blocks fork[left]", "blocks fork[right]", "small"];

const at = (...steps: string[]) => steps.map((active) => ({ active }));

export const WAY = [
  "pending",
  ...at("fork", "joined", "each", "go", "try", "bad", "try", "caught", "try"),
  ...at("loop", "round", "loop", "round", "loop", "sub", "spawn"),
  ...at("nap", "clock", "heard", "approve", "form", "pay", "choose", "decide"),
];

export const ENDS = {
  good: [...at("end"), "succeeded"],
  bad: [...at("broken"), "undoing", "failed"],
};

const versioned = { id: "moving", name: "Moving", published: true };

/** A run of the first version waits at `hold`, which is `confirm` in the second. */
export const FIRST = {
  ...{ ...versioned, version: 1, start: "open" },
  steps: [
    { id: "open", ...noop, next: "hold" },
    { id: "hold", type: "wait_for_signal", signal_name: "go", next: "done" },
    { id: "done", ...noop },
  ],
};
export const SECOND = {
  ...{ ...versioned, version: 2, start: "confirm", migrations: { 1: { hold: "confirm" } } },
  steps: [
    { id: "confirm", type: "wait_for_signal", signal_name: "go", next: "pack" },
    { id: "pack", type: "foreach", items: "[1]", body: "box", next: "sent" },
    { id: "box", ...noop },
    { id: "sent", ...noop },
  ],
};
export const MOVED_WAY = ["pending", ...at("open", "hold", "confirm", "pack", "sent"), "succeeded"];
