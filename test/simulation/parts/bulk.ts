// Operators of a story: they start batches of small runs, and have bulk jobs act on them, and on the families of other clients; they stop jobs and resume
// them. Each job has an actor of its own, so that the histories of its targets tell what it did to each of them.
import type { JsonObject, RunId } from "../../../machines/index.js";
import { EVERYTHING } from "../../../src/access/index.js";
import { filterOf } from "../../../src/api/run-filters.js";
import { SagaError } from "../../../src/errors.js";
import { targetRunId } from "../../../src/operate/index.js";
import { MODES } from "../../run/family-shapes.js";
import { publish } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { Work } from "./work.js";

interface Act {
  readonly action: string;
  readonly params: JsonObject;
}

interface Job extends Act {
  readonly id: string;
  readonly actor: string;
  readonly matched: number;
}

interface JobRow {
  readonly id: string;
  readonly state: string;
  readonly matched: number;
  readonly done: number;
  readonly refused: number;
}

interface TargetRow {
  readonly bulk_id: string;
  readonly run_id: RunId;
  readonly state: "open" | "done" | "unchanged" | "refused";
}

const OPERATORS = 2;
const WORKFLOW = "batch";
const PAUSE_MS = 4_000;

const ACTS: readonly Act[] = [
  { action: "signal", params: { signal_name: "go" } },
  { action: "pause", params: { reason: "wait" } },
  { action: "resume", params: {} },
  { action: "cancel", params: { reason: "enough" } },
  { action: "rerun", params: {} },
  { action: "retry_step", params: { variables: { fine: true } } },
  { action: "skip_step", params: {} },
  { action: "fail", params: {} },
  { action: "terminate", params: { reason: "enough" } },
];
/** What families of other clients bear: their own laws hold on. */
const GENTLE = ACTS.slice(0, 4);

export class Bulk implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private readonly jobs: Job[] = [];
  private readonly stopped = new Set<string>();
  private readonly broken: string[] = [];
  private batches = 0;
  private started = 0;
  private asked = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("bulk");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const charge = { action: "shop.charge", compensation: { action: "shop.refund" }, timeout_ms: 5_000 };
    await publish(
      { sql: this.scene.sql },
      WORKFLOW,
      [
        { id: "take", type: "action", ...charge, next: "check" },
        { id: "check", type: "assert", condition: "vars.fine", next: "wait" },
        {
          id: "wait",
          type: "wait_for_signal",
          signal_name: "go",
          timeout_ms: 30_000,
          on_timeout: "continue",
          next: "send",
        },
        { id: "send", type: "action", ...charge },
      ],
      { on_failure: "incident" },
    );
  }

  async storm(end: number): Promise<void> {
    const operator = () => this.work.each(end, PAUSE_MS, () => this.actOnOne());
    await Promise.all(Array.from({ length: OPERATORS }, operator));
  }

  calm(): void {
    this.work.finish(() => this.tidy());
  }

  async violations(): Promise<readonly string[]> {
    const { sql } = this.scene;
    const ids = this.jobs.map(({ id }) => id);
    const rows = await sql<
      JobRow[]
    >`select id, state, matched, done, refused from bulk_jobs where id = any(${ids}::text[]::uuid[])`;
    const targets = await sql<TargetRow[]>`
      select bulk_id, run_id, state from bulk_targets where bulk_id = any(${ids}::text[]::uuid[]) order by bulk_id, nth`;
    const byId = new Map(rows.map((row) => [row.id, row]));
    const actionOf = new Map(this.jobs.map(({ id, action }) => [id, action]));
    const found = [...this.broken];
    for (const job of this.jobs) {
      const own = targets.filter(({ bulk_id: id }) => id === job.id);
      found.push(...uncounted(job, byId.get(job.id), own));
      for (const target of own) found.push(...(await this.wronglyDone(job, target)));
    }
    const again = targets.filter(({ bulk_id: id, state }) => state === "done" && actionOf.get(id) === "rerun").length;
    const [row] = await sql<
      { count: number }[]
    >`select count(*)::int as count from runs where workflow_id = ${WORKFLOW}`;
    if (row?.count !== this.started + again)
      found.push(`${this.started} runs of batches were started, ${again} again, and there are ${row?.count}`);
    return found;
  }

  /** On a batch, or on families of other clients. */
  private async actOnOne(): Promise<void> {
    const { chance } = this;
    if (chance() < 0.3) {
      const workflow_id = MODES[Math.floor(chance() * MODES.length)] as string;
      const filter = { workflow_id, root_only: true, state: ["running", "paused"] };
      return void (await this.job(filter, pick(GENTLE, chance), 50));
    }
    const batch = chance() < 0.5 || this.batches === 0 ? await this.start() : Math.floor(chance() * this.batches);
    const filter = { "label.batch": String(batch) };
    const isNarrow = chance() < 0.3;
    const job = await this.job(isNarrow ? { ...filter, state: ["paused"] } : filter, pick(ACTS, chance), 8);
    if (job && chance() < 0.4) await this.stopAndResume(job);
  }

  /** A batch of runs with a label of its own. */
  private async start(): Promise<number> {
    const { chance, scene } = this;
    const batch = this.batches++;
    const size = 2 + Math.floor(chance() * 4);
    for (let nth = 0; nth < size; nth++) {
      const request = {
        ...{ workflowId: WORKFLOW, inputs: {}, variables: { fine: chance() < 0.6 }, dryRun: false },
        ...{ features: {}, actor: "api", labels: { batch: String(batch) }, idempotencyKey: `batch ${batch} ${nth}` },
      };
      const { runId } = await scene.insistOn(`batch ${batch}`, (core) => core.starter.start(request));
      scene.acknowledged.runs.add(runId);
      this.started++;
    }
    return batch;
  }

  /** Undefined: more runs match than the job may act on, or none. */
  private async job(filter: JsonObject, { action, params }: Act, limit?: number): Promise<Job | undefined> {
    const { scene } = this;
    const nth = this.asked++;
    const actor = `user:operator-${nth}`;
    const { "label.batch": batch, ...named } = filter;
    const runs = { ...filterOf(named), ...(batch !== undefined && { labels: { batch: String(batch) } }) };
    const request = {
      ...{ action, params, filter, runs, normal: params, actor, reach: EVERYTHING },
      ...(limit !== undefined && { limit }),
    };
    try {
      const made = await scene.twice(`job ${nth}`, 0.3, async (core) => {
        const { id, matched } = await core.operate.bulk.create(request, `job ${nth}`);
        return { id, matched };
      });
      scene.count(`bulk ${action}`);
      scene.tell(`${actor} has job ${made.id} ${action} ${made.matched} runs of ${JSON.stringify(filter)}`);
      const job = { ...made, actor, action, params };
      this.jobs.push(job);
      return job;
    } catch (error) {
      if (!(error instanceof SagaError && error.status === 422)) throw error;
      scene.count("bulk refused");
      return undefined;
    }
  }

  private async stopAndResume({ id }: Job): Promise<void> {
    const { scene, chance } = this;
    await scene.cluster.sleep(chance() * 300);
    const key = scene.newId();
    const stopped = await scene.twice(`stop ${id}`, 0.3, (core) => core.operate.bulk.stop(id, EVERYTHING, key));
    if (stopped.changed) this.stopped.add(id);
    scene.count(stopped.changed ? "bulk stopped" : "bulk stopped late");
    await scene.cluster.sleep(chance() * 3_000);
    if (chance() < 0.5) await this.resume(id);
  }

  private async resume(id: string): Promise<void> {
    const { scene } = this;
    const key = scene.newId();
    const { changed } = await scene.twice(`resume ${id}`, 0.3, (core) => core.operate.bulk.resume(id, EVERYTHING, key));
    if (changed !== this.stopped.delete(id)) this.broken.push(`job ${id} was resumed: ${changed}`);
  }

  /** All jobs go on, and what waits for an operator gets one. */
  private async tidy(): Promise<void> {
    for (const id of [...this.stopped]) await this.resume(id);
    await this.allEnd();
    await this.job({ paused_reason: ["operator"], root_only: true }, { action: "resume", params: {} });
    await this.allEnd();
    const open = ["pending", "running", "paused", "compensating"];
    await this.job({ workflow_id: WORKFLOW, state: open }, { action: "cancel", params: { reason: "over" } });
    await this.allEnd();
  }

  private async allEnd(): Promise<void> {
    const { scene } = this;
    const ids = this.jobs.map(({ id }) => id);
    const left = () =>
      scene.read((sql) => sql`select id from bulk_jobs where id = any(${ids}::text[]::uuid[]) and state = 'running'`);
    while ((await left()).length > 0) await scene.cluster.sleep(500);
  }

  /** What the history of a target has of the job: an act that was done is there once, and any other never. */
  private async wronglyDone(job: Job, { run_id: runId, state }: TargetRow): Promise<string[]> {
    const { id, action } = job;
    const count = await this.timesDone(job, runId);
    // A signal is recorded also where no step takes it, which counts as refused.
    const isRecorded = action === "signal" && state === "refused";
    const isRight = isRecorded ? count <= 1 : count === (state === "done" ? 1 : 0);
    return isRight ? [] : [`job ${id} has ${runId} as ${state}, and its ${action} is there ${count} times`];
  }

  private async timesDone({ id, action, actor }: Job, runId: RunId): Promise<number> {
    const { sql } = this.scene;
    const rows =
      action === "rerun"
        ? await sql`select id from runs where id = ${targetRunId(id, runId)}`
        : await sql`select seq from run_events where run_id = ${runId} and event_type = 'log' and actor = ${actor}`;
    return rows.length;
  }
}

function uncounted({ id, matched }: Job, row: JobRow | undefined, targets: readonly TargetRow[]): string[] {
  if (!row) return [`job ${id} was acknowledged, and is gone`];
  const refused = targets.filter(({ state }) => state === "refused").length;
  const open = targets.filter(({ state }) => state === "open").length;
  const counts = { state: "done", matched, done: targets.length - refused - open, refused };
  const is = { state: row.state, matched: row.matched, done: row.done, refused: row.refused };
  const fits = JSON.stringify(is) === JSON.stringify(counts) && open === 0 && targets.length === matched;
  const isTwice = new Set(targets.map(({ run_id: runId }) => runId)).size < targets.length;
  return [
    ...(fits
      ? []
      : [
          `job ${id} is ${JSON.stringify(is)}, with ${targets.length} targets of which ${open} are open, not ${JSON.stringify(counts)}`,
        ]),
    ...(isTwice ? [`job ${id} has a target twice`] : []),
  ];
}

const pick = (acts: readonly Act[], chance: Chance): Act => acts[Math.floor(chance() * acts.length)] as Act;
