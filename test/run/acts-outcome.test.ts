// The acts of an operator under faults of the commit (law 2, law 6): a connection that is cut in the middle of it, two nodes that carry
// out the same act, and two acts at once. Each act takes effect once, and every caller gets the recorded answer.
// @module-tag both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Answer, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";
import { reclaim } from "../../src/store/engine/poll.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { LONG } from "../harness/long.js";
import { until } from "../harness/until.js";
import { CuttingProxy } from "./cutting-proxy.js";
import { breaksOnce, comeTo, expectHelped, goOn, publishHelped, STANDS, type Stand } from "./helped.js";
import { type Half, startHalf } from "./rig.js";
import { allSound, look, nothingUnwatched } from "./seen.js";

let database: TestDatabase;
let proxy: CuttingProxy;
/** The connections of `cut` go through the proxy. */
let cut: Half;
let other: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  proxy = await CuttingProxy.before(database.url);
  await publishHelped(database);
  const reply = breaksOnce();
  cut = await startHalf(database, { url: proxy.url, applicationName: "saga-cut", reply });
  other = await startHalf(database, { applicationName: "saga-other", reply });
});
afterAll(async () => {
  await cut.stop();
  await other.stop();
  await proxy.close();
  await database.drop();
});

const recorded = async (runId: string, id: string) => {
  const rows = await database.sql<{ answer: Answer }[]>`
    select answer from run_commands where run_id = ${runId} and command_id = ${id}`;
  return rows.map(({ answer }) => answer);
};

/** Effects of a lost commit are in no memory: the poll finds them, here without waiting until they are due. */
async function ends(half: Half, runId: RunId, state: string): Promise<void> {
  await until(
    async () => {
      await reclaim(database.sql, SHARDS);
      await database.sql`update wakes set due_at = now() - interval '1 s' where run_id = ${runId} and due_at < now() + interval '3 s'`;
      await half.poller.tick();
      return (await look(database.sql, runId)).run.state === state;
    },
    { what: `the end as ${state}` },
  );
}

/** The run goes on to its end, and everything happened once. */
async function helped(stand: Stand, half: Half, runId: RunId, halves: readonly Half[] = [half]): Promise<void> {
  await goOn(stand, half.runtime, runId);
  await ends(half, runId, stand.end);
  const [seen] = await allSound(database.sql, [runId]);
  if (seen) await expectHelped(stand, database, seen);
  const sent = halves.flatMap(({ dispatcher }) => dispatcher.sent).filter((dispatch) => dispatch.runId === runId);
  // The poll of another test, which is forced here, may send one that is on its way again, under its own id.
  const actions = new Map(sent.map(({ dispatchId, call }) => [dispatchId, call.action]));
  expect([...actions.values()].sort()).toEqual([...stand.sent].sort());
}

const named = STANDS.map((stand) => [`${stand.act.type} at ${stand.at}`, stand] as const);

describe.each([LONG ? "before" : "after"] as const)(
  "a connection cut %s the server has carried out the commit of",
  (when) => {
    it.each(named)("%s: it is done once, and its caller gets the true answer", async (_, stand) => {
      const runId = await comeTo(stand, database, cut);
      await nothingUnwatched(database.sql);
      const id = uuidv7();
      const isCut = proxy.cutAt(id, when);
      const answer = await cut.runtime.command(runId, stand.act, { id, reach: EVERYTHING });
      await isCut;
      expect(answer).toEqual({ type: "acted", state: stand.answer, changed: true });
      expect(await recorded(runId, id)).toEqual([answer]);
      for (const half of [cut, other])
        expect(await half.runtime.command(runId, stand.act, { id, reach: EVERYTHING })).toEqual(answer);
      await helped(stand, cut, runId, [cut, other]);
      await nothingUnwatched(database.sql);
      for (const half of [cut, other])
        expect(await half.runtime.command(runId, stand.act, { id, reach: EVERYTHING })).toEqual(answer);
    });
  },
);

describe("on two nodes at once", { tags: "long" }, () => {
  it.concurrent.each(named)("%s under one id is done once, and both callers get its answer", async (_, stand) => {
    const runId = await comeTo(stand, database, cut);
    const id = uuidv7();
    const give = (half: Half) => half.runtime.command(runId, stand.act, { id, reach: EVERYTHING });
    const [one, two] = await Promise.all([give(cut), give(other)]);
    expect([one, two]).toEqual([{ type: "acted", state: stand.answer, changed: true }, one]);
    expect(await recorded(runId, id)).toEqual([one]);
    await helped(stand, other, runId, [cut, other]);
  });

  it.concurrent.each(named)(
    "%s under two ids is done once, and the other is refused or changes nothing",
    async (_, stand) => {
      const runId = await comeTo(stand, database, cut);
      const give = (half: Half) => half.runtime.command(runId, stand.act, { id: uuidv7(), reach: EVERYTHING });
      const answers = await Promise.all([give(cut), give(other)]);
      expect(answers.filter((answer) => "changed" in answer && answer.changed)).toHaveLength(1);
      await helped(stand, other, runId, [cut, other]);
    },
  );

  const decisions = STANDS.filter(({ at, act }) => at.endsWith("incident") && act.type !== "terminate");
  const rivals = decisions.flatMap((stand, nth) =>
    decisions
      .slice(nth + 1)
      .filter(({ workflow }) => workflow === stand.workflow)
      .map((rival) => [stand, rival] as const),
  );
  it.concurrent.each(rivals.map(([one, two]) => [one.act.type, two.act.type, one, two] as const))(
    "%s and %s: one decides the incident, and the other is refused",
    async (_one, _two, ...stands) => {
      const runId = await comeTo(stands[0], database, cut);
      const give = (half: Half, command: RunCommand) =>
        half.runtime.command(runId, command, { id: uuidv7(), reach: EVERYTHING });
      const answers = await Promise.all([give(cut, stands[0].act), give(other, stands[1].act)]);
      const done = answers.map((answer) => answer.type === "acted" && answer.changed);
      expect(done.filter(Boolean)).toHaveLength(1);
      const won = stands[done.indexOf(true)] as Stand;
      await helped(won, other, runId, [cut, other]);
    },
  );
});

it("no run is left that nothing will look at", () => nothingUnwatched(database.sql));
