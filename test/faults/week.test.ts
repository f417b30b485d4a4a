// A week in an hour: seven days of the database's clock pass, with load, faults, retention and nights. In a day's calm the memory of nodes and the time of
// a run are read; then come faults, from a seed, until the day is over; then the clocks go on to the next day under load, and every law is checked.
// SAGA_TEST_WEEK_MINUTES has another duration than 60; the checks come on top of it.
// @module-tag alone
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { firstSeed } from "../harness/long.js";
import { Progress } from "../hosts/progress.js";
import { randomOf } from "../machines/scheduler.js";
import { report } from "../run/seen.js";
import { Load } from "./load.js";
import { Trips } from "./trips.js";
import { dealt, FAULTS, type Fault } from "./week/faults.js";
import { expectPruned, noForeignEffects, nothingOwed, prune } from "./week/night.js";
import { missingHere } from "./week/pair.js";
import { expectFlat, publishSimple, type Reading, read, type Sizes, sizesOf } from "./week/readings.js";
import { Sleepers } from "./week/sleepers.js";
import { nodesOf, Stage } from "./week/stage.js";
import { Ticks } from "./week/ticks.js";

const MINUTES = Number(process.env.SAGA_TEST_WEEK_MINUTES ?? 60);
const DAYS = 7;
const DAY_LASTS_MS = (MINUTES * 60_000) / DAYS;
/** So each fault happens at least twice. */
const LEAST_FAULTS_A_DAY = Math.ceil((2 * FAULTS.length) / DAYS);
/** Simple runs of a calm. */
const READ_RUNS = Math.max(60, 5 * MINUTES);
const KILLING_MS = Math.min(30_000, Math.max(10_000, 500 * MINUTES));
/** Of each kind, a day. */
const SLEEPERS = Math.max(1, Math.round(MINUTES / 12));
/** An order, or a trip between two waits, lasts over a fault: a request that gets no answer takes 40 s of it. */
const PATIENCE_MS = 240_000;
/** After the week: the longest rest of the last day, and then all that is kept. */
const DAYS_AFTER = [5, 3, 7];

const lacking = missingHere();
const name = `a week in ${MINUTES} minutes${lacking.length > 0 ? ` (missing: ${lacking.join(", ")})` : ""}`;

class Week {
  private readonly seed = firstSeed();
  private readonly random = randomOf(this.seed);
  private readonly faults = dealt(this.random);
  private readonly happened = new Map<string, number>();
  private readonly readings: Reading[] = [];
  private readonly sizes: Sizes[] = [];
  private readonly sleepers: Sleepers;
  private readonly ticks: Ticks;
  private runs = 0;

  constructor(private readonly stage: Stage) {
    const { old, shops, sql } = stage;
    this.sleepers = new Sleepers(old.client, shops, sql);
    this.ticks = new Ticks(old.client, sql);
  }

  async pass(): Promise<void> {
    const { client } = this.stage.old;
    report({ seed: this.seed, minutes: MINUTES, faultsOfADay: LEAST_FAULTS_A_DAY });
    await Progress.publish(client);
    await publishSimple(client);
    await this.sleepers.publish();
    await this.ticks.begin();
    const oldest = nodesOf(this.stage.old);
    for (let day = 1; day <= DAYS; day++) await this.passDay(day);
    for (const days of DAYS_AFTER) await this.passAfterwards(days);
    report({
      ...expectFlat(this.readings, this.sizes.slice(0, DAYS)),
      runs: this.runs,
      failovers: this.stage.postgres.failovers,
    });
    report({ faults: Object.fromEntries(this.happened) });
    for (const fault of FAULTS) expect(this.happened.get(fault.name), fault.name).toBeGreaterThanOrEqual(2);
    expect(nodesOf(this.stage.old), "the nodes that nothing has killed").toEqual(oldest);
    // Of the week nothing is left, and the runs of its schedules since are few.
    const fallen = (this.sizes[0] as Sizes).partitions.filter((week) => !this.sizes.at(-1)?.partitions.includes(week));
    expect(fallen.length, "weeks of audit rows that were dropped").toBeGreaterThanOrEqual(2);
  }

  private async passDay(day: number): Promise<void> {
    const { stage } = this;
    const began = performance.now();
    const load = new Load(stage.clients, stage.shops, PATIENCE_MS);
    const trips = new Trips(stage.young.client, stage.shops, PATIENCE_MS);
    const progress = new Progress(stage.old.client.url);
    await load.begin({ atOnce: 3 });
    await trips.begin(4);
    let calm: readonly string[] = [];
    try {
      await this.sleepers.begin(SLEEPERS, () => stage.databaseNow());
      calm = await this.readCalm(day);
      for (let nth = 0; nth < LEAST_FAULTS_A_DAY || performance.now() - began < DAY_LASTS_MS; nth++) {
        await this.happens(day, this.faults.next().value, progress);
        trips.nextStage();
      }
      await stage.passDays(1);
      await progress.resumes();
      trips.nextStage();
    } finally {
      await Promise.all([load.end(), trips.end()]);
    }
    const orders = (await load.finish()).length;
    const ended = await trips.finish(stage.sql, 300_000);
    const probes = await progress.finish(stage.old.client);
    await stage.old.client.allEnd(calm);
    this.runs += orders + ended + probes + calm.length;
    await this.endDay({ day, orders, trips: ended, probes });
  }

  private async readCalm(day: number): Promise<readonly string[]> {
    const { reading, runIds } = await read(this.stage, READ_RUNS);
    this.readings.push(reading);
    report({ day, ...reading });
    return runIds;
  }

  private async happens(day: number, fault: Fault, progress: Progress): Promise<void> {
    const { stage, random } = this;
    const began = performance.now();
    const figures = await fault.happen({ stage, random, killingMs: KILLING_MS });
    const resumedMs = await progress.resumes();
    await stage.healthy();
    const tookMs = Math.round(performance.now() - began);
    this.happened.set(fault.name, (this.happened.get(fault.name) ?? 0) + 1);
    report({ day, fault: fault.name, ...figures, resumedMs, tookMs });
  }

  /** The clocks have gone on to the next day. */
  private async endDay(figures: Readonly<Record<string, unknown>>): Promise<void> {
    const { stage, sleepers } = this;
    const rested = await sleepers.expectRight(await stage.databaseNow());
    const ticked = await this.ticks.expectRight();
    await nothingOwed(stage, sleepers.resting);
    const executions = await noForeignEffects(stage, sleepers.resting);
    await prune(stage);
    const sizes = await sizesOf(stage.sql);
    this.sizes.push(sizes);
    await expectPruned(stage, sizes.partitions);
    report({ ...figures, ...rested, ...ticked, executions, ...sizes });
  }

  /** Nothing but the schedules goes on. */
  private async passAfterwards(days: number): Promise<void> {
    // Retention may reach what has happened since, before it is looked at.
    await noForeignEffects(this.stage, this.sleepers.resting);
    await this.stage.passDays(days);
    await this.endDay({ daysAfterwards: days });
  }
}

describe.skipIf(lacking.length > 0)(name, () => {
  let stage: Stage | undefined;
  beforeAll(async () => {
    stage = await Stage.open();
  }, 300_000);
  afterEach(({ task }) => {
    if (task.result?.state === "fail") console.error(stage?.troubles().join("\n"));
  });
  afterAll(async () => {
    await stage?.close();
  }, 180_000);

  it(
    "brings all that was acknowledged to its right end, under every fault, and leaves memory, latency and disks as they were",
    async () => {
      await new Week(stage as Stage).pass();
    },
    (3 * MINUTES + 45) * 60_000,
  );
});
