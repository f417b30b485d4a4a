// Triggers of a story: schedules, and triggers on records, whose events clients publish and runs emit. Authors disable, enable, change, delete and put back
// some of them. A schedule of cron has one tick a minute at most, so an operator's session moves next ticks ahead: a node cannot tell them from others.
import { isDeepStrictEqual } from "node:util";
import { isObject, type JsonObject } from "../../../machines/index.js";
import { ANYONE } from "../../../src/access/index.js";
import type { Core } from "../../../src/cluster/core.js";
import { EventIntake } from "../../../src/events/announcer.js";
import { fireId } from "../../../src/trigger/triggered-starts.js";
import { publish } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { type CheckedTrigger, firesViolations, skips } from "./trigger-laws.js";
import { Work } from "./work.js";

const WORKFLOW = "triggered";
/** Its runs report a record. */
const REPORTS = "record";
const TOPIC = "record.transition";
const AUTHOR_MS = 4_000;
const MOVE_MS = 1_500;
const PUBLISHER_MS = 2_500;
const LOOK_MS = 700;
/** After the storm all that is due has been decided within this. */
const SETTLED_MS = 60_000;
/** The last look was not longer ago. */
const SURE_MS = 1_000;

interface Known extends CheckedTrigger {
  readonly document: JsonObject;
  isEnabled: boolean;
  isChanging: boolean;
}

/** The first trigger of each type is left alone: all of its ticks and events are known. */
const CRONS = 4;
const STEADY = [0, CRONS];

const SCHEDULES = ["* * * * *", "*/2 * * * *", "0 0 1 1 *", "59 23 31 12 *", "0 * * * 2"];

export class Triggers implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private readonly triggers: Known[] = [];
  /** Of events that were acknowledged, with the pair of states. */
  private readonly events = new Map<string, string>();
  private readonly broken = new Set<string>();
  private made = 0;
  private published = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("triggers");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const { sql } = this.scene;
    const notify = { type: "action", action: "shop.notify", timeout_ms: 5_000 };
    await publish({ sql }, WORKFLOW, [
      { id: "wait", type: "wait_duration", duration_ms: 4_000, next: "tell" },
      { id: "tell", ...notify },
    ]);
    const payload = { record_type: "order", from_state: "new", to_state: "paid", record_id: "${inputs.id}" };
    await publish({ sql }, REPORTS, [
      { id: "tell", ...notify, next: "emit" },
      { id: "emit", type: "emit_event", topic: TOPIC, payload },
    ]);
  }

  async storm(end: number): Promise<void> {
    await this.work.do(async () => {
      for (let nth = 0; nth < CRONS; nth++) await this.create(this.schedule());
      for (const to of ["paid", "paid", "sent"]) await this.create(this.onRecord(to));
    });
    await Promise.all([
      this.work.each(end, AUTHOR_MS, () => this.author()),
      this.work.each(end, MOVE_MS, () => this.moveAhead()),
      this.work.each(end, PUBLISHER_MS, () => this.publisher()),
      this.work.each(end, LOOK_MS, () => this.look()),
    ]);
  }

  calm(): void {
    this.work.finish(() => this.settle());
  }

  async violations(): Promise<readonly string[]> {
    const { sql } = this.scene;
    return [...this.broken, ...(await firesViolations(sql, this.triggers)), ...(await this.lostEvents())];
  }

  private schedule(): JsonObject {
    const { chance } = this;
    const config = {
      schedule: SCHEDULES[Math.floor(chance() * SCHEDULES.length)] as string,
      overlap_policy: chance() < 0.5 ? "skip" : "allow",
      ...(chance() < 0.5 && { catchup: chance() < 0.5 ? "none" : "latest" }),
      ...(chance() < 0.3 && { catchup_window_ms: Math.floor(chance() * 60_000) }),
    };
    return { trigger_type: "cron", workflow_id: WORKFLOW, config };
  }

  private onRecord(to: string): JsonObject {
    const states = { record_type: "order", from_state: "new", to_state: to };
    const config = { ...states, input_mapping: { event: "${event.id}" } };
    return { trigger_type: "record_transition", workflow_id: WORKFLOW, config };
  }

  private async create(document: JsonObject): Promise<void> {
    const { scene } = this;
    const key = `trigger ${this.made++}`;
    let [asked, answered] = [0, 0];
    const ask = async () => {
      const answer = await scene.insistOn(key, async ({ triggers }) => {
        asked++;
        const row = await triggers.registrar.create(document, ANYONE, key);
        return { id: row.id, at: row.nextFireAt?.getTime() };
      });
      answered++;
      return answer;
    };
    const made = await ask();
    if (this.chance() < 0.3 && !isDeepStrictEqual(await ask(), made)) this.broken.add(`${key} has two answers`);
    const { id, at } = made;
    scene.tell(`trigger ${id} ${JSON.stringify(document.config)}`);
    scene.count("trigger");
    this.triggers.push({
      ...{
        id,
        document,
        type: document.trigger_type as CheckedTrigger["type"],
        configs: [document.config as JsonObject],
      },
      ...{ dues: at === undefined ? [] : [{ from: at, isWhole: true }], moved: [] },
      // A request that is still on its way would make the trigger anew after its deletion.
      ...{ isUnsure: asked > answered, isEnabled: true, isDeleted: false, isChanging: false },
    });
  }

  private async author(): Promise<void> {
    const { chance, scene } = this;
    const nth = Math.floor(chance() * this.triggers.length);
    const trigger = this.triggers[nth];
    if (!trigger || trigger.isDeleted || trigger.isChanging || STEADY.includes(nth)) return;
    trigger.isChanging = true;
    await this.changeSomehow(trigger);
    trigger.isChanging = false;
    scene.count("trigger changed");
  }

  private async changeSomehow(trigger: Known): Promise<void> {
    const { chance } = this;
    const drawn = chance();
    if (drawn < 0.2 && !trigger.isUnsure) {
      await this.delete(trigger);
      if (chance() < 0.6) await this.create(trigger.document);
    } else if (drawn < 0.4) await this.byHand(trigger);
    else if (drawn < 0.6 && trigger.type === "cron") await this.change(trigger, { config: this.schedule().config });
    else await this.change(trigger, { enabled: !trigger.isEnabled });
  }

  private async change(trigger: Known, change: { enabled?: boolean; config?: unknown }): Promise<void> {
    const last = trigger.dues.at(-1);
    // What is due and not decided when it is disabled, or gets another schedule, is not made up for.
    if (last) last.isWhole = false;
    let asked = 0;
    const at = await this.scene.insistOn(`change of ${trigger.id}`, async ({ triggers }) => {
      asked++;
      return (await triggers.registrar.change(ANYONE, trigger.id, change)).nextFireAt?.getTime();
    });
    trigger.isUnsure ||= asked > 1;
    trigger.isEnabled = change.enabled ?? trigger.isEnabled;
    if (isObject(change.config)) trigger.configs.push(change.config);
    if (at !== undefined) trigger.dues.push({ from: at, isWhole: !trigger.isUnsure });
    this.scene.tell(`trigger ${trigger.id} is changed: ${JSON.stringify(change)}`);
  }

  private async delete(trigger: Known): Promise<void> {
    const last = trigger.dues.at(-1);
    if (last) last.isWhole = false;
    trigger.isDeleted = true;
    trigger.isEnabled = false;
    await this.scene.insistOn(`deletion of ${trigger.id}`, async ({ triggers }) => {
      await triggers.registrar.delete(ANYONE, trigger.id).catch((error: unknown) => {
        if (!isObject(error) || error.status !== 404) throw error;
      });
    });
    this.scene.tell(`trigger ${trigger.id} is deleted`);
  }

  /** Fires now. A trigger that skips is not fired by hand: such a fire does not ask for the run before it. */
  private async byHand({ id, configs }: Known): Promise<void> {
    if (configs.some(skips)) return;
    const key = this.scene.newId();
    await this.scene.twice(`fire of ${id}`, 0.5, async ({ triggers }) => {
      const { fireId, runId } = await triggers.registrar.fire(ANYONE, id, undefined, key);
      return { fireId, runId };
    });
  }

  /** The next tick of an enabled schedule comes within seconds. */
  private async moveAhead(): Promise<void> {
    const { chance, scene } = this;
    const { world } = scene.cluster;
    const able = this.triggers.filter(({ isEnabled, isChanging, dues }) => isEnabled && !isChanging && dues.length > 0);
    const trigger = able[Math.floor(chance() * able.length)];
    if (!trigger) return;
    const at = Math.floor(world.time + chance() * 2_000);
    trigger.isChanging = true;
    const moved = await scene.read(
      (sql) => sql`
        update triggers set next_fire_at = ${new Date(at)} where id = ${trigger.id} and enabled and next_fire_at > ${new Date(at)}
          and next_fire_at = date_trunc('minute', next_fire_at) returning id`,
    );
    trigger.isChanging = false;
    if (moved.length === 0) return;
    trigger.moved.push({ at, due: trigger.dues.at(-1) });
    scene.count("tick moved");
  }

  private async publisher(): Promise<void> {
    const { chance, scene } = this;
    const nth = this.published++;
    if (chance() < 0.3) return this.startOne(nth);
    const to = chance() < 0.5 ? "paid" : chance() < 0.5 ? "sent" : "lost";
    const payload = { record_type: "order", from_state: "new", to_state: to, record_id: `r${nth}` };
    const event = { topic: TOPIC, headers: {}, payload, idempotencyKey: `record ${nth}` };
    const id = await scene.twice(`event ${nth}`, 0.3, (core) => taken(core, event));
    this.events.set(id, to);
    scene.count("record event");
  }

  /** A run that reports a record at its end. */
  private async startOne(nth: number): Promise<void> {
    const { scene } = this;
    const request = {
      ...{ workflowId: REPORTS, inputs: { id: `r${nth}` }, variables: {}, dryRun: false, features: {}, actor: "api" },
      idempotencyKey: `record ${nth}`,
    };
    const { runId } = await scene.insistOn(`record ${nth}`, (core) => core.starter.start(request));
    scene.acknowledged.runs.add(runId);
  }

  /** What must hold at every moment. */
  private async look(): Promise<void> {
    const able = this.triggers.filter(({ configs }) => configs.every(skips));
    const ids = able.map(({ id }) => id);
    const rows = await this.scene.read(
      (sql) => sql<{ what: string }[]>`
        select 'trigger ' || trigger_id || ' skips, and has ' || count(*) || ' runs at once' as what from runs
        where terminal_at is null and trigger_id = any(${ids}::text[]::uuid[]) group by trigger_id having count(*) > 1
        union all
        select 'trigger ' || trigger_id || ' fired early, before ' || scheduled_at from trigger_fires where scheduled_at > clock_timestamp()`,
    );
    for (const { what } of rows) this.broken.add(what);
  }

  /** What is due is decided, and no further tick comes. */
  private async settle(): Promise<void> {
    const { cluster } = this.scene;
    const until = cluster.world.now + SETTLED_MS;
    const left = () =>
      this.scene.read(
        (sql) => sql`
          select id from trigger_fires where due_at is not null
          union all select id from triggers where enabled and next_fire_at <= clock_timestamp()
          union all select id from events where due_at is not null
          union all select id from runs where workflow_id = ${REPORTS} and terminal_at is null`,
      );
    // Asked once more, another tick may be due meanwhile.
    let due = (await left()).length;
    for (; due > 0 && cluster.world.now < until; due = (await left()).length) await cluster.sleep(500);
    if (due > 0) this.broken.add(`${due} ticks, fires and events are still due`);
    for (const trigger of this.triggers) trigger.decidedUntil = cluster.world.time - SURE_MS;
    await this.scene.read((sql) => sql`update triggers set enabled = false, next_fire_at = null`);
  }

  /** The first trigger on records has fired for each of its events, once. A record that a run reported is published once. */
  private async lostEvents(): Promise<string[]> {
    const { sql } = this.scene;
    const [steady] = this.triggers.filter(({ type }) => type === "record_transition");
    if (!steady) return [];
    const rows = await sql<{ id: string; record: string; to: string }[]>`
      select id, payload->>'record_id' as record, payload->>'to_state' as to from events where topic = ${TOPIC}`;
    const fires = await sql<{ id: string }[]>`select id from trigger_fires where trigger_id = ${steady.id}`;
    const fired = new Set(fires.map(({ id }) => id));
    const paid = rows.filter(({ to }) => to === "paid");
    const known = new Set(rows.map(({ id }) => id));
    const lost = paid.filter(({ id }) => !fired.has(fireId(steady.id, `event/${id}`)));
    const isTwice = new Set(rows.map(({ record }) => record)).size < rows.length;
    return [
      ...[...this.events.keys()].flatMap((id) => (known.has(id) ? [] : [`event ${id} was acknowledged, and is gone`])),
      ...lost.map(({ id }) => `event ${id} has not fired trigger ${steady.id}`),
      ...(isTwice ? ["a record was reported twice"] : []),
    ];
  }
}

async function taken(core: Core, event: Parameters<EventIntake["take"]>[0]): Promise<string> {
  const outcome = await new EventIntake(core.foundations.sql, core.announcer).take(event);
  if (outcome === "conflict") throw new Error("an event conflicts with itself");
  return outcome.id;
}
