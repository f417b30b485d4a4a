// The part of a story that is about carriers that push: their workers, the workflows that need them, what others publish and receive, and what must have come
// of it. The laws of runs and undos are those of all other steps.

import { asRunId } from "../../../machines/index.js";
import { publish } from "../../run/rig.js";
import { look } from "../../run/seen.js";
import type { Part, Scene } from "../scene.js";
import { PushWorker } from "../workers/push-worker.js";
import { QueueWorker } from "../workers/queue-worker.js";
import { HOSTS, Sites } from "../workers/sites.js";
import type { BrokerMessage } from "../world/broker.js";
import type { Chance } from "../world/world.js";
import { CARRIED, EMITTED, OUTSIDE_TOPIC, registerPushed, STEPS_QUEUE, TOLD } from "./carried.js";

/** How often the workflows are among those that clients choose from. */
const WEIGHT = 2;
const EVENTS = "saga.events";
const DEAD = "saga.events.dead";

export class Carriers implements Part {
  readonly worker: PushWorker;
  readonly sites: Sites;
  readonly queueWorker: QueueWorker;
  private readonly chance: Chance;
  /** Ids of events of others that a queue has: good ones, and such as can never be taken. */
  private readonly sent = { good: new Set<string>(), bad: new Set<string>() };

  constructor(private readonly scene: Scene) {
    const { cluster } = scene;
    this.chance = scene.chanceOf("carriers");
    this.worker = new PushWorker(cluster, scene.chanceOf("push worker"));
    this.sites = new Sites(cluster, scene.chanceOf("sites"), this.worker);
    this.queueWorker = new QueueWorker(STEPS_QUEUE, cluster, scene.chanceOf("queue worker"), this.worker);
    cluster.hosts.serve(HOSTS.worker, this.sites.work);
    cluster.hosts.serve(HOSTS.server, this.sites.serve);
    cluster.hosts.serve(HOSTS.receiver, this.sites.receive);
  }

  get isUnderWay(): boolean {
    return this.worker.isReporting;
  }

  async prepare(): Promise<void> {
    const { sql, workflows, acknowledged } = this.scene;
    await registerPushed(sql);
    for (const [id, steps] of Object.entries(CARRIED)) {
      await publish({ sql }, id, steps);
      acknowledged.bound.add(id);
      for (let nth = 0; nth < WEIGHT; nth++) workflows.push(id);
    }
  }

  /** Others publish events. */
  async storm(end: number): Promise<void> {
    const { cluster } = this.scene;
    for (let nth = 0; cluster.world.now < end; nth++) {
      await cluster.sleep(this.chance() * 2_000);
      const isBad = this.chance() < 0.1;
      const id = `outside ${nth}`;
      const body = Buffer.from(isBad ? "{" : JSON.stringify({ nth }));
      const message = {
        ...{ exchange: EVENTS, routingKey: OUTSIDE_TOPIC, messageId: id },
        body,
        headers: { nth: `${nth}` },
      };
      for (let times = this.chance() < 0.2 ? 2 : 1; times > 0; times--)
        if (!cluster.broker.isAway && cluster.broker.take({ ...message, appId: "others" }))
          (isBad ? this.sent.bad : this.sent.good).add(id);
    }
  }

  /** Nothing is owed to the outside any more. */
  async hasSettled(): Promise<boolean> {
    const { cluster } = this.scene;
    const queues = [...cluster.broker.queues].filter(([name]) => name !== DEAD);
    const isEmpty = queues.every(([, { messages, consumers }]) => {
      return messages.length === 0 && consumers.every(({ unacknowledged }) => unacknowledged.size === 0);
    });
    return isEmpty && (await this.unpublished()) === 0;
  }

  async violations(): Promise<readonly string[]> {
    const { sql, cluster, acknowledged } = this.scene;
    const rows = await sql<{ id: string }[]>`
      select id from runs where parent_run_id is null and workflow_id = any(${Object.keys(CARRIED)}) order by id`;
    const found = cluster.losses > 0 ? [] : await this.lostEvents();
    const told = this.told();
    const published = this.published();
    for (const { id } of rows) {
      if (acknowledged.rewound.has(id)) continue;
      const { events } = await look(sql, asRunId(id));
      const succeeded = new Set(
        events.filter(({ event_type: type }) => type === "step.succeeded").map(({ step_id: step }) => step),
      );
      if (succeeded.has(TOLD) !== told.has(id)) found.push(`${id}: its webhook was ${told.has(id) ? "" : "not "}taken`);
      const wanted = EMITTED.filter((step) => succeeded.has(step));
      const steps = published.get(id) ?? [];
      if (steps.join() !== wanted.join()) found.push(`${id} published ${steps}, in this order, and not ${wanted}`);
    }
    const left = await this.unpublished();
    return left > 0 ? [...found, `${left} events were not published`] : found;
  }

  private async unpublished(): Promise<number> {
    return (await this.scene.sql`select id from outgoing_events`).length;
  }

  /** Each event of others counts once, and what is none lies aside. */
  private async lostEvents(): Promise<string[]> {
    const { sql, cluster } = this.scene;
    const rows = await sql<{ key: string }[]>`
      select idempotency_key as key from events where topic = ${OUTSIDE_TOPIC} order by idempotency_key`;
    const keys = rows.map(({ key }) => key);
    const aside = new Set(cluster.broker.queues.get(DEAD)?.messages.map(({ message }) => message.messageId));
    const { good, bad } = this.sent;
    return [
      ...(keys.join() !== [...good].sort().join() ? [`taken were the events ${keys}, of ${[...good].sort()}`] : []),
      ...[...bad].filter((id) => !aside.has(id)).map((id) => `the message ${id} is lost`),
    ];
  }

  /** Runs of which a receiver took the webhook. */
  private told(): Set<string> {
    const { webhooks, taken } = this.sites;
    return new Set([...taken].map((id) => JSON.parse(webhooks.get(id) ?? "{}").data?.run as string));
  }

  /** The steps whose events came to the exchange, by run, in the order of the first copies. */
  private published(): Map<string, string[]> {
    const byRun = new Map<string, string[]>();
    const ids = new Set<string>();
    const own = ({ appId, messageId }: BrokerMessage) => appId === "saga" && !ids.has(messageId);
    for (const message of this.scene.cluster.broker.published.filter(own)) {
      if (ids.has(message.messageId)) continue;
      ids.add(message.messageId);
      const { run, step } = JSON.parse(message.body.toString()) as { readonly run: string; readonly step: string };
      byRun.set(run, [...(byRun.get(run) ?? []), step]);
    }
    return byRun;
  }
}
