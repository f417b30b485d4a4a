// One saga with a parallel, a foreach, a sub-saga, a loop and a nested branch fails late, or is cancelled with an open dispatch in a
// branch. Every compensable step is undone once, newest first; and the same with a crash at every commit.
// @module-tag both
import { describe, expect, it } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import { long } from "../harness/long.js";
import { worldViolations } from "./chain.js";
import { ACTIONS, program } from "./definitions.js";
import { type Faults, Simulation, type WorkerMove, type World } from "./simulation.js";

const charge = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  type: "action",
  action: "shop.charge",
  inputs: { of: id },
  compensation: { action: "shop.refund", inputs: { of: id } },
  ...more,
});

const SUB = program(
  [charge("inner", { next: "items" }), { id: "items", type: "foreach", items: "[1, 2]", body: "each" }, charge("each")],
  {
    id: "sub",
  },
);

const SAGA = program([
  charge("first", { next: "fork" }),
  { id: "fork", type: "parallel", branches: { left: { next: "left" }, right: { next: "right" } }, next: "joined" },
  charge("left", { next: "nested" }),
  { id: "nested", type: "parallel", branches: { a: { next: "deep" }, b: { next: "deeper" } }, next: "merged" },
  charge("deep"),
  charge("deeper"),
  { id: "merged", type: "join" },
  charge("right"),
  { id: "joined", type: "join", next: "list" },
  { id: "list", type: "foreach", items: "[1, 2, 3]", body: "item", max_concurrency: 2, next: "child" },
  charge("item"),
  { id: "child", type: "sub_saga", workflow_id: "sub", next: "loop" },
  { id: "loop", type: "while", condition: "iteration < 2", body: "round", next: "last" },
  charge("round"),
  {
    id: "last",
    type: "action",
    action: "shop.notify",
    inputs: { of: "last" },
    retry: { max_attempts: 1, initial_backoff_ms: 0 },
  },
]);

/** The worker's effects in their order, one for each idempotency key. */
class Ledger {
  readonly done: string[] = [];
  private readonly keys = new Set<string>();

  constructor(private readonly fails: string) {}

  readonly worker = ({ call }: Dispatch): WorkerMove => {
    const of = String(call.inputs.of);
    if (of === this.fails) return { kind: "failure", code: "declined", retryable: false, outcomeUnknown: false };
    if (!this.keys.has(call.idempotencyKey)) this.done.push(call.forwardIdempotencyKey ?? call.idempotencyKey);
    this.keys.add(call.idempotencyKey);
    return { kind: "result", result: { of } };
  };

  get forward(): readonly string[] {
    return this.done.slice(0, this.done.length / 2);
  }

  /** Every effect has one undo, and all undos come last. */
  get isUndone(): boolean {
    const undone = this.done.slice(this.done.length / 2);
    return isSame([...this.forward].sort(), [...undone].sort()) && new Set(undone).size === undone.length;
  }
}

const isSame = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right);

/** A crash at one commit: before it is written, or after it and before its effects. */
class Death implements Faults {
  commits = 0;

  constructor(
    private readonly at: number,
    private readonly point: "before" | "after",
    private readonly world: World,
  ) {}

  beforeCommit(): boolean {
    return this.point === "after" || this.dies(this.commits++);
  }

  afterCommit(): boolean {
    return this.point === "before" || this.dies(this.commits++);
  }

  private dies(commit: number): boolean {
    if (commit !== this.at) return true;
    this.world.crash();
    return false;
  }
}

interface Played {
  readonly world: World;
  readonly ledger: Ledger;
  readonly death: Death;
}

/** `cancelAt`: the root is cancelled while the worker has this step of the family. */
function play(fails: string, cancelAt: string | undefined, at = -1, point: "before" | "after" = "before"): Played {
  const ledger = new Ledger(fails);
  const root = new Simulation({
    program: SAGA,
    workflows: { sub: SUB },
    actions: ACTIONS,
    worker: ledger.worker,
    budget: 1,
  });
  const { world } = root;
  const death = new Death(at, point, world);
  world.stepwise = true;
  world.faults = death;
  const isOpen = () =>
    [...world.runs.values()].some(
      ({ context: { wait, call } }) => wait?.kind === "dispatched" && call?.inputs.of === cancelAt,
    );
  const cancel = { type: "cancel", compensate: true, actor: "api" } as const;
  let isAsked = false;
  for (let moves = 0; moves < 3_000 && !world.ended; moves++) {
    isAsked ||= cancelAt !== undefined && isOpen();
    if (isAsked) root.tryOnce(cancel, "cancel");
    world.move();
  }
  return { world, ledger, death };
}

function expectUndone({ world, ledger }: Played, state: string): void {
  expect(worldViolations(world)).toEqual([]);
  expect([...world.runs.values()][0]?.state).toBe(state);
  expect(ledger.isUndone).toBe(true);
  const owed = world.undo.filter(({ action }) => action !== undefined).map(({ state }) => state);
  expect(new Set(owed)).toEqual(new Set(["done"]));
}

describe.each([
  ["fails late", "last", undefined, "failed"],
  ["is cancelled with a dispatch open in a branch of a branch", "none", "deeper", "cancelled"],
  ["is cancelled with a dispatch open in an item", "none", "item", "cancelled"],
  ["is cancelled with a dispatch open in a sub-saga's item", "none", "each", "cancelled"],
])("a saga that %s", (_, fails, cancelAt, state) => {
  it("undoes every compensable step once, newest first", () => {
    const played = play(fails, cancelAt);
    expectUndone(played, state);
    if (cancelAt !== undefined) return;
    // All undo lists were handed to the root, which undoes them in the reverse order of completion.
    const { done, forward } = played.ledger;
    expect(done.slice(forward.length)).toEqual([...forward].reverse());
    expect(forward).toHaveLength(13);
  });

  it.each(["before", "after"] as const)("does so when nodes die %s one of its commits, whichever it is", (point) => {
    const { commits } = play(fails, cancelAt, -1, point).death;
    expect(commits).toBeGreaterThan(30);
    for (let at = 0; at < commits; at += long(41, 6)) expectUndone(play(fails, cancelAt, at, point), state);
  });
});
