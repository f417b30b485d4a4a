// Operators of a story: they pause and resume runs, end some without waiting, and act on what waits for a person, a step or an undo that failed for good. In
// the calm they bring all of it to an end.
import { asRunId, type OperatorAct, type RunId } from "../../../machines/index.js";
import { SHAPES } from "../../run/family-shapes.js";
import { publish } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";

/** A run that has not ended. */
interface Open {
  readonly id: RunId;
  readonly root: string;
  readonly state: string;
  readonly paused_reason: string | null;
}

type Act = OperatorAct["type"];

const INCIDENT: readonly Act[] = ["retry_step", "skip_step", "fail"];
const UNDO_INCIDENT: readonly Act[] = ["retry_undo", "skip_undo"];
/** What they do to any run, and how often, once a second. */
const WHIMS: Readonly<Partial<Record<Act, number>>> = { pause: 0.1, resume: 0.1, retry_step: 0.05, terminate: 0.01 };

export class Operators implements Part {
  private readonly chance: Chance;
  private isCalm = false;
  /** Runs that they have paused themselves. Children that were paused with their parent go on with it. */
  private readonly paused = new Set<RunId>();

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("operators");
  }

  async prepare(): Promise<void> {
    const { sql, workflows, acknowledged } = this.scene;
    const head = { on_failure: "incident", on_undo_failure: "incident" };
    await publish({ sql }, "asks_people", SHAPES.all ?? [], head);
    workflows.push("asks_people");
    acknowledged.bound.add("asks_people");
  }

  /** To the end of the story. */
  async storm(): Promise<void> {
    const { scene, chance } = this;
    while (true) {
      await scene.cluster.sleep(chance() * 2_000);
      const open = await this.open();
      for (const run of open) {
        const act = this.actOn(run);
        if (act) await this.carryOut(run, act);
      }
      const any = open[Math.floor(chance() * open.length)];
      if (any && !this.isCalm) await this.whim(any);
    }
  }

  calm(): void {
    this.isCalm = true;
  }

  /** Where a person is waited for: mostly soon. */
  private actOn({ id, state, paused_reason: reason }: Open): Act | undefined {
    const { chance, isCalm } = this;
    if (reason === "operator") return isCalm && this.paused.has(id) ? "resume" : undefined;
    if (reason !== "incident" || (!isCalm && chance() < 0.7)) return undefined;
    const acts = state === "compensating" ? UNDO_INCIDENT : INCIDENT;
    return acts[Math.floor(chance() * acts.length)];
  }

  private async whim(run: Open): Promise<void> {
    for (const [act, often] of Object.entries(WHIMS) as [Act, number][])
      if (this.chance() < often) return this.carryOut(run, act);
  }

  private async carryOut({ id, root }: Open, type: Act): Promise<void> {
    const { scene } = this;
    scene.count(type);
    scene.tell(`${type} ${id}`);
    const reason = "an operator's";
    if (type === "pause") this.paused.add(id);
    if (type === "skip_step" || type === "skip_undo" || type === "terminate") scene.acknowledged.handled.add(root);
    const act = (type === "terminate" ? { type, reason, actor: "api" } : { type, actor: "api" }) as OperatorAct;
    await scene.insist(id, act);
  }

  /** The families that clients have started. As a list of the API has it: an act may come after the run has gone on. */
  private async open(): Promise<readonly Open[]> {
    const rows = await this.scene.read(
      (sql) => sql<Open[]>`
        select runs.id, root.id as root, runs.state, runs.paused_reason
        from runs join runs root on root.id = coalesce(runs.root_run_id, runs.id)
        where runs.terminal_at is null and root.workflow_id = any(${this.scene.workflows}) order by runs.id`,
    );
    return rows.map((row) => ({ ...row, id: asRunId(row.id) }));
  }
}
