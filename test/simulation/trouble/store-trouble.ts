// What goes wrong in a story with the server of Postgres: it starts again, a standby takes over that lacks the last commits, its disk is full, it takes
// no writes or no sessions, and its clock jumps.
import type { RunId } from "../../../machines/index.js";
import type { Part, Scene } from "../scene.js";
import { otherServer } from "../world/base.js";
import type { Refusal } from "../world/postgres.js";
import type { Chance } from "../world/world.js";
import { asText, drawn, type Faults, turnOf } from "./faults.js";

/** The highest chance of each, every two seconds. */
const MOST = { restarts: 0.1, failover: 0.2, fullDisk: 0.1, readOnly: 0.1, noSessions: 0.1, clockJump: 0.1 };
const NAMES = Object.keys(MOST) as (keyof typeof MOST)[];
export const STORE_FAULTS: readonly string[] = NAMES;

const REFUSALS = {
  fullDisk: { what: "writes", sqlState: "53100", message: "could not extend file: No space left on device" },
  readOnly: { what: "writes", sqlState: "25006", message: "cannot execute INSERT in a read-only transaction" },
  noSessions: { what: "sessions", sqlState: "53300", message: "sorry, too many clients already" },
  starting: { what: "sessions", sqlState: "57P03", message: "the database system is starting up" },
} as const satisfies Readonly<Record<string, Refusal>>;

/** Of all stories, those in which the store may forget, or its clock may jump. */
const FORGETTING = 0.4;
const LONGEST_MS = 20_000;
const MOST_JUMP_MS = 120_000;

export class StoreTrouble implements Part {
  private readonly chance: Chance;
  private readonly faults: Faults<keyof typeof MOST>;
  private servers = 0;

  constructor(
    private readonly scene: Scene,
    without: ReadonlySet<string>,
  ) {
    this.chance = scene.chanceOf("store");
    const faults = drawn(this.chance, MOST, without);
    this.faults = this.chance() < FORGETTING ? faults : { ...faults, failover: 0, clockJump: 0 };
  }

  /** Whether the store may forget what it has acknowledged, or its clock may jump. */
  get forgets(): boolean {
    return this.faults.failover > 0 || this.faults.clockJump > 0;
  }

  async storm(end: number): Promise<void> {
    const { scene, chance, faults } = this;
    const { cluster } = scene;
    scene.tell(`faults of the store: ${asText(faults)}`);
    while (cluster.world.now < end) {
      await cluster.sleep(chance() * 4_000);
      if (cluster.world.now >= end) return;
      const what = turnOf(chance(), faults, NAMES);
      if (what === undefined) continue;
      scene.count(what);
      if (what === "restarts") await this.startAgain(chance() * chance() * LONGEST_MS);
      else if (what === "failover") await this.failOver(chance() * chance() * LONGEST_MS);
      else if (what === "clockJump") this.jump();
      else await this.refuse(REFUSALS[what], chance() * chance() * LONGEST_MS);
    }
  }

  calm(): void {
    this.scene.cluster.refusal = undefined;
  }

  private async startAgain(ms: number): Promise<void> {
    const { cluster } = this.scene;
    this.scene.tell(`the store is away for ${Math.round(ms)} ms`);
    cluster.cutAll();
    await this.untilFree();
    await cluster.postgres.query(otherServer(++this.servers));
    await this.refuse(REFUSALS.starting, ms);
  }

  /** What is committed from now on, until the standby takes over, is lost. */
  private async failOver(lagMs: number): Promise<void> {
    const { scene, chance } = this;
    const { cluster, acknowledged } = scene;
    const { postgres, ledger } = cluster;
    const standby = await postgres.snapshot();
    const recorded = new Set(ledger.recorded);
    await cluster.sleep(lagMs);
    cluster.cutAll();
    await this.untilFree();
    const before = await this.runs();
    await postgres.restore(standby);
    await postgres.query(otherServer(++this.servers));
    const after = await this.runs();
    cluster.losses++;
    for (const [id, { root, fence }] of before) {
      if (after.get(id)?.fence === fence) continue;
      acknowledged.rewound.add(root);
      if (!after.has(id)) acknowledged.runs.delete(id);
    }
    ledger.recorded.clear();
    for (const id of recorded) ledger.recorded.add(id);
    const lost = [...before.keys()].filter((id) => !after.has(id)).length;
    scene.tell(`a standby takes over: ${Math.round(lagMs)} ms are lost, with ${lost} runs`);
    if (chance() < 0.5) this.jump();
    await this.refuse(REFUSALS.starting, chance() * chance() * LONGEST_MS);
  }

  /** The operator's own sessions are not cut, and one may be in the middle of something. */
  private async untilFree(): Promise<void> {
    const { cluster } = this.scene;
    while (cluster.postgres.isHeld) await cluster.sleep(1);
  }

  private async runs(): Promise<ReadonlyMap<RunId, { readonly root: string; readonly fence: string }>> {
    const rows = await this.scene.cluster.postgres.query<{ id: RunId; root: string; fence: string }>(
      "select id, coalesce(root_run_id, id) as root, fence::text from runs",
    );
    return new Map(rows.map(({ id, ...row }) => [id, row]));
  }

  private jump(): void {
    const { world } = this.scene.cluster;
    const ms = (this.chance() - 0.5) * this.chance() * MOST_JUMP_MS;
    this.scene.tell(`the clock of the store jumps by ${Math.round(ms)} ms`);
    world.jumpStoreTime(ms);
    this.scene.acknowledged.isClockTrue = false;
  }

  private async refuse(refusal: Refusal, ms: number): Promise<void> {
    const { cluster } = this.scene;
    this.scene.tell(`for ${Math.round(ms)} ms: ${refusal.message}`);
    cluster.refusal = refusal;
    await cluster.sleep(ms);
    cluster.refusal = undefined;
  }
}
