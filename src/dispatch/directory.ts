// The directory of workers: what this node and all others know of workers and of the calls that wait for them. It asks when it is
// asked, and keeps nothing but the last answers, for a moment. No call is dispatched by what it says.
import { type DispatchId, isObject, type JsonObject } from "../../machines/index.js";
import type { Bus } from "../bus/bus.js";
import { ExpiringMap } from "./expiring-map.js";
import type { DispatchLimits } from "./limits.js";
import type { Ownership } from "./ownership.js";
import type { DirectoryAsk } from "./relay/messages.js";
import type {
  CalledAction,
  ConnectedWorker,
  DispatchHolder,
  NodeWorker,
  Obstacle,
  WaitingAction,
  WorkerReport,
  Workers,
} from "./workers.js";
import { nameKey, nameOf } from "./workers.js";

/** What the dispatcher of this node knows. */
export interface LocalWorkers {
  connectedWorkers(): Iterable<ConnectedWorker>;
  waitingCalls(): Iterable<WaitingAction>;
  obstacle(action: CalledAction): Obstacle | undefined;
  holder(dispatchId: DispatchId): DispatchHolder | undefined;
}

export interface DirectoryOptions {
  readonly nodeId: string;
  readonly local: LocalWorkers;
  readonly ownership: Pick<Ownership, "ownerOf">;
  readonly limits: DispatchLimits;
  /** Absent: there are no other nodes. */
  readonly bus?: Pick<Bus, "ask">;
}

/** One node's answer. A wire format between nodes: members may be added, never changed. */
type NodeReport = Pick<WorkerReport, "workers" | "waiting" | "leftOff">;
type NodeObstacles = readonly (Obstacle | null)[];

/** Actions in one question, and remembered obstacles. */
const MAX_ACTIONS = 1_000;
/** How long the last answer of a node that is silent now counts: which actions its workers serve. */
const SERVED_MS = 30_000;
/** Actions that are named of one worker. */
const MAX_NAMED = 1_000;

export class WorkerDirectory implements Workers {
  private others: readonly string[] = [];
  private readonly remembered: ExpiringMap<Promise<Obstacle>>;
  /** What other nodes have said of actions that workers of theirs serve, by node and action. */
  private readonly served: ExpiringMap<Obstacle>;
  /** Nodes that did not answer. */
  private readonly silent: ExpiringMap<true>;

  constructor(private readonly options: DirectoryOptions) {
    this.remembered = new ExpiringMap(options.limits.directoryMemoryMs, MAX_ACTIONS);
    this.served = new ExpiringMap(SERVED_MS, MAX_ACTIONS);
    this.silent = new ExpiringMap(options.limits.directoryMemoryMs, MAX_ACTIONS);
  }

  /** The live nodes. */
  placed(nodeIds: readonly string[]): void {
    this.others = nodeIds.filter((nodeId) => nodeId !== this.options.nodeId);
  }

  /** The answer to another node's question. */
  asked(ask: DirectoryAsk): object {
    const { local } = this.options;
    if (ask.kind === "dispatch.workers") return this.ownReport();
    if (ask.kind === "dispatch.holder") return { holder: local.holder(ask.dispatch_id) ?? null };
    return { obstacles: this.ownObstacles(ask.actions) };
  }

  async report(): Promise<WorkerReport> {
    const answers = await this.askOthers({ kind: "dispatch.workers" });
    const reports = [this.ownReport(), ...answers.flatMap(({ answer }) => (isReport(answer) ? answer : []))];
    return {
      workers: reports.flatMap(({ workers }) => workers),
      waiting: together(reports.flatMap(({ waiting }) => waiting)),
      silent: answers.filter(({ answer }) => !isReport(answer)).map(({ nodeId }) => nodeId),
      leftOff: reports.reduce((sum, { leftOff }) => sum + leftOff, 0),
    };
  }

  /** Many clients may ask for the same few actions: the answers are shared, and remembered for a moment. */
  obstacles(actions: readonly CalledAction[]): Promise<readonly Obstacle[]> {
    this.remembered.takeDue();
    const unknown = new Map<string, CalledAction>();
    for (const action of actions) {
      // A call has more members, which other nodes need not get.
      const name = { ...nameOf(action), transport: action.transport };
      if (!this.remembered.get(keyOf(name))) unknown.set(keyOf(name), name);
    }
    const found = this.findObstacles([...unknown.values()]);
    const fresh = new Map([...unknown.keys()].map((key, index) => [key, found.then((all) => all[index] ?? WAITING)]));
    for (const [key, obstacle] of fresh) this.remembered.set(key, obstacle);
    return Promise.all(
      actions.map((action) => fresh.get(keyOf(action)) ?? this.remembered.get(keyOf(action)) ?? WAITING),
    );
  }

  /** The node that owns the run knows it. */
  async holder(dispatchId: DispatchId): Promise<DispatchHolder | undefined> {
    const { nodeId, ownership, local, bus, limits } = this.options;
    const owner = ownership.ownerOf(dispatchId);
    if (owner === nodeId || !bus) return local.holder(dispatchId);
    // Many runs of one node may be explained in one answer, one after the other: a node that is silent holds it up once.
    this.silent.takeDue();
    if (this.silent.get(owner)) return undefined;
    const answer = await bus.ask(owner, { kind: "dispatch.holder", dispatch_id: dispatchId }, limits.directoryMs);
    if (!answer) this.silent.set(owner, true);
    return isObject(answer?.holder) ? holderOf(answer.holder) : undefined;
  }

  private async findObstacles(actions: readonly CalledAction[]): Promise<readonly Obstacle[]> {
    const own = this.ownObstacles(actions);
    const found: NodeObstacles[] = [own];
    for (let from = 0; from < actions.length; from += MAX_ACTIONS) {
      const asked = actions.slice(from, from + MAX_ACTIONS);
      const answers = await this.askOthers({ kind: "dispatch.obstacles", actions: asked });
      const before: NodeObstacles = Array.from({ length: from }, () => null);
      for (const { nodeId, answer } of answers) found.push([...before, ...this.lastKnown(nodeId, asked, answer)]);
    }
    return actions.map((action, index) =>
      chosen(
        action,
        found.flatMap((all) => all[index] ?? []),
      ),
    );
  }

  /** A node that does not answer in time, because it is busy, still has the workers that it had a moment ago. */
  private lastKnown(nodeId: string, actions: readonly CalledAction[], answer: JsonObject | undefined): NodeObstacles {
    this.served.takeDue();
    if (!answer) return actions.map((action) => this.served.get(`${nodeId} ${keyOf(action)}`) ?? null);
    const obstacles = obstaclesOf(answer);
    for (const [index, action] of actions.entries()) {
      const obstacle = obstacles[index];
      if (obstacle?.reason === "no_credit") this.served.set(`${nodeId} ${keyOf(action)}`, obstacle);
      else this.served.delete(`${nodeId} ${keyOf(action)}`);
    }
    return obstacles;
  }

  private ownObstacles(actions: readonly CalledAction[]): NodeObstacles {
    return actions.map((action) => this.options.local.obstacle(action) ?? null);
  }

  private ownReport(): NodeReport {
    const { nodeId, local, limits } = this.options;
    const workers: NodeWorker[] = [];
    let [bytes, leftOff] = [0, 0];
    for (const { actions, ...worker } of local.connectedWorkers()) {
      const named: NodeWorker = { ...worker, nodeId, actions: actions.slice(0, MAX_NAMED) };
      bytes += JSON.stringify(named).length;
      if (bytes <= limits.directoryBytes) workers.push(named);
      else leftOff++;
    }
    return { workers, waiting: together(local.waitingCalls()).slice(0, MAX_ACTIONS), leftOff };
  }

  private askOthers(
    ask: DirectoryAsk,
  ): Promise<{ readonly nodeId: string; readonly answer: JsonObject | undefined }[]> {
    const { bus, limits } = this.options;
    const asked = bus ? this.others : [];
    return Promise.all(
      asked.map(async (nodeId) => ({ nodeId, answer: await bus?.ask(nodeId, ask, limits.directoryMs) })),
    );
  }
}

/** Where no carrier has an opinion. */
const WAITING: Obstacle = { reason: "no_credit" };

/** A worker of any node can take the call; else what a node knows about why none can. */
function chosen({ transport }: CalledAction, found: readonly Obstacle[]): Obstacle {
  const busy = found.filter(({ reason }) => reason === "no_credit");
  const [first] = busy.length > 0 ? busy : found;
  const told = (busy.length > 0 ? busy : found).find(({ detail }) => detail !== undefined) ?? first;
  return told ?? (transport === "grpc" ? { reason: "no_worker" } : WAITING);
}

/** One item for each action, the one that most calls wait for first. */
function together(waiting: Iterable<WaitingAction>): readonly WaitingAction[] {
  const byAction = new Map<string, WaitingAction>();
  for (const item of waiting) {
    const calls = item.calls + (byAction.get(keyOf(item))?.calls ?? 0);
    byAction.set(keyOf(item), { ...item, calls });
  }
  return [...byAction.values()].sort((left, right) => right.calls - left.calls);
}

function keyOf({ transport, ...name }: CalledAction): string {
  return `${transport} ${nameKey(name)}`;
}

function isReport(answer: JsonObject | undefined): answer is JsonObject & NodeReport {
  return Array.isArray(answer?.workers) && Array.isArray(answer.waiting) && typeof answer.leftOff === "number";
}

function obstaclesOf(answer: JsonObject | undefined): NodeObstacles {
  if (!Array.isArray(answer?.obstacles)) return [];
  return answer.obstacles.map((item) =>
    isObject(item) && isReason(item.reason) ? (item as unknown as Obstacle) : null,
  );
}

function holderOf({ workerId, goneSince }: JsonObject): DispatchHolder {
  return {
    ...(typeof workerId === "string" && { workerId }),
    ...(typeof goneSince === "number" && { goneSince }),
  };
}

const isReason = (reason: unknown): boolean => reason === "no_worker" || reason === "no_credit";
