// One story: a cluster under clients and faults for a while, then calm, until everything has ended; and what is true of it then. All of it follows from
// the seed.
import { inspect } from "node:util";
import { Cluster, unended } from "./cluster.js";
import { owed, violationsOf } from "./laws.js";
import { Auditor } from "./parts/auditor.js";
import { Bulk } from "./parts/bulk.js";
import { Carriers } from "./parts/carriers.js";
import { Clients } from "./parts/clients.js";
import { HeldKeys } from "./parts/held-keys.js";
import { Listeners } from "./parts/listeners.js";
import { Operators } from "./parts/operators.js";
import { Slots } from "./parts/slots.js";
import { Triggers } from "./parts/triggers.js";
import { Watchers } from "./parts/watchers.js";
import { type Part, Scene } from "./scene.js";
import { FAULTS, Trouble } from "./trouble/node-trouble.js";
import { PUSH_FAULTS, PushTrouble } from "./trouble/push-trouble.js";
import { STORE_FAULTS, StoreTrouble } from "./trouble/store-trouble.js";
import type { Base } from "./world/base.js";
import { chanceOf } from "./world/world.js";

export interface StoryOptions {
  /** Simulated time under clients and faults. */
  readonly stormMs: number;
  /** Names of faults that are left out: to find the smallest story. */
  readonly without?: ReadonlySet<string>;
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

/** The names of all faults. */
export const ALL_FAULTS: readonly string[] = [...FAULTS, ...STORE_FAULTS, ...PUSH_FAULTS];

/** Parts whose laws need a store that forgets nothing it has acknowledged, and a clock of it that goes on. */
const REMEMBERED = [Watchers, Bulk, Triggers, Listeners, Slots, HeldKeys] as const;

const SETUP_MS = 600_000;
/** After the storm: what ends by itself has ended, and the rest is cancelled. */
const CALM_MS = 90_000;
const STEP_MS = 2_000;
const END_MS = 600_000;
/** Until what is owed has been delivered, and rows without a use are gone. */
const QUIET_MS = 400_000;

export async function tell(base: Base, seed: number, { stormMs, without = new Set() }: StoryOptions): Promise<Told> {
  const chance = chanceOf(`${seed} story`);
  const nodes = 2 + Math.floor(chance() * 3);
  const cluster = new Cluster(seed, base.postgres, { nodes, workers: 1 + Math.floor(chance() * 2) });
  await base.begin(cluster.world);
  const leave = cluster.world.enter();
  // A real node ends by it.
  const thrown = (error: Error & { readonly query?: string }) =>
    cluster.world.fail(new Error(`nothing has caught ${error.message} (${error.query})`, { cause: error }));
  process.on("unhandledRejection", thrown);
  const scene = new Scene(cluster);
  const carriers = new Carriers(scene);
  const storeTrouble = new StoreTrouble(scene, without);
  const story = new Story(scene, [
    ...[new Clients(scene), new Operators(scene), new Auditor(scene), carriers],
    ...(storeTrouble.forgets ? [] : REMEMBERED.map((Subject) => new Subject(scene))),
    ...[new Trouble(scene, without), storeTrouble, new PushTrouble(scene, carriers, without)],
  ]);
  let violations: readonly string[];
  try {
    await story.prepare();
    await story.storm(stormMs);
    await story.calm();
    violations = await story.violations();
  } catch (error) {
    violations = [inspect(error)];
  } finally {
    process.off("unhandledRejection", thrown);
    leave();
  }
  const { world } = cluster;
  return {
    ...{ seed, simulatedMs: world.now, happened: world.happened, violations, story: cluster.story },
    counts: sums([
      ...[scene.counts, cluster.bus.seen, cluster.hosts.seen, cluster.broker.seen],
      ...[carriers.sites.seen, carriers.worker.seen, ...cluster.workers.map(({ seen }) => seen)],
    ]),
  };
}

/** The phases, with all parts in each. */
class Story {
  constructor(
    private readonly scene: Scene,
    private readonly parts: readonly Part[],
  ) {}

  async prepare(): Promise<void> {
    const { cluster } = this.scene;
    for (const part of this.parts) await this.during(async () => part.prepare?.(), SETUP_MS);
    for (const home of cluster.homes) cluster.start(home);
    const { world, homes, busy } = cluster;
    await world.run(SETUP_MS, () => homes.every(({ core }) => core !== undefined), busy);
    cluster.tell(`${homes.length} nodes are up`);
  }

  async storm(ms: number): Promise<void> {
    const { world } = this.scene.cluster;
    const end = world.now + ms;
    for (const part of this.parts)
      this.scene.asOperator(() => part.storm?.(end))?.catch((error: unknown) => world.fail(error));
    await this.scene.cluster.pass(ms);
  }

  /** Nothing goes wrong any more. What waits for a person, or for a signal that no one sends, is cancelled. */
  async calm(): Promise<void> {
    const { cluster } = this.scene;
    const { world } = cluster;
    cluster.tell("calm");
    for (const part of this.parts) part.calm?.();
    const isUnderWay = () => this.parts.some((part) => part.isUnderWay === true);
    const calm = world.now + CALM_MS;
    while (world.now < calm && (isUnderWay() || (await this.open()).length > 0)) await cluster.pass(STEP_MS);
    if (isUnderWay()) throw new Error("clients are still without an answer");
    const left = await this.open();
    if (left.length > 0) cluster.tell(`what has not ended is cancelled: ${left.join(", ")}`);
    const cancel = { type: "cancel", reason: "over", compensate: true, actor: "api" } as const;
    for (const runId of left) await cluster.during(this.scene.insist(runId, cancel), END_MS);
    const until = world.now + END_MS;
    while ((await this.open()).length > 0 && world.now < until) await cluster.pass(STEP_MS);
    cluster.tell("all has ended");
    // What a node was not told is over is forgotten some time after its deadline.
    const quiet = world.now + QUIET_MS;
    while (world.now < quiet && !(cluster.isIdle && (await this.hasSettled()))) await cluster.pass(STEP_MS);
    await cluster.pass(STEP_MS);
  }

  async violations(): Promise<readonly string[]> {
    const { sql, cluster, acknowledged } = this.scene;
    const found = [...(await this.during(() => violationsOf(sql, cluster, acknowledged), SETUP_MS))];
    for (const part of this.parts) found.push(...(await this.during(async () => part.violations?.() ?? [], SETUP_MS)));
    return found;
  }

  private async hasSettled(): Promise<boolean> {
    if ((await this.during(() => owed(this.scene.sql), SETUP_MS)).length > 0) return false;
    for (const part of this.parts)
      if (!(await this.during(async () => part.hasSettled?.() ?? true, SETUP_MS))) return false;
    return true;
  }

  private open(): ReturnType<typeof unended> {
    return this.during(() => unended(this.scene.sql), SETUP_MS);
  }

  private during<Value>(act: () => Promise<Value>, withinMs: number): Promise<Value> {
    return this.scene.cluster.during(this.scene.asOperator(act), withinMs);
  }
}

function sums(counted: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const all: Record<string, number> = {};
  for (const counts of counted)
    for (const [name, count] of Object.entries(counts)) all[name] = (all[name] ?? 0) + count;
  return all;
}
