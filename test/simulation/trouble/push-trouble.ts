// What goes wrong in a story with the hosts and the broker that nodes push to, and with the workers behind them: drawn as all other trouble is.

import { STEPS_QUEUE } from "../parts/carried.js";
import type { Carriers } from "../parts/carriers.js";
import type { Part, Scene } from "../scene.js";
import { NO_PUSH_WORKER_FAULTS } from "../workers/push-worker.js";
import { NO_QUEUE_WORKER_FAULTS } from "../workers/queue-worker.js";
import { NO_SITE_FAULTS } from "../workers/sites.js";
import { NO_BROKER_FAULTS } from "../world/broker.js";
import type { Chance } from "../world/world.js";
import { asText, drawn, type Faults, turnOf } from "./faults.js";

/** The highest chance of each. Of a host or the broker, once a second; of the others, for each connection, request, message or step. */
const MOST = {
  ...{ hostRefuses: 0.05, hostSilent: 0.05, brokerAway: 0.05, brokerCut: 0.1, brokerBlocked: 0.05, queueGone: 0.05 },
  ...{ unreached: 0.1, busy: 0.2, hung: 0.05, reset: 0.1, half: 0.05, brokenServer: 0.1, garbage: 0.05 },
  ...{ overlong: 0.03, redirected: 0.03, lateAnswer: 0.2, forgotten: 0.05 },
  ...{ lostBefore: 0.05, lostAfter: 0.05, heldConfirm: 0.2, nacked: 0.1, redelivered: 0.1 },
  ...{ pushRefused: 0.2, pushDeclined: 0.05, pushUnknown: 0.1, slowWork: 0.2, reportedTwice: 0.3 },
};

type FaultName = keyof typeof MOST;
export const PUSH_FAULTS: readonly string[] = Object.keys(MOST);

/** What happens once a second, if at all. */
const BLOWS = ["hostRefuses", "hostSilent", "brokerAway", "brokerCut", "brokerBlocked", "queueGone"] as const;

/** Of the time that a host, or the broker, is away. */
const LONGEST_MS = 40_000;

export class PushTrouble implements Part {
  private readonly chance: Chance;
  private readonly faults: Faults<FaultName>;

  constructor(
    private readonly scene: Scene,
    private readonly carriers: Carriers,
    without: ReadonlySet<string>,
  ) {
    this.chance = scene.chanceOf("push trouble");
    this.faults = drawn(this.chance, MOST, without);
  }

  async storm(end: number): Promise<void> {
    const { scene, carriers, faults, chance } = this;
    const { hosts, broker, world } = scene.cluster;
    scene.tell(`faults of what is pushed: ${asText(faults)}`);
    hosts.faults = faults;
    broker.faults = faults;
    carriers.sites.faults = faults;
    carriers.worker.faults = faults;
    carriers.queueWorker.faults = faults;
    while (world.now < end) {
      await scene.cluster.sleep(chance() * 2_000);
      if (world.now < end) this.hurt();
    }
  }

  calm(): void {
    const { cluster } = this.scene;
    const { hosts, broker } = cluster;
    const { sites, worker, queueWorker } = this.carriers;
    hosts.faults = { unreached: 0 };
    hosts.away.clear();
    sites.faults = NO_SITE_FAULTS;
    worker.faults = NO_PUSH_WORKER_FAULTS;
    queueWorker.faults = NO_QUEUE_WORKER_FAULTS;
    broker.faults = NO_BROKER_FAULTS;
    broker.isAway = false;
    broker.block(false);
  }

  private hurt(): void {
    const { scene, chance, faults } = this;
    const { hosts, broker, homes } = scene.cluster;
    const what = turnOf(chance(), faults, BLOWS);
    if (what === undefined) return;
    scene.count(what);
    const host = hosts.names[Math.floor(chance() * hosts.names.length)] as string;
    if (what === "hostRefuses" || what === "hostSilent") {
      hosts.away.set(host, what === "hostRefuses" ? "refuses" : "silent");
      this.until(`${host} ${what === "hostRefuses" ? "refuses connections" : "is silent"}`, () =>
        hosts.away.delete(host),
      );
    } else if (what === "brokerAway") {
      broker.isAway = true;
      broker.cut();
      this.until("the broker is away", () => {
        broker.isAway = false;
      });
    } else if (what === "brokerBlocked") {
      broker.block(true);
      this.until("the broker takes nothing", () => broker.block(false));
    } else if (what === "brokerCut") broker.cut(homes[Math.floor(chance() * homes.length)]?.life);
    else broker.remove(STEPS_QUEUE);
  }

  private until(what: string, back: () => void): void {
    const { scene, chance } = this;
    const ms = chance() * chance() * LONGEST_MS;
    scene.tell(`${what} for ${Math.round(ms)} ms`);
    scene.cluster.world.later(ms, back, null);
  }
}
