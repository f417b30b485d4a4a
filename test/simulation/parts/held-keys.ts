// Business keys that runs hold: clients start runs of two keys under every policy, in bursts, and with a signal. At every moment that is looked at, a run that
// goes on without holding its key has been replaced by another, and a signal that came with a start is its run's.
import type { RunId } from "../../../machines/index.js";
import { SagaError } from "../../../src/errors.js";
import { derivedUuid } from "../../../src/ids.js";
import type { StartRequest } from "../../../src/run/ports.js";
import { publish } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { Work } from "./work.js";

const WORKFLOW = "holder";
const KEYS = ["east", "west"];
const CLIENTS = 2;
const PAUSE_MS = 2_000;
const LOOK_MS = 700;

type Policy = Pick<StartRequest, "onConflict" | "debounce">;
const POLICIES: readonly Policy[] = [
  { onConflict: "reject" },
  { onConflict: "return" },
  { onConflict: "cancel_old" },
  { onConflict: "reject", debounce: { windowMs: 1_500 } },
  { onConflict: "cancel_old", debounce: { windowMs: 1_000, maxMs: 2_500 } },
];

interface Holding {
  readonly runs: readonly { readonly id: string; readonly key: string; readonly active: boolean }[];
  readonly holders: readonly string[];
  /** Commands that runs have had, or are owed. */
  readonly commands: readonly string[];
}

export class HeldKeys implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private readonly broken = new Set<string>();
  /** Signals that came with a start, and the run of each. */
  private readonly signals = new Map<string, RunId>();
  private started = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("held keys");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const charge = {
      type: "action",
      action: "shop.charge",
      compensation: { action: "shop.refund" },
      timeout_ms: 5_000,
    };
    await publish({ sql: this.scene.sql }, WORKFLOW, [
      { id: "take", ...charge, next: "rest" },
      { id: "rest", type: "wait_duration", duration_ms: 400 },
    ]);
  }

  async storm(end: number): Promise<void> {
    const clients = Array.from({ length: CLIENTS }, () => this.work.each(end, PAUSE_MS, () => this.startSome()));
    await Promise.all([...clients, this.work.each(end, LOOK_MS, () => this.look())]);
  }

  async violations(): Promise<readonly string[]> {
    await this.look();
    const stored = await this.scene.read((sql) => sql<{ id: string; run_id: RunId }[]>`select id, run_id from signals`);
    const runs = new Map(stored.map(({ id, run_id }) => [id, run_id]));
    for (const [id, runId] of this.signals)
      if (runs.get(id) !== runId) this.broken.add(`the signal ${id} came with the start of ${runId}, and is not its`);
    return [...this.broken];
  }

  /** A few at once, of one key, at whichever nodes. */
  private async startSome(): Promise<void> {
    const { chance } = this;
    const key = KEYS[Math.floor(chance() * KEYS.length)] as string;
    const policies = Array.from(
      { length: 1 + Math.floor(chance() * 3) },
      () => POLICIES[Math.floor(chance() * POLICIES.length)] as Policy,
    );
    await Promise.all(policies.map((policy) => this.startOne(key, policy)));
  }

  private async startOne(key: string, policy: Policy): Promise<void> {
    const { chance, scene } = this;
    const nth = this.started++;
    const request = {
      ...{ workflowId: WORKFLOW, inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api" },
      ...{ ...policy, businessKey: key, idempotencyKey: `held ${nth}` },
    };
    const id = chance() < 0.3 ? scene.newId() : undefined;
    const signal = { type: "signal", name: "note", payload: { nth }, actor: "api" } as const;
    try {
      const { runId, deduplicated, held } = await scene.insistOn(`held ${nth}`, (core) =>
        core.starter.start(request, id === undefined ? undefined : () => ({ ...signal, id })),
      );
      scene.acknowledged.runs.add(runId);
      scene.count(held ? "held key: the run that has it" : deduplicated ? "held key: again" : "held key: started");
      // Whose client sends it no more: it is owed by the start. A run that was there before is owed none.
      if (id !== undefined && !held) this.signals.set(id, runId);
    } catch (error) {
      if (!(error instanceof SagaError && error.status === 409)) throw error;
      scene.count("held key: refused");
    }
  }

  private async look(): Promise<void> {
    const { runs, holders, commands } = await this.holding();
    const [isHolder, isSent] = [new Set(holders), new Set(commands)];
    for (const { id, key, active } of runs) {
      if (!active || isHolder.has(id)) continue;
      const others = runs.filter((other) => other.key === key && other.id !== id);
      if (!others.some((other) => isSent.has(derivedUuid(`replaced:${other.id}:${id}`))))
        this.broken.add(`${id} goes on, was not replaced, and does not hold ${key}`);
    }
  }

  /** As one statement sees it. */
  private async holding(): Promise<Holding> {
    const [seen] = await this.scene.read(
      (sql) => sql<Holding[]>`
        select
          (select coalesce(json_agg(json_build_object('id', id, 'key', business_key, 'active', terminal_at is null)), '[]')
           from runs where workflow_id = ${WORKFLOW}) as runs,
          (select coalesce(json_agg(run_id), '[]') from held_keys) as holders,
          (select coalesce(json_agg(id), '[]') from (
             select id from inbox union all
             select command_id from run_commands where run_id in (select id from runs where workflow_id = ${WORKFLOW})
           ) commands) as commands`,
    );
    return seen ?? { runs: [], holders: [], commands: [] };
  }
}
