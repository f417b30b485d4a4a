// What goes wrong in a story with nodes, their sessions, the bus and workers.

import type { Home } from "../cluster.js";
import type { Part, Scene } from "../scene.js";
import { NO_WORKER_FAULTS } from "../workers/stream-worker.js";
import { NO_BUS_FAULTS } from "../world/bus.js";
import type { Chance, Life } from "../world/world.js";
import { asText, drawn, type Faults, turnOf } from "./faults.js";

/** The highest chance of each. Of a node, once a second; of the store, for each group of messages; of the bus, for each message; of a worker, for each step. */
const MOST = {
  ...{ crash: 0.2, freeze: 0.15, stop: 0.05, cut: 0.1, skewed: 1 },
  ...{ cutBefore: 0.01, cutAfter: 0.01, slow: 0.3 },
  ...{ lost: 0.5, repeated: 0.3, late: 0.2, forged: 0.1 },
  ...{ refused: 0.2, declined: 0.1, unknown: 0.1, silent: 0.05, nonsense: 0.05, undoDeclined: 0.2 },
  ...{ twice: 0.3, elsewhere: 0.3, lateWork: 0.2, broken: 0.1 },
};

type FaultName = keyof typeof MOST;
export const FAULTS = Object.keys(MOST);

/** Around the middle of the day, by up to half a day. */
const MOST_SKEW_MS = 100_000_000;

export class Trouble implements Part {
  private readonly chance: Chance;
  private readonly faults: Faults<FaultName>;

  constructor(
    private readonly scene: Scene,
    without: ReadonlySet<string>,
  ) {
    this.chance = scene.chanceOf("trouble");
    this.faults = drawn(this.chance, MOST, without);
  }

  async storm(end: number): Promise<void> {
    const { scene, chance, faults } = this;
    const { cluster } = scene;
    scene.tell(`faults: ${asText(faults)}`);
    this.disturb();
    while (cluster.world.now < end) {
      await cluster.sleep(chance() * 2_000);
      if (cluster.world.now >= end) return;
      const home = cluster.homes[Math.floor(chance() * cluster.homes.length)] as Home;
      if (home.life?.isAlive) this.hurt(home, home.life);
    }
  }

  calm(): void {
    const { cluster } = this.scene;
    cluster.bus.faults = NO_BUS_FAULTS;
    for (const worker of cluster.workers) worker.faults = NO_WORKER_FAULTS;
    cluster.fate(() => ({ latencyMs: 0.5, answerMs: 0.5 }));
    for (const home of cluster.homes) {
      if (home.life?.isFrozen) cluster.world.thaw(home.life);
      if (!home.life?.isAlive) cluster.start(home);
    }
  }

  /** The bus, the workers and the store. */
  private disturb(): void {
    const { chance, faults } = this;
    const { cluster, operator } = this.scene;
    cluster.bus.faults = faults;
    for (const worker of cluster.workers) worker.faults = { ...faults, late: faults.lateWork };
    const isSlow = new Map<string, boolean>();
    cluster.fate((owner) => {
      if (!isSlow.has(owner)) isSlow.set(owner, chance() < faults.slow);
      const latencyMs = chance() * (isSlow.get(owner) ? 200 : 2);
      if (owner === operator.name) return { latencyMs, answerMs: 0 };
      const cut = turnOf(chance(), faults, ["cutBefore", "cutAfter"]);
      if (cut) return { latencyMs, answerMs: 0, cut: cut === "cutBefore" ? "before" : "after" };
      return { latencyMs, answerMs: chance(), ...(cluster.refusal && { refused: cluster.refusal }) };
    });
  }

  private hurt(home: Home, life: Life): void {
    const { scene, chance, faults } = this;
    if (chance() < faults.skewed) life.skewMs = (chance() - 0.5) * MOST_SKEW_MS;
    const what = turnOf(chance(), faults, ["crash", "freeze", "stop", "cut"]);
    if (what === undefined) return;
    scene.count(what);
    if (what === "crash") this.crash(home);
    else if (what === "freeze") this.freeze(life, chance() * chance() * 60_000);
    else if (what === "stop") void this.replace(home);
    else scene.cluster.cut(life);
  }

  private crash(home: Home): void {
    const { cluster } = this.scene;
    const { chance } = this;
    cluster.crash(home);
    cluster.world.later(500 + chance() * chance() * 30_000, () => home.life?.isAlive || cluster.start(home), null);
  }

  private freeze(life: Life, ms: number): void {
    const { world } = this.scene.cluster;
    if (life.isFrozen) return;
    this.scene.tell(`${life.name} freezes for ${Math.round(ms)} ms`);
    world.freeze(life);
    world.later(ms, () => life.isFrozen && world.thaw(life), null);
  }

  private async replace(home: Home): Promise<void> {
    const { cluster } = this.scene;
    const { life } = home;
    // One that cannot end in its time is killed.
    cluster.world.later(30_000, () => life?.isAlive && home.life === life && this.crash(home), null);
    await cluster.stop(home);
    if (!home.life?.isAlive) cluster.start(home);
  }
}
