// Random families under random signals and cancels on two nodes: nested branches, items, sub-sagas, and a worker that fails, loses
// and repeats. Every law of families holds at the end. The seed decides the commands, not their races.
// @module-tag long

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Dispatch, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { firstSeed } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Deed, expectSettled, familiesEnd, grouped, undoOf, undoViolations } from "./family-laws.js";
import { MODES, SHAPES } from "./family-shapes.js";
import type { Outcome } from "./hand-dispatcher.js";
import { type Half, publish, registerActions, start, startHalf } from "./rig.js";
import { report } from "./seen.js";

const LASTS_MS = 4_000;
const SEED = firstSeed();
/** Families that run at once. */
const CROWD = 30;

let database: TestDatabase;
let halves: readonly Half[];
const deeds: Deed[] = [];
const happened = new Set<string>();
/** Members of families in which a cancel without undo took place. */
const abandoned = new Set<string>();

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await registerActions(database, "charge", "refund");
  for (const [id, steps] of Object.entries(SHAPES)) await publish(database, id, steps);
  halves = [
    await startHalf(database, { applicationName: "saga-one", reply: work }),
    await startHalf(database, { applicationName: "saga-other", reply: work, stepsPerCommit: 2 }),
  ];
  for (const half of halves) {
    half.dispatcher.answerTo = () => pick(halves).runtime;
    await half.poller.start();
  }
});
afterAll(async () => {
  for (const half of halves) await half.stop();
  await database.drop();
});

let state = SEED;
/** Mulberry32. */
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}
const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;

/** A function of the dispatch, so that a worker that gets it twice gives the same answer. */
function work({ runId, call, dispatchId }: Dispatch): Outcome {
  const { phase, idempotencyKey: key, forwardIdempotencyKey: forwardKey } = call;
  deeds.push({ runId, phase, key, forwardKey });
  if (phase === "compensation") return { result: {} };
  const fate = Number.parseInt(dispatchId.slice(0, 4), 16) % 40;
  if (fate > 3) happened.add(key);
  if (fate < 4) return { code: "refused", retryable: fate < 2 };
  if (fate < 7) return { code: "lost", outcomeUnknown: true };
  return { result: {} };
}

async function insist(runId: RunId, command: RunCommand): Promise<void> {
  const id = command.type === "signal" ? command.id : uuidv7();
  const given = () =>
    pick(halves)
      .runtime.command(runId, command, { id, reach: EVERYTHING })
      .catch((error: unknown) => {
        if (error instanceof SagaError && error.status === 503) return undefined;
        throw error;
      });
  await until(given, { what: "an answer" });
}

const counts = { families: 0, signals: 0, cancels: 0, abandoned: 0, ofChildren: 0 };

/** One family, and the commands of its clients and operators. */
async function live(root: RunId): Promise<void> {
  const acts = Math.floor(random() * 6);
  for (let nth = 0; nth < acts; nth++) {
    const rows = await database.sql<{ id: RunId }[]>`
      select id from runs where coalesce(root_run_id, id) = ${root} and terminal_at is null`;
    const member = random() < 0.5 ? root : (pick(rows)?.id ?? root);
    if (random() < 0.7) {
      counts.signals++;
      await insist(member, { type: "signal", id: uuidv7(), name: "go", payload: { nth }, actor: "api" });
    } else {
      const compensate = random() < 0.8;
      counts.cancels++;
      if (member !== root) counts.ofChildren++;
      if (!compensate) abandoned.add(root);
      await insist(member, { type: "cancel", reason: "enough", compensate, actor: "api" });
    }
  }
}

/**
 * Law 9: no waiting run and unconsumed signal have missed each other. Ten seconds, because each match is a commit and the machine may be
 * busy; a miss that is younger at the end shows as a run that does not end.
 */
const missed = () => database.sql`
  select r.id, g.id as signal from runs r join run_starts s on s.run_id = r.id
    join signals g on g.run_id = r.id or exists (
      select 1 from json_array_elements_text(s.identity->'family') above where above = g.run_id::text)
  where r.awaited_signal = g.signal_name and r.paused_reason = 'signal' and r.terminal_at is null and g.consumed_at is null
    and g.promised_to is null
    and greatest(g.received_at, r.last_event_at) < now() - interval '10 s'`;

describe("random families", () => {
  it("keep every law of families", async () => {
    const roots: string[] = [];
    const over = performance.now() + LASTS_MS;
    const begin = async () => {
      while (performance.now() < over) {
        const runId = newRunId();
        roots.push(runId);
        await start(pick(halves).starter, pick(MODES), { runId, inputs: { fail: random() < 0.5 } });
        await live(runId);
        await until(
          async () =>
            (await database.sql`select 1 from runs where id = ${runId} and terminal_at is not null`).length > 0,
          { what: `the end of ${runId}` },
        );
      }
    };
    let [lived, seen] = [false, [] as unknown[]];
    const crowd = Promise.all(Array.from({ length: CROWD }, begin)).finally(() => {
      lived = true;
    });
    await until(
      async () => {
        seen = await missed();
        return lived || seen.length > 0;
      },
      { within: LASTS_MS + 100_000, pause: 500, what: "the end of the crowd" },
    );
    expect(seen).toEqual([]);
    await crowd;
    const families = await familiesEnd(database.sql, roots);
    await expectSettled(database.sql, families);
    const list = grouped(await undoOf(database.sql), ({ owner }) => owner);
    const done = grouped(deeds, ({ runId }) => runId);
    const keys = grouped([...happened], (key) => key.slice(0, 36));
    const found: string[] = [];
    for (const [root, members] of families) {
      if (abandoned.has(root)) continue;
      const of = <T>(map: ReadonlyMap<string, readonly T[]>) => members.flatMap(({ id }) => map.get(id) ?? []);
      found.push(...undoViolations(members, of(list), of(done), new Set(of(keys))).map((line) => `${root}: ${line}`));
    }
    expect(found.slice(0, 5)).toEqual([]);
    const ends = grouped([...families.values()], ([run]) => run?.run.state ?? "");
    const conflicts = (await Promise.all(halves.map((half) => half.conflicts()))).reduce((sum, each) => sum + each, 0);
    const members = [...families.values()].reduce((sum, { length }) => sum + length, 0);
    counts.families = roots.length;
    counts.abandoned = abandoned.size;
    report({
      seed: SEED,
      ...counts,
      members,
      undos: deeds.filter(({ phase }) => phase === "compensation").length,
      conflicts,
    });
    report(Object.fromEntries([...ends].map(([end, { length }]) => [end, length])));
  }, 180_000);
});
