// An event against the clock and against a cancel: two nodes decide on the same revision of a waiting run, and the test chooses
// which commits first. Both orders are forced. In each, the event is taken once or not at all, and nothing happens twice.
// @module-tag both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Answer, RunCommand } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { Gate, holdBack } from "./gate.js";
import { cancel, type Half, publish, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched, report, type Seen, typesOf } from "./seen.js";

const PAIRS = long(8, 40);
const HOUR_MS = 3_600_000;

let database: TestDatabase;
/** Runs live on the first node. The clock of the second is an hour ahead, so a wait that is due in half an hour is due there. */
let here: Half;
let ahead: Half;
const gates = new Map<string, Gate>();

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  const wait = { topic: "sent", headers: { of: "${run.id}" }, timeout_ms: HOUR_MS / 2 };
  await publish(database, "hear", [{ id: "hear", type: "wait_for_event", ...wait }]);
  here = await startHalf(database);
  ahead = await startHalf(database, { applicationName: "saga-ahead", ahead: HOUR_MS });
  for (const half of [here, ahead]) holdBack(half, gates);
});
afterAll(async () => {
  await here.stop();
  await ahead.stop();
  await database.drop();
});

interface Raced {
  readonly eventFirst: boolean;
  readonly rivalAnswer: Answer;
  readonly seen: Seen;
  readonly taken: number;
}

/** Each run gets its event here and the rival there; on every other run the rival commits first. */
async function race(rival: RunCommand): Promise<Raced[]> {
  const before = [await here.conflicts(), await ahead.conflicts()];
  const runIds = await Promise.all(Array.from({ length: PAIRS }, () => start(here.starter, "hear")));
  // They have scanned the earlier events, and wait.
  const waiting = async () => (await database.sql`select 1 from event_waits`).length === PAIRS;
  await until(async () => (await waiting()) && !runIds.some((runId) => here.runtime.residents.isBusy(runId)));
  const answers = await Promise.all(
    runIds.map(async (runId, nth) => {
      const eventId = uuidv7();
      await publishEvent(database.sql, { id: eventId, topic: "sent", headers: { of: runId }, payload: nth, hash: "" });
      gates.set(runId, new Gate(nth % 2 === 0 ? here : ahead));
      return Promise.all([
        here.runtime.command(runId, { type: "event", eventId }, { reach: EVERYTHING }),
        ahead.runtime.command(runId, rival, { reach: EVERYTHING }),
      ]);
    }),
  );
  await allEnd(database.sql, runIds);
  const seen = await allSound(database.sql, runIds);
  await nothingUnwatched(database.sql);
  expect(await database.sql`select 1 from event_waits`).toHaveLength(0);
  // Each loser met the winner's revision; half of them are on either node.
  const conflicts = [(await here.conflicts()) - (before[0] ?? 0), (await ahead.conflicts()) - (before[1] ?? 0)];
  expect(conflicts).toEqual([PAIRS / 2, PAIRS / 2]);
  const takes = await database.sql<{ run_id: string }[]>`select run_id from event_takes`;
  return runIds.map((runId, nth) => {
    const [told, rivalAnswer] = answers[nth] as readonly [Answer, Answer];
    expect(told).toEqual({ type: "advanced" });
    const taken = takes.filter(({ run_id }) => run_id === runId).length;
    return { eventFirst: nth % 2 === 0, rivalAnswer, seen: seen[nth] as Seen, taken };
  });
}

const STARTED = ["saga.started", "step.started", "step.paused"];

function expectTaken({ seen, taken }: Raced): void {
  expect(taken).toBe(1);
  expect(seen.run).toMatchObject({ state: "succeeded", output: { headers: { of: seen.run.id } } });
  expect(typesOf(seen.events)).toEqual([...STARTED, "step.succeeded", "run.succeeded"]);
}

describe("in both orders of their commits, one wins and nothing happens twice:", () => {
  it("an event and a timeout", async () => {
    const raced = await race({ type: "advance" });
    for (const one of raced) {
      expect(one.rivalAnswer).toEqual({ type: "advanced" });
      if (one.eventFirst) expectTaken(one);
      else {
        expect(one.taken).toBe(0);
        expect(one.seen.run).toMatchObject({ state: "failed", error: { code: "timeout" } });
        expect(typesOf(one.seen.events)).toEqual([...STARTED, "step.failed", "run.failed"]);
      }
    }
    tell("an event and a timeout", raced);
  });

  it("an event and a cancel", async () => {
    const raced = await race(cancel);
    for (const one of raced) {
      const state = one.eventFirst ? "succeeded" : "cancelled";
      expect(one.rivalAnswer).toEqual({ type: "cancel", state, alreadyTerminal: one.eventFirst });
      if (one.eventFirst) expectTaken(one);
      else {
        expect(one.taken).toBe(0);
        expect(one.seen.run.state).toBe("cancelled");
      }
    }
    tell("an event and a cancel", raced);
  });
});

function tell(race: string, raced: readonly Raced[]): void {
  const eventFirst = raced.filter((one) => one.eventFirst).length;
  report({ race, eventFirst, rivalFirst: raced.length - eventFirst });
}
