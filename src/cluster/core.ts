// The core of a node, composed by hand: every part is made here once, gets its dependencies as arguments, is started after them
// and stopped before them. The core opens no port (node.ts does) and decides nothing.

import type { Dispatch, RunId, RunLimits, Send } from "../../machines/index.js";
import type { CallbackTokens } from "../access/index.js";
import { EVERYTHING } from "../access/index.js";
import { clearInterval, performance, setInterval } from "../ambient.js";
import { ArchiveFolder } from "../archive/writer.js";
import type { Bus } from "../bus/bus.js";
import { SLOTS, SlotGranter, TURNS } from "../concurrency/slot-granter.js";
import { type Config, isAccessOn, publicUrlAt } from "../config/index.js";
import { createDispatcher, type NodeDispatcher } from "../dispatch/node-dispatcher.js";
import { WebhookCourier } from "../dispatch/webhook/courier.js";
import type { SecretUsers } from "../egress/secrets.js";
import { Announcer, type AnnouncerOptions, EventIntake } from "../events/announcer.js";
import { BrokerEvents } from "../events/index.js";
import { asShardId, shardOf } from "../ids.js";
import { countRun } from "../metrics/run-metrics.js";
import { gaugeServices } from "../metrics/service-load.js";
import { WorkflowMetrics } from "../metrics/workflow-metrics.js";
import { Operate } from "../operate/index.js";
import { Committer } from "../run/committer.js";
import type { RunTell } from "../run/node-messages.js";
import { Poller } from "../run/poller.js";
import type { CommitListener } from "../run/ports.js";
import { Router } from "../run/router.js";
import { Runtime } from "../run/runtime.js";
import { Starter } from "../run/starter.js";
import { Membership } from "../shard/membership.js";
import { Placement } from "../shard/placement.js";
import { owedEffects, removeAccepted } from "../store/engine/outbox.js";
import { ownersOf } from "../store/lists/definitions.js";
import { KeyUpkeep } from "../store/sealed/key-upkeep.js";
import { Pruner } from "../store/upkeep/pruner.js";
import { startupVariablesOf } from "../tenants/startup-provider.js";
import { Suspicion } from "../trial/suspicion.js";
import { TrialProcess } from "../trial/trial-process.js";
import { Triggers } from "../trigger/index.js";
import { LoadShedder } from "../work/load-shedder.js";
import type { WorkLoop } from "../work/loop.js";
import { Pressure, type PressureSample } from "../work/pressure.js";
import { type NodeAccess, openAccess } from "./access.js";
import { composeCounts } from "./counts.js";
import { type CoreOptions, type Foundations, openBus, openFoundations } from "./foundations.js";

export type { CoreOptions };

const GAUGE_MS = 5_000;
/** How long shutdown waits for webhooks in progress; workers have had their time by then. */
const WEBHOOK_GRACE_MS = 2_000;
/** Idle runs are passivated from this many percent of the heap below the point where load is shed. */
const RELIEF_PERCENT = 15;
/** After a node was lost, and after its own start, a node guards against runs that bring nodes down for this long. */
const NODE_LOSS_MS = 60_000;

export async function createCore(options: CoreOptions): Promise<Core> {
  const foundations = await openFoundations(options);
  // The parts that handle messages are composed on the bus. A message that arrives before they are is dropped: it is a hint.
  let core: Core | undefined;
  const bus = await openBus(foundations, {
    onAdvance: (runId) => core?.runtime.advance(runId),
    onAsk: async (request) =>
      request.kind === "command" || request.kind === "catalog" || request.kind === "keys"
        ? core?.router.answer(request)
        : core?.dispatcher.asked(request),
    onTell: (message, from) =>
      message.kind === "effects"
        ? core?.runtime.effects.carryOut(message.run_id, message.effects)
        : core?.dispatcher.told(message, from),
  });
  const access = await openAccess(foundations, () => `${core?.publicUrl ?? ""}/auth/callback`);
  core = new Core(foundations, bus, access);
  return core;
}

export class Core {
  readonly dispatcher: NodeDispatcher;
  readonly announcer: Announcer;
  private readonly slots: SlotGranter;
  private readonly turns: SlotGranter;
  readonly runtime: Runtime;
  readonly shedder: LoadShedder;
  readonly router: Router;
  readonly starter: Starter;
  readonly triggers: Triggers;
  readonly operate: Operate;
  private readonly placement: Placement;
  readonly membership: Membership;
  private readonly committer: Committer;
  private readonly webhook: WebhookCourier;
  /** Absent: there is no broker. */
  private readonly brokerEvents: BrokerEvents | undefined;
  readonly suspicion: Suspicion;
  private readonly poller: Poller;
  private readonly pruner: Pruner;
  /** Absent: encryption is off. */
  private readonly keyUpkeep: KeyUpkeep | undefined;
  private readonly pressure = new Pressure();
  private readonly counts: Pick<WorkLoop, "start" | "stop">;
  private gauges: NodeJS.Timeout | undefined;
  /** What workers report to, and where the issuer of logins sends people back to. */
  publicUrl: string;
  private nodeLossUntil = performance.now() + NODE_LOSS_MS;
  /** The same for a node that this one has seen go. */
  private seenLossUntil = 0;

  constructor(
    readonly foundations: Foundations,
    private readonly bus: Bus,
    /** Absent: there is no access control. */
    readonly access: NodeAccess | undefined,
  ) {
    const { nodeId, config, sql, commits, upkeep, log, clock, metrics, egress, hints, alone, catalog } = foundations;
    const { schemas, scheduler, tenants: licences } = foundations;
    this.publicUrl = config.publicUrl;
    this.placement = new Placement(nodeId);
    const onAlive = (nodeIds: readonly string[]) => {
      // Without a bus this process may still have company for a while: its successor, or the one that it succeeds.
      foundations.feed.watchedElsewhere(!alone || nodeIds.length > 1);
      this.place(alone ? [nodeId] : nodeIds);
    };
    this.membership = new Membership({
      ...{ nodeId, sql: upkeep, clock, log, onAlive },
      access: { mode: config.auth, mayDiffer: config.authRollout },
      onServerChanged: () => this.runtime.forget(),
      renewSessions: foundations.renewSessions,
    });
    // The owner of the first shard polls and counts for the whole cluster.
    const polls = () => this.placement.owner(asShardId(0)) === nodeId;
    this.dispatcher = this.composeDispatcher();
    const users = secretUsers(foundations);
    this.webhook = new WebhookCourier({ ...egress, ...users, sql, log, metrics, now: () => clock.now() });
    const afterCommit = (runId: RunId, sends: readonly Send[]) => this.runtime.effects.afterCommit(runId, [], sends);
    const listeners = [(event) => this.triggers.transitions.onEvent(event)] satisfies AnnouncerOptions["listeners"];
    const tenantsApart = isAccessOn(config);
    this.announcer = new Announcer({ sql, log, hints, listeners, afterCommit, tenantsApart });
    const granting = { sql, log, hints, afterCommit, polls };
    this.slots = new SlotGranter({ ...granting, of: SLOTS, room: config.capacity.slotRoom });
    this.turns = new SlotGranter({ ...granting, of: TURNS, room: config.capacity.turnRoom });
    this.committer = new Committer({
      ...{ sql: commits, log, metrics, scheduler },
      onOutgoing: () => this.brokerEvents?.soon(),
      onAlone: (key) => foundations.lastWords?.say(key),
    });
    this.suspicion = this.composeSuspicion();
    this.runtime = this.composeRuntime();
    this.starter = this.composeStarter();
    this.shedder = this.composeShedder();
    this.brokerEvents = this.composeBrokerEvents();
    this.router = new Router({
      ...{ nodeId, bus, catalog, runtime: this.runtime, placement: this.placement, shedder: this.shedder },
      ...(foundations.keyring && { keyring: foundations.keyring }),
      refreshMembership: async () => (alone ? undefined : this.membership.beat()),
    });
    this.dispatcher.bind(this.router);
    const { runtime, router, starter, dispatcher, placement, shedder } = this;
    const shards = () => [...placement.mine];
    this.triggers = new Triggers({
      ...{ sql: upkeep, log, clock, metrics, catalog, schemas, scheduler, starter, shards, licences, tenantsApart },
    });
    this.operate = new Operate({
      ...{ sql, upkeep, log, metrics, starter, runs: router, shards, perSecond: config.capacity.bulkPerSecond },
      shedding: () => shedder.shedding !== undefined,
      hasBroker: config.amqpUrl !== undefined,
      ...(access && { security: foundations.security }),
    });
    const { trials, gate } = this.suspicion;
    const couriers = { webhook: this.webhook };
    this.poller = new Poller({ sql: upkeep, log, runtime, dispatcher, trials, gate, couriers, shards });
    this.counts = composeCounts(foundations, { isMine: polls, triggers: this.triggers });
    this.pruner = this.composePruner();
    this.keyUpkeep = this.composeKeyUpkeep(polls);
  }

  private composeKeyUpkeep(isMine: () => boolean): KeyUpkeep | undefined {
    const { keyring, upkeep: sql, log, metrics } = this.foundations;
    if (!keyring) return undefined;
    keyring.whenDestroyed(() => this.runtime.forgetValues());
    const gauge = (wrappedBy: ReadonlyMap<string, number>) => {
      metrics.dataKeys.reset();
      for (const [master_key, keys] of wrappedBy) metrics.dataKeys.set({ master_key }, keys);
    };
    const look = (runId: RunId) => this.router.command(runId, { type: "advance" }, { reach: EVERYTHING });
    return new KeyUpkeep({ keyring, sql, log, isMine, look, gauge });
  }

  private composePruner(): Pruner {
    const { sql, asStored: reads = sql, upkeep, log, config, metrics } = this.foundations;
    const { eventRetentionDays: eventDays, retentionDays: runDays, archiveDir } = config;
    const keep = { eventDays, runDays, minDays: config.retentionMinDays, maxDays: config.retentionMaxDays };
    return new Pruner(upkeep, log, keep, {
      ...(archiveDir !== undefined && { archive: { folder: new ArchiveFolder(archiveDir), reads } }),
      onArchived: (runs) => metrics.runsArchived.inc(runs),
      onArchiveFailed: () => metrics.archiveFailures.inc(),
    });
  }

  private composeDispatcher(): NodeDispatcher {
    const { nodeId, config, sql, log, clock, scheduler, metrics, egress, alone, callbacks, surroundings, tenants } =
      this.foundations;
    const connect = surroundings?.connectBroker;
    const { bus, placement, membership } = this;
    return createDispatcher({
      ...(callbacks && { access: { callbackToken: callbackTokenBy(callbacks) } }),
      callbacks: {
        publicUrl: () => this.publicUrl,
        removeRows: (dispatchIds) => removeAccepted(sql, dispatchIds),
        http: { guard: egress.workers, signing: egress.secrets.signing },
        ...(config.amqpUrl !== undefined && { rabbitmq: { url: config.amqpUrl, connect } }),
      },
      shareOf: (tenantId) => tenants.dispatchShare(tenantId),
      withRows: (dispatchIds) => owedEffects(sql, dispatchIds),
      delivered: (transport, outcome) => metrics.handOvers.inc({ transport, outcome }),
      nodeId,
      log,
      now: () => clock.now(),
      nodeCount: () => membership.nodeCount,
      scheduler,
      limits: { outputBytes: config.limits.outputBytes },
      egress: { ...egress, ...secretUsers(this.foundations) },
      ...(alone ? {} : { peers: { bus, owner: (shard) => placement.owner(shard) } }),
    });
  }

  /** The events over RabbitMQ. Without `AMQP_URL` there are none. */
  private composeBrokerEvents(): BrokerEvents | undefined {
    const { config, sql, log, metrics, scheduler, surroundings } = this.foundations;
    const { placement, shedder } = this;
    const { amqpUrl: url, eventsExchange: exchange, limits } = config;
    if (url === undefined) return undefined;
    return new BrokerEvents({
      ...{ url, exchange, sql, log, metrics, scheduler, limits, namesTenant: isAccessOn(config) },
      connect: surroundings?.connectBroker,
      intake: new EventIntake(sql, this.announcer),
      admits: () => shedder.shedding === undefined,
      shards: () => [...placement.mine],
    });
  }

  private composeStarter(): Starter {
    const { config, sql, clock, scheduler, catalog, schemas, tenants, startupProvider, lastWords } = this.foundations;
    const { runtime, placement, slots, turns, suspicion } = this;
    return new Starter({
      ...{ sql, clock, scheduler, catalog, schemas, lastWords, runtime, slots, turns, gate: suspicion.gate },
      ...{ slotRoom: config.capacity.slotRoom, turnRoom: config.capacity.turnRoom },
      newShard: () => placement.anyOfMine(),
      startupVariables: ({ tenantId }) => startupVariablesOf(tenantId, tenants, startupProvider),
    });
  }

  private composeRuntime(): Runtime {
    const { nodeId, config, sql, log, clock, scheduler, metrics, catalog, schemas, tenants, hints, lastWords } =
      this.foundations;
    const { bus, placement, committer, dispatcher, announcer } = this;
    const traces = this.foundations.tracing?.contexts;
    return new Runtime({
      ...{ sql, clock, log, scheduler, metrics, committer, catalog, dispatcher, announcer, schemas, hints, lastWords },
      ...{ gate: this.suspicion.gate, couriers: { webhook: this.webhook }, licences: tenants },
      ...{ onCommit: this.composeCommitListener(), ...(traces && { traces }) },
      ...{ slots: this.slots, turns: this.turns },
      limits: runLimits(config),
      tenantsApart: isAccessOn(config),
      stepsPerCommit: config.stepsPerCommit,
      ...(config.amqpUrl && { outgoing: { emitted: true, lifecycle: config.lifecycleEvents } }),
      recordFormat: () => this.membership.recordFormat,
      residents: { max: config.capacity.residents, maxBytes: config.capacity.residentBytes },
      hasLostNode: () => performance.now() < this.nodeLossUntil,
      seenNodeLoss: () => performance.now() < this.seenLossUntil,
      peers: {
        isMine: (runId) => placement.owner(shardOf(runId)) === nodeId,
        advance: (runId) => bus.advance(runId),
        sendEffects: (runId, effects) => {
          const message: RunTell = { kind: "effects", run_id: runId, effects };
          bus.tell(placement.owner(shardOf(runId)), message);
        },
      },
    });
  }

  /** What a node does with the events of each commit: they are fed to streams, counted, and made spans of. */
  private composeCommitListener(): CommitListener {
    const { feed, metrics, log, config, tracing } = this.foundations;
    const workflowMetrics = new WorkflowMetrics(metrics, log);
    const tenantsApart = isAccessOn(config);
    return (runId, events, change) => {
      feed.onCommit(runId, events, change);
      const tenant = tenantsApart ? change?.after.run.tenantId : undefined;
      workflowMetrics.onCommit(runId, events, tenant);
      if (!change) return;
      countRun(metrics, events, change, { tenant, traces: tracing?.contexts });
      tracing?.onCommit(events, change);
    };
  }

  private composeSuspicion(): Suspicion {
    const { config, databaseUrl, upkeep: sql, log, metrics, surroundings } = this.foundations;
    const { stepsPerCommit, licensesFile, startupVariablesFile, encryptionKeysFile } = config;
    const decided = { limits: runLimits(config), tenantsApart: isAccessOn(config) };
    const trial = { databaseUrl, stepsPerCommit, licensesFile, startupVariablesFile, encryptionKeysFile, ...decided };
    return new Suspicion({ sql, log, metrics, process: surroundings?.trialProcess ?? new TrialProcess(trial) });
  }

  private composeShedder(): LoadShedder {
    const { config, metrics, log } = this.foundations;
    const { shedRuns: runs, shedLoopMs: loopMs, shedHeapPercent: heapPercent } = config.capacity;
    return new LoadShedder({
      ...{ metrics, log },
      limits: { runs, loopMs, heapPercent },
      busyRuns: () => this.runtime.residents.busy,
      pressure: () => this.pressure.now,
    });
  }

  listening(httpPort: number): void {
    this.publicUrl = publicUrlAt(httpPort, this.foundations.config);
  }

  /** On return, other nodes see this one, and it works for its shards. */
  async start(): Promise<void> {
    const { patiently, catalog } = this.foundations;
    await this.access?.start();
    await patiently(() => this.membership.start());
    // No node could tell this one of publishes and registrations before it had a heartbeat.
    await patiently(() => catalog.refresh());
    await patiently(() => this.suspicion.start());
    this.poller.start();
    this.announcer.start();
    this.slots.start();
    this.turns.start();
    this.triggers.start();
    this.operate.start();
    this.brokerEvents?.start();
    this.pruner.start();
    this.keyUpkeep?.start();
    this.pressure.start((sample) => this.relieve(sample));
    this.gauges = setInterval(() => this.gauge(), GAUGE_MS).unref();
    this.counts.start();
  }

  /** Takes no more work from the poll; other nodes may have the shards. */
  async drain(): Promise<void> {
    clearInterval(this.gauges);
    await this.counts.stop();
    await this.poller.stop();
    await this.brokerEvents?.stopIntake();
    await this.suspicion.stop();
    await this.announcer.stop();
    await this.slots.stop();
    await this.turns.stop();
    await this.triggers.stop();
    await this.operate.stop();
  }

  /** Finishes the work in progress, then stops every part. After `drain`, and after the ports are closed. */
  async stop(): Promise<void> {
    const { catalog, feed, tracing, closeDatabase } = this.foundations;
    this.pressure.stop();
    await this.access?.stop();
    await this.runtime.stop();
    await this.committer.stop();
    await this.webhook.stop(WEBHOOK_GRACE_MS);
    await this.brokerEvents?.stop();
    await catalog.stop();
    await feed.stop();
    await this.pruner.stop();
    await this.keyUpkeep?.stop();
    await this.membership.stop();
    await tracing?.stop();
    await this.bus.stop();
    await closeDatabase();
  }

  /** Joining, leaving and overlapping cost duplicate work, never a wrong state. */
  private place(nodeIds: readonly string[]): void {
    const change = this.placement.place(nodeIds);
    this.suspicion.heartbeat(change !== undefined);
    if (!change) return;
    this.foundations.log.info({ nodes: nodeIds.length, shards: this.placement.mine.size }, "shards placed");
    if (change.gained.length > 0) this.nodeLossUntil = performance.now() + NODE_LOSS_MS;
    if (change.nodeLost) this.seenLossUntil = performance.now() + NODE_LOSS_MS;
    this.bus.listen(this.placement.mine);
    this.foundations.feed.placed(this.placement.mine);
    this.dispatcher.placed(nodeIds);
    this.runtime.handOver();
    this.poller.takeOver(change.gained);
    if (change.nodeLost) this.poller.nodeLost();
  }

  /** At each sample: idle runs are passivated before load is shed. */
  private relieve({ heap }: PressureSample): void {
    const { config, metrics } = this.foundations;
    const { residents } = this.runtime;
    if (heap * 100 >= config.capacity.shedHeapPercent - RELIEF_PERCENT) residents.passivateHalf();
    this.shedder.update();
    metrics.runsResident.set(residents.size);
    metrics.runsInHand.set(residents.busy);
    metrics.residentBytes.set(residents.idleBytes);
  }

  private gauge(): void {
    const { metrics } = this.foundations;
    metrics.dispatchesInFlight.set(this.dispatcher.inFlight);
    metrics.dispatchesQueued.set(this.dispatcher.queued);
    gaugeServices(metrics, this.dispatcher);
    metrics.destinationsAway.reset();
    for (const { transport, reason } of this.dispatcher.away()) metrics.destinationsAway.inc({ transport, reason });
    metrics.runsUnreadable.set(this.poller.unreadable.count);
    metrics.heartbeatAgeSeconds.set(this.membership.silentSeconds);
  }
}

function runLimits({ limits }: Config): RunLimits {
  const { entries, outputBytes: output, variablesBytes: variables, metadataBytes: metadata } = limits;
  return { entries, output, variables, metadata };
}

const callbackTokenBy =
  (callbacks: CallbackTokens) =>
  ({ runId, dispatchId, attempt, deadlineAt, call: { stepId, phase } }: Dispatch) =>
    callbacks.issue({ runId, stepId }, { phase, attempt, deadlineAt, dispatchId });

/** Whose the runs are that use secrets, and what the security log gets of it. */
function secretUsers({ sql, security }: Foundations): SecretUsers {
  return {
    userOf: (runId) => ownersOf(sql, runId),
    secretUsed: (secret, { workflowId: workflow, tenantId: tenant }) =>
      security.secretUsed({ secret, workflow, tenant }),
  };
}
