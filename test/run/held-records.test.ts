// Records in a pretended next format beside a node of this release, which does not read them (law 13): it leaves them alone, and a node that
// reads them goes on.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, RECORD_FORMATS, type RecordFormats, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { breaksOnce, comeTo, expectHelped, goOn, publishHelped, STANDS, type Stand } from "./helped.js";
import { joined, leave, type Node } from "./mixed-nodes.js";
import { NEXT_FORMAT, WRITES_NEXT } from "./next-format.js";
import { cancel, publish, signal, start } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched } from "./seen.js";

const pause = { type: "pause", actor: "user:ops" } as const;
const resume = { type: "resume", actor: "user:ops" } as const;
/** What is resumed, and what stands at an incident. */
const HELD = STANDS.filter(({ act, at }) => act.type === "resume" || at.endsWith("incident"));

let database: TestDatabase;
const nodes: Node[] = [];
const reply = breaksOnce();
const join = (formats?: RecordFormats) => joined(database, nodes, formats, reply);

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await publishHelped(database);
  await publish(database, "timer", [{ id: "t", type: "wait_duration", duration_ms: 3_600_000 }]);
  await publish(database, "family", [
    { id: "p", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "j" },
    { id: "a", type: "wait_for_signal", signal_name: "go" },
    { id: "b", type: "wait_for_signal", signal_name: "go" },
    { id: "j", type: "join" },
  ]);
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await leave(node);
});
afterAll(() => database.drop());

interface Row {
  readonly record: JsonObject;
  readonly revision: string;
}

const rowsOf = (runIds: readonly RunId[]): Promise<readonly Row[]> => database.sql<Row[]>`
  select record, revision::text from runs where id = any(${[...runIds]}::text[]::uuid[]) order by id`;

/** Everything that is owed is due at once at this node, as after a takeover. */
async function poll({ poller }: Node, runIds: readonly RunId[]): Promise<void> {
  await database.sql`update wakes set due_at = now() - interval '1 s' where run_id = any(${[...runIds]}::text[]::uuid[])`;
  poller.takeOver(SHARDS);
  await poller.tick();
}

describe("records that a node does not read", () => {
  it("are not touched by it, it answers 503, and a node that reads them goes on", async () => {
    const newer = await join(WRITES_NEXT);
    const held: [Stand, RunId][] = [];
    for (const stand of HELD) held.push([stand, await comeTo(stand, database, newer)]);
    const runIds = held.map(([, runId]) => runId);
    const before = await rowsOf(runIds);
    expect(before.map(({ record }) => record.v)).toEqual(HELD.map(() => NEXT_FORMAT));

    const older = await join();
    await poll(older, runIds);
    for (const runId of runIds) {
      await expect(older.runtime.command(runId, cancel, { reach: EVERYTHING })).rejects.toMatchObject({ status: 503 });
      await expect(older.runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING })).rejects.toMatchObject({
        status: 503,
      });
    }
    for (let beats = 0; beats < 2; beats++) await older.membership.beat();
    expect(await rowsOf(runIds)).toEqual(before);

    await newer.membership.beat();
    expect(newer.membership.recordFormat, "what the older one reads").toBe(RECORD_FORMATS.reads);
    for (const [stand, runId] of held) {
      await newer.runtime.command(runId, stand.act, { id: uuidv7(), reach: EVERYTHING });
      await goOn(stand, newer.runtime, runId);
    }
    await allEnd(database.sql, runIds);
    for (const [nth, seen] of (await allSound(database.sql, runIds)).entries())
      await expectHelped(HELD[nth] as Stand, database, seen);
    await nothingUnwatched(database.sql);
  });

  it("what becomes due is not lost: its timer and its children's ends wait for a node that reads the run", async () => {
    const newer = await join(WRITES_NEXT);
    const [timer, family] = [await start(newer.starter, "timer"), await start(newer.starter, "family")];
    const all = () => database.sql<{ id: RunId; paused_reason: string }[]>`
      select id, paused_reason from runs where id = ${timer} or id = ${family} or parent_run_id = ${family}`;
    const allAre = (reason: RegExp) =>
      until(async () => {
        const rows = await all();
        return rows.length === 4 && rows.every(({ paused_reason: seen }) => reason.test(seen));
      });
    await allAre(/^(timer|signal|children)$/);
    for (const runId of [timer, family]) await newer.runtime.command(runId, pause, { id: uuidv7(), reach: EVERYTHING });
    const children = (await all()).map(({ id }) => id).filter((id) => id !== timer && id !== family);
    await allAre(/^operator$/);
    // One of the children goes on alone, and ends while its parent is paused.
    const [first, second] = children as [RunId, RunId];
    const older = await join();
    await newer.membership.beat();
    await newer.runtime.command(first, resume, { id: uuidv7(), reach: EVERYTHING });
    const id = uuidv7();
    await older.runtime.command(first, signal(id, "go"), { id, reach: EVERYTHING });
    await database.sql`update runs set record = jsonb_set(record::jsonb, '{wait,dueAt}', '1')::json where id = ${timer}`;
    await poll(older, [timer, family, second]);
    expect((await look(database.sql, first)).run.state).toBe("succeeded");
    expect(await rowsOf([timer, family])).toMatchObject([
      { record: { v: NEXT_FORMAT } },
      { record: { v: NEXT_FORMAT } },
    ]);
    expect(older.poller.unreadable.count).toBeGreaterThan(0);
    await nothingUnwatched(database.sql);
    for (const node of nodes.splice(0)) await leave(node);

    const next = await join(WRITES_NEXT);
    for (const runId of [timer, family]) await next.runtime.command(runId, resume, { id: uuidv7(), reach: EVERYTHING });
    await until(async () => {
      await poll(next, [timer, family, second]);
      return (await look(database.sql, second)).run.paused_reason === "signal";
    });
    await next.runtime.command(second, signal(uuidv7(), "go"), { reach: EVERYTHING });
    await allEnd(database.sql, [timer, family, first, second]);
    const ends = (await allSound(database.sql, [timer, family])).map(({ run }) => run.state);
    expect(ends).toEqual(["succeeded", "succeeded"]);
    await nothingUnwatched(database.sql);
  });
});
