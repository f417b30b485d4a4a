// A signal that is answered `matched` is taken, also where the wait that it matched ends at the same moment: by its own timeout, or because
// another branch has won the join. Three nodes, one step a commit.
// @module-tag both

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { expectSettled, familiesEnd } from "./family-laws.js";
import { type Half, publish, type Step, signal, start, startHalf } from "./rig.js";
import { report } from "./seen.js";

const FAMILIES = long(4, 16);
/** Families at once: more would put the end of the wait behind a queue of commits, away from the signals. */
const AT_ONCE = 16;
const WAIT_MS = 600;
/** Signals come so long before or after the end of the wait. */
const AROUND_MS = 40;

let database: TestDatabase;
let halves: readonly Half[];

const race = (wait: Record<string, unknown>, rival: Step): readonly Step[] => [
  { id: "p", type: "parallel", branches: { a: { next: "wait" }, b: { next: rival.id } }, next: "j" },
  { id: "wait", type: "wait_for_signal", signal_name: "go", ...wait },
  rival,
  { id: "j", type: "join", mode: "any" },
];
interface Shape {
  readonly steps: readonly Step[];
  /** The branch whose timer ends the wait. */
  readonly decider: "a" | "b";
}
const timer = (duration_ms: number) => ({ id: "rival", type: "wait_duration", duration_ms });
const SHAPES: Record<string, Shape> = {
  "loses its join": { steps: race({}, timer(WAIT_MS)), decider: "b" },
  "times out": {
    steps: race({ timeout_ms: WAIT_MS, on_timeout: "continue" }, timer(60_000)),
    decider: "a",
  },
};
const workflowOf = (shape: string) => shape.replaceAll(" ", "-");

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  for (const [shape, { steps }] of Object.entries(SHAPES)) await publish(database, workflowOf(shape), steps);
  halves = await Promise.all(
    ["one", "two", "three"].map((name) =>
      startHalf(database, { applicationName: `saga-${name}`, stepsPerCommit: 1, pollMs: 20 }),
    ),
  );
  for (const { poller } of halves) poller.start();
});
afterAll(async () => {
  for (const half of halves) await half.stop();
  await database.drop();
});

const half = (nth: number) => halves[nth % halves.length] as Half;

interface Signalled {
  readonly root: RunId;
  readonly id: string;
  readonly matched: boolean;
}

/** When the wait of the family's branch ends. The branch waits and has found no signal; on a slow machine the wait may be over already. */
const endOfWait = (root: RunId, decider: string) =>
  until(async () => {
    const [row] = await database.sql<{ due: Date | null }[]>`
      select case when a.terminal_at is null then w.due_at end as due from runs a, runs d left join wakes w on w.run_id = d.id
      where a.root_run_id = ${root} and a.parent_branch_id = 'a' and d.root_run_id = ${root} and d.parent_branch_id = ${decider}
        and (a.terminal_at is not null or d.terminal_at is not null
          or (a.paused_reason = 'signal' and a.record->'wait'->'look' is null and d.state = 'paused'))`;
    return row && { at: row.due?.getTime() ?? 0 };
  });

/** Starts a family on one node, and signals its root on another one. */
async function one(shape: string, nth: number): Promise<Signalled> {
  const root = await start(half(nth).starter, workflowOf(shape));
  const end = await endOfWait(root, SHAPES[shape]?.decider ?? "");
  const moment = end.at + (((nth * 7) % 21) / 10 - 1) * AROUND_MS;
  await until(() => Date.now() >= moment, { pause: 2, what: "the moment of the race" });
  const id = uuidv7();
  const answer = await half(nth + 1).runtime.command(root, signal(id, "go", { nth }), { id, reach: EVERYTHING });
  return { root, id, matched: answer.type === "signal" && answer.matched };
}

async function many(shape: string): Promise<Signalled[]> {
  const all: Signalled[] = [];
  let next = 0;
  const drive = async () => {
    // On a slow machine most signals come too late: there are more families until one was in time.
    while (next < FAMILIES || (next < 10 * FAMILIES && !all.some(({ matched }) => matched)))
      all.push(await one(shape, next++));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, drive));
  return all;
}

describe("a signal that is answered `matched`, and no other one, while the wait of a branch", () => {
  it.each(Object.keys(SHAPES))("%s, is taken", async (shape) => {
    const signalled = await many(shape);
    const families = await familiesEnd(
      database.sql,
      signalled.map(({ root }) => root),
    );
    await expectSettled(database.sql, families);
    const rows = await database.sql<{ id: string }[]>`select id from signals where consumed_at is not null`;
    const taken = new Set(rows.map(({ id }) => id));
    const matched = signalled.filter((each) => each.matched);
    report({ shape, matched: matched.length, kept: signalled.length - matched.length, taken: taken.size });
    expect(signalled.filter((each) => each.matched !== taken.has(each.id))).toEqual([]);
    expect(matched.length).toBeGreaterThan(0);
  });
});
