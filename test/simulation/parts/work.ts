// What a part has begun and not finished. The calm lasts at least until nothing is under way; what a part has to do in the calm itself comes after what it
// began in the storm.
import type { Scene } from "../scene.js";
import type { Chance } from "../world/world.js";

export class Work {
  private under = 0;

  constructor(
    private readonly scene: Scene,
    private readonly chance: Chance,
  ) {}

  get isUnderWay(): boolean {
    return this.under > 0;
  }

  async do(act: () => Promise<unknown>): Promise<void> {
    this.under++;
    await act();
    this.under--;
  }

  /** Again and again until the end, with a pause before each time. */
  async each(end: number, pauseMs: number, act: () => Promise<unknown>): Promise<void> {
    const { cluster } = this.scene;
    while (cluster.world.now < end) {
      await cluster.sleep(this.chance() * pauseMs);
      if (cluster.world.now >= end) return;
      await this.do(act);
    }
  }

  /** In the calm. What it throws ends the story. */
  finish(act: () => Promise<unknown>): void {
    const { cluster } = this.scene;
    const last = this.do(async () => {
      while (this.under > 1) await cluster.sleep(200);
      await act();
    });
    last.catch((error: unknown) => cluster.world.fail(error));
  }
}
