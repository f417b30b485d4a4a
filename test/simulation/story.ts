// One story: a cluster under clients and faults for a while, then calm, until everything has ended; and what is true of it then. All of it follows from
// the seed.
import { inspect, isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import type { Sql } from "postgres";
import type { JsonObject, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import type { Core } from "../../src/cluster/core.js";
import { SagaError } from "../../src/errors.js";
import { isStoreAway } from "../../src/store/engine/failure.js";
import { openSessions } from "../../src/store/engine/session.js";
import { families, layOut } from "../machines/families.js";
import { MODES, SHAPES } from "../run/family-shapes.js";
import { publish, registerActions } from "../run/rig.js";
import type { Base } from "./base.js";
import { NO_BUS_FAULTS } from "./bus.js";
import { Cluster, type Home, STORE_URL, unended } from "./cluster.js";
import { type Acknowledged, violationsOf } from "./laws.js";
import { NO_WORKER_FAULTS } from "./workers.js";
import { type Chance, chanceOf, type Life } from "./world.js";

export interface StoryOptions {
  /** Simulated time under clients and faults. */
  readonly stormMs: number;
}

export interface Told {
  readonly seed: number;
  readonly simulatedMs: number;
  readonly happened: number;
  readonly counts: Readonly<Record<string, number>>;
  /** Laws that are broken. Empty: none. */
  readonly violations: readonly string[];
  readonly story: readonly string[];
}

/** What goes wrong in this story, and how much of it: a fault that is always rare never meets another. */
interface Faults {
  readonly crash: number;
  readonly freeze: number;
  readonly stop: number;
  readonly cut: number;
  readonly cutBefore: number;
  readonly cutAfter: number;
  readonly slow: number;
  readonly skewed: number;
}

const SETUP_MS = 600_000;
/** After the storm: what ends by itself has ended, and the rest is cancelled. */
const CALM_MS = 90_000;
const STEP_MS = 2_000;
const END_MS = 1_800_000;
/** Until what is owed has been delivered, and rows without a use are gone. */
const QUIET_MS = 400_000;

export async function tell(base: Base, seed: number, { stormMs }: StoryOptions): Promise<Told> {
  const chance = chanceOf(`${seed} story`);
  const nodes = 2 + Math.floor(chance() * 3);
  const cluster = new Cluster(seed, base.postgres, { nodes, workers: 1 + Math.floor(chance() * 2) });
  await base.begin(cluster.world);
  const leave = cluster.world.enter();
  // A real node ends by it.
  const thrown = (error: Error & { readonly query?: string }) =>
    cluster.world.fail(new Error(`nothing has caught ${error.message} (${error.query})`, { cause: error }));
  process.on("unhandledRejection", thrown);
  const story = new Story(cluster, chance);
  let violations: string[];
  try {
    await story.prepare();
    await story.storm(stormMs);
    await story.calm();
    violations = await story.check();
  } catch (error) {
    violations = [inspect(error)];
  } finally {
    process.off("unhandledRejection", thrown);
    leave();
  }
  const { world } = cluster;
  return {
    ...{ seed, simulatedMs: world.now, happened: world.happened, violations, story: cluster.story },
    counts: story.allCounts,
  };
}

class Story {
  private readonly counts: Record<string, number> = {};
  private readonly faults: Faults;
  private readonly operator: Life = { name: "operator", isAlive: true, isFrozen: false, missed: [], skewMs: 0 };
  private readonly acknowledged: Acknowledged = { runs: new Set(), abandoned: new Set(), broken: [] };
  private readonly workflows: string[] = [...MODES];
  private under = 0;
  private made = 0;
  private sql!: Sql;

  constructor(
    private readonly cluster: Cluster,
    private readonly chance: Chance,
  ) {
    const some = (most: number) => (chance() < 0.5 ? chance() * most : 0);
    this.faults = {
      ...{ crash: some(0.2), freeze: some(0.15), stop: some(0.05), cut: some(0.1) },
      ...{ cutBefore: some(0.01), cutAfter: some(0.01), slow: some(0.3), skewed: some(1) },
    };
  }

  get allCounts(): Readonly<Record<string, number>> {
    const { bus, workers } = this.cluster;
    const found: Record<string, number> = { ...this.counts };
    for (const seen of [bus.seen, ...workers.map((worker) => worker.seen)])
      for (const [name, count] of Object.entries(seen)) found[name] = (found[name] ?? 0) + count;
    return found;
  }

  async prepare(): Promise<void> {
    const { cluster, operator } = this;
    this.sql = cluster.world.as(operator, () => openSessions(STORE_URL, { max: 2, applicationName: "operator" }));
    const [family] = fc.sample(families, { seed: cluster.seed, numRuns: 1 });
    const setup = async () => {
      const database = { sql: this.sql };
      await registerActions(database, "charge", "refund", "notify");
      for (const [id, steps] of Object.entries(SHAPES)) await publish(database, id, steps);
      if (!family) return;
      for (const [id, body] of Object.entries(family.subs)) await publish(database, id, layOut(body).map(endable));
      const head: JsonObject = family.timeoutMs === undefined ? {} : { timeout_ms: family.timeoutMs };
      await publish(database, "random", layOut(family.root).map(endable), head);
      this.workflows.push("random");
    };
    await cluster.during(cluster.world.as(operator, setup), SETUP_MS);
    for (const home of cluster.homes) cluster.start(home);
    const { world, homes, busy } = cluster;
    await world.run(SETUP_MS, () => homes.every(({ core }) => core !== undefined), busy);
    cluster.tell(`${homes.length} nodes are up; faults ${JSON.stringify(rounded(this.faults))}`);
  }

  async storm(ms: number): Promise<void> {
    const { cluster, chance, faults } = this;
    const { world, bus, workers } = cluster;
    const some = (most: number) => (chance() < 0.5 ? chance() * most : 0);
    bus.faults = { lost: some(0.5), repeated: some(0.3), late: some(0.2), forged: some(0.1) };
    for (const worker of workers)
      worker.faults = {
        ...{ refused: some(0.2), declined: some(0.1), unknown: some(0.1), silent: some(0.05), nonsense: some(0.05) },
        ...{ twice: some(0.3), elsewhere: some(0.3), late: some(0.2), broken: some(0.1) },
      };
    const isSlow = new Map<string, boolean>();
    cluster.fate((owner) => {
      if (!isSlow.has(owner)) isSlow.set(owner, chance() < faults.slow);
      const latencyMs = chance() * (isSlow.get(owner) ? 200 : 2);
      const drawn = owner === "operator" ? 1 : chance();
      if (drawn < faults.cutBefore) return { latencyMs, answerMs: 0, cut: "before" };
      if (drawn < faults.cutBefore + faults.cutAfter) return { latencyMs, answerMs: 0, cut: "after" };
      return { latencyMs, answerMs: chance() };
    });
    const end = world.now + ms;
    const failed = (error: unknown) => world.fail(error);
    for (let nth = 0; nth < 4; nth++) this.client(end).catch(failed);
    this.trouble(end).catch(failed);
    await cluster.pass(ms);
  }

  /** Nothing goes wrong any more. What waits for a person, or for a signal that no one sends, is cancelled. */
  async calm(): Promise<void> {
    const { cluster, sql, operator } = this;
    const { world, bus, workers, homes } = cluster;
    bus.faults = NO_BUS_FAULTS;
    for (const worker of workers) worker.faults = NO_WORKER_FAULTS;
    cluster.fate(() => ({ latencyMs: 0.5, answerMs: 0.5 }));
    for (const home of homes) {
      if (home.life?.isFrozen) world.thaw(home.life);
      if (!home.life?.isAlive) cluster.start(home);
    }
    cluster.tell("calm");
    const open = () =>
      cluster.during(
        world.as(operator, () => unended(sql)),
        SETUP_MS,
      );
    const calm = world.now + CALM_MS;
    while (world.now < calm && (this.under > 0 || (await open()).length > 0)) await cluster.pass(STEP_MS);
    if (this.under > 0) throw new Error(`${this.under} clients are still without an answer`);
    const left = await open();
    if (left.length > 0) cluster.tell(`what has not ended is cancelled: ${left.join(", ")}`);
    for (const runId of left)
      await cluster.during(
        this.insist(runId, { type: "cancel", reason: "over", compensate: true, actor: "api" }),
        END_MS,
      );
    const until = world.now + END_MS;
    while ((await open()).length > 0 && world.now < until) await cluster.pass(STEP_MS);
    cluster.tell("all has ended");
    // What a node was not told is over is forgotten some time after its deadline.
    const quiet = world.now + QUIET_MS;
    while (world.now < quiet && !cluster.isIdle) await cluster.pass(STEP_MS);
    await cluster.pass(STEP_MS);
  }

  async check(): Promise<string[]> {
    const { cluster, sql, operator, acknowledged } = this;
    const reading = cluster.world.as(operator, () => violationsOf(sql, cluster, acknowledged));
    return cluster.during(reading, SETUP_MS);
  }

  private async trouble(end: number): Promise<void> {
    const { cluster, chance, faults } = this;
    const { world } = cluster;
    while (world.now < end) {
      await cluster.sleep(chance() * 2_000);
      if (world.now >= end) return;
      const home = cluster.homes[Math.floor(chance() * cluster.homes.length)] as Home;
      const { life } = home;
      if (!life?.isAlive) continue;
      if (chance() < faults.skewed) life.skewMs = (chance() - 0.5) * 100_000_000;
      const drawn = chance();
      if (drawn < faults.crash) this.crash(home);
      else if (drawn < faults.crash + faults.freeze) this.freeze(life, chance() * chance() * 60_000);
      else if (drawn < faults.crash + faults.freeze + faults.stop) void this.replace(home);
      else if (drawn < faults.crash + faults.freeze + faults.stop + faults.cut) {
        this.count("sessions cut");
        cluster.cut(life);
      }
    }
  }

  private crash(home: Home): void {
    const { cluster, chance } = this;
    this.count("crash");
    cluster.crash(home);
    cluster.world.later(500 + chance() * chance() * 30_000, () => home.life?.isAlive || cluster.start(home), null);
  }

  private freeze(life: Life, ms: number): void {
    const { world } = this.cluster;
    if (life.isFrozen) return;
    this.count("freeze");
    this.cluster.tell(`${life.name} freezes for ${Math.round(ms)} ms`);
    world.freeze(life);
    world.later(ms, () => life.isFrozen && world.thaw(life), null);
  }

  private async replace(home: Home): Promise<void> {
    const { cluster } = this;
    this.count("stop");
    const { life } = home;
    // One that cannot end in its time is killed.
    cluster.world.later(30_000, () => life?.isAlive && home.life === life && this.crash(home), null);
    await cluster.stop(home);
    if (!home.life?.isAlive) cluster.start(home);
  }

  /** Starts families one after the other, and acts on them. */
  private async client(end: number): Promise<void> {
    const { cluster, chance } = this;
    while (cluster.world.now < end) {
      this.under++;
      const runId = await this.startOne();
      const acts = Math.floor(chance() * 5);
      for (let nth = 0; nth < acts; nth++) {
        await cluster.sleep(chance() * 2_000);
        await this.act(runId);
      }
      this.under--;
      await cluster.sleep(chance() * 1_000);
    }
  }

  private async startOne(): Promise<RunId> {
    const { cluster, chance, acknowledged } = this;
    const nth = this.made++;
    const workflowId = this.workflows[Math.floor(chance() * this.workflows.length)] as string;
    const inputs = { fail: chance() < 0.4, n: 2, list: [4, 5] };
    const request = {
      ...{ workflowId, inputs, variables: {}, dryRun: false, features: {}, actor: "api" },
      idempotencyKey: `start ${nth}`,
    };
    const start = () => this.insistOn(`start ${nth}`, (core) => core.starter.start(request));
    const { runId } = await start();
    acknowledged.runs.add(runId);
    this.count("started");
    if (chance() < 0.2) {
      const again = await start();
      if (again.runId !== runId) acknowledged.broken.push(`start ${nth} made ${runId}, and again ${again.runId}`);
    }
    cluster.tell(`${workflowId} ${runId} is acknowledged`);
    return runId;
  }

  private async act(root: RunId): Promise<void> {
    const { chance, acknowledged, cluster } = this;
    const drawn = chance();
    if (drawn < 0.7) {
      this.count("signal");
      const id = this.newId();
      await this.insist(
        root,
        { type: "signal", id, name: chance() < 0.8 ? "go" : "stop", payload: {}, actor: "api" },
        id,
      );
      return;
    }
    this.count("cancel");
    const compensate = chance() < 0.8;
    if (!compensate) acknowledged.abandoned.add(root);
    cluster.tell(`${root} is cancelled${compensate ? "" : " without undo"}`);
    await this.insist(root, { type: "cancel", reason: "enough", compensate, actor: "api" });
  }

  /** One command, one outcome: a repeat on any node gets the first answer. */
  private async insist(runId: RunId, command: RunCommand, id = this.newId()): Promise<void> {
    const given = () =>
      this.insistOn(`${command.type} to ${runId}`, (core) =>
        core.router.command(runId, command, { id, keep: true, reach: EVERYTHING }),
      );
    const answer = await given();
    if (this.chance() > 0.3) return;
    const again = await given();
    if (!isDeepStrictEqual(again, answer))
      this.acknowledged.broken.push(
        `${command.type} ${id} was ${JSON.stringify(answer)}, and is ${JSON.stringify(again)}`,
      );
  }

  private newId(): string {
    const nth = (this.made++).toString(16).padStart(12, "0");
    return `01900000-0000-7000-8000-${nth}`;
  }

  /** Asks until a node answers. A node that cannot say yet answers 503. */
  private async insistOn<Value>(what: string, act: (core: Core) => Promise<Value>): Promise<Value> {
    while (true) {
      const answered = await this.cluster.ask(act);
      if (answered && "value" in answered) return answered.value;
      const error = answered?.error;
      if (error !== undefined && !isUnavailable(error)) throw error;
      this.count("asked again");
      const why = error instanceof Error ? error.message : "no answer";
      this.cluster.tell(`${what}: ${why}, and is asked again`);
      await this.cluster.sleep(200 + this.chance() * 500);
    }
  }

  private count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}

/** What the API answers with 503. */
const isUnavailable = (error: unknown): boolean =>
  error instanceof SagaError ? error.status === 503 : isStoreAway(error);

/** Without what only a person, or another workflow, could bring to an end. */
function endable(step: ReturnType<typeof layOut>[number]): ReturnType<typeof layOut>[number] {
  const { on_failure: _, ...rest } = step;
  const bounded = rest.type === "action" ? { timeout_ms: 5_000 } : {};
  return { ...bounded, ...rest, ...(rest.compensation !== undefined && { compensation: { action: "shop.refund" } }) };
}

function rounded(faults: object): object {
  return Object.fromEntries(Object.entries(faults).map(([name, value]) => [name, Math.round(value * 1_000) / 1_000]));
}
