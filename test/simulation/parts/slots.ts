// Concurrency keys: clients start more runs of a key than its limit, of each way to treat those that find no slot, and steps whose action has a limit. At
// every moment that is looked at no key has more holders than slots, by its tickets and by the runs themselves, and those that wait come in order.
import { SagaError } from "../../../src/errors.js";
import { publish } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { Work } from "./work.js";

interface Limited {
  readonly limit: number;
  readonly onLimit: "queue" | "refuse" | "cancel_oldest";
}

/** By the id of the workflow. */
const LIMITED: Readonly<Record<string, Limited>> = {
  till: { limit: 1, onLimit: "queue" },
  desk: { limit: 3, onLimit: "queue" },
  seat: { limit: 2, onLimit: "refuse" },
  stage: { limit: 1, onLimit: "cancel_oldest" },
};
/** Its step `pay` has an action with a limit; its runs have none. */
const BANK = "bank";
const BANK_LIMIT = 2;
const WORKFLOWS = [...Object.keys(LIMITED), BANK];
const KEYS = ["north", "south"];
const CLIENTS = 2;
const PAUSE_MS = 2_500;
const LOOK_MS = 500;

export class Slots implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private readonly broken = new Set<string>();
  private started = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("slots");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const database = { sql: this.scene.sql };
    const charge = {
      type: "action",
      action: "shop.charge",
      compensation: { action: "shop.refund" },
      timeout_ms: 5_000,
    };
    const rest = { id: "rest", type: "wait_duration", duration_ms: 300 };
    for (const [id, { limit, onLimit }] of Object.entries(LIMITED))
      await publish(database, id, [{ id: "take", ...charge, next: "rest" }, rest], {
        concurrency: { key: "${inputs.key}", limit, on_limit: onLimit },
      });
    const concurrency = { key: "${inputs.key}", limit: BANK_LIMIT };
    await publish(database, BANK, [{ id: "pay", ...charge, concurrency, next: "rest" }, rest]);
  }

  async storm(end: number): Promise<void> {
    const clients = Array.from({ length: CLIENTS }, () => this.work.each(end, PAUSE_MS, () => this.startSome()));
    await Promise.all([...clients, this.work.each(end, LOOK_MS, () => this.look())]);
  }

  async violations(): Promise<readonly string[]> {
    await this.look();
    return [...this.broken];
  }

  /** A few at once, of one key. */
  private async startSome(): Promise<void> {
    const { chance } = this;
    const workflowId = WORKFLOWS[Math.floor(chance() * WORKFLOWS.length)] as string;
    const key = KEYS[Math.floor(chance() * KEYS.length)] as string;
    const count = 1 + Math.floor(chance() * 3);
    await Promise.all(Array.from({ length: count }, () => this.startOne(workflowId, key)));
  }

  private async startOne(workflowId: string, key: string): Promise<void> {
    const { chance, scene } = this;
    const nth = this.started++;
    const isCancelled = chance() < 0.15;
    const request = {
      ...{ workflowId, inputs: { key }, variables: {}, dryRun: false, features: {}, actor: "api" },
      ...{ businessKey: key, idempotencyKey: `slot ${nth}` },
    };
    try {
      const { runId } = await scene.insistOn(`slot ${nth}`, (core) => core.starter.start(request));
      scene.acknowledged.runs.add(runId);
      scene.count(`slot of ${workflowId}`);
      if (!isCancelled) return;
      await scene.cluster.sleep(chance() * 1_000);
      await scene.insist(runId, { type: "cancel", reason: "enough", compensate: chance() < 0.5, actor: "api" });
    } catch (error) {
      const isRefused = error instanceof SagaError && error.code === "concurrency_limit";
      if (!isRefused || LIMITED[workflowId]?.onLimit !== "refuse") throw error;
      scene.count("slot refused");
    }
  }

  private async look(): Promise<void> {
    for (const { what } of await this.tickets()) this.broken.add(what);
    for (const { workflow, key, holders } of await this.holders()) {
      const limit = LIMITED[workflow]?.limit ?? BANK_LIMIT;
      if (holders > limit)
        this.broken.add(`${workflow} ${key} has ${holders} runs beyond their wait for one of ${limit} slots`);
    }
  }

  /** Too many are held, or one is held by a ticket that came after one that still waits. No operator pauses these runs, so none lets others pass. */
  private tickets(): Promise<readonly { readonly what: string }[]> {
    return this.scene.read(
      (sql) => sql<{ what: string }[]>`
        select scope || ' ' || key || ' has ' || count(*) || ' holders, and the limit is ' || max(slot_limit) as what
        from concurrency_tickets where granted_at is not null or reserved_until > clock_timestamp()
        group by scope, key having count(*) > max(slot_limit)
        union all
        select w.run_id || ' waits for ' || w.scope || ' ' || w.key || ', and ' || h.run_id || ' came later and has a slot'
        from concurrency_tickets w join concurrency_tickets h on h.scope = w.scope and h.key = w.key and h.ticket > w.ticket
        where w.on_limit = 'queue' and w.granted_at is null and w.cancelled_at is null and h.granted_at is not null`,
    );
  }

  /** Runs, and steps, that go on: they have asked for their slot, and wait for it no more. */
  private holders() {
    return this.scene.read(
      (sql) => sql<{ workflow: string; key: string; holders: number }[]>`
        select workflow_id as workflow, business_key as key, count(*)::int as holders from runs
        where terminal_at is null and workflow_id = any(${WORKFLOWS}::text[]) and state <> 'pending'
          and paused_reason is distinct from 'concurrency'
          and (workflow_id <> ${BANK} or (current_step = 'pay' and state in ('running', 'paused')))
        group by workflow_id, business_key`,
    );
  }
}
