// Runs that wait for events, and clients that publish these through the intake: a run takes each event once at most, and misses none that was acknowledged
// while it had to take it. A group of listeners shares a key, and all of its events come after the starts of its runs were acknowledged.
import type { RunId } from "../../../machines/index.js";
import { EventIntake } from "../../../src/events/announcer.js";
import { publish, type Step } from "../../run/rig.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { Work } from "./work.js";

/** By the id of the workflow: how many events each of its runs takes. */
const TAKES: Readonly<Record<string, number>> = { hear_one: 1, hear_two: 2, hear_now: 1 };
/** Its runs take only events from their wait on. */
const NOW = "hear_now";
const TOPIC = "parcel";
const PUBLISHERS = 2;
const PAUSE_MS = 4_000;

interface Group {
  readonly key: string;
  readonly workflowId: string;
  readonly runs: RunId[];
  /** Events that were acknowledged and have to be taken by each of its runs. */
  owed: number;
}

interface Heard {
  readonly id: RunId;
  readonly state: string;
  readonly output: readonly string[] | null;
  readonly started_at: Date;
}

export class Listeners implements Part {
  private readonly chance: Chance;
  private readonly work: Work;
  private readonly groups: Group[] = [];
  private published = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("listeners");
    this.work = new Work(scene, this.chance);
  }

  get isUnderWay(): boolean {
    return this.work.isUnderWay;
  }

  async prepare(): Promise<void> {
    const hear = (id: string, next: string, more: object = {}): Step => ({
      ...{ id, type: "wait_for_event", topic: TOPIC, match: "event.payload.to == inputs.key", next, ...more },
    });
    const database = { sql: this.scene.sql };
    const one = { id: "end", type: "end", output: ["${vars.a.payload.id}"] };
    const two = { id: "end", type: "end", output: ["${vars.a.payload.id}", "${vars.b.payload.id}"] };
    await publish(database, "hear_one", [hear("a", "end", { headers: { region: "${inputs.region}" } }), one]);
    const pause = { id: "pause", type: "wait_duration", duration_ms: 400, next: "b" };
    await publish(database, "hear_two", [hear("a", "pause"), pause, hear("b", "end"), two]);
    await publish(database, NOW, [hear("a", "end", { lookback: "none" }), one]);
    const payload = { to: "${inputs.key}", id: "${inputs.id}" };
    await publish(database, "send", [
      { id: "send", type: "emit_event", topic: TOPIC, payload, headers: { region: "north" } },
    ]);
  }

  async storm(end: number): Promise<void> {
    const publisher = () => this.work.each(end, PAUSE_MS, () => this.tellOne());
    await Promise.all(Array.from({ length: PUBLISHERS }, publisher));
  }

  calm(): void {
    this.work.finish(() => this.tellTheRest());
  }

  async violations(): Promise<readonly string[]> {
    const { sql } = this.scene;
    const found: string[] = [];
    for (const group of this.groups) {
      const rows = await sql<Heard[]>`
        select id, state, output, started_at from runs where id = any(${group.runs}::text[]::uuid[]) order by id`;
      const events = await sql<{ id: string; at: Date }[]>`
        select payload->>'id' as id, published_at as at from events where topic = ${TOPIC} and payload->>'to' = ${group.key}`;
      const at = new Map(events.map((event) => [event.id, event.at]));
      if (at.size < events.length) found.push(`an event for ${group.key} was published twice`);
      if (rows.length < group.runs.length) found.push(`a listener of ${group.key} is gone`);
      for (const row of rows) found.push(...heardWrongly(row, group, at));
    }
    return found;
  }

  /** Those that have got too few events get the rest. To the others nothing more is said: what they are owed, they have to take. */
  private async tellTheRest(): Promise<void> {
    for (const group of this.groups)
      while (group.owed < takes(group)) {
        await this.publish(group);
        // What one that listens now missed before its wait is not owed to it: it gets events until it has one.
        group.owed = Math.max(group.owed, await this.endedOf(group));
      }
  }

  private async tellOne(): Promise<void> {
    const { chance } = this;
    const lacking = this.groups.filter((group) => group.owed <= takes(group));
    const group = chance() < 0.6 ? lacking[Math.floor(chance() * lacking.length)] : undefined;
    await this.publish(group ?? (await this.begin()));
  }

  private async begin(): Promise<Group> {
    const { chance, scene } = this;
    const nth = this.groups.length;
    const workflowId = Object.keys(TAKES)[Math.floor(chance() * 3)] as string;
    const group: Group = { key: `to ${nth}`, workflowId, runs: [], owed: 0 };
    const size = workflowId === NOW ? 1 : 1 + Math.floor(chance() * 3);
    // Known before it is whole, so that the next one has another key.
    this.groups.push({ ...group, owed: Number.POSITIVE_INFINITY });
    for (let member = 0; member < size; member++) {
      const inputs = { key: group.key, region: "north" };
      const request = {
        ...{ workflowId, inputs, variables: {}, dryRun: false, features: {}, actor: "api" },
        idempotencyKey: `listener ${nth} ${member}`,
      };
      const { runId } = await scene.insistOn(`listener ${nth}`, (core) => core.starter.start(request));
      scene.acknowledged.runs.add(runId);
      group.runs.push(runId);
    }
    this.groups[nth] = group;
    scene.count("listeners");
    return group;
  }

  /** From outside, or by a run. */
  private async publish(group: Group): Promise<void> {
    const { chance, scene } = this;
    const { key } = group;
    const id = `e${this.published++}`;
    const isHeard = group.workflowId !== NOW || (await this.waits(group));
    if (chance() < 0.3) {
      const request = {
        ...{ workflowId: "send", inputs: { key, id }, variables: {}, dryRun: false, features: {}, actor: "api" },
        idempotencyKey: `send ${id}`,
      };
      const { runId } = await scene.insistOn(`send ${id}`, (core) => core.starter.start(request));
      scene.acknowledged.runs.add(runId);
    } else {
      const event = {
        topic: TOPIC,
        headers: { region: "north", more: id },
        payload: { to: key, id },
        idempotencyKey: id,
      };
      await scene.twice(`event ${id}`, 0.3, async ({ foundations, announcer }) => {
        const outcome = await new EventIntake(foundations.sql, announcer).take(event);
        return outcome === "conflict" ? outcome : outcome.id;
      });
    }
    if (isHeard) group.owed++;
    scene.count("event");
    scene.tell(`event ${id} for ${key} is acknowledged${isHeard ? "" : ", which is not owed"}`);
  }

  /** Its wait is durable already. */
  private async waits({ runs }: Group): Promise<boolean> {
    const { scene } = this;
    const rows = await scene.read(
      (sql) => sql`
        select id from runs where id = any(${runs}::text[]::uuid[]) and terminal_at is null and paused_reason = 'event'`,
    );
    return rows.length === runs.length;
  }

  /** Of one that listens now: how many of its runs have ended. */
  private async endedOf({ workflowId, runs }: Group): Promise<number> {
    const { scene } = this;
    if (workflowId !== NOW) return 0;
    await scene.cluster.sleep(1_000);
    const rows = await scene.read(
      (sql) => sql`select id from runs where id = any(${runs}::text[]::uuid[]) and terminal_at is not null`,
    );
    return rows.length;
  }
}

const takes = ({ workflowId }: Group): number => TAKES[workflowId] ?? 0;

function heardWrongly({ id, state, output, started_at }: Heard, group: Group, at: ReadonlyMap<string, Date>): string[] {
  const count = takes(group);
  if (state !== "succeeded") return [`listener ${id} is ${state}, and ${group.owed} events were published for it`];
  const heard = output ?? [];
  const isRight = heard.length === count && new Set(heard).size === count && heard.every((each) => at.has(each));
  const isOld = group.workflowId === NOW && heard.some((each) => (at.get(each) ?? started_at) < started_at);
  return [
    ...(isRight ? [] : [`listener ${id} took ${JSON.stringify(heard)}, where ${count} different events are right`]),
    ...(isOld ? [`listener ${id} took an event from before its start`] : []),
  ];
}
