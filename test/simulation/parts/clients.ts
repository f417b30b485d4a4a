// Clients of a story: they publish families of workflows, start runs, send them signals, cancel them, and insist on each answer.
import fc from "fast-check";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { families, layOut } from "../../machines/families.js";
import { MODES, SHAPES } from "../../run/family-shapes.js";
import { publish, registerActions } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import { HOSTS } from "../workers/sites.js";
import type { Chance } from "../world/world.js";
import { Work } from "./work.js";

const CLIENTS = 4;

export class Clients implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private made = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("clients");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const { sql, cluster, workflows, acknowledged } = this.scene;
    const [family] = fc.sample(families, { seed: cluster.seed, numRuns: 1 });
    const database = { sql };
    await registerActions(database, "charge", "refund", "notify");
    for (const [id, steps] of Object.entries(SHAPES)) await publish(database, id, steps);
    workflows.push(...MODES);
    for (const id of MODES) acknowledged.bound.add(id);
    if (!family) return;
    for (const [id, body] of Object.entries(family.subs)) await publish(database, id, layOut(body).map(endable));
    const head: JsonObject = family.timeoutMs === undefined ? {} : { timeout_ms: family.timeoutMs };
    await publish(database, "random", layOut(family.root).map(endable), head);
    workflows.push("random");
  }

  async storm(end: number): Promise<void> {
    const client = () => this.work.each(end, 1_000, () => this.serveOne());
    await Promise.all(Array.from({ length: CLIENTS }, client));
  }

  /** Starts a family, and acts on it. */
  private async serveOne(): Promise<void> {
    const { chance, scene } = this;
    const runId = await this.startOne();
    const acts = Math.floor(chance() * 5);
    for (let nth = 0; nth < acts; nth++) {
      await scene.cluster.sleep(chance() * 2_000);
      await this.act(runId);
    }
  }

  private async startOne(): Promise<RunId> {
    const { chance, scene } = this;
    const { workflows, acknowledged } = scene;
    const nth = this.made++;
    const workflowId = workflows[Math.floor(chance() * workflows.length)] as string;
    const inputs = { fail: chance() < 0.4, n: 2, list: [4, 5] };
    const request = {
      ...{ workflowId, inputs, variables: {}, dryRun: false, features: {}, actor: "api" },
      idempotencyKey: `start ${nth}`,
    };
    const { runId } = await scene.twice(`start ${nth}`, 0.2, async (core) => {
      const { runId } = await core.starter.start(request);
      return { runId };
    });
    acknowledged.runs.add(runId);
    scene.count("started");
    scene.tell(`${workflowId} ${runId} is acknowledged`);
    return runId;
  }

  private async act(root: RunId): Promise<void> {
    const { chance, scene } = this;
    if (chance() < 0.7) {
      scene.count("signal");
      const id = scene.newId();
      const name = chance() < 0.8 ? "go" : "stop";
      return scene.insist(root, { type: "signal", id, name, payload: {}, actor: "api" }, id);
    }
    scene.count("cancel");
    const compensate = chance() < 0.8;
    if (!compensate) scene.acknowledged.abandoned.add(root);
    scene.tell(`${root} is cancelled${compensate ? "" : " without undo"}`);
    return scene.insist(root, { type: "cancel", reason: "enough", compensate, actor: "api" });
  }
}

/** Without what only a person, another workflow, or a host that there is not, could bring to an end. */
function endable(step: ReturnType<typeof layOut>[number]): ReturnType<typeof layOut>[number] {
  const { on_failure: _, ...rest } = step;
  const bounded = rest.type === "action" ? { timeout_ms: 5_000 } : {};
  const known = rest.type === "webhook_emit" ? { url: `http://${HOSTS.receiver}/hook` } : {};
  return {
    ...bounded,
    ...rest,
    ...known,
    ...(rest.compensation !== undefined && { compensation: { action: "shop.refund" } }),
  };
}
