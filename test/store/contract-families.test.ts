// The contract of a store on random families: what the simulation has decided, committed in Postgres as the service commits it, is the same
// runs there and in memory.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId, confirmation, type Rows, type RunCommit, Unit } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { unitHost } from "../../src/run/unit-host.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { cases, firstSeed } from "../harness/long.js";
import { families, optionsOf } from "../machines/families.js";
import { randomOf, Scheduler } from "../machines/scheduler.js";
import type { Tried } from "../machines/world.js";
import { BothStores } from "./contract.js";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const FAMILIES = cases(3, 25);
const FIRST = firstSeed();

const SERVICE = unitHost();

/** The commit that the service makes of what the simulation has decided, with the tokens of the simulation. */
function unitOf({ done, commit }: Tried): RunCommit {
  if (!done) return commit;
  const { context, place, command, id, answer, transitions, owed, now } = done;
  const { revision, fence } = place;
  const based = { context, revision, fence, reach: done.reach ?? EVERYTHING };
  const received = { command, id, inboxId: id, keep: false };
  if (transitions.length === 0)
    return withFences(confirmation({ ...based, received, answer, owed: owed ?? {} }, now, SERVICE), commit.rows);
  const unit = new Unit(place, SERVICE);
  for (const transition of transitions) unit.add(context.run, transition);
  unit.recordAnswer(received, answer);
  return withFences(unit.toCommit(based, now), commit.rows);
}

function withFences({ runId, rows }: RunCommit, others: Rows): RunCommit {
  const fenced = (["run_update", "new_run", "promise"] as const).map((relation) => [
    relation,
    rows[relation]?.map((row, nth) => ({ ...row, fence: others[relation]?.[nth]?.fence })),
  ]);
  return { runId, rows: { ...rows, ...Object.fromEntries(fenced) } };
}

/** The service keeps scopes by their content. */
const OF_THE_SERVICE: ReadonlySet<string> = new Set(["scope", "scope_value"]);

function compared(rows: Rows): unknown {
  const present = Object.entries(rows).filter(
    ([relation, some]) => some && some.length > 0 && !OF_THE_SERVICE.has(relation),
  );
  const plain = present.map(([relation, some]) => [relation, some.map((row) => JSON.parse(JSON.stringify(row)))]);
  // Those of the run come before those of its children, or behind them.
  const inAnyOrder = plain.map(([relation, some]) => [relation, new Set(some)]);
  return Object.fromEntries(inAnyOrder);
}

describe("random families", () => {
  it("are the same runs in both stores, whatever is lost, repeated or late", {
    timeout: 60_000 + FAMILIES * 20_000,
  }, async () => {
    console.log(`contract: ${FAMILIES} families from ${FIRST}`);
    const seen: Record<string, number> = {};
    for (let seed = FIRST; seed < FIRST + FAMILIES; seed++) {
      const stores = new BothStores(database);
      await stores.empty();
      const tried = played(seed);
      let commits = 0;
      for (const each of tried) {
        const commit = unitOf(each);
        expect(compared(commit.rows), `seed ${seed}`).toEqual(compared(each.commit.rows));
        stores.now = each.done?.now ?? stores.now;
        const won = await stores.commit(commit);
        expect(won.has(commit.runId), `seed ${seed}`).toBe(each.won);
        const relations = Object.entries(commit.rows).flatMap(([name, rows]) => (rows && rows.length > 0 ? name : []));
        for (const name of [...relations, each.won ? "won" : "lost"]) seen[name] = (seen[name] ?? 0) + 1;
        if (++commits % 50 === 0) await stores.same();
      }
      const { runs } = await stores.same();
      for (const { id: runId } of runs) await stores.sameFacts(asRunId(runId as string));
    }
    console.log("seen", seen);
    if (FAMILIES < 20) return;
    for (const name of ["won", "lost", "signal", "scope", "undo_handed", "undo_settled", "ticket", "published_event"])
      expect(seen[name], name).toBeGreaterThan(0);
  });
});

/** Every commit of a random family under the faults of its seed. */
function played(seed: number): readonly Tried[] {
  const [document] = fc.sample(families, { seed, numRuns: 1 });
  if (!document) throw new Error("no family");
  const tried: Tried[] = [];
  const scheduler = new Scheduler({ ...optionsOf(document), watch: (each) => tried.push(each) }, randomOf(seed));
  expect(scheduler.play()).toEqual([]);
  return tried;
}
